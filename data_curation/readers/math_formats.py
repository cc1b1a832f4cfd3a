"""Math problems as they are published: statement and answer under one name or another."""

from __future__ import annotations

from typing import Any

from ratchet.data_curation.readers.columns import Row, answer_text, last_boxed, take, take_date, take_statement
from ratchet.data_curation.readers.raw_files import Malformed

STATEMENTS = ("problem", "question", "prompt", "Problem", "Question")
ANSWERS = ("answer", "final_answer", "expected_answer", "gold_answer", "ground_truth", "Answer")
SOLUTIONS = ("solution", "Solution", "generated_solution")
NO_ANSWER = ("notfound", "none", "nan", "n/a")  # what NuminaMath and others write where there is none


def plain_math(row: Row) -> Row:
    r"""MATH, AIME, DeepScaleR, AceReason-Math, NuminaMath-1.5, OlympiadBench, TRL's prompt data sets; without an answer
    column, as in NuminaMath-CoT and the original MATH, the answer is what the solution's last `\boxed{}` holds."""
    prompt = take_statement(row, *STATEMENTS)
    if context := row.pop("context", None):
        prompt = f"{context}\n\n{prompt}"  # OlympiadBench: what the question refers to
    row.pop("messages", None)  # NuminaMath-CoT: statement and solution once more, as a chat
    return {
        "prompt": prompt,
        "answer": _answer(row),
        "source_url": take(row, "url", "source_url", "link"),
        "released": take_date(row, "released", "date"),
    }


def _answer(row: Row) -> str | None:
    value = answer_text(take(row, *ANSWERS))
    if value is None:
        value = next((last_boxed(row[name]) for name in SOLUTIONS if isinstance(row.get(name), str)), None)
    return None if value is not None and value.lower() in NO_ANSWER else value


def verl_math(row: Row, truth: Any) -> Row:
    """The math half of verl, Eurus and Skywork Parquet; `truth` is the reward model's ground truth."""
    answer = answer_text(truth)
    if answer is None:
        raise Malformed("reward_model", "no ground_truth")
    return {"answer": answer}
