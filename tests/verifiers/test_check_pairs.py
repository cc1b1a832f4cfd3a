"""The judge against plain Python, pair by pair: the check's module, the program and `check(f)` in one namespace."""

import json
import subprocess
import sys

import pytest

from ratchet.verifiers.code.judge import judge
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.sandbox.server import Sandbox
from tests.verifiers.check_pairs import FORGED, PAIRS
from tests.verifiers.whole_checks import DECEIVING, WHOLE

PLAIN = """
import json, os, sys
from collections import *
for source in json.load(sys.stdin):
    child = os.fork()
    if child == 0:
        try:
            exec(source, {"__name__": "solution"})
            os._exit(0)
        except BaseException:
            os._exit(1)
    print(int(os.waitpid(child, 0)[1] == 0))
"""


def check_of(statements):
    own = [f"    {line}" for line in statements.split("\n")]
    return "\n".join(["def check(candidate):", *own])


def plain_python(pairs):
    sources = [f"{program}\n{check_of(statements)}\ncheck(f)" for statements, program in pairs]
    asked = subprocess.run([sys.executable, "-c", PLAIN], input=json.dumps(sources), capture_output=True, text=True)
    return [line == "1" for line in asked.stdout.split()]


def judged(statements, program, sandbox):
    tests = json.dumps([{"check": check_of(statements)}])
    problem = Problem("p", "code", "", tests=tests, entry_point="f", metadata='{"prelude": ""}', time_limit_s=2.0)
    return judge(problem, program, sandbox)


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox() as sandbox:
        yield sandbox


def test_the_judge_says_what_plain_python_says(sandbox):
    pairs = [(statements, program) for statements, programs in {**PAIRS, **WHOLE}.items() for program in programs]
    expected = plain_python(pairs)
    assert len(pairs) == len(expected) >= 150 and 60 < sum(expected) < len(pairs) - 60
    verdicts = [judged(*pair, sandbox) for pair in pairs]
    differ = [(*pair, verdict) for pair, verdict, wants in zip(pairs, verdicts, expected, strict=True)
              if verdict.passed != wants or verdict.outcome is Outcome.UNPARSEABLE]  # fmt: skip
    assert not differ, "\n\n".join(f"{check}\n{program}\n-> {v.decided_by}: {v.detail}" for check, program, v in differ)


def test_what_deceives_plain_python_is_refused(sandbox):
    pairs = [(statements, program) for statements, programs in {**FORGED, **DECEIVING}.items() for program in programs]
    assert all(plain_python(pairs))
    forged = [pair for pair in pairs if judged(*pair, sandbox).outcome is not Outcome.FAILED]
    assert not forged
