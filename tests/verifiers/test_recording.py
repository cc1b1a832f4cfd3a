import json

import pytest

from ratchet.infra.errors import RatchetError
from ratchet.infra.problems import Problem
from ratchet.verifiers.code.judge import RECORDED_BYTES, record
from ratchet.verifiers.serving.local_pool import VerifierPool


@pytest.fixture(scope="module")
def pool():
    with VerifierPool(workers=2) as pool:
        yield pool


def calling(*arguments, entry_point="f", **more):
    tests = [{"call": {"args": [value], "kwargs": {}}, "output": None} for value in arguments]
    return Problem("p", "code", "", entry_point=entry_point, tests=json.dumps(tests), time_limit_s=0.3, **more)


def outputs(pool, *programs):
    recorded = pool.map_programs(record, programs)
    return [[test and test.output for test in tests] for tests in recorded]


def test_what_programs_give_in_the_order_asked(pool):
    source = (
        "def f(x):\n    if x == 0: raise ValueError\n    while x == 1: pass\n    if x == 2: return object()\n"
        "    if x == 3: return (1, [x])\n    if x == 4: import os; os._exit(0)\n    return {'x': x}\n"
    )
    first, second = outputs(pool, (calling(*range(6), 0, 7), source), (calling("a"), "def f(x): return x * 2"))
    assert first == [None, None, None, [1, [3]], None, {"x": 5}, None, {"x": 7}] and second == ["aa"]


def test_standard_output_preludes_and_what_is_too_long(pool):
    tests = [{"input": "2\n", "output": ""}, {"input": "3\n", "output": ""}, {"check": "def check(candidate): pass"}]
    stdin = Problem("p", "code", "", tests=json.dumps(tests))
    source = f"n = int(input())\nprint('x' * ({RECORDED_BYTES} if n == 3 else n))\n"
    prelude = calling(5, metadata=json.dumps({"prelude": "OFFSET = 10"}))
    assert outputs(pool, (stdin, source), (prelude, "def f(x): return x + OFFSET")) == [["xx\n", None, None], [15]]


def test_a_function_that_fails_is_said_and_the_pool_lives_on(pool):
    def broken(problem, source, sandbox):
        raise OSError("no disk")

    with pytest.raises(RatchetError, match="no disk"):
        pool.map_programs(broken, [(calling(1), "")])
    assert outputs(pool, (calling(1), "def f(x): return x")) == [[1]] and pool.map_programs(record, []) == []
