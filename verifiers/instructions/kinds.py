"""The kinds of instructions, by their published ids: arguments, and whether a text follows one.

Each is judged as in the published evaluation (google-research, `instruction_following_eval`); docs/instructions.md
lists the differences. Texts and arguments are data: neither becomes a pattern, and time is linear in the text.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ratchet.verifiers.instructions.language import is_in_language, language_code

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
RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "less than": lambda n, limit: n < limit,
    "at least": lambda n, limit: n >= limit,
    "at most": lambda n, limit: n <= limit,
    "exactly": lambda n, limit: n == limit,
    "around": lambda n, limit: abs(n - limit) <= max(round(limit / 10), 1),
}
"""The first two are IFEval's, the others RLVR-IFeval's."""
CHOICES = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
"""The answers that IFEval's prompts offer; its arguments do not include them."""


def _require(is_valid: bool, value: Any, kind: str) -> None:
    if not is_valid:
        raise ValueError(f"{value!r} is not {kind}")


def _count(value: Any) -> int:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    _require(number and value == int(value) and value >= 0, value, "a whole number from 0")
    return int(value)


def _text(value: Any) -> str:
    _require(isinstance(value, str) and bool(value.strip()), value, "text")
    return value.strip()


def _texts(value: Any) -> list[str]:
    _require(isinstance(value, list) and bool(value), value, "a list of texts")
    return [_text(each) for each in value]


def _relation(value: Any) -> str:
    _require(isinstance(value, str) and value in RELATIONS, value, f"one of {', '.join(RELATIONS)}")
    return value


def _letter(value: Any) -> str:
    _require(len(_text(value)) == 1, value, "a single character")
    return value.strip().lower()


def _first_word(text: str, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    parts = text.split("\n\n")
    count = sum(bool(part.strip()) for part in parts)
    if count != num_paragraphs or not 0 < nth_paragraph <= count or not parts[nth_paragraph - 1].strip():
        return False
    first = parts[nth_paragraph - 1].split(maxsplit=1)[0].lstrip("'").lstrip('"')
    return re.split(r"[.,?!'\"]", first, maxsplit=1)[0].lower() == first_word.lower()


def _paragraphs(text: str, num_paragraphs: int, divider: str = "***") -> bool:
    filled = [bool(part.strip()) for part in text.split(divider)]
    return all(filled[1:-1]) and sum(filled) == num_paragraphs


def _postscript(text: str, postscript_marker: str) -> bool:
    text, marker = text.lower(), postscript_marker.lower()
    pattern = {"p.p.s": r"p\.\s?p\.\s?s", "p.s.": r"p\.\s?s\."}.get(marker)
    return re.search(pattern, text) is not None if pattern else marker in text


def _bullets(text: str, num_bullets: int) -> bool:
    lines = [line.lstrip() for line in text.split("\n")]
    return num_bullets == sum(line[:1] == "-" or (line[:1] == "*" and line[1:2] not in ("", "*")) for line in lines)


def _highlights(text: str) -> int:
    single = sum(bool(highlight.strip("*").strip()) for highlight in re.findall(r"\*[^\n*]*\*", text))
    return single + sum(bool(highlight[2:-2].strip()) for highlight in re.findall(r"\*\*[^\n*]*\*\*", text))


def _json(text: str) -> bool:
    text = text.strip()
    for opening in ("```json", "```Json", "```JSON", "```"):
        text = text.removeprefix(opening)
    try:
        json.loads(text.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


def count_words(text: str) -> int:
    r"""Runs of letters, digits and underscores: "well-known" is two words, "don't" too."""
    return sum(1 for _ in _WORD.finditer(text))


def count_capital_words(text: str) -> int:
    """Words with a capital letter and no lowercase one, including "A", "3D" and "UP-TO-DATE"."""
    return sum(match[0].isupper() for match in _TOKEN.finditer(text))


def count_sentences(text: str) -> int:
    """Sentences end in a period, a question mark or an exclamation mark, except for the period of an abbreviation or an
    initial. A line break alone does not end one, as in the published evaluation (NLTK's Punkt)."""
    text = text.strip()
    body = text.rstrip(_CLOSING)
    return bool(text) + sum(match[0] != "." or _ends_sentence(body, match) for match in _END.finditer(body))


def _ends_sentence(text: str, period: re.Match[str]) -> bool:
    before = text[max(0, period.start() - _NEAR) : period.start()].split()[-1:] or [""]
    after = text[period.end() : period.end() + _NEAR].split()[:1] or [""]
    word, following = before[0].lstrip(_OPENING), after[0].lstrip(_OPENING)
    lower = word.lower()
    if lower in _UNENDED or (_LETTERS_WITH_PERIODS.fullmatch(word) and lower not in _POSTSCRIPTS):
        return False
    if word[-1:].isdigit():  # "1." before an item of a list
        return not following[:1].islower()
    initial = len(word) == 1 and word.isupper() and word != "I"
    return not initial or following.lower() in _BEGINNING


def _title(text: str) -> bool:
    spans = ((line, line.find("<<"), line.rfind(">>")) for line in text.split("\n"))
    return any(0 <= a < b - 2 and bool(line[a:b].lstrip("<").rstrip(">").strip()) for line, a, b in spans)


def _two_responses(text: str) -> bool:
    parts = [part.strip() for part in text.split("******")]
    responses = [part for part in parts if part]
    return all(parts[1:-1]) and len(responses) == 2 and responses[0] != responses[1]


@dataclass(frozen=True)
class Kind:
    """`follows(text, **arguments)`, and a reader for each argument."""

    follows: Callable[..., bool]
    arguments: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    optional: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments without nulls. Raises ValueError for a missing, unknown or invalid one."""
        arguments = {name: value for name, value in arguments.items() if value is not None}
        readers = {**self.arguments, **self.optional}
        if unknown := sorted(arguments.keys() - readers):
            raise ValueError(f"it takes no {unknown[0]}")
        if missing := sorted(self.arguments.keys() - arguments):
            raise ValueError(f"it has no {missing[0]}")
        read = {}
        for name, value in arguments.items():
            try:
                read[name] = readers[name](value)
            except (ValueError, OverflowError) as error:
                raise ValueError(f"{name}: {error}") from None
        return read


def _counted(count: Callable[..., int], limit: str, relation: str = "", **arguments: Callable[[Any], Any]) -> Kind:
    """A kind that compares a count with a limit: at least, or as the argument `relation` says."""

    def follows(text: str, **arguments: Any) -> bool:
        compare, least = RELATIONS[arguments.pop(relation) if relation else "at least"], arguments.pop(limit)
        return compare(count(text, **arguments), least)

    return Kind(follows, {**arguments, limit: _count} | ({relation: _relation} if relation else {}))


KINDS: dict[str, Kind] = {
    "keywords:existence": Kind(
        lambda text, keywords: all(keyword.lower() in text.lower() for keyword in keywords), {"keywords": _texts}
    ),
    "keywords:frequency": _counted(
        lambda text, keyword: text.lower().count(keyword.lower()), "frequency", "relation", keyword=_text
    ),
    "keywords:forbidden_words": Kind(
        lambda text, forbidden_words: not any(
            re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) for word in forbidden_words
        ),
        {"forbidden_words": _texts},
    ),
    "keywords:letter_frequency": _counted(
        lambda text, letter: text.lower().count(letter), "let_frequency", "let_relation", letter=_letter
    ),
    "language:response_language": Kind(is_in_language, {"language": lambda value: language_code(_text(value))}),
    "length_constraints:number_paragraphs": Kind(_paragraphs, {"num_paragraphs": _count}, {"divider": _text}),
    "length_constraints:number_words": _counted(count_words, "num_words", "relation"),
    "length_constraints:number_sentences": _counted(count_sentences, "num_sentences", "relation"),
    "length_constraints:nth_paragraph_first_word": Kind(
        _first_word, {"num_paragraphs": _count, "nth_paragraph": _count, "first_word": _text}
    ),
    "detectable_content:number_placeholders": _counted(  # `[...]` on one line
        lambda text: sum("[" in part for line in text.split("\n") for part in line.split("]")[:-1]), "num_placeholders"
    ),
    "detectable_content:postscript": Kind(_postscript, {"postscript_marker": _text}),
    "detectable_format:number_bullet_lists": Kind(_bullets, {"num_bullets": _count}),
    "detectable_format:constrained_response": Kind(
        lambda text, options=CHOICES: any(option in text for option in options), {}, {"options": _texts}
    ),
    "detectable_format:number_highlighted_sections": _counted(_highlights, "num_highlights"),
    "detectable_format:multiple_sections": _counted(
        lambda text, section_spliter: len(re.findall(rf"{re.escape(section_spliter)}\s?\d", text)),
        "num_sections", section_spliter=_text,
    ),
    "detectable_format:json_format": Kind(_json),
    "detectable_format:title": Kind(_title),
    "combination:two_responses": Kind(_two_responses),
    "combination:repeat_prompt": Kind(
        lambda text, prompt_to_repeat: text.strip().lower().startswith(prompt_to_repeat.lower()),
        {"prompt_to_repeat": _text},
    ),
    "startend:end_checker": Kind(
        lambda text, end_phrase: text.strip().strip('"').lower().endswith(end_phrase.lower()), {"end_phrase": _text}
    ),
    "startend:quotation": Kind(lambda text: re.fullmatch(r'\s*".*"\s*', text, re.DOTALL) is not None),
    "change_case:english_capital": Kind(lambda text: text.isupper() and is_in_language(text, "en")),
    "change_case:english_lowercase": Kind(lambda text: text.islower() and is_in_language(text, "en")),
    "change_case:capital_word_frequency": _counted(count_capital_words, "capital_frequency", "capital_relation"),
    "punctuation:no_comma": Kind(lambda text: "," not in text),
}  # fmt: skip
