"""Math curation, after AceReason-Nemotron, section 3.1."""

from ratchet.data_curation.domains import CurationPlan
from ratchet.data_curation.readers.columns import Format
from ratchet.data_curation.readers.options import RIGHT_OPTION, has_options
from ratchet.data_curation.readers.plain_formats import MATH_COLUMNS, SOLUTIONS, plain_math
from ratchet.data_curation.rules import math_rules

QUERY = {"prompt": "query", "answer": "response"}
"""MetaMath, MSVAMP. In other layouts, `response` is a model's."""


def _question_and_answer(columns: set[str]) -> bool:
    answers = {*MATH_COLUMNS["answer"], *SOLUTIONS} | (
        {*RIGHT_OPTION, "mc1_targets"} if has_options(columns) else set()
    )
    return bool(columns & {*MATH_COLUMNS["prompt"]} and columns & answers)


MATH = CurationPlan(
    plain=plain_math,
    formats=(
        Format("math", _question_and_answer, lambda row: plain_math(row, {})),
        Format("query", lambda c: c >= {*QUERY.values()}, lambda row: plain_math(row, QUERY)),
    ),
    rules=math_rules.RULES,
    teacher_steps=("majority_vote", "length"),
)
