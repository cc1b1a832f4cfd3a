"""Science curation: drop problems without a reference that answers can be compared with."""

import json

from ratchet.data_curation.domains import CurationPlan
from ratchet.data_curation.readers.columns import Format
from ratchet.data_curation.readers.options import has_options
from ratchet.data_curation.readers.plain_formats import MATH_COLUMNS, SOLUTIONS
from ratchet.data_curation.readers.science_formats import gpqa, multiple_choice, plain_science, scibench
from ratchet.data_curation.rules import evidence as shared
from ratchet.data_curation.rules.evidence import Evidence, unverifiable
from ratchet.data_curation.rules.language import non_english
from ratchet.data_curation.settings.curation import Rules
from ratchet.verifiers.problem import Problem

SHOWN_CHARACTERS = 300


def no_answer(problem: Problem, limits: Rules) -> Evidence | None:
    """No response can be judged. The evidence shows the end of a worked solution that gives no reference."""
    evidence = shared.no_answer(problem, limits)
    if evidence and not problem.answer:
        metadata = json.loads(problem.metadata or "{}")
        solution = next((metadata[name] for name in SOLUTIONS if isinstance(metadata.get(name), str)), "")
        if solution:
            fault = 'no reference can be retrieved from its solution: no box, no "the answer is", no final quantity'
            return {"fault": fault, "solution_ends": solution[-SHOWN_CHARACTERS:]}
    return evidence


SCIENCE = CurationPlan(
    plain=plain_science,
    formats=(
        Format("gpqa", lambda c: c >= {"Question", "Correct Answer", "Incorrect Answer 1"}, gpqa),
        Format("scibench", lambda c: c >= {"problem_text", "answer_number", "unit"}, scibench),
        Format("options", lambda c: has_options(c) and bool(c & {*MATH_COLUMNS["prompt"]}), multiple_choice),
        Format(
            "pairs",
            lambda c: bool(c & {*MATH_COLUMNS["prompt"]} and c & {*MATH_COLUMNS["answer"], *SOLUTIONS}),
            lambda row: plain_science(row, {}),
        ),
    ),
    rules=(no_answer, unverifiable, non_english),
)
