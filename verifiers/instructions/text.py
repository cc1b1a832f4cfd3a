"""Counts words, sentences and capitalized words. Time is linear in the text: no pattern looks for an end that may be
missing."""

import re

_WORD = re.compile(r"\w+")
_TOKEN = re.compile(r"\w+(?:[-/.]\w+)*")
_END = re.compile(r"[.?!]+(?=[\s\"'”’)\]}*:;({\[])")
_LETTERS_WITH_PERIODS = re.compile(r"[^\W\d_](?:\.[^\W\d_])+")  # U.S, e.g
_POSTSCRIPTS = ("p.s", "p.p.s")
_ABBREVIATIONS = """
    mr mrs ms dr prof sr jr st rev gen col capt lt sgt gov sen rep hon v vs fig ed eds al inc ltd co corp dept est
    approx etc ave blvd mt ft jan feb mar apr jun jul aug sep sept oct nov dec ph.d """
_STARTERS = " the a in on at it he she we they this that these there if but and so then for what how "
_UNENDED, _BEGINNING = frozenset(_ABBREVIATIONS.split()), frozenset(_STARTERS.split())
_OPENING, _CLOSING = "\"'“‘([*_`#>-", "\"'”’)]}*_"
_NEAR = 40
"""Characters before and after a period that are searched for a word."""


def count_words(text: str) -> int:
    r"""Runs of letters, digits and underscores: "well-known" is two words, "don't" too."""
    return sum(1 for _ in _WORD.finditer(text))


def count_capital_words(text: str) -> int:
    """Words with a capital letter and no lowercase one, including "A", "3D" and "STATE-OF-THE-ART"."""
    return sum(found[0].isupper() for found in _TOKEN.finditer(text))


def count_sentences(text: str) -> int:
    """Sentences end in a period, a question mark or an exclamation mark, except for the period of an abbreviation or an
    initial. A line break alone does not end one, as in the published evaluation (NLTK's Punkt)."""
    text = text.strip()
    body = text.rstrip(_CLOSING)
    return bool(text) + sum(found[0] != "." or _ends_sentence(body, found) for found in _END.finditer(body))


def _ends_sentence(text: str, period: re.Match[str]) -> bool:
    before = text[max(0, period.start() - _NEAR) : period.start()].split()[-1:] or [""]
    after = text[period.end() : period.end() + _NEAR].split()[:1] or [""]
    word, following = before[0].lstrip(_OPENING), after[0].lstrip(_OPENING)
    known = word.lower()
    if known in _UNENDED or (_LETTERS_WITH_PERIODS.fullmatch(word) and known not in _POSTSCRIPTS):
        return False
    if word[-1:].isdigit():  # "1." before an item of a list
        return not following[:1].islower()
    initial = len(word) == 1 and word.isupper() and word != "I"
    return not initial or following.lower() in _BEGINNING
