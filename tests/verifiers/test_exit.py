"""What a program has written when it ends is its output: as CPython flushes at exit."""

import json
import subprocess
import sys

import pytest

from ratchet.verifiers.code.judge import examine, judge
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.submission import EVERY_TEST
from tests.verifiers.programs import programs

INPUTS = ("1\n", "22\n", "3\n", "44\n")
ECHO = Problem(
    "p", "code", "", tests=json.dumps([{"input": text, "output": text} for text in INPUTS]), time_limit_s=2.0
)
GIVEN = programs("exit_programs")
FLUSHED, LOST, READERS = GIVEN["flushed"], GIVEN["lost"], GIVEN["readers"]


@pytest.mark.parametrize("name", FLUSHED)
def test_what_is_not_flushed_is_written_at_exit(name, sandbox):
    verdict, results = examine(ECHO, FLUSHED[name], sandbox, EVERY_TEST)
    assert verdict.passed, (verdict, results)


@pytest.mark.parametrize("name", LOST)
def test_what_no_interpreter_writes_is_not_written(name, sandbox):
    verdict, results = examine(ECHO, LOST[name], sandbox, EVERY_TEST)
    assert not verdict.fraction, (verdict, results)


def test_nothing_of_a_test_is_written_in_the_next(sandbox):
    verdict, results = examine(ECHO, GIVEN["late"], sandbox, EVERY_TEST)
    assert verdict.fraction <= 0.25, (verdict, results)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("metadata", [None, json.dumps({"prelude": "import math"})])
def test_ways_to_the_standard_streams(name, metadata, sandbox):
    problem = Problem("p", "code", "", tests=ECHO.tests, metadata=metadata, memory_limit_mb=256.0)
    verdict = judge(problem, READERS[name], sandbox)
    assert verdict.passed, verdict


EXITS = {"None": 0, "0": 0, "False": 0, "256": 0, "-256": 0, "1": 1, "True": 1, "257": 1, "-1": 255, "0.0": 1, "''": 1}


@pytest.mark.parametrize(("code", "expected"), EXITS.items())
def test_the_exit_code_decides_as_the_kernel_sees_it(code, expected, sandbox):
    source = f"import sys\nprint(input())\nsys.exit({code})"
    assert judge(ECHO, source, sandbox).passed is (expected == 0)
    done = subprocess.run([sys.executable, "-c", source], input="1\n", text=True, capture_output=True, check=False)
    assert done.returncode == expected


def test_calls_may_keep_a_pool_between_them(sandbox):
    tests = json.dumps([{"call": {"args": [n]}, "output": n * n, "exact": True} for n in range(4)])
    problem = Problem("c", "code", "", entry_point="f", tests=tests, time_limit_s=2.0)
    source = "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(2)\n"
    source += "def f(x): return list(pool.map(lambda v: v * v, [x]))[0]"
    assert judge(problem, source, sandbox, EVERY_TEST).passed
