"""Published science questions: choices, numbers with units, and pairs of a problem and its solution."""

import hashlib
from collections.abc import Mapping
from string import ascii_uppercase
from typing import Any

from ratchet.data_curation.readers.columns import RawRow, answer_text, is_solution
from ratchet.data_curation.readers.plain_formats import MATH_COLUMNS, SOLUTIONS, Columns, plain_math
from ratchet.data_curation.readers.raw_files import Malformed, Row
from ratchet.data_curation.readers.references import how_compared, retrieved
from ratchet.data_curation.split import to_json

_UNIT_ASKED = "\n\nThe unit of the answer is {}."
_INCORRECT = ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")


def gpqa(row: RawRow) -> Row:
    """The correct answer gets a position among the others that depends on the question only."""
    question = row.take_text("Question")
    right, *wrong = [row.take_text(name) for name in ("Correct Answer", *_INCORRECT)]
    place = hashlib.sha256(question.encode()).digest()[0] % 4
    return _choice(question, [*wrong[:place], right, *wrong[place:]], ascii_uppercase[place])


def options(row: RawRow) -> Row:
    """SuperGPQA and MMLU-Pro: `options`, and the correct one's letter, index or text."""
    question, texts = row.take_statement(*MATH_COLUMNS["prompt"]), row.take_structure("options")
    if not isinstance(texts, list):
        raise Malformed("options", f"{type(texts).__name__} instead of a list")
    texts = [str(text).strip() for text in texts]
    while texts and texts[-1] in ("", "N/A"):  # behind the options; one between them keeps its letter
        texts.pop()
    letter, number, answer = (row.take(name) for name in ("answer_letter", "answer_index", "answer"))
    if isinstance(number, int) and not isinstance(number, bool):
        letter = ascii_uppercase[number] if 0 <= number < len(texts) else f"option {number}"
    elif letter is None:  # a letter, or the option's text
        letter = ascii_uppercase[texts.index(str(answer).strip())] if str(answer).strip() in texts else answer
    return _choice(question, texts, answer_text(letter))


def scibench(row: RawRow) -> Row:
    """A number and its unit, perhaps with a power of ten, which is appended to the statement."""
    unit = str(row.take("unit") or "").strip()
    asked = _UNIT_ASKED.format(unit) if unit.strip("$ ") else ""
    number = (answer_text(row.take("answer_number")) or "").replace("$", "").removeprefix("+")
    return {
        "prompt": row.take_text("problem_text") + asked,
        "answer": number or None,
        "tests": to_json({"unit": unit, "tolerance": 0.05}),
    }


def plain_science(row: RawRow, columns: Columns) -> Row:
    """A question with an answer or a worked solution (SCP-116K: `matched_solution`), perhaps in the answer column; the
    reference is retrieved from it, and it stays in the metadata."""
    solutions = () if "answer" in columns else SOLUTIONS
    for name in (columns["answer"],) if "answer" in columns else MATH_COLUMNS["answer"]:
        if isinstance(text := row.get(name), str) and is_solution(text):
            row[name], solutions = None, ("solution",)
            row["solution"] = "\n\n".join(filter(None, [row.get("solution"), text]))
    problem = plain_math(row, columns)
    if problem["answer"] is None:
        answers = (retrieved(row[name]) for name in solutions if isinstance(row.get(name), str))
        problem["answer"] = next(answers, None)
    if problem.get("tests"):
        return problem | {"tests": to_json(problem["tests"])}
    if problem["answer"] is None:
        return problem
    problem["answer"], tests = how_compared(problem["prompt"], problem["answer"])
    if tests and tests.get("unit"):
        problem["prompt"] += _UNIT_ASKED.format(tests["unit"])
    return problem | ({"tests": to_json(tests)} if tests else {})


def _choice(question: str, texts: list[str], letter: str | None) -> Row:
    listed = "\n".join(f"{name}. {text}" for name, text in zip(ascii_uppercase, texts, strict=False))
    asked: Mapping[str, Any] = {"options": texts}
    return {"prompt": f"{question}\n\n{listed}", "answer": letter, "tests": to_json(asked)}
