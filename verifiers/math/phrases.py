"""Values between words: `min at x = 2`."""

import itertools
from collections.abc import Callable

from ratchet.verifiers.math import words
from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.parts import top_level, trimmed
from ratchet.verifiers.math.tokens import Tokens
from ratchet.verifiers.math.vocabulary import VOCABULARY

Parse = Callable[[Tokens, int], Answer]
_JOINING = frozenset(VOCABULARY["joining"].split())
_LABELS = ("\\max", "\\min", "@", ":", "\\perp")


def located(tokens: Tokens, depth: int, parse: Parse) -> Answer | None:
    """`min at x = 2`, where letters would be read as a product."""
    pairs = itertools.pairwise(tokens)
    at = any(words.word(two) == "at" and (one.kind in ("run", "word") or one.isa(*_LABELS)) for one, two in pairs)
    return phrase(tokens, depth, parse) if at else None


def phrase(tokens: Tokens, depth: int, parse: Parse) -> Answer | None:
    """Values between words, as in `min at x = 2`: equal if the words are, and each value."""
    is_word = [t.kind == "word" or (t.kind == "run" and words.word(t) in _JOINING) or t.isa(*_LABELS) for t in tokens]
    if not any(is_word) or all(is_word) or depth > 5:
        return None
    text, parts = [], []
    for named, group in itertools.groupby(zip(is_word, tokens, strict=True), key=lambda pair: pair[0]):
        run = trimmed(tuple(token for _, token in group))
        while run and run[0].isa(",", ":", ";", "."):
            run = run[1:]
        text.append(" ".join(map(words.word, run)) or run[0].text if named and run else "|")
        if run and not named:
            if (len(top_level(run)) and run[-1].isa("+", "-", "=", "^", "_", "/")) or run[0].isa("^", "_", "=", "/"):
                return None
            parts.append(parse(run, depth))
    return Answer("phrase", tokens, parts=tuple(parts), words=" ".join(text))
