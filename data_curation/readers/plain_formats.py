"""Read unnamed layouts: each field of a problem is in the column that the recipe maps, or else in the first of the
usual columns that has a value."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ratchet.data_curation.readers.columns import EMPTY, RawRow, answer_text, marked_answer
from ratchet.data_curation.readers.options import append_options
from ratchet.data_curation.readers.raw_files import Malformed, Row
from ratchet.data_curation.split import to_json
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import APPENDED_OPTIONS
from ratchet.verifiers.yaml_files import load_yaml

Columns = Mapping[str, str]
"""A mapping from a problem's field, or `metadata.NAME`, to the file's column."""
_TAKE = {
    "prompt": RawRow.take_statement,
    "answer": RawRow.take_answer,
    "tests": RawRow.take_tests,
    "entry_point": RawRow.take,
    "starter_code": RawRow.take,
    "golden_solutions": RawRow.take_solutions,
    "source_url": RawRow.take,
    "released": RawRow.take_date,
    "time_limit_s": RawRow.take_seconds,
    "memory_limit_mb": RawRow.take_megabytes,
}
MATH_COLUMNS, CODE_COLUMNS = load_yaml(Path(__file__).with_name("columns.yaml")).values()
_SPELLED_FREELY = {
    name for field in ("tests", "entry_point", "starter_code", "time_limit_s", "memory_limit_mb")
    for name in CODE_COLUMNS[field]
}  # fmt: skip
_AN_ANSWER = re.compile(r"(?:final_|expected_|gold_|correct_|reference_)?answer_(?:val|value|text|str|string)")
SOLUTIONS = ("solution", "Solution", "matched_solution", "ground_truth_solution")
"""Columns of published worked solutions; a model's text (`generated_solution`) is no reference."""
NUMBERS = ("Numbers", "numbers", "num_list", "nums")
_PLACEHOLDER = re.compile(r"\b(?:number|temp_|NUM_?)(\d+)\b")  # in the folds of MAWPS, ASDiv and SVAMP
_A_WORD = re.compile(r"\s*\S{1,30}\s*")
_CONTEXTS = {
    "context": "\n\n", "passage": "\n\n", "article": "\n\n", "paragraph": "\n\n", "story": "\n\n", "premise": "\n\n",
    "narrative": "\n\n", "scenario": "\n\n", "table": "\n\n", "Body": " ", "body": " ",
}  # fmt: skip
"""Columns of what a question is about, and what separates them from it (OlympiadBench, RACE, MuSR, TabMWP, SVAMP)."""


_ASKED_TOO = ("context", "options")
"""Fields that become part of the statement."""


def mapped_names(columns: Columns) -> list[str]:
    """The mapped columns; `options` may name several, one for each option, separated by commas."""
    names = [column.split(",") if field == "options" else [column] for field, column in columns.items()]
    return [name.strip() for several in names for name in several]


def by_columns(row: RawRow, columns: Columns, read: Callable[[RawRow, Columns], Row]) -> Row:
    """Read a row by its mapped columns with the domain's `read`. `context` comes before the statement; `options`, in
    any published shape, after it, and the answer is the letter of the right one."""
    fields = {field: column for field, column in columns.items() if field not in _ASKED_TOO}
    if len(fields) < len(columns):
        name = fields.setdefault("prompt", row.filled(tuple(MATH_COLUMNS["prompt"])))
        text = row.take_statement(name)
        if "context" in columns:
            context = RawRow({name: row.pop(columns["context"], None)}).take_statement(name)
            text = text if context.strip() in text else f"{context.strip()}\n\n{text}"
        row[name] = text
        if "options" in columns:
            _append_mapped_options(row, name, mapped_names({"options": columns["options"]}), fields)
    return read(row, fields)


def _append_mapped_options(row: RawRow, statement: str, names: Sequence[str], fields: dict[str, str]) -> None:
    values = [row.pop(name, None) for name in names]
    answer = fields.setdefault("answer", row.filled(tuple(MATH_COLUMNS["answer"])))
    # Under this name, the answer may be a letter, a label, the text, or the place of an option, from 0.
    asked = RawRow({"options": values[0] if len(values) == 1 else values, "answer_index": row.pop(answer, None)})
    asked[statement] = row[statement]
    append_options(asked, statement)
    if APPENDED_OPTIONS not in asked:
        raise Malformed(names[0], "no options: two or more are needed")
    row |= {name: asked[name] for name in (statement, APPENDED_OPTIONS)}
    row[answer] = asked.get("answer")


def plain(row: RawRow, usual: Mapping[str, Sequence[str]], columns: Columns) -> Row:
    """The fields of `usual` and `columns`; a mapped field is read from its mapped column only."""
    more = {field.partition(".")[2]: row.pop(name) for field, name in columns.items() if "." in field and name in row}
    names = {**usual, **{field: (name,) for field, name in columns.items() if "." not in field}}
    problem = {field: _TAKE[field](row, *named) for field, named in names.items()}
    row |= more
    return problem


def plain_any(row: RawRow, columns: Columns) -> Row:
    """Read a problem of an own domain. Columns that are not mapped stay in the metadata as they are, even one whose
    usual name makes it the answer; so does a mapped answer that the text does not hold completely."""
    rest = {field: column for field, column in columns.items() if field != "answer"}
    usual = [name for name in MATH_COLUMNS["answer"] if name not in rest.values()]
    named = [columns["answer"]] if "answer" in columns else usual
    name = next((name for name in named if row.get(name) not in EMPTY), named[0])
    value = row.pop(name, None)
    answer = _whole_answer(value)
    problem = plain(row, {"prompt": MATH_COLUMNS["prompt"]}, rest)
    if value is not None and ("answer" not in columns or answer != value):
        row[name] = value
    return problem | {"answer": answer} | ({"tests": to_json(problem["tests"])} if problem.get("tests") else {})


def _whole_answer(value: Any) -> str | None:
    """A reference as text: of a worked solution its final answer, of a list the first, an object as JSON."""
    try:
        text = answer_text(value)
    except Malformed:
        return to_json(value)
    return text and (marked_answer(text) or text)


def plain_math(row: RawRow, columns: Columns) -> Row:
    r"""Read MATH, AIME, GSM8K, SVAMP, DeepScaleR, AceReason-Math, NuminaMath-1.5, OlympiadBench, AQuA, MMLU, carp_en,
    MAWPS, Open-Reasoner-Zero, TRL's prompt data sets. Without an answer column, as in NuminaMath-CoT, the original MATH
    and rStar, the answer is in the solution's last line `#### 18` or its last `\boxed{}`."""
    reply = None
    if "prompt" not in columns:
        append_options(row, *MATH_COLUMNS["prompt"])
    else:
        reply = row.reply(columns["prompt"])
    if "answer" not in columns and row.get("answer_number") not in EMPTY:  # MGSM, whose answer may be worked out
        worked = row.get("answer")
        row["answer"] = row.pop("answer_number")
        if worked not in EMPTY:
            row["solution"] = worked
    problem = plain(row, MATH_COLUMNS, columns)
    if "prompt" not in columns:
        problem["prompt"] = with_context(problem["prompt"], row)
        row.pop("messages", None)  # NuminaMath-CoT: statement and solution again, as a chat
    if problem["answer"] is None and "answer" not in columns:
        problem["answer"] = next(filter(None, (_reference(row.get(name)) for name in SOLUTIONS)), None)
    if reply is not None and row.get("solution") in EMPTY:
        row["solution"] = reply  # a trace to learn from; perhaps a model's, so no reference is taken from it
    problem["prompt"] = _with_numbers(problem["prompt"], row)
    return problem


def with_context(prompt: str, row: RawRow) -> str:
    """The question after its context, which is taken from the row; SVAMP's folds repeat the context in the question."""
    texts = [(row.pop(name).strip(), gap) for name, gap in _CONTEXTS.items() if isinstance(row.get(name), str)]
    return "".join([*(text + gap for text, gap in texts if text and text not in prompt), prompt])


def _with_numbers(prompt: str, row: RawRow) -> str:
    """The statement with the numbers of the row in place of `number0`, `number1`. Raises Malformed without them."""
    if not _PLACEHOLDER.search(prompt):
        return prompt
    numbers = row.take(*NUMBERS)
    texts = [answer_text(one) for one in numbers] if isinstance(numbers, list) else str(numbers or "").split()

    def number(match: re.Match[str]) -> str:
        if int(match[1]) >= len(texts):
            raise Malformed("prompt", f"{match[0]!r} stands for a number, and {' or '.join(NUMBERS)} does not give it")
        text = texts[int(match[1])] or ""
        return text[:-2] if re.fullmatch(r"-?\d+\.0", text) else text

    return _PLACEHOLDER.sub(number, prompt)


def _reference(solution: Any) -> str | None:
    """The marked answer of a solution; or all of it, where it is a number or a word."""
    if isinstance(solution, str):
        return marked_answer(solution) or (solution.strip() if _A_WORD.fullmatch(solution) else None)
    return answer_text(solution) if isinstance(solution, float | int) else None


def respelled(columns: Collection[str]) -> dict[str, str]:
    """Usual names for columns such as `time-limit`, `Memory Limit` and `answer_val`, except where a file has both."""
    usual = {name: re.sub(r"[-\s]", "_", name).lower() for name in columns}
    usual = {name: other for name, other in usual.items() if other in _SPELLED_FREELY}
    usual |= {name: name.rpartition("_")[0] for name in columns if _AN_ANSWER.fullmatch(name)}
    return {name: other for name, other in usual.items() if other not in columns}


def check_fields(columns: Columns) -> None:
    """Raises RatchetError for an unknown field, and for a column that is mapped twice."""
    known = (*_TAKE, *_ASKED_TOO)
    unknown = sorted(field for field in columns if field not in known and field.removeprefix("metadata.") == field)
    if unknown:
        raise RatchetError(
            f"columns: a problem has no field {unknown[0]!r}. It has {', '.join(known)} and metadata.NAME; unmapped "
            "columns are kept in the metadata."
        )
    names = mapped_names(columns)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RatchetError(f"columns: {twice[0]!r} is mapped to two fields. Name each column once.")
