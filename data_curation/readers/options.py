"""Read the options of a multiple-choice question, and the right one, in any published layout.

options, choices: [text, …]           with an index, a letter or the text as `answer`, `label`, `answer_index`, …; a
                                      number is what all of the file's are (`meaning_of_numbers`)
choices: {text: […], label: […]}      ARC, CommonsenseQA, OpenBookQA: `answerKey` is one of the labels
choices: {A: text, …}, [{label, text}, …], "a ) 1 , b ) 2"
A, B, C, D; option_a, …; opa, …; answerA, …; option1, …; sol1, sol2     C-Eval, MedMCQA, SocialIQA, WinoGrande, PIQA
answers: [text, …] with `label`       ReClor
correct_answer with distractor1, …    SciQ
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from string import ascii_uppercase
from typing import Any, NamedTuple

from ratchet.data_curation.readers.columns import EMPTY, NumbersAre, RawRow, answer_text, parse_structure, text_of
from ratchet.data_curation.readers.malformed import Malformed
from ratchet.verifiers.problem import APPENDED_OPTIONS

OPTIONS = ("options", "choices", "answer_option_list", "endings", "mc1_targets", "answer_choices", "multiple_choice")
RIGHT_OPTION = (
    "answer_letter", "answerKey", "answer_key", "answer_index", "answer_idx", "correct_index", "correct_option",
    "correct_choice", "correct_answer_key", "cop", "correct", "label", "answer_value", "answer", "Answer",
    "correct_answer", "target", "gold", "golden", "final_answer", "expected_answer", "gold_answer", "reference_answer",
    "ground_truth",
)  # fmt: skip
"""Columns that name the right option by its letter, number or text."""
_BY_COLUMN = (  # columns with one option each, and the labels by which such sets name the right one
    (("A", "B", "C", "D", "E", "F", "G", "H", "I", "J"), ascii_uppercase),
    *(
        (tuple(form.format(letter) for letter in letters), ascii_uppercase)
        for form in ("option_{}", "option{}", "Option {}", "Option_{}", "choice_{}", "choice{}", "Choice {}", "op{}")
        for letters in ("ABCDEFGHIJ", "abcdefghij")
    ),
    (tuple(f"answer{letter}" for letter in "ABCD"), "1234"),
    (tuple(f"option{n}" for n in range(1, 10)), "123456789"),
    (tuple(f"option_{n}" for n in range(1, 10)), "123456789"),
    (("sol1", "sol2"), "AB"),
    (tuple(f"ending{n}" for n in range(4)), "ABCD"),
)  # fmt: skip
_FIRST = frozenset(names[0] for names, _ in _BY_COLUMN)
_DISTRACTORS = ("distractors", "incorrect_answers", "wrong_answers")
_DISTRACTOR = tuple(f"distractor{n}" for n in range(1, 10))
_LABELED = re.compile(r"\(?([A-Za-z])\s?[).:]\s*")
_IN_ONE_TEXT = [re.compile(rf"(?:\A|,|;|\s)\s*\(?([A-Ja-j])\s?{closing}\s*") for closing in (r"\)", r"[.:](?=\s)")]
_LISTED = 2  # options at least
_OF_PLACES = re.compile("idx|index|label|cop")
"""Parts of the names of columns whose numbers are places of options, never their texts."""


class Options(NamedTuple):
    """The options of a question, and the right one."""

    texts: list[str]
    """The options as published, possibly with their own labels."""
    right: int | str | None
    """The position of the right option; a text if it is none of them; None if the row names none."""

    @property
    def answer(self) -> str | None:
        return ascii_uppercase[self.right] if isinstance(self.right, int) else self.right


def has_options(columns: set[str]) -> bool:
    """True if a file with these columns has multiple-choice questions."""
    return bool(
        columns & {*OPTIONS}
        or columns >= {"question", "answerKey"}  # which may be an object with its choices
        or any(columns >= {*names[:_LISTED]} for names, _ in _BY_COLUMN)
        or ("answers" in columns and columns & {"label", "answerKey", "correct"})
        or (columns & {*_DISTRACTORS, "distractor1"} and "correct_answer" in columns)
    )


def meaning_of_numbers(rows: Iterable[RawRow]) -> NumbersAre:
    """What the numbers of right options in these rows are. They count from 1, as in MedMCQA's own files, if one is the
    number of options and none is 0. A number that may be the place of one option and is the text of another says
    nothing."""
    seen = set[NumbersAre]()
    for row in rows:
        with suppress(Malformed):
            _unfold_question(row)
            texts, labels, _ = _texts(row)
            if len(texts) < _LISTED or not _are_letters(labels):
                continue
            for name in RIGHT_OPTION:
                if (number := _number(row.get(name))) is None:
                    continue
                is_text = not _OF_PLACES.search(name) and _stated(number, without_labels(texts)) is not None
                if is_text == (0 <= number <= len(texts)):  # either, or neither
                    continue
                is_last = number == len(texts)
                seen.add("texts" if is_text else "from 0" if number == 0 else "from 1" if is_last else "perhaps from 0")
    if "texts" in seen:
        return "texts" if len(seen) == 1 else "unknown"
    if "from 0" in seen:
        return "from 0"
    if "from 1" in seen:
        return "from 1"
    return "perhaps from 0" if seen else "unknown"


def take_options(row: RawRow) -> Options | None:
    """Take the options out of a row, with the columns that name the right one. None for a row without options. Raises
    Malformed if two columns name different ones, or one several or an empty one."""
    _unfold_question(row)
    texts, labels, right = _texts(row)
    if len(texts) < _LISTED or len(texts) > len(ascii_uppercase):
        return None
    plain = without_labels(texts)
    named = [(name, row[name]) for name in RIGHT_OPTION if row.get(name) not in EMPTY] if right is None else []
    numbers: NumbersAre = row.option_numbers if _are_letters(labels) else "from 0"
    found = ((name, _place(value, plain, labels, name, numbers)) for name, value in named)
    places = {name: place for name, place in found if place is not None}
    if empty := next((name for name, place in places.items() if not plain[place]), None):
        raise Malformed(empty, "the right option is empty")
    if len({*places.values()}) > 1:
        choices = " but ".join(f"{name} names option {ascii_uppercase[place]}" for name, place in places.items())
        raise Malformed(next(iter(places)), choices)
    for name in places:
        del row[name]
    if right is None:
        right = next(iter(places.values()), None)
    if right is None and named:
        name, value = named[0]
        del row[name]
        right = f"option {value}" if isinstance(value, int) else answer_text(value)
    return Options(texts, right)


def append_options(row: RawRow, *statements: str) -> None:
    """Append the options to the statement, the first of these columns with a value, unless it lists them already; the
    letter of the right option becomes the row's `answer`."""
    options = take_options(row)
    name = row.filled(statements)
    if options is None:
        return
    if options.right is not None:
        row["answer"] = options.answer
    row[name] = RawRow({name: row.get(name)}).take_statement(name)  # which may be a chat
    lines = options.texts if _are_labeled(options.texts) else labeled(options.texts, ")")
    row[APPENDED_OPTIONS] = lines
    if not lists_options(row[name], options.texts):
        row[name] = "\n".join([row[name], *lines])


def labeled(texts: Sequence[str], mark: str = ".") -> list[str]:
    """The options with a letter before each: `A. 12`."""
    return [f"{letter}{mark} {text}" for letter, text in zip(ascii_uppercase, texts, strict=False)]


def without_labels(texts: Sequence[str]) -> list[str]:
    """The options without labels of their own, if all have one."""
    return [_LABELED.sub("", text, count=1) for text in texts] if _are_labeled(texts) else [*texts]


def lists_options(statement: str, texts: Sequence[str]) -> bool:
    """True if a statement lists these options, each behind its letter."""
    at = 0
    for letter, text in zip(ascii_uppercase, without_labels(texts), strict=False):
        match = re.compile(rf"(?<!\w){letter}[\s.):}}\]*$]*\s*{re.escape(text)}", re.IGNORECASE).search(statement, at)
        if match is None:
            return False
        at = match.end()
    return True


def shuffled(question: str, right: str, wrong: Sequence[str]) -> Options:
    """Options in an order that depends on the question only."""
    place = hashlib.sha256(question.encode()).digest()[0] % (len(wrong) + 1)
    return Options([*wrong[:place], right, *wrong[place:]], place)


def _unfold_question(row: RawRow) -> None:
    """ARC as JSON lines: the question is an object with its stem and its choices."""
    if isinstance(row.get("question"), dict) and isinstance(row["question"].get("stem"), str):
        row |= row.pop("question")
        row["question"] = row.pop("stem")


def _texts(row: RawRow) -> tuple[list[str], Sequence[str], int | None]:
    """The texts of the options, their labels, and the right one if the options say it."""
    column = row.filled(OPTIONS)
    if row.get(column) not in EMPTY:
        value = row[column]
        if isinstance(value, str):
            value = _in_one_text(column, value)
        texts, labels, right = _listed(value)
        if len(texts) >= _LISTED:
            del row[column]
        return texts, labels, right
    for names, labels in _BY_COLUMN if not _FIRST.isdisjoint(row) else ():
        there = [name for name in names if isinstance(row.get(name), str | int | float) and row[name] != ""]
        until = names.index(there[-1]) + 1 if there else 0  # an empty one between them keeps its letter
        if len(there) >= _LISTED and there[0] == names[0] and len(there) * 2 > until:
            return [_text(row.pop(name, None)) for name in names[:until]], labels, None
    answers = row.get("answers")
    are_texts = isinstance(answers, list) and len(answers) >= _LISTED and all(isinstance(t, str) for t in answers)
    if are_texts and any(row.get(name) is not None for name in RIGHT_OPTION):
        return [text.strip() for text in row.pop("answers")], ascii_uppercase, None
    wrong = []
    if isinstance(row.get("correct_answer"), str):
        wrong = [row[name] for name in _DISTRACTOR if isinstance(row.get(name), str)]
        wrong = wrong or next((row[name] for name in _DISTRACTORS if isinstance(row.get(name), list)), [])
    if wrong:
        for name in (*_DISTRACTORS, *_DISTRACTOR):
            row.pop(name, None)
        right = row.pop("correct_answer").strip()
        texts, place = shuffled(str(row.get("question")), right, [str(text).strip() for text in wrong])
        return texts, ascii_uppercase, int(place or 0)
    return [], ascii_uppercase, None


def _listed(value: Any) -> tuple[list[str], Sequence[str], int | None]:
    if isinstance(value, dict) and isinstance(texts := value.get("text", value.get("choices")), list):
        labels, texts = value.get("label", value.get("labels")), [*map(_text, texts)]
        if isinstance(labels, list) and sorted({*map(str, labels)}) == ["0", "1"] and labels.count(1) == 1:
            return texts, ascii_uppercase, labels.index(1)
        known = isinstance(labels, list) and len(labels) == len(texts)
        return _stripped(texts), [str(label) for label in labels or ()] if known else ascii_uppercase, None
    if isinstance(value, dict):
        given = {str(label): _text(text) for label, text in value.items() if text is not None}
        return [*given.values()], [*given], None
    if not isinstance(value, list):
        return [], ascii_uppercase, None
    parts = [part[0] if isinstance(part, list) and len(part) == 1 else part for part in value]
    labels = [part.get("label", part.get("key", part.get("aoVal"))) for part in parts if isinstance(part, dict)]
    known = len(labels) == len(parts) and all(isinstance(label, str) for label in labels)
    texts = _stripped([_text(text_of(part)) for part in parts])
    return texts, [*map(str, labels)] if known else ascii_uppercase, None


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _stripped(texts: list[str]) -> list[str]:
    """Options without empty ones behind them; one between them keeps its letter."""
    while texts and texts[-1] in ("", "N/A"):
        texts = texts[:-1]
    return texts


def _in_one_text(column: str, value: str) -> Any:
    """A structure as text, or MathQA's `a ) 1 , b ) 2`, or `A. 1 B. 2`."""
    if value.lstrip()[:1] in ("[", "{"):
        return parse_structure(value, column)
    for pattern in _IN_ONE_TEXT:
        marks = [*pattern.finditer(value)]
        if len(marks) >= _LISTED and [mark[1].upper() for mark in marks] == [*ascii_uppercase[: len(marks)]]:
            ends = [*(mark.start() for mark in marks[1:]), len(value)]
            return [value[mark.start() : end].strip(" ,;") for mark, end in zip(marks, ends, strict=True)]
    raise Malformed(column, "not a list of options")


def _are_labeled(texts: Sequence[str]) -> bool:
    """True if each text begins with its own letter."""
    marks = [_LABELED.match(text) for text in texts]
    return [mark[1].upper() for mark in marks if mark] == [*ascii_uppercase[: len(texts)]]


def _number(value: Any) -> int | None:
    return int(value) if type(value) in (int, float) and value == value // 1 else None


def _are_letters(labels: Sequence[str]) -> bool:
    return all(label.isalpha() for label in labels)


def _only_place(
    values: list[Any], texts: Sequence[str], labels: Sequence[str], column: str, numbers: NumbersAre
) -> int | None:
    """The place of the option that a list names: in one of several ways, or as 1 among zeros."""
    if len(values) == len(texts) and all(value in (0, 1) for value in values) and values.count(1) == 1:
        return values.index(1)
    places = {_place(value, texts, labels, column, numbers) for value in values} - {None}
    if len(places) > 1:
        raise Malformed(column, "several right options, and one is asked for")
    return next(iter(places), None)


def _stated(value: float | bool, texts: Sequence[str]) -> int | None:
    """The place of the only option whose text is this number, or this `True` or `False`."""

    def is_it(text: str) -> bool:
        with suppress(ValueError):
            return text.casefold() == str(value).casefold() if isinstance(value, bool) else float(text) == value
        return False

    places = [place for place, text in enumerate(texts) if is_it(text)]
    return places[0] if len(places) == 1 else None


def _numbered(number: int, texts: Sequence[str], column: str, numbers: NumbersAre) -> int | None:
    """The place of the option that a number names. Raises Malformed if it may be a place and is another's text."""
    first = int(numbers == "from 1")
    place = number - first if first <= number < len(texts) + first else None
    stated = None if _OF_PLACES.search(column) else _stated(number, texts)
    if numbers == "texts" and not _OF_PLACES.search(column):
        return stated
    if numbers != "unknown" or stated is None:
        return place
    if 0 <= number <= len(texts) and stated != place:
        raise Malformed(column, f"{number} is the number of one option and the text of another")
    return stated


def _place(value: Any, texts: Sequence[str], labels: Sequence[str], column: str, numbers: NumbersAre) -> int | None:
    """The place of the option that a value names; None if it names none of them."""
    if isinstance(value, list):
        return _only_place(value, texts, labels, column, numbers)
    number = _number(value)
    labels = [str(label).casefold() for label in labels][: len(texts)]
    if number is not None:
        if str(number) in labels:
            return labels.index(str(number))
        return _numbered(number, texts, column, numbers)
    if isinstance(value, float | bool) and column != "correct":  # which may say whether an answer was right
        return _stated(value, texts)
    if not isinstance(value, str):
        return None
    said = re.sub(r"\A(?:option|choice)\s+", "", value.strip(), flags=re.IGNORECASE)
    letter = said.strip("().: ").casefold()
    known = (labels, [*ascii_uppercase.casefold()[: len(texts)]])
    lettered = next((names.index(letter) for names in known if letter in names), None)
    folded = [text.casefold() for text in texts]
    bare = _LABELED.sub("", said, count=1) if _LABELED.match(said) else said
    stated = next((folded.index(text) for text in (said.casefold(), bare.casefold()) if folded.count(text) == 1), None)
    if lettered is not None and stated not in (None, lettered):
        raise Malformed(column, f"{said!r} is the letter of one option and the text of another")
    if lettered is not None or stated is not None:
        return stated if lettered is None else lettered
    if said.isdigit() and _OF_PLACES.search(column) and int(said) < len(texts):
        return int(said)
    return None
