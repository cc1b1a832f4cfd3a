"""Creativity index against a local corpus (Lu et al. 2024, arXiv 2410.04265): how little of a text is quoted.

uniq_L(x) is the share of the tokens of x that are in no n-gram of L or more tokens that the corpus contains; the index
is the sum of uniq_L over L = 5 … 12. A token is in a quoted n-gram of L or more tokens exactly when it is in one of L,
so fixed lengths suffice, without the paper's search over spans (DJ Search).

The paper uses an n-gram service over trillions of tokens. Against a local corpus, such as the traces that a model was
trained on, the index measures the distance from them; values for different corpora are not comparable.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from ratchet.evaluation.imported import read_rows
from ratchet.infra.errors import RatchetError

LENGTHS = tuple(range(5, 13))
COLUMNS = ("text", "response", "prompt")
TOKEN = re.compile(r"\w+|[^\w\s]")
_BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, so that multiplication modulo 2^64 is invertible


def read_texts(path: Path) -> list[str]:
    """Texts of a local corpus: Parquet, JSON or JSON Lines with a column `text`, `response` or `prompt`, or plain text
    with a text per paragraph. Raises RatchetError for anything else."""
    if path.suffix in (".parquet", ".json", ".jsonl"):
        rows = [row for _, row in read_rows(path)]
        if not (name := next((name for name in COLUMNS if any(name in row for row in rows)), None)):
            raise RatchetError(f"{path}: it has no column {', '.join(COLUMNS)}.")
        texts = [row.get(name) for row in rows]
    else:
        try:
            texts = re.split(r"\n\s*\n", path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RatchetError(f"{path}: cannot be read as text ({error}).") from error
    return [text for text in texts if isinstance(text, str) and text.strip()]


def tokens(text: str) -> list[str]:
    """Words and punctuation marks, in lower case."""
    return TOKEN.findall(text.lower())


def creativity_index(texts: Sequence[str], corpus: Iterable[str], lengths: Sequence[int] = LENGTHS) -> np.ndarray:
    """The index of each text, shape [texts]: from 0 (all quoted) to len(lengths) (nothing quoted); NaN without tokens.

    Documents of the corpus that equal one of the texts are left out: a text does not quote itself. n-grams are compared
    by 64-bit hashes; a collision is possible, about one in billions.
    """
    coded = [_codes(text) for text in texts]
    own = {codes.tobytes() for codes in coded}
    documents = [codes for codes in map(_codes, corpus) if codes.tobytes() not in own]
    index = np.zeros(len(coded))
    for length in lengths:
        known = np.unique(np.concatenate([_grams(codes, length) for codes in documents] or [np.empty(0, np.uint64)]))
        index += [_unquoted(codes, length, known) for codes in coded]
    return index


def _unquoted(codes: np.ndarray, length: int, known: np.ndarray) -> float:
    if not codes.size:
        return float("nan")
    begins = np.flatnonzero(np.isin(_grams(codes, length), known))
    edges = np.zeros(codes.size + 1, np.int64)  # +1 where a quoted n-gram begins, -1 after its end
    np.add.at(edges, begins, 1)
    np.add.at(edges, begins + length, -1)
    return float((np.cumsum(edges[:-1]) == 0).mean())


def _codes(text: str) -> np.ndarray:
    """A 64-bit hash of each token, shape [tokens]."""
    return np.frombuffer(b"".join(map(_code, tokens(text))), np.uint64)


@lru_cache(1 << 18)
def _code(token: str) -> bytes:
    return hashlib.blake2b(token.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _grams(codes: np.ndarray, length: int) -> np.ndarray:
    """A hash of each n-gram, shape [max(tokens - length + 1, 0)]."""
    count = codes.size - length + 1
    if count <= 0:
        return np.empty(0, np.uint64)
    grams = np.zeros(count, np.uint64)
    for offset in range(length):
        grams = grams * _BASE + codes[offset : offset + count]
    return grams
