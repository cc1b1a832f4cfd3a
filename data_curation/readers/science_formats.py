"""Read published science questions: choices, numbers with units, and pairs of a problem and its solution."""

from collections.abc import Mapping
from typing import Any

from ratchet.data_curation.readers.columns import RawRow, answer_text, is_solution
from ratchet.data_curation.readers.options import (
    Options,
    labeled,
    lists_options,
    shuffled,
    take_options,
    without_labels,
)
from ratchet.data_curation.readers.plain_formats import MATH_COLUMNS, SOLUTIONS, Columns, plain_math, with_context
from ratchet.data_curation.readers.raw_files import Row
from ratchet.data_curation.readers.references import how_compared, retrieved
from ratchet.data_curation.split import to_json
from ratchet.verifiers.problem import APPENDED_OPTIONS

_UNIT_ASKED = "\n\nThe unit of the answer is {}."
_INCORRECT = ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")


def gpqa(row: RawRow) -> Row:
    """Read GPQA. The correct answer gets a position among the others that depends on the question only."""
    question = row.take_text("Question")
    right, *wrong = [row.take_text(name) for name in ("Correct Answer", *_INCORRECT)]
    return _choice(question, shuffled(question, right, wrong))


def multiple_choice(row: RawRow) -> Row:
    """Read SuperGPQA, MMLU-Pro, ARC and all other sets with options (`options.py`); a row without options is a pair."""
    options = take_options(row)
    if options is None:
        return plain_science(row, {})
    question = with_context(row.take_statement(*MATH_COLUMNS["prompt"]), row)
    if options.right is None:
        options = options._replace(right=row.take_answer(*MATH_COLUMNS["answer"]))
    return _choice(question, options)


def scibench(row: RawRow) -> Row:
    """Read SciBench: a number and its unit, which may have a power of ten and is appended to the statement."""
    unit = str(row.take("unit") or "").strip()
    asked = _UNIT_ASKED.format(unit) if unit.strip("$ ") else ""
    number = (answer_text(row.take("answer_number")) or "").replace("$", "").removeprefix("+")
    return {
        "prompt": row.take_text("problem_text") + asked,
        "answer": number or None,
        "tests": to_json({"unit": unit, "tolerance": 0.05}),
    }


def plain_science(row: RawRow, columns: Columns) -> Row:
    """Read a question with an answer or a worked solution (SCP-116K: `matched_solution`), which may be in the answer
    column; the reference is retrieved from it, and it stays in the metadata."""
    solutions = () if "answer" in columns else SOLUTIONS
    for name in (columns["answer"],) if "answer" in columns else MATH_COLUMNS["answer"]:
        if isinstance(text := row.get(name), str) and is_solution(text):
            row[name], solutions = None, ("solution",)
            row["solution"] = "\n\n".join(filter(None, [row.get("solution"), text]))
    problem = plain_math(row, columns)
    if problem["answer"] is None:
        answers = (retrieved(row[name]) for name in solutions if isinstance(row.get(name), str))
        problem["answer"] = next(answers, None)
    if columns and (lines := row.get(APPENDED_OPTIONS)):
        return problem | {"tests": to_json({"options": without_labels(lines)})}
    if problem.get("tests"):
        return problem | {"tests": to_json(problem["tests"])}
    if problem["answer"] is None:
        return problem
    problem["answer"], tests = how_compared(problem["prompt"], problem["answer"])
    if tests and tests.get("unit"):
        problem["prompt"] += _UNIT_ASKED.format(tests["unit"])
    return problem | ({"tests": to_json(tests)} if tests else {})


def _choice(question: str, options: Options) -> Row:
    texts = without_labels(options.texts)
    if not lists_options(question, texts):
        question = "\n".join([f"{question}\n", *labeled(texts)])
    asked: Mapping[str, Any] = {"options": texts}
    return {"prompt": question, "answer": options.answer, "tests": to_json(asked)}
