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
from ratchet.verifiers.instructions.text import count_capital_words, count_sentences, count_words

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


def _language(value: Any) -> str:
    return language_code(_text(value))


def _keywords(text: str, keywords: list[str]) -> bool:
    text = text.lower()
    return all(keyword.lower() in text for keyword in keywords)


def _forbidden_words(text: str, forbidden_words: list[str]) -> bool:
    return not any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) for word in forbidden_words)


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
    known = {"p.p.s": r"p\.\s?p\.\s?s", "p.s.": r"p\.\s?s\."}.get(marker)
    return re.search(known, text) is not None if known else marker in text


def _placeholders(text: str) -> int:
    """Counts `[...]` on one line."""
    return sum("[" in part for line in text.split("\n") for part in line.split("]")[:-1])


def _bullets(text: str) -> int:
    lines = [line.lstrip() for line in text.split("\n")]
    return sum(line[:1] == "-" or (line[:1] == "*" and line[1:2] not in ("", "*")) for line in lines)


def _highlights(text: str) -> int:
    single = sum(bool(found.strip("*").strip()) for found in re.findall(r"\*[^\n*]*\*", text))
    return single + sum(bool(found[2:-2].strip()) for found in re.findall(r"\*\*[^\n*]*\*\*", text))


def _json(text: str) -> bool:
    text = text.strip()
    for opening in ("```json", "```Json", "```JSON", "```"):
        text = text.removeprefix(opening)
    try:
        json.loads(text.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


def _title(text: str) -> bool:
    for line in text.split("\n"):
        start, end = line.find("<<"), line.rfind(">>")
        if 0 <= start < end - 2 and line[start:end].lstrip("<").rstrip(">").strip():
            return True
    return False


def _two_responses(text: str) -> bool:
    parts = [part.strip() for part in text.split("******")]
    given = [part for part in parts if part]
    return all(parts[1:-1]) and len(given) == 2 and given[0] != given[1]


def _quoted(text: str) -> bool:
    text = text.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


@dataclass(frozen=True)
class Kind:
    """`follows(text, **arguments)`, and a reader for each argument."""

    follows: Callable[..., bool]
    arguments: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    optional: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)

    def read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments without nulls. Raises ValueError for a missing, unknown or invalid one."""
        given = {name: value for name, value in given.items() if value is not None}
        known = {**self.arguments, **self.optional}
        if unknown := sorted(given.keys() - known):
            raise ValueError(f"it takes no {unknown[0]}")
        if missing := sorted(self.arguments.keys() - given):
            raise ValueError(f"it has no {missing[0]}")
        read = {}
        for name, value in given.items():
            try:
                read[name] = known[name](value)
            except (ValueError, OverflowError) as error:
                raise ValueError(f"{name}: {error}") from None
        return read


def _counted(count: Callable[..., int], limit: str, relation: str = "", **arguments: Callable[[Any], Any]) -> Kind:
    """A kind that compares a count with a limit: at least, or as the argument `relation` says."""

    def follows(text: str, **given: Any) -> bool:
        compare, least = RELATIONS[given.pop(relation) if relation else "at least"], given.pop(limit)
        return compare(count(text, **given), least)

    return Kind(follows, {**arguments, limit: _count} | ({relation: _relation} if relation else {}))


KINDS: dict[str, Kind] = {
    "keywords:existence": Kind(_keywords, {"keywords": _texts}),
    "keywords:frequency": _counted(
        lambda text, keyword: text.lower().count(keyword.lower()), "frequency", "relation", keyword=_text
    ),
    "keywords:forbidden_words": Kind(_forbidden_words, {"forbidden_words": _texts}),
    "keywords:letter_frequency": _counted(
        lambda text, letter: text.lower().count(letter), "let_frequency", "let_relation", letter=_letter
    ),
    "language:response_language": Kind(is_in_language, {"language": _language}),
    "length_constraints:number_paragraphs": Kind(_paragraphs, {"num_paragraphs": _count}, {"divider": _text}),
    "length_constraints:number_words": _counted(count_words, "num_words", "relation"),
    "length_constraints:number_sentences": _counted(count_sentences, "num_sentences", "relation"),
    "length_constraints:nth_paragraph_first_word": Kind(
        _first_word, {"num_paragraphs": _count, "nth_paragraph": _count, "first_word": _text}
    ),
    "detectable_content:number_placeholders": _counted(_placeholders, "num_placeholders"),
    "detectable_content:postscript": Kind(_postscript, {"postscript_marker": _text}),
    "detectable_format:number_bullet_lists": Kind(
        lambda text, num_bullets: _bullets(text) == num_bullets, {"num_bullets": _count}
    ),
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
    "startend:quotation": Kind(_quoted),
    "change_case:english_capital": Kind(lambda text: text.isupper() and is_in_language(text, "en")),
    "change_case:english_lowercase": Kind(lambda text: text.islower() and is_in_language(text, "en")),
    "change_case:capital_word_frequency": _counted(count_capital_words, "capital_frequency", "capital_relation"),
    "punctuation:no_comma": Kind(lambda text: "," not in text),
}  # fmt: skip
