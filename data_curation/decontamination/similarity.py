"""Similarity of statements with few words in common: each text as a unit vector, by its words or by an endpoint.

The products of the two kinds are not comparable: each needs its own threshold.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ratchet.infra.recipe.curation import Paraphrases
from ratchet.verifiers.errors import RatchetError

Embed = Callable[[Sequence[str]], Any]
"""From texts to a matrix, dense or sparse, whose rows are unit vectors."""
WORDS = r"(?u)\w+|\\[a-zA-Z]+"
"""Words, numbers and LaTeX commands."""
TEXTS_A_CALL = 64
EMBEDDING_TRIES = 8


def by_words(sample: Sequence[str]) -> Embed:
    """TF-IDF of words and word pairs beside character 4-grams; needs no model. On rephrased items the two together
    rank better than either alone, and better than after a singular value decomposition (benchmarks/paraphrases.py)."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_union

    if not any(text.strip() for text in sample):
        return lambda texts: np.zeros((len(texts), 1), np.float32)
    vectors = make_union(
        TfidfVectorizer(token_pattern=WORDS, ngram_range=(1, 2), sublinear_tf=True),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(4, 4), sublinear_tf=True),
    ).fit(sample)
    return lambda texts: vectors.transform(texts) * 0.5**0.5


def by_endpoint(settings: Paraphrases) -> Embed:
    """`/v1/embeddings` of an OpenAI-compatible endpoint. A call that finally fails raises RatchetError."""
    import openai

    key = os.environ.get(settings.api_key_env) or "none"
    client = openai.OpenAI(api_key=key, base_url=settings.base_url, max_retries=EMBEDDING_TRIES)

    def embed(texts: Sequence[str]) -> np.ndarray:
        rows: list[list[float]] = []
        for start in range(0, len(texts), TEXTS_A_CALL):
            asked = [text or " " for text in texts[start : start + TEXTS_A_CALL]]  # endpoints refuse empty texts
            try:
                found = client.embeddings.create(model=settings.model, input=asked, encoding_format="float").data
            except openai.OpenAIError as error:
                raise RatchetError(
                    f"{settings.base_url or 'The OpenAI API'} gives no embeddings by {settings.model!r}: "
                    f"{' '.join(str(error).split())[:300]}"
                ) from error
            if len(found) != len(asked):
                raise RatchetError(f"{settings.base_url} gave {len(found)} embeddings for {len(asked)} texts.")
            rows += [item.embedding for item in sorted(found, key=lambda item: item.index)]
        vectors = np.array(rows, np.float32)
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)

    return embed
