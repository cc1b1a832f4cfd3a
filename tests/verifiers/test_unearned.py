"""Programs that do not solve the problem are not paid for it, whatever kind of test and reward."""

import json
import random
from dataclasses import replace

import pytest

from ratchet.verifiers.code.judge import examine, judge
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.submission import EVERY_TEST, JudgeSettings
from tests.verifiers.programs import programs

_GIVEN = programs("unearned_programs")
_LIES = {
    f"lies: {name}": _GIVEN["liar"].format(base=base, argument=argument, more=more)
    for name, (base, argument, more) in _GIVEN["liars"].items()
}
_IN_THE_HARNESS = {name: f"{_GIVEN['in the harness']}\n{source}" for name, source in _GIVEN["harness"].items()}
UNEARNED = {
    f"{kind}: {name}": source
    for kind, some in (_GIVEN | {"objects": _LIES | _GIVEN["objects"], "harness": _IN_THE_HARNESS}).items()
    if kind in ("state", "chance", "many", "objects", "harness")
    for name, source in some.items()
}
COUNT = 60
CHANCE = 0.77
"""More than four standard deviations above half of 60 tests."""
_draw = random.Random(28)
NUMBERS = _draw.sample(range(10**6), 10 * COUNT)
EVEN = [number for number in NUMBERS if number % 2 == 0][: COUNT // 2]
ODD = [number for number in NUMBERS if number % 2][: COUNT // 2]
CASES = [(number, "NO" if number % 2 else "YES") for number in _draw.sample(EVEN + ODD, COUNT)]
REWARDS = {
    "all": JudgeSettings(), "fraction": EVERY_TEST, "either": JudgeSettings(either=True),
    "total time": JudgeSettings(fraction=True, total_s=1.0),
}  # fmt: skip


def _check(*lines):
    return "\n".join(["def check(candidate):", *(f"    {line}" for line in lines)])


def _each(assertion, before=""):
    return [{"check": _check(*filter(None, [before]), assertion.format(x=x, y=y))} for x, y in CASES[:12]]


LOOP = f"for x, y in {CASES!r}:"
TESTS = {
    "stdin": [{"input": f"{x}\n", "output": y} for x, y in CASES],
    "call": [{"call": {"args": [x]}, "output": y} for x, y in CASES],
    "exact call": [{"call": {"args": [x]}, "output": y, "exact": True} for x, y in CASES],
    "check": [{"check": _check(LOOP, "    assert candidate(x) == y")}],
    "checks": _each("assert candidate({x}) == {y!r}, {y!r}"),
    "check: strip": _each("assert candidate({x}).strip() == {y!r}"),
    "check: in": _each("assert candidate({x}) in [{y!r}]"),
    "check: not unequal": _each("assert not candidate({x}) != {y!r}"),
    "check: list": _each("assert list(candidate({x})) == list({y!r})"),
    "check: sorted": _each("assert sorted(candidate({x})) == sorted({y!r})"),
    "check: set": _each("assert set(candidate({x})) == {{*{y!r}}}"),
    "check: dict": _each("assert {{candidate({x}): 1}} == {{{y!r}: 1}}"),
    "check: close": _each("assert abs(candidate({x}) - {x} ** 0.5) < 1e-6"),
    "check: allclose": _each("assert np.allclose(candidate({x}), [{x} ** 0.5, 2.0])", "import numpy as np"),
    "check: allclose to a number": _each("assert np.allclose(candidate({x}), {x} ** 0.5)", "import numpy as np"),
    "check: unittest": _each("unittest.TestCase().assertEqual(candidate({x}), {y!r})", "import unittest"),
}
"""Tests by kind. In those that ask for a number no answer of a program is right."""


def program(kind, said):
    return said + ("\nprint(said(int(input())))" if kind == "stdin" else "\ndef f(x): return said(x)")


def problem(kind):
    tests = json.dumps(TESTS[kind])
    entry_point = None if kind == "stdin" else "f"
    return Problem("unearned", "code", "even or odd", tests=tests, entry_point=entry_point, time_limit_s=0.5)


def paid(kind, name, reward, sandbox):
    verdict = judge(problem(kind), program(kind, UNEARNED[name]), sandbox, REWARDS[reward])
    assert verdict.outcome in (Outcome.FAILED, Outcome.TIMEOUT), (kind, reward, verdict)
    limit = CHANCE if len(TESTS[kind]) == COUNT else 0.99
    assert reward in ("all", "either") or verdict.fraction < limit, (kind, reward, verdict)


QUICK = [name for name, source in UNEARNED.items() if "numpy" not in source][::8]
"""Without numpy, which every process would import."""


@pytest.mark.parametrize("name", QUICK)
def test_nobody_is_paid_for_nothing(name, sandbox):
    for kind in ("stdin", "exact call", "check"):
        paid(kind, name, "all", sandbox)
    paid("stdin" if len(name) % 2 else "call", name, "fraction", sandbox)


@pytest.mark.slow
@pytest.mark.parametrize("kind", TESTS)
@pytest.mark.parametrize("name", UNEARNED)
def test_nobody_is_paid_for_nothing_in_any_way(name, kind, sandbox):
    for reward in REWARDS:
        paid(kind, name, reward, sandbox)


def test_who_solves_it_is_paid(sandbox):
    right = "def said(x): return 'NO' if x % 2 else 'YES'"
    for kind in (kind for kind in TESTS if "close" not in kind):
        verdict = judge(problem(kind), program(kind, right), sandbox, EVERY_TEST)
        assert verdict.passed and verdict.fraction == 1, (kind, verdict)


CLOCK, CLOCKS = _GIVEN["clock"], _GIVEN["clocks"]


@pytest.mark.parametrize("name", CLOCKS)
def test_no_program_restarts_its_clock(name, sandbox):
    tests = json.dumps([{"input": f"{n}\n", "output": str(n)} for n in range(1, 9)])
    timed = Problem("clock", "code", "", tests=tests, time_limit_s=0.6)
    unhurried = replace(timed, time_limit_s=20.0)
    assert judge(unhurried, CLOCK.format(later="def later(frame): pass").replace("0.4", "0.01"), sandbox).passed
    _, results = examine(timed, CLOCK.format(later=CLOCKS[name]), sandbox, EVERY_TEST)
    assert results[0].status != "passed", results[0]
