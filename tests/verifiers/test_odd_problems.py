# ruff: noqa: E501
"""Limits that no machine has, integers that Python does not print, details that a program inflates; overload."""

import json
import threading
from dataclasses import replace

import pytest

from ratchet.verifiers.code import checker_runs
from ratchet.verifiers.code.checkers import Checker
from ratchet.verifiers.code.judge import WIDER, examine, judge
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.sandbox.long_integers import long_integers
from ratchet.verifiers.sandbox.runs import Execution, TestRun
from ratchet.verifiers.sandbox.server import Sandbox

ONE = Problem("p", "code", "", tests=json.dumps([{"input": "", "output": "1"}]))


@pytest.mark.parametrize(
    "limits",
    [
        {"memory_limit_mb": 1e303}, {"memory_limit_mb": 10**400}, {"memory_limit_mb": -1}, {"memory_limit_mb": True},
        {"time_limit_s": 1e9}, {"time_limit_s": float("nan")}, {"time_limit_s": float("inf")}, {"time_limit_s": "1" * 10**6},
    ],
    ids=["1e303", "10^400", "-1", "true", "1e9", "nan", "inf", "text"],
)  # fmt: skip
def test_an_absurd_limit_is_the_problems_fault(limits, sandbox):
    verdict = judge(replace(ONE, **limits), "print(1)", sandbox)
    assert (verdict.outcome, verdict.decided_by) == (Outcome.UNPARSEABLE, "invalid_problem"), verdict
    [name] = limits
    assert name in verdict.detail and len(verdict.detail) < 400


@pytest.mark.parametrize("kind", ["call", "check"])
def test_integers_of_any_length(kind, sandbox):
    with long_integers():
        call = {"call": {"args": [10**5000]}, "output": 10**5000 + 1}
        check = {"check": f"def check(candidate):\n    assert candidate({10**5000}) == {10**5000 + 1}"}
        tests = json.dumps([call if kind == "call" else check])
    problem = Problem("p", "code", "", tests=tests, entry_point="f")
    assert judge(problem, "def f(x): return x + 1", sandbox).passed
    verdict = judge(problem, "def f(x): return x + 2", sandbox)
    assert verdict.outcome is Outcome.FAILED and len(verdict.detail) < 1000
    with pytest.raises(ValueError, match="4300"):
        str(10**5000)


class Text(str):
    """A text of some library's own, such as numpy's."""


def test_texts_of_other_classes_are_texts(sandbox):
    tests = Text(json.dumps([{"call": {"args": [1]}, "output": 2}]))
    problem = Problem("p", "code", "", tests=tests, entry_point=Text("f"))
    assert judge(problem, Text("def f(x): return x + 1"), sandbox).passed


def test_equal_arguments_of_two_tests_are_two_objects(sandbox):
    test = {"call": {"args": [[]]}, "output": 1}
    problem = Problem("p", "code", "", tests=json.dumps([test, test]), entry_point="f")
    assert judge(problem, "def f(x):\n    x.append(1)\n    return len(x)", sandbox).passed


LONG = [
    "raise ValueError('x' * 5_000_000)", "import sys\nsys.exit('x' * 5_000_000)", "x" * 4_000_000 + " =",
    "raise type('X' * 3_000_000, (Exception,), {})",
    "import json, os\nfor d in range(3, 64):\n    try: os.write(d, json.dumps({'status': 'y' * 10**6, 'detail': 'x' * 10**6}).encode())\n"
    "    except OSError: pass\nos._exit(3)",
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(LONG)))
def test_a_program_does_not_inflate_its_verdict(number, sandbox):
    verdict, results = examine(ONE, LONG[number], sandbox)
    assert verdict.outcome is Outcome.FAILED and len(verdict.detail) < 1000
    assert all(len(result.result) + len(result.difference) + len(result.status) < 2000 for result in results)


class Busy(Sandbox):
    """A sandbox on a machine that is busy for the first `late` runs."""

    def __init__(self, late):
        super().__init__()
        self.late, self.limits = late, []

    def run(self, source, tests, limits, **more):
        self.limits.append(limits)
        if len(self.limits) <= self.late:
            return Execution([TestRun("timed_out", loaded=True)] * len(tests), limits.test_s)
        return super().run(source, tests, limits, **more)


def test_a_timeout_that_load_explains_is_judged_again_once():
    with Busy(1) as sandbox:
        assert judge(ONE, "print(1)", sandbox).passed
        first, second = sandbox.limits
        assert second.test_s == WIDER * first.test_s and second.total_s == WIDER * first.total_s
    with Busy(9) as sandbox:
        assert judge(ONE, "print(1)", sandbox).outcome is Outcome.TIMEOUT and len(sandbox.limits) == 2


def test_one_thread_builds_a_checker_and_all_use_it(monkeypatch):
    built = []

    class Built:
        file = 3

    def build(checker, sandbox):
        built.append(checker)
        return Built()

    monkeypatch.setattr(checker_runs, "_build", build)
    monkeypatch.setattr(checker_runs, "_built", {})
    checkers = [Checker(f"int main() {{ return {number}; }}", "kattis", language="cpp") for number in range(12)]
    start = threading.Barrier(8)

    def use():
        start.wait()
        for checker in checkers[:6] * 20:
            assert checker_runs._executable(checker, None) is not None

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(hash, built)) == sorted(map(hash, checkers[:6]))
