"""The one value that a sentence states: "By symmetry the maximum is 8", "It can be arranged in 60 ways", "36 is the
least common multiple".

Text around the value may explain it with words, and with formulas and numbers of the question. Anything that changes
it, takes it back, or is another value makes the sentence state none.
"""

import re
from collections.abc import Iterator

from ratchet.verifiers.math import words
from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.parts import trimmed
from ratchet.verifiers.math.question import Question, stem
from ratchet.verifiers.math.sentences import direction
from ratchet.verifiers.math.structure import parse_tokens
from ratchet.verifiers.math.tokens import Token, Tokens, spelled
from ratchet.verifiers.math.units import parse_unit
from ratchet.verifiers.math.vocabulary import VOCABULARY

_WORDS = VOCABULARY["sentence_values"]
_TAKING_BACK, _CHANGING, _FOLLOWING, _COUNTED, _RESULTING, _PLACES, _NAMING = (
    frozenset(_WORDS[each].split())
    for each in ("taking_back", "changing", "following", "counted", "resulting", "places", "naming")
)
_ARTICLES = ("the", "a", "an")
_CHANGING |= frozenset(VOCABULARY["foreign_changing"].split())
_REASONS = ("from", "since", "because")
_APPROXIMATELY = frozenset(VOCABULARY["restated"]["approximately"].split())
_PUNCTUATION = (",", ".", ":", ";", "(", ")", "'", '"', "-", "!", "`")
_RELATIONS = ("=", "\\ne", "<", ">", "\\le", "\\ge", "\\in", "\\approx", "\\equiv", "\\implies", "\\pm")
_LONGEST, _MOST_TRIES = 80, 80


def stated_values(question: Question, reference: Answer, tokens: Tokens) -> Iterator[Answer]:
    """Answers that the sentence may state: each span with harmless text around it, except the whole sentence."""
    if not 2 < len(tokens) <= _LONGEST or not any(len(words.word(token)) > 1 for token in tokens):
        return
    spoken = words.spoken(tokens)
    allowed = _APPROXIMATELY if _is_rounded(question, reference) else frozenset[str]()
    harmless = _harmless(question, tokens, spoken, allowed)
    first = next((i for i, fine in enumerate(harmless) if not fine), len(tokens))
    harmless = [fine or spoken[i] in _PLACES for i, fine in enumerate(harmless)]
    last = next((i for i in range(len(tokens) - 1, -1, -1) if not harmless[i]), -1)
    pivot = _computed(spoken)
    if pivot > first and not _TAKING_BACK & {*spoken[:pivot]}:
        first = next((i for i, fine in enumerate(harmless) if not fine and i >= pivot), len(tokens))
    reason = next((i for i in range(1, len(tokens)) if tokens[i - 1].isa(",") and spoken[i] in _REASONS), 0)
    if reason and not (_TAKING_BACK - {"if"}) & {*spoken[reason:]}:
        last = next((i for i in range(reason - 2, -1, -1) if not harmless[i]), -1)
    tries = 0
    for begin in range(min(first, len(tokens) - 1) + 1):
        if not _may_begin(tokens, spoken, begin):
            continue
        for end in range(len(tokens), max(begin, last), -1):
            if (begin, end) == (0, len(tokens)) or not _may_end(question, tokens, spoken, end):
                continue
            core = trimmed(tokens[begin:end])
            is_spoken = all(words.word(token) or token.kind == "name" for token in core)
            if is_spoken and begin and not _names(question, spoken, begin, end):
                continue
            if not core or (is_spoken and end < len(tokens) and (begin or spoken[end] not in ("is", "works"))):
                continue
            if (tries := tries + 1) > _MOST_TRIES:
                return
            value = parse_tokens(core)
            if not value.unit or not value.unit.words or not question.is_count or question.counts(value.unit.words):
                yield value


def _names(question: Question, spoken: list[str], begin: int, end: int) -> bool:
    """True if the words before a name give it as what is asked for: `is Alice`, `on Saturday`, and not `Bob beats
    Alice` or `precedes Saturday`."""
    before = next((word for word in reversed(spoken[:begin]) if word not in _ARTICLES), "")
    if not (question.alternatives - {*spoken[begin:end]}).isdisjoint(spoken[:begin] + spoken[end:]):
        return False
    return before not in words.NEXT and (not before or before in _NAMING or stem(before) in question.stems)


def _computed(spoken: list[str]) -> int:
    """The position behind a verb that says what comes of a computation, `adding both yields`, or behind `which is`."""
    ends = [
        i + 1 for i, word in enumerate(spoken) if word in _RESULTING or spoken[max(i - 1, 0) : i + 1] == ["which", "is"]
    ]
    return max(ends, default=0)


def _may_begin(tokens: Tokens, spoken: list[str], at: int) -> bool:
    """True at a value behind words: not within a formula or a list."""
    if at == 0:
        return True
    if spoken[at - 1] in ("and", "or", "plus", "minus", "times") or tokens[at - 1].isa(","):
        return at > 1 and bool(spoken[at - 2]) and not spoken[at] and not words.is_numeral(spoken[at - 2])
    return bool(spoken[at - 1]) or tokens[at - 1].isa(":")


def _may_end(question: Question, tokens: Tokens, spoken: list[str], at: int) -> bool:
    """True behind a value and before words that go on: no unit, and no other value."""
    if at == len(tokens):
        return True
    word, token = spoken[at], tokens[at]
    if token.isa(",", ";", "(") or word in ("and", "so"):
        follows = spoken[at + 1] if at + 1 < len(tokens) else ""
        if token.isa("(") and (not token.gap or tokens[at + 1].text.isupper() or question.names(follows)):
            return False  # 2(ABC) is a product
        return len(follows) > 1 and follows not in ("and", "or") and not words.is_numeral(follows)
    if not word:
        return False
    texts = [each.text for each in tokens[at : at + 3]]
    is_unit = any(parse_unit(" ".join(texts[:length])) for length in range(1, len(texts) + 1))
    is_noun = word.endswith("s") or is_unit  # 52 cartons, of eggs; 64 cubic feet
    return word in _FOLLOWING or (stem(word) in question.stems and not is_noun)


def _harmless(question: Question, tokens: Tokens, spoken: list[str], allowed: frozenset[str]) -> list[bool]:
    """True for each token that may be around a value."""
    given = re.findall(r"\d+(?:\.\d+)?", question.text.replace(",", "").replace("{}", ""))
    formulas = " ; ".join(map(spelled, question.formulas))
    result = [True] * len(tokens)
    begin = 0
    while begin < len(tokens):
        if spoken[begin]:
            result[begin] = _is_harmless_word(question, spoken, begin, allowed)
            begin += 1
            continue
        end = begin
        while end < len(tokens) and not spoken[end]:
            end += 1
        chunk = tokens[begin:end]
        while chunk and chunk[-1].isa(*_PUNCTUATION) and not chunk[-1].isa(")"):
            chunk = chunk[:-1]
        while chunk and chunk[0].isa(*_PUNCTUATION) and not chunk[0].isa("("):
            chunk = chunk[1:]
        follows = spoken[end] if end < len(tokens) else ""
        is_counted = len(chunk) == 1 and chunk[0].upright and (follows in _COUNTED or stem(follows) in question.stems)
        if any(token.isa(*_RELATIONS) for token in chunk):
            fine = spelled(chunk) in formulas
        else:
            fine = is_counted or all(_is_given(question, each, given) for each in chunk)
        result[begin:end] = [fine] * (end - begin)
        begin = end
    return result


def _is_given(question: Question, token: Token, given: list[str]) -> bool:
    if token.kind == "number":
        return token.text in given or (token.upright and str(token.value) in given)
    return token.kind != "name" or token.text in ("a", "e", "i") or question.names(token.text)


def _is_harmless_word(question: Question, spoken: list[str], at: int, allowed: frozenset[str]) -> bool:
    word = spoken[at]
    if spoken[at : at + 4] == ["if", "and", "only", "if"] or "and only if" in " ".join(spoken[max(at - 3, 0) : at + 1]):
        return True
    if word == "other" and re.search(r"\bthe other\b", question.text):
        return True
    if word in _TAKING_BACK or (word in ("least", "most") and at and spoken[at - 1] == "at"):
        return False
    if spoken[at : at + 2] == ["up", "to"] and (not at or spoken[at - 1] in _NAMING):  # and not `adds up to`
        return False
    if sign := direction(word):
        return sign == question.direction
    if word in _APPROXIMATELY:
        return word in allowed
    if words.is_numeral(word):
        return False
    return word not in _CHANGING or stem(word) in question.stems


def _is_rounded(question: Question, reference: Answer) -> bool:
    """True if the question asks for a rounded number, or the reference is a decimal."""
    if reference.value is None:
        return False
    asked = {*re.findall("[a-z]+", question.text.lower())}
    return "." in reference.text or "rounded" in question.forms or bool(_APPROXIMATELY & asked)
