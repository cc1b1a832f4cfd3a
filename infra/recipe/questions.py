"""The questions of a benchmark's file: evaluation and validation ask the same ones."""

from collections.abc import Sequence

from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.math.equivalence import equivalent
from ratchet.verifiers.problem import Problem

REFERENCE = ("answer", "tests", "entry_point", "starter_code", "time_limit_s", "memory_limit_mb")
"""Fields that decide whether a response to a prompt is right."""


def distinct_questions(problems: Sequence[Problem]) -> dict[str, Problem]:
    """The questions among the rows of a benchmark's file, by problem_id: each once, without `disagreeing` ones."""
    different, distinct = disagreeing(problems), dict[str, Problem]()
    for problem in problems:
        if problem.problem_id not in different:
            distinct.setdefault(problem.problem_id, problem)
    return distinct


def disagreeing(problems: Sequence[Problem]) -> dict[str, str]:
    """The questions whose rows have different references, with the reason, by problem_id: neither reference can be
    trusted. Equal answers in different notation are one reference."""
    reasons, first = {}, {}
    for problem in problems:
        before = first.setdefault(problem.problem_id, problem)
        deciding = REFERENCE if problem.answer or problem.tests else (*REFERENCE, "metadata")
        differing = [name for name in deciding if getattr(before, name) != getattr(problem, name)]
        if differing == ["answer"] and domain_of(problem.domain).answers_vote:
            differing = [] if equivalent(before.answer or "", problem.answer or "") else differing
        if differing:
            reasons[problem.problem_id] = f"{differing[0]}: another row has the same statement with a different one"
    return reasons
