"""Math curation, after AceReason-Nemotron, section 3.1."""

from ratchet.data_curation.domains import CurationPlan
from ratchet.data_curation.readers import rl_formats
from ratchet.data_curation.readers.columns import Format, RawRow
from ratchet.data_curation.readers.options import RIGHT_OPTION, has_options
from ratchet.data_curation.readers.plain_formats import MATH_COLUMNS, SOLUTIONS, plain_math
from ratchet.data_curation.readers.raw_files import Malformed, Row
from ratchet.data_curation.rules import math_rules

QUERY = {"prompt": "query", "answer": "response"}
"""Columns of MetaMath and MSVAMP. In other layouts, `response` is a model's."""


_MOST_WORDS = 8
"""Words of a reference in a column `response`."""


def _question_and_answer(columns: set[str]) -> bool:
    answers = {*MATH_COLUMNS["answer"], *SOLUTIONS} | (
        {*RIGHT_OPTION, "mc1_targets"} if has_options(columns) else set()
    )
    return bool(columns & {*MATH_COLUMNS["prompt"]} and columns & answers)


def _query(row: RawRow) -> Row:
    response = row.get("response")
    if isinstance(response, str) and len(response.split()) > _MOST_WORDS:
        raise Malformed("response", "a worked solution, perhaps a model's, is no reference")
    return plain_math(row, QUERY)


MATH = CurationPlan(
    plain=plain_math,
    formats=(
        Format("intellect-3", lambda c: c >= {"question", "answer", "info"}, rl_formats.intellect_3),
        Format("math", _question_and_answer, lambda row: plain_math(row, {})),
        Format("query", lambda c: c >= {*QUERY.values()}, _query),
        rl_formats.verified("labeled query"),
        Format("annotated chat", lambda c: bool(c & rl_formats.CHATS), rl_formats.annotated_chat),
    ),
    rules=math_rules.RULES,
    steps=("rules", "decontaminate", "deduplicate", "majority_vote", "length"),
)
