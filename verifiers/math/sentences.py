r"""Answers in words: claims with their reasons, quantified sentences, changes, and values between words."""

import itertools
import re
from collections.abc import Callable
from dataclasses import replace

from ratchet.verifiers.math import words
from ratchet.verifiers.math.answer import Answer, Parse
from ratchet.verifiers.math.nodes import minus
from ratchet.verifiers.math.parts import top_level, trimmed
from ratchet.verifiers.math.tokens import Tokens
from ratchet.verifiers.math.vocabulary import VOCABULARY

_TABLE = VOCABULARY["claims"]
_CLAIMS = {phrase: claim for claim, phrases in _TABLE["said"].items() for phrase in phrases.split(", ")}
_SUBJECTS, _REASONS, _TAKEN_BACK = (frozenset(_TABLE[each].split()) for each in ("subjects", "reasons", "taken_back"))
_AGAINST = {claim: frozenset(words.split()) for claim, words in _TABLE["against"].items()}
_MOST_WORDS = 60


def claim(tokens: Tokens) -> str:
    """A claim in one spelling; "" for anything else."""
    if tokens[0].kind not in ("word", "run"):
        return ""
    end = next((i for i, token in enumerate(tokens[:_MOST_WORDS]) if not _spoken(token.text)), len(tokens))
    spoken = [token.text.lower() for token in tokens[:end]]
    reason = next((i for i, word in enumerate(spoken) if i and word in _REASONS), end)
    found = _CLAIMS.get(" ".join(word for word in spoken[:reason] if word not in _SUBJECTS), "")
    rest = tokens[reason:]
    if not found or not rest or (len(rest) == 1 and rest[0].isa(".", "!")):
        return found
    follows = rest[0].isa(":", "(", ";", "-", ".") or words.word(rest[0]) in _REASONS
    follows |= rest[0].isa(",") and (found in ("yes", "no") or words.word([*rest, rest[0]][1]) in _REASONS)
    return found if follows and not _is_taken_back(found, rest) else ""


def _spoken(text: str) -> bool:
    return text.isalpha() or text == "'"


def _is_taken_back(found: str, rest: Tokens) -> bool:
    said = {token.text.lower() for token in rest}
    if said & (_TAKEN_BACK | _AGAINST[found]) or "but" in [token.text.lower() for token in rest[:2]]:
        return True
    # A bare value is no reason.
    return not any((word.isalpha() and len(word) > 1) or word in ("=", "\\ne", "<", ">", "\\equiv") for word in said)


_BEGINS = re.compile(
    r"(?P<all>(?:it is )?not (?:the case that )?(?:all|every|each)(?: of)?) "
    r"|(?:there (?:is|are|exists|exist) )?(?:(?:at least )?(?:one|1)|some)(?: of)? |there (?:is|exists) an? "
)
_AUXILIARY, _FIRST = (frozenset(VOCABULARY["quantified"][each].split()) for each in ("auxiliary", "first"))
_ENDING = re.compile(r"(?:ed|es|(?<!s)s|e)$")
_LONGEST = 20


def quantified(tokens: Tokens) -> str:
    """The quantifier, the negation, and the other words without their endings; "" for any other text."""
    if tokens[0].text.lower() not in _FIRST or not 3 < len(tokens) <= _LONGEST:
        return ""
    if not all(token.text.isalpha() or token.text == "1" for token in tokens):
        return ""
    text = " ".join(token.text.lower() for token in tokens)
    begins = _BEGINS.match(text)
    if begins is None:
        return ""
    said = text[begins.end() :].split()
    negations = said.count("not") + bool(begins["all"])
    if negations > 1 or {"or", "and", "if", "unless", "but", "no", "all", "every", "some"} & {*said}:
        return ""
    stems = [_ENDING.sub("", word) for word in said if word not in _AUXILIARY and word != "not"]
    return " ".join(["some", *["not"] * negations, *stems]) if len(stems) > 1 else ""


_JOINING = frozenset(VOCABULARY["joining"].split())
_LABELS = ("\\max", "\\min", "@", ":", "\\perp")


def located(tokens: Tokens, depth: int, parse: Parse) -> Answer | None:
    """Parse `min at x = 2`, whose letters would be read as a product."""
    pairs = itertools.pairwise(tokens)
    at = any(words.word(two) == "at" and (one.kind in ("run", "word") or one.isa(*_LABELS)) for one, two in pairs)
    return phrase(tokens, depth, parse) if at else None


def phrase(tokens: Tokens, depth: int, parse: Parse) -> Answer | None:
    """Parse values between words, as in `min at x = 2`: equal if the words and each value are."""
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


_DOWN, _UP, _AROUND = (frozenset(VOCABULARY["changes"][each].split()) for each in ("down", "up", "around"))


def direction(text: str) -> int:
    """The direction of a word: -1 for a fall, 1 for a rise, 0 for any other."""
    return -1 if text in _DOWN else int(text in _UP)


def change(tokens: Tokens, parse: Callable[[Tokens], Answer]) -> Answer | None:
    """Parse a change, with "fall" or "rise" as the answer's `words`; None if no single word says so."""
    signs = [sign for token in tokens if (sign := direction(words.word(token)))]
    if len(signs) != 1 or not any(token.kind == "number" for token in tokens):
        return None
    value = tuple(token for token in tokens if not direction(words.word(token)))
    while value and value[0].text.lower() in _AROUND:
        value = value[1:]
    while value and value[-1].text.lower() in _AROUND:
        value = value[:-1]
    inner = parse(value) if value else Answer("text")
    if inner.kind != "scalar" or inner.value is None or inner.node is None or inner.value < 0:
        return None
    said = replace(inner, tokens=tokens, words="fall" if signs[0] < 0 else "rise")
    return replace(said, node=minus(inner.node), value=-inner.value) if signs[0] < 0 else said
