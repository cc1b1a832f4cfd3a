"""Records a program's outputs as the expected outputs of new tests."""

import json
from dataclasses import replace

from ratchet.infra.problems import CodeTest, Problem
from ratchet.verifiers.code.problem import DEFAULT_MEMORY_LIMIT_MB, DEFAULT_TIME_LIMIT_S, request_of
from ratchet.verifiers.sandbox.runs import Limits, TestRun
from ratchet.verifiers.sandbox.server import Sandbox

TOTAL_LIMIT_S = 10.0
"""Seconds for all tests of one program; later ones are not recorded."""
OUTPUT_LIMIT_BYTES = 1 << 16
"""A test with a larger output is not worth its space."""
BATCH = 32


def record(problem: Problem, source: str, sandbox: Sandbox) -> list[CodeTest | None]:
    """The problem's tests, each expecting what this program gives, whatever it expected before.

    None for a check, and where the output cannot be expected: the program fails, exceeds a limit, returns a value
    outside JSON, or prints invalid UTF-8. Raises SandboxFault.
    """
    tests = problem.code_tests()
    recorded: list[CodeTest | None] = [None] * len(tests)
    waiting = [number for number, test in enumerate(tests) if test.check is None]
    memory_bytes = int((problem.memory_limit_mb or DEFAULT_MEMORY_LIMIT_MB) * (1 << 20))
    prelude, left_s = json.loads(problem.metadata or "{}").get("prelude"), TOTAL_LIMIT_S
    while waiting and left_s > 0:
        batch = waiting[:BATCH]
        limits = Limits(
            min(problem.time_limit_s or DEFAULT_TIME_LIMIT_S, left_s), left_s, memory_bytes, OUTPUT_LIMIT_BYTES
        )
        requests = [request_of(tests[number]) for number in batch]
        execution = sandbox.run(source, requests, limits, entry_point=problem.entry_point, prelude=prelude)
        left_s -= execution.spent_s
        for number, run in zip(batch, execution.runs, strict=True):
            if run.status != "not_run":
                recorded[number] = _expecting(tests[number], run)
                waiting.remove(number)
    return recorded


def _expecting(test: CodeTest, run: TestRun) -> CodeTest | None:
    try:
        if test.call is None and run.status in ("done", "exited"):
            return replace(test, output=run.output.decode())
        # A value outside JSON arrives as `r` and its repr, see `sandbox.harness`.
        if test.call is not None and run.status == "done" and run.output[:1] == b"j":
            return replace(test, output=json.loads(run.output[1:]))
    except (ValueError, RecursionError):
        pass
    return None
