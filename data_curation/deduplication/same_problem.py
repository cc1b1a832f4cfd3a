"""Decide whether two similar texts state the same problem: those of a series differ only in a number or the question.

The numbers must be the same, in digits or in words. Where both have answers, these must agree by the verifier; where
both have tests, no input may have two outputs. How far words may differ (`Wording`) depends on the evidence: with a
test in common they are free; with an answer that few problems have, many may differ; with a common answer (`True`, 7),
words may be added, but none replaced; with neither, they must be the same, and so must the marks that tokens ignore
(`marks`): `$2^{3+1}$` has the tokens of `$2^3+1$`.
"""

import json
import re
from collections import Counter, defaultdict
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ratchet.data_curation.folding import folded
from ratchet.data_curation.rules.pictures import without_pictures
from ratchet.data_curation.split import to_json
from ratchet.data_curation.tokens import LOOK_ONLY, tokenize_texts
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.math.equivalence import equivalent
from ratchet.verifiers.math.tokens import VOCABULARY, tokenize
from ratchet.verifiers.math.words import numbered
from ratchet.verifiers.yaml_files import load_yaml

READ = ("domain", "prompt", "answer", "tests", "entry_point")
"""The columns that are compared."""
_HEADING = re.compile(  # "Problem 12.", "Exercise 3:": not numbers of the problem
    r"\A[#*\s]*(?:solve the following problem\W+"
    r"|(?:problem|exercise|question|example|task)?\s*\(?\d{1,3}(?:[.:)]|\s*$))",
    re.IGNORECASE | re.MULTILINE,
)
_NAMES = VOCABULARY["numbers"]
_COUNT = "|".join([*_NAMES["ones"].split(), *_NAMES["tens"].split(), *_NAMES["magnitudes"], "half"])
_PART = "|".join(rf"{name}s?" for name in _NAMES["parts"])
_IN_WORDS = re.compile(  # "twenty-five", "two thirds", "5 million"
    rf"\b(?:\d[\d,.]*\s(?:{'|'.join(_NAMES['magnitudes'])})|(?:{_COUNT}))(?:[\s-](?:and\s)?(?:{_COUNT}|{_PART})){{0,9}}\b",
    re.IGNORECASE,
)
_NUMBER_WORDS = frozenset(_COUNT.split("|"))
"""Words without which, and without those of `_MULTIPLES`, the patterns need not be tried."""
_MULTIPLES = frozenset(["twice", "double", "doubled", "doubles", "thrice", "triple", "tripled", "triples"])
_GROUPED = re.compile(r"(?<=\d)(?:\^\{(\d+)\}|(?:\^\{?|\\[,!]|\{,\}|,(?=\d{3}\b))\s?(?=\d))")  # 1,000 and 10^5
_TIMES = (
    (re.compile(r"\b(?:twice|doubled?|doubles)\b", re.IGNORECASE), "2 times"),
    (re.compile(r"\b(?:thrice|tripled?|triples)\b", re.IGNORECASE), "3 times"),
)
_WORDS = load_yaml(Path(__file__).with_name("words.yaml"))
INSTRUCTION_WORDS = frozenset(_WORDS["instruction_words"].split())
_INFORMATIVE = 3
"""Digits and signs of an answer that few problems share."""
WORDS_IN_COMMON = ((8, 0.25), (5, 0.35), (3, 0.5))
"""Pairs (digits, similarity): a copy in other words with at least these significant digits in its numbers and answer
needs only this Jaccard similarity of its words. With fewer digits, it has the same variables, and omits or adds
words."""
WITHOUT_ANSWER = 0.3
"""Additional similarity of the words that is needed if an answer is missing."""
_SIDES = [[frozenset(side.split()) for side in sides] for sides in _WORDS["opposites"]]
_OPPOSED = frozenset(word for sides in _SIDES for side in sides for word in side)
_ONE = re.compile(r"\bone\b", re.IGNORECASE)
_SIGNS = re.compile(
    r"[+*/<>≤≥]|(?<![a-z])-|-(?![a-z])|\\?(?<![a-z])(?:sin|cos|tan|cot|sec|csc|ln|log|sum|prod|int|lim)(?![a-z])"
)
_VARIABLES = re.compile(r"(?<![a-zA-Z\\])[b-zB-Z](?![a-zA-Z])")
_CASED = re.compile(r"[^\W\d_]+")
_LETTERS, _NUMBER, _SENTENCE_END = re.compile(r"[a-z]+"), re.compile(r"\d+"), re.compile(r"(?<=[.?!])\s+")
_COMPARISON = frozenset(_WORDS["comparison_words"].split())
_NUMBER_AND_WORD = re.compile(  # "3 more birds" are birds
    rf"(\d+)[\s\\$%,]*(?:(?:{'|'.join(sorted(_COMPARISON))})\s+)*([a-z]{{2,}})"
)
_RELATIONS = (_COMPARISON | _OPPOSED | frozenset(_WORDS["relation_words"].split())) - INSTRUCTION_WORDS
_PREPOSITIONS = frozenset(_WORDS["prepositions"].split())
_NEUTRAL = (INSTRUCTION_WORDS | frozenset(_WORDS["neutral_words"].split())) - _PREPOSITIONS - {"left", "total"}
_SYNONYMS = {word: group.split()[0] for group in _WORDS["synonyms"] for word in group.split()}
_FEW_WORDS = 2
"""Most words of each of two texts that may differ if one was written from the other."""


_GROUPED_BY_THREE = re.compile(r"(?<=\d)(?:\\[,!]|\{,\}|,)\s?(?=\d{3}(?!\d))")
_APPEARANCE = re.compile(  # commands of look, dollars, empty braces, emphasis, and the article
    rf"\\(?:{'|'.join(sorted(LOOK_ONLY, key=len, reverse=True))})(?![a-zA-Z])|\\[,;:!()\[\] ]"
    r"|\$|[\^_]\{\}|[*#`]{2,}|(?<![\w\\$^{])[aA](?=\s+[a-zA-Z]{2})"
)
_BRACES = re.compile(r"(?<!\\)\{\s*(\\?[\w ]*|[^{}\d+*/^=<>-]{2,})\s*\}")  # around one word, or around prose
_SPACED_LETTERS = re.compile(r"(?<![a-zA-Z\\])([a-zA-Z])\s+(?=[a-zA-Z](?![a-zA-Z]))")
_MARK = re.compile(
    r"\\?[{}]|[()\[\]]|\d+|(?<=\d)(?:\.(?=\d)|\s*[,:;]\s*(?=\d))|(?<![a-zA-Z\\])[a-zA-Z](?![a-zA-Z])"
    r"|(?<![^\W\d_]{2})(?:!|(?<!'[a-zA-Z])(?<=[a-zA-Z)])'(?![a-z]))"  # a factorial and a prime, in no prose
    r"|(?<=['\"`])[^\w\s](?=['\"`])"
)
_SAME_MARK = {"{": "(", "}": ")"}


def same_answer(domain: str, one: str | None, other: str | None) -> bool | None:
    """True if two reference answers agree, by the verifier where the domain has one; None if one is missing."""
    if not one or not other:
        return None
    return one == other or (domain_of(domain).answers_vote and equivalent(one, other))


def same_statement(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """True if two rows whose statements have the same tokens state the same problem: their marks are the same too, or
    an answer or a test shows that these are spelling."""
    if one["prompt"] == other["prompt"] or (one["answer"] and one["answer"] == other["answer"]):
        return True
    if marks(one["prompt"]) == marks(other["prompt"]):
        return True
    return bool(same_answer(one["domain"], one["answer"], other["answer"]) or _same_tests(one["tests"], other["tests"]))


@lru_cache(maxsize=1 << 12)
def marks(statement: str) -> tuple[str, ...]:
    """What may tell statements with the same tokens apart: brackets, factorials and primes, the marks between digits,
    signs in quotes, and the case of single letters, each in its place between the numbers."""
    text = _APPEARANCE.sub(" ", _GROUPED_BY_THREE.sub("", folded(without_pictures(statement))))
    found = 1
    while found:
        text, found = _BRACES.subn(r" \1 ", text)
    found_marks = map(str.strip, _MARK.findall(_SPACED_LETTERS.sub(r"\1", text)))
    return tuple(_SAME_MARK.get(mark, mark) for mark in found_marks)


class Wording(IntEnum):
    """Kinds of differences between the words of two texts, the smallest first."""

    SAME = 0
    ADDED = 1
    """Only one of the texts has words that the other lacks."""
    REPLACED = 2
    CHANGED = 3
    """The texts are the same but for one or two words, and these make another problem."""
    OPPOSITE = 4
    """A word of one text stands for its opposite in the other: most and least."""


def same_problem(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """True if two similar rows, with the columns of `READ`, state the same problem."""
    mine, its = _read(one["prompt"]), _read(other["prompt"])
    agree = same_answer(one["domain"], one["answer"], other["answer"])
    shared = _same_tests(one["tests"], other["tests"])
    other_function = one["tests"] and other["tests"] and one["entry_point"] != other["entry_point"]
    if agree is False or shared is False or (other_function and not shared):
        return False
    if not _same_numbers(mine, its) or _exchanged(mine.text, its.text):
        return False
    if not agree and not shared and marks(mine.text) != marks(its.text):
        return False
    if shared:
        most = Wording.CHANGED
    elif agree and len(re.sub(r"[a-zA-Z]{2,}|\W", "", one["answer"])) >= _INFORMATIVE:
        most = Wording.REPLACED
    else:
        most = Wording.ADDED if agree else Wording.SAME
    return wording(mine.text, its.text) <= most


def reworded(one: dict[str, Any], other: dict[str, Any], similarity: float) -> bool:
    """True if two rows with the columns of `READ` state the same problem in other words. The numbers are the same, and
    so are the answers if both have one. No sign or function is replaced, and no two things have exchanged their
    numbers. The words have the Jaccard `similarity` that the number of digits demands."""
    mine, its = _read(one["prompt"]), _read(other["prompt"])
    agree = same_answer(one["domain"], one["answer"], other["answer"])
    if not _same_numbers(mine, its) or agree is False:
        return False
    if one["entry_point"] != other["entry_point"] or _same_tests(one["tests"], other["tests"]) is False:
        return False
    answered = re.findall(r"\d+", one["answer"]) if agree else []
    digits = sum(len(number.strip("0")) for number in {*mine.numbers, *answered})
    least = next((least for enough, least in WORDS_IN_COMMON if digits >= enough), WORDS_IN_COMMON[-1][1])
    if similarity < least + (0 if agree else WITHOUT_ANSWER):
        return False
    few_digits = digits < WORDS_IN_COMMON[-1][0]
    if (few_digits and not agree) or _replaced(_SIGNS, mine.text, its.text) or _exchanged(mine.text, its.text):
        return False
    return wording(mine.text, its.text) <= (Wording.ADDED if few_digits else Wording.REPLACED)


def _same_numbers(one: "_Read", other: "_Read") -> bool:
    """ "one" may be a number, or a pronoun that other words do without."""
    if one.numbers - Counter({"1": one.numbers["1"]}) != other.numbers - Counter({"1": other.numbers["1"]}):
        return False
    return one.numbers["1"] <= other.numbers["1"] + other.ones and other.numbers["1"] <= one.numbers["1"] + one.ones


def numbers_of(text: str) -> tuple[str, ...]:
    """The numbers of a text, sorted, without any 1. Texts of the same problem have the same numbers."""
    return tuple(sorted(number for number in _read(text).numbers.elements() if number != "1"))


def sentences(text: str) -> list[str]:
    """The sentences of a text, each on one line in lower case, sorted."""
    return sorted(" ".join(sentence.split()) for sentence in _SENTENCE_END.split(folded(text).lower()))


def differing_numbers(text: str, other: str) -> tuple[list[str], list[str]]:
    """The numbers, in digits or in words, that only one of two texts has, and those that only the other has."""
    mine, its = _read(text), _read(other)
    only, its_only = mine.numbers - its.numbers, its.numbers - mine.numbers
    only["1"] -= max(0, its.ones - mine.ones)  # "one" of one text is the 1 of the other
    its_only["1"] -= max(0, mine.ones - its.ones)
    return sorted((+only).elements()), sorted((+its_only).elements())


def _replaced(pattern: re.Pattern[str], text: str, its_text: str) -> bool:
    """True if each of two texts has a match that the other one lacks."""
    counts, its = (Counter(pattern.findall(each)) for each in (text, its_text))
    return bool(counts - its and its - counts)


def _exchanged(text: str, its_text: str) -> bool:
    """True if a sentence has other numbers, or two words follow other numbers: 3 hours at 5 miles, and the reverse."""
    sentences, its_sentences = (
        {_NUMBER.sub("#", sentence): _NUMBER.findall(sentence) for sentence in _SENTENCE_END.split(each.lower())}
        for each in (text, its_text)
    )
    if any(sentences[same] != its_sentences[same] for same in sentences.keys() & its_sentences.keys()):
        return True
    follows, its = defaultdict(set), defaultdict(set)
    for numbers, each in ((follows, text), (its, its_text)):
        for number, word in _NUMBER_AND_WORD.findall(each.lower()):
            numbers[word].add(number)
    return sum(follows[word].isdisjoint(its[word]) for word in follows.keys() & its.keys()) >= 2


def wording(text: str, its_text: str) -> Wording:
    """Classify the difference between the words of two texts. Instructions, pronouns, synonyms and typos do not count.
    One or two words make another problem if one stands for another, unless it is a name or is replaced throughout; if
    only one text has a comparison, quantity, place or negation; and if the questions are about two things that both
    texts mention."""
    words, its_words = _telling_words(text), _telling_words(its_text)
    only, its_only = words - its_words, its_words - words
    for sides in _SIDES:
        here, there = ({at for at, side in enumerate(sides) if side & some.keys()} for some in (only, its_only))
        if here and there and not here & there:
            return Wording.OPPOSITE
    mine, its = _without_slips(only, its_only)
    if not _PREPOSITIONS.issuperset([*mine, *its]):  # beside other words they decide nothing
        mine, its = ([word for word in some if word not in _PREPOSITIONS] for some in (mine, its))
    asked, its_asked = mine, its
    if max(len(mine), len(its)) > _FEW_WORDS:
        last, its_last = (_telling_words(_SENTENCE_END.split(each.strip())[-1]) for each in (text, its_text))
        asked, its_asked = _without_slips(last - its_last, its_last - last)
    elif _make_another_problem(mine, its, _names(text), _names(its_text)):
        return Wording.CHANGED
    both_known = any(word in its_words for word in asked) and any(word in words for word in its_asked)
    if both_known and max(len(asked), len(its_asked)) <= _FEW_WORDS:
        return Wording.CHANGED
    if Counter(_VARIABLES.findall(text)) != Counter(_VARIABLES.findall(its_text)):
        return Wording.REPLACED
    is_more, its_more = any(word not in its_words for word in mine), any(word not in words for word in its)
    return Wording.REPLACED if is_more and its_more else Wording.ADDED if is_more or its_more else Wording.SAME


def _make_another_problem(mine: list[str], its: list[str], names: set[str], its_names: set[str]) -> bool:
    """True if so few words, which only one of two texts has, tell two problems apart."""
    if not _RELATIONS.isdisjoint([*mine, *its]):
        return True
    is_renamed = len(mine) == len(its) == 2 and mine[0] == mine[1] and its[0] == its[1]
    return bool(mine and its) and not is_renamed and not (names.issuperset(mine) and its_names.issuperset(its))


def _telling_words(text: str) -> Counter[str]:
    """The words but for instructions and pronouns; one word for synonyms."""
    counts: Counter[str] = Counter()
    for word, count in _all_words(text.lower().replace("in all", "altogether")).items():
        if len(word) > 1 and word not in _NEUTRAL:
            counts[_SYNONYMS.get(word, word)] += count
    return counts


def _names(text: str) -> set[str]:
    """Words that are always capitalized, in lower case."""
    words = _CASED.findall(text)
    return {word.lower() for word in words if word[0].isupper()}.difference(words)


class _Read(NamedTuple):
    text: str
    """The text without pictures and heading, with number words in digits: "a dozen" is 12, "twice" is 2 times;
    `10^{5}`, `10^5` and the 105 of plain text are one, as are 1,000 and 1000."""
    numbers: Counter[str]
    ones: int
    """The number of times the text says "one"."""


@lru_cache(maxsize=1 << 14)
def _read(statement: str) -> _Read:
    text = folded(without_pictures(statement))
    words = {*_LETTERS.findall(text.lower())}
    for pattern, digits in () if words.isdisjoint(_MULTIPLES) else _TIMES:
        text = pattern.sub(digits, text)
    if not words.isdisjoint(_NUMBER_WORDS):
        text = _IN_WORDS.sub(_in_digits, text)
    if heading := _HEADING.match(text):
        text = text[heading.end() :]
    text = _GROUPED.sub(r"\1", text)
    return _Read(text, Counter(_NUMBER.findall(text)), len(_ONE.findall(text)) if "one" in words else 0)


def _in_digits(match: re.Match[str]) -> str:
    if _ONE.fullmatch(match[0]):
        return match[0]
    return " ".join(token.text for token in numbered(tokenize(match[0].replace(",", ""))))


@lru_cache(maxsize=1 << 10)
def _all_words(text: str) -> Counter[str]:
    tokens = tokenize_texts([text])
    words = (word.decode(errors="replace") for word in tokens.words(0, len(tokens.hashes)))
    return Counter(word for word in words if word.isalpha())


def _without_slips(only: Counter[str], its_only: Counter[str]) -> tuple[list[str], list[str]]:
    mine, its = sorted(only.elements()), sorted(its_only.elements())
    for word in list(mine):
        if (slip := next((w for w in its if _is_slip(word, w)), None)) is not None:
            mine.remove(word)
            its.remove(slip)
    return mine, its


def _is_slip(one: str, other: str) -> bool:
    """A typo in a longer word (letters swapped, or one wrong, missing or added), or a plural."""
    if min(len(one), len(other)) < 4:
        return one.rstrip("s") == other.rstrip("s")
    if sorted(one) == sorted(other):
        return True
    start = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    rest, its = one[start:], other[start:]
    return rest[1:] == its[1:] or rest[1:] == its or rest == its[1:]


def _same_tests(one: str | None, other: str | None) -> bool | None:
    """False if an input has two outputs, True if both have an input; None otherwise."""
    if not one or not other:
        return None
    outputs, its = _outputs(one), _outputs(other)
    shared = outputs.keys() & its.keys()
    if any(outputs[test_input] != its[test_input] for test_input in shared):
        return False
    return True if shared else None


def _outputs(tests: str) -> dict[str, Any]:
    """Outputs by input; checks and the tests of other domains have none."""
    runs = [test for test in json.loads(tests) if isinstance(test, dict) and ("call" in test or "input" in test)]
    return {to_json(test.get("call") or test.get("input")): test.get("output") for test in runs}
