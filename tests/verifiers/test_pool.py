import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from infra.problems import Problem
from verifiers.outcome import Outcome
from verifiers.pool import VerifierPool

ROOT = Path(__file__).resolve().parents[2]
MATH = Problem("m", "math", "", answer="\\frac{1}{2}")
ALGEBRA = Problem("s", "math", "", answer="\\cos 2x")
CODE = Problem(
    "c", "code", "", entry_point="f", time_limit_s=0.4,
    tests=json.dumps([{"call": {"args": [number]}, "output": number + 1} for number in range(4)]),
)  # fmt: skip


def fenced(source):
    return f"Here it is:\n```python\n{source}\n```"


RIGHT = fenced("def f(x): return x + 1")
WRONG = fenced("def f(x): return 1")
ENDLESS = fenced("def f(x):\n    while True: pass")


@pytest.fixture(scope="module")
def pool():
    with VerifierPool(2) as pool:
        yield pool


def test_every_ticket_comes_back_once_with_its_verdict(pool):
    cases = {
        "boxed": (MATH, "\\boxed{0.5}", True, (Outcome.PASSED, "exact")),
        "algebra": (ALGEBRA, "\\boxed{1-2\\sin^2 x}", True, (Outcome.PASSED, "symbolic")),
        "unboxed": (MATH, "0.5", True, (Outcome.UNPARSEABLE, "no_answer")),
        "cut": (MATH, "\\boxed{0.5}", False, (Outcome.FAILED, "truncated")),
        "code": (CODE, RIGHT, True, (Outcome.PASSED, "all_tests")),
        "wrong": (CODE, WRONG, True, (Outcome.FAILED, "wrong_answer")),
        "endless": (CODE, ENDLESS, True, (Outcome.TIMEOUT, "time_limit")),
        "no block": (CODE, "def f(x): return x + 1", True, (Outcome.UNPARSEABLE, "no_answer")),
        "cut code": (CODE, RIGHT, False, (Outcome.FAILED, "truncated")),
        "thinking": (CODE, "<think>" + RIGHT, True, (Outcome.UNPARSEABLE, "no_answer")),
    }
    for ticket, (problem, response, finished, _) in cases.items():
        pool.submit(ticket, problem, response, finished)
    verdicts = dict(pool.results())
    assert {ticket: (verdict.outcome, verdict.decided_by) for ticket, verdict in verdicts.items()} == {
        ticket: expected for ticket, (_, _, _, expected) in cases.items()
    }
    assert list(pool.results()) == []


def test_results_come_in_order_of_completion_and_may_be_polled(pool):
    pool.submit("slow", CODE, fenced("import time\ndef f(x):\n    time.sleep(0.15)\n    return x + 1"))
    pool.submit("quick", MATH, "\\boxed{1/2}")
    assert [ticket for ticket, _ in pool.results(timeout=0)] == ["quick"]
    assert [ticket for ticket, _ in pool.results(timeout=0.01)] == []
    assert [ticket for ticket, _ in pool.results()] == ["slow"]


def test_at_once_keeps_the_order(pool):
    verdicts = pool.verify_all([(CODE, WRONG), (MATH, "\\boxed{.5}"), (CODE, RIGHT), (ALGEBRA, "\\boxed{3}")])
    assert [verdict.passed for verdict in verdicts] == [False, True, True, False]
    programs = [(CODE, f"def f(x): return x + {number % 2}") for number in range(6)]
    assert [verdict.passed for verdict in pool.run_programs(programs)] == [False, True] * 3
    assert pool.run_program(CODE, "def f(x): return -~x").passed


def test_identical_programs_are_judged_once_but_timeouts_are_not_remembered(monkeypatch):
    from verifiers import pool as module

    judged = []
    judge = module.judge
    monkeypatch.setattr(module, "judge", lambda *args, **kwargs: judged.append(args[1]) or judge(*args, **kwargs))
    with VerifierPool(2) as pool:
        for _ in range(2):
            verdicts = pool.verify_all([(CODE, RIGHT), (CODE, ENDLESS)] * 4)
            assert [verdict.outcome for verdict in verdicts] == [Outcome.PASSED, Outcome.TIMEOUT] * 4
        other = Problem("c", "code", "", entry_point="f", tests=json.dumps([{"call": {"args": [1]}, "output": 7}]))
        assert not pool.verify_all([(other, RIGHT)])[0].passed  # the same id, but other tests
    assert sorted("while" in source for source in judged) == [False, False, True, True]


def test_fractions(pool):
    half = fenced("def f(x): return x + 1 if x > 1 else None")
    with VerifierPool(1, fraction=True) as counting:
        assert counting.verify_all([(CODE, half)])[0].fraction == 0.5
    assert pool.verify_all([(CODE, half)])[0].fraction == 0.0


def test_from_many_threads(pool):
    failures = []

    def check(number):
        verdict = pool.run_program(CODE, f"def f(x): return x + 1 + {number} - {number}")
        if not verdict.passed:
            failures.append(verdict)

    threads = [threading.Thread(target=check, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_errors_of_the_caller_reach_the_caller(pool):
    with pytest.raises(ValueError, match="no tests"):
        pool.run_program(Problem("p", "code", ""), "pass")
    pool.submit("t", Problem("p", "math", ""), "\\boxed{1}")
    with pytest.raises(ValueError, match="no answer"):
        list(pool.results())
    assert list(pool.results()) == []


def test_a_forked_pool_says_so(pool):
    child = os.fork()
    if child == 0:
        try:
            pool.run_program(CODE, "pass  # never seen before")
        except RuntimeError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_closed_pool_takes_nothing_and_leaves_no_process():
    with VerifierPool(2) as pool:
        pool.verify_all([(CODE, RIGHT), (ALGEBRA, "\\boxed{1-2\\sin^2 x}")])
    pool.close()
    with pytest.raises(RuntimeError, match="closed"):
        pool.run_program(CODE, "pass")
    children = subprocess.run(["ps", "-o", "args=", "--ppid", str(os.getpid())], capture_output=True, text=True).stdout
    assert "symbolic_worker" not in children.replace("module", "")


def test_workers_end_when_the_interpreter_does_without_closing():
    script = f"""
import json, sys; sys.path.insert(0, {str(ROOT)!r})
from infra.problems import Problem
from verifiers.pool import VerifierPool
pool = VerifierPool(1)
code = Problem("c", "code", "", entry_point="f", tests=json.dumps([{{"call": {{"args": []}}, "output": 1}}]))
math = Problem("s", "math", "", answer="\\\\cos 2x")
pairs = [(code, "```\\ndef f(): return 1\\n```"), (math, "\\\\boxed{{1-2\\\\sin^2 x}}")]
print([v.passed for v in pool.verify_all(pairs)])
"""
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout == "[True, True]\n", done.stderr
    assert done.stderr == ""
    assert time.monotonic() - start < 60
