"""Can a problem be judged at all? A data set's mistake must not look like a model's, nor like our machine's."""

from __future__ import annotations

import json
import math
from typing import Any

from infra.problems import DOMAINS, CodeTest, Problem
from verifiers.outcome import Outcome, Verdict


def input_fault(problem: Problem, text: Any) -> Verdict | None:
    """The verdict on what cannot be judged, whatever `text` says: a faulty problem, or a response that is not text."""
    if fault := problem_fault(problem):
        return Verdict(
            Outcome.UNPARSEABLE, decided_by="invalid_problem", detail=f"problem {problem.problem_id}: {fault}"
        )
    if not isinstance(text, str):
        detail = f"a response must be text, not {type(text).__name__}"
        return Verdict(Outcome.UNPARSEABLE, decided_by="no_answer", detail=detail)
    return None


def problem_fault(problem: Problem) -> str | None:
    """Why no response to this problem can be judged; None when there is nothing wrong that can be seen."""
    if problem.domain == "math":
        has_reference = isinstance(problem.answer, str) and problem.answer.strip()
        return None if has_reference else "the problem has no reference answer"
    if problem.domain not in DOMAINS:
        return f"domain {problem.domain!r} is neither of {', '.join(DOMAINS)}"
    return _limits_fault(problem) or _metadata_fault(problem.metadata) or _tests_fault(problem)


def _limits_fault(problem: Problem) -> str | None:
    for name in ("time_limit_s", "memory_limit_mb"):
        limit = getattr(problem, name)
        if limit is not None and not (isinstance(limit, int | float) and math.isfinite(limit) and limit >= 0):
            return f"{name} is {limit!r}: it must be a positive number, or null"
    return None


def _metadata_fault(text: str | None) -> str | None:
    try:
        metadata = json.loads(text or "{}")
    except (ValueError, TypeError, RecursionError) as error:
        return f"metadata is not JSON: {error}"
    if not isinstance(metadata, dict) or not isinstance(metadata.get("prelude"), str | None):
        return "metadata must be a JSON object, and its prelude text"
    return None


def _tests_fault(problem: Problem) -> str | None:
    try:
        tests = problem.code_tests()
    except (ValueError, TypeError, RecursionError) as error:
        return f"the tests cannot be read: {error}"
    if not tests:
        return "the problem has no tests"
    for number, test in enumerate(tests):
        if fault := _test_fault(test, problem.entry_point):
            return f"test {number}: {fault}"
    return None


def _test_fault(test: CodeTest, entry_point: str | None) -> str | None:
    if test.check is None and test.call is None:
        if not isinstance(test.input, str | None):
            return f"input must be text, not {type(test.input).__name__}"
        return "there is no output to compare with" if test.output is None else None
    if not isinstance(entry_point, str) or not entry_point:
        return "it calls a function, but the problem names no entry point"
    if test.check is not None:
        return None if isinstance(test.check, str) else "check must be Python source text"
    if not isinstance(test.call, dict):
        return 'call must be {"args": [...], "kwargs": {...}}'
    if not isinstance(test.call.get("args", []), list) or not isinstance(test.call.get("kwargs", {}), dict):
        return "args must be a list and kwargs an object"
    return None
