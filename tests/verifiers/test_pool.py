import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from ratchet.verifiers.domain import Work
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.sandbox.server import Sandbox
from ratchet.verifiers.serving import local_pool
from ratchet.verifiers.serving.local_pool import VerifierPool
from ratchet.verifiers.submission import Submission
from tests.waiting import happens

ROOT = Path(__file__).resolve().parents[2]
MATH = Problem("m", "math", "", answer="\\frac{1}{2}")
ALGEBRA = Problem("s", "math", "", answer="\\cos 2x")
CODE = Problem(
    "c", "code", "", entry_point="f", time_limit_s=20.0,
    tests=json.dumps([{"call": {"args": [number]}, "output": number + 1} for number in range(4)]),
)  # fmt: skip
HASTY = replace(CODE, problem_id="h", time_limit_s=0.4)
"""For programs without an end."""


def fenced(source):
    return f"Here it is:\n```python\n{source}\n```"


RIGHT = fenced("def f(x): return x + 1")
WRONG = fenced("def f(x): return 1")
ENDLESS = fenced("def f(x):\n    while True: pass")


ECHO = Problem("e", "code", "", tests=json.dumps([{"input": "é\n", "output": "é\n"}]))
CASES = {  # what a pool is asked, the outcome, and what decides it
    "boxed": (MATH, "\\boxed{0.5}", Outcome.PASSED, "exact"),
    "another number": (MATH, "\\boxed{0.6}", Outcome.FAILED, "exact"),
    "unboxed": (MATH, "0.5", Outcome.UNPARSEABLE, "no_answer"),
    "a box of no character": (MATH, "\\boxed{\ud800}", Outcome.FAILED, "structure"),
    "a box of a NUL": (MATH, "\\boxed{\x00}", Outcome.FAILED, "structure"),
    "a boxed answer in bytes": (MATH, b"\\boxed{0.5}", Outcome.UNPARSEABLE, "no_answer"),
    "algebra": (ALGEBRA, "\\boxed{1-2\\sin^2 x}", Outcome.PASSED, "numeric"),
    "other algebra": (ALGEBRA, "\\boxed{3}", Outcome.FAILED, "numeric"),
    "a root of a NUL": (ALGEBRA, "\\boxed{\\sqrt{\x00}}", Outcome.FAILED, "structure"),
    "code": (CODE, RIGHT, Outcome.PASSED, "all_tests"),
    "wrong": (CODE, WRONG, Outcome.FAILED, "wrong_answer"),
    "wrong at first": (CODE, fenced("def f(x): return x + 1 if x else 0"), Outcome.FAILED, "wrong_answer"),
    "endless": (HASTY, ENDLESS, Outcome.TIMEOUT, "time_limit"),
    "no block": (CODE, "def f(x): return x + 1", Outcome.UNPARSEABLE, "no_answer"),
    "thinking": (CODE, "<think>" + RIGHT, Outcome.UNPARSEABLE, "no_answer"),
    "no function": (CODE, fenced("def g(x): return x + 1"), Outcome.FAILED, "runtime_error"),
    "no syntax": (CODE, fenced("def f(x) return x + 1"), Outcome.FAILED, "compile_error"),
    "a NUL": (CODE, fenced("def f(x):\x00 return x + 1"), Outcome.FAILED, "compile_error"),
    "a text of no character": (CODE, fenced("def f(x): return '\ud800'"), Outcome.FAILED, "compile_error"),
    "a comment of no character": (CODE, fenced("def f(x): return x + 1 # \ud800"), Outcome.FAILED, "compile_error"),
    "no text": (CODE, fenced("\x00\xff"), Outcome.FAILED, "compile_error"),
    "a program in bytes": (CODE, RIGHT.encode(), Outcome.UNPARSEABLE, "no_answer"),
    "nothing": (CODE, None, Outcome.UNPARSEABLE, "no_answer"),
    "no tests": (replace(CODE, tests="[]"), RIGHT, Outcome.UNPARSEABLE, "invalid_problem"),
    "an echo": (ECHO, fenced("print(input())"), Outcome.PASSED, "all_tests"),
    "bytes": (ECHO, fenced("import sys; sys.stdout.buffer.write(b'\\xff')"), Outcome.FAILED, "wrong_answer"),
}


def spy_on_judge(monkeypatch, first=lambda source: None):
    """The programs that the judge runs, as they come to it; what it does `first`, such as to wait."""
    from ratchet.verifiers.code import domain as module

    judged, judge = [], module.judge

    def spied(problem, source, *arguments, **options):
        judged.append(source)
        first(source)
        return judge(problem, source, *arguments, **options)

    monkeypatch.setattr(module, "judge", spied)
    return judged


def children(*kinds):
    """Process ids of our children whose command line names one of `kinds`."""
    listing = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())], capture_output=True, text=True)
    lines = [line.split(maxsplit=1) for line in listing.stdout.splitlines()]
    return [int(pid) for pid, command in lines if any(f"verifiers.{kind}" in command for kind in kinds)]


@pytest.fixture(scope="module")
def pool():
    with VerifierPool(2) as pool:
        yield pool


def test_every_ticket_comes_back_once_with_its_verdict(pool):
    for ticket, (problem, response, *_) in CASES.items():
        pool.submit(ticket, problem, response)
    pool.submit("cut", MATH, "\\boxed{0.5}", finished=False)
    pool.submit("cut code", CODE, RIGHT, finished=False)
    found = {ticket: (verdict.outcome, verdict.decided_by) for ticket, verdict in pool.results()}
    cut = dict.fromkeys(("cut", "cut code"), (Outcome.FAILED, "truncated"))
    assert found == {ticket: (outcome, by) for ticket, (*_, outcome, by) in CASES.items()} | cut
    assert list(pool.results()) == []


def test_at_once_keeps_the_order(pool):
    verdicts = pool.verify([(CODE, WRONG), (MATH, "\\boxed{.5}"), (CODE, RIGHT), (ALGEBRA, "\\boxed{3}")])
    assert [verdict.passed for verdict in verdicts] == [False, True, True, False]
    programs = [(CODE, f"def f(x): return x + {number % 2}") for number in range(6)]
    assert [verdict.passed for verdict in pool.run_programs(programs)] == [False, True] * 3
    assert pool.run_programs([(CODE, "def f(x): return -~x")])[0].passed


def test_identical_programs_are_judged_once_but_timeouts_are_not_remembered(monkeypatch):
    judged = spy_on_judge(monkeypatch)
    with VerifierPool(2) as pool:
        for _ in range(2):
            verdicts = pool.verify([(CODE, RIGHT), (HASTY, ENDLESS)] * 4)
            assert [verdict.outcome for verdict in verdicts] == [Outcome.PASSED, Outcome.TIMEOUT] * 4
        other = Problem("c", "code", "", entry_point="f", tests=json.dumps([{"call": {"args": [1]}, "output": 7}]))
        assert not pool.verify([(other, RIGHT)])[0].passed  # the same id, but other tests
    assert sorted("while" in source for source in judged) == [False, False, True, True]


def test_from_many_threads(pool):
    failures = []

    def check(number):
        verdict = pool.run_programs([(CODE, f"def f(x): return x + 1 + {number} - {number}")])[0]
        if not verdict.passed:
            failures.append(verdict)

    threads = [threading.Thread(target=check, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


BAD = Problem("bad", "code", "", entry_point="f")
BAD_PROBLEMS = {
    "no tests": BAD,
    "time_limit_s is nan": replace(CODE, time_limit_s=float("nan")),
    "its tests must be text, not list": replace(CODE, tests=[{"input": "3", "output": "3"}]),
    "no reference answer": Problem("m", "math", "", answer=" \n"),
    "its answer must be text, not int": Problem("n", "math", "", answer=145),
    "its prompt must be text, not int": Problem("q", "math", 3, answer="1"),  # type: ignore[arg-type]
    "its metadata is no JSON": Problem("l", "logic", "", metadata="[["),
    "no task": Problem("k", "logic", "", metadata="[1]"),
    "None is not an instruction": Problem("i", "instructions", "", tests="[null]"),
}


def test_a_problem_that_cannot_be_judged_gets_a_verdict_with_the_reason(pool):
    for _ in range(2):  # tests are parsed once a problem: a second look must not find half of them
        for reason, problem in BAD_PROBLEMS.items():
            pool.submit(reason, problem, RIGHT)
        for reason, verdict in pool.results():
            assert (verdict.outcome, verdict.decided_by) == (Outcome.UNPARSEABLE, "invalid_problem"), reason
            assert reason in verdict.detail and verdict.detail.startswith(f"problem {BAD_PROBLEMS[reason].problem_id}:")
    with pytest.raises(ValueError, match="its prompt must be text, not int"):
        Problem.of("math", 3, answer="1")  # type: ignore[arg-type]
    assert Problem.of("math", "\ud83d", answer="1").problem_id
    assert "no tests" in pool.run_programs([(BAD, "pass")])[0].detail


def test_a_domain_that_is_missing_here_is_no_fault_of_the_problem(pool):
    [verdict] = pool.verify([(Problem("p", "poetry", ""), RIGHT)])
    assert (verdict.outcome, verdict.decided_by) == (Outcome.INFRA_ERROR, "judge")
    assert "There is no domain 'poetry'" in verdict.detail


def test_a_ticket_is_out_once(pool):
    pool.submit("t", MATH, "\\boxed{1}")
    with pytest.raises(ValueError, match="'t' was submitted before"):
        pool.submit("t", MATH, "\\boxed{2}")
    assert [ticket for ticket, _ in pool.results()] == ["t"]


def named(name, before=""):
    return fenced(f"{before}\ndef f(x): return x + 1  # {name}")


def test_what_is_withdrawn_is_not_delivered_and_queued_work_is_dropped(monkeypatch):
    all_are_there, delivered = threading.Event(), []
    judged = spy_on_judge(monkeypatch, lambda source: all_are_there.wait())
    names = ("runs", "queued", "shared", "same as shared", "stays")
    with VerifierPool(1) as pool:
        withdraw = {
            name: pool.begin(
                Submission(CODE, named(name.removeprefix("same as "))),
                lambda _, name=name: delivered.append(name),
            )
            for name in names
        }
        assert happens(lambda: pool.running == 1 and pool.queued == 3)
        for name in ("runs", "queued", "shared", "queued"):
            withdraw[name]()
        all_are_there.set()
        assert happens(lambda: len(delivered) == 2 and not pool.running)
        assert pool.queued == 0
        assert pool.verify([(CODE, named("queued"))])[0].passed  # as if it had never been there
    assert delivered == ["same as shared", "stays"]
    assert sum("# queued" in source for source in judged) == 1


def test_what_is_known_to_take_long_goes_first(monkeypatch):
    clock, all_are_there = [0.0], threading.Event()

    def takes(source):
        if "first look" not in source:
            all_are_there.wait()
        clock[0] += 5.0 if "long" in source else 0.1

    judged = spy_on_judge(monkeypatch, takes)
    monkeypatch.setattr(local_pool, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    long = replace(CODE, problem_id="long")
    with VerifierPool(1) as pool:
        pool.verify([(long, named("first look, long")), (CODE, named("first look"))])
        judged.clear()
        pool.submit("running", CODE, named("running"))
        assert happens(lambda: judged)
        for ticket in ("short 1", "short 2", "long"):
            pool.submit(ticket, long if ticket == "long" else CODE, named(ticket))
            clock[0] += 1.0
        all_are_there.set()
        assert [ticket for ticket, _ in pool.results()] == ["running", "long", "short 1", "short 2"]


def test_a_slow_domain_does_not_hold_up_a_fast_one(monkeypatch):
    """Two workers, eight slow verdicts in the queue first: the fast ones wait for no more than those that run."""
    passed, free = Verdict(Outcome.PASSED), threading.Semaphore(0)

    def slow(submission):
        return Work(submission.problem, submission.text, (submission.text,), lambda tools: free.acquire() and passed)

    def fast(submission):
        return Work(submission.problem, submission.text, (submission.text,), lambda tools: passed)

    monkeypatch.setattr(domain_of("code"), "prepare", slow)
    monkeypatch.setattr(domain_of("math"), "prepare", fast)
    with VerifierPool(2) as pool:
        for number in range(8):
            pool.submit(f"slow {number}", CODE, f"response {number}")
        assert happens(lambda: pool.running == 2)
        for number in range(5):
            pool.submit(f"fast {number}", MATH, f"another {number}")
        results = pool.results()
        free.release()
        assert [next(results)[0] for _ in range(6)] == ["slow 0", *(f"fast {number}" for number in range(5))]
        assert happens(lambda: pool.running == 2 and pool.queued == 5)  # then both work for the slow
        free.release(7)
        assert {ticket for ticket, _ in results} == {f"slow {number}" for number in range(1, 8)}


def test_workers_that_are_killed_are_replaced_and_the_verdict_is_right(pool):
    with VerifierPool(1) as pool:
        pool.verify([(CODE, named("start")), (ALGEBRA, "\\boxed{1-2\\sin^2 x}")])
        for number in range(3):
            for pid in children("sandbox"):
                os.kill(pid, signal.SIGKILL)
            algebra = (ALGEBRA, f"\\boxed{{1-2\\sin^2 x+{number}-{number}}}")
            verdicts = pool.verify([algebra, (CODE, named(f"after {number}"))])
            assert [verdict.outcome for verdict in verdicts] == [Outcome.PASSED] * 2, verdicts


def test_a_fault_of_the_machine_is_tried_again_and_then_an_infra_error(monkeypatch):
    from ratchet.verifiers.serving import local_pool as module

    faults = [OSError(errno.EAGAIN, "no more processes"), OSError(errno.ENOSPC, "the disk is full")] * 2
    start = Sandbox.start
    monkeypatch.setattr(module, "PAUSE_S", 0.01)

    def start_or_fail(self):
        if faults:
            raise faults.pop()
        start(self)

    monkeypatch.setattr(Sandbox, "start", start_or_fail)
    with VerifierPool(1) as pool:
        verdicts = [pool.run_programs([(CODE, f"def f(x): return x + 1  # {number}")])[0] for number in range(2)]
    assert (verdicts[0].outcome, verdicts[0].decided_by) == (Outcome.INFRA_ERROR, "judge")
    assert "the disk is full" in verdicts[0].detail
    assert verdicts[1].passed  # the fourth fault was retried


def test_what_waits_when_the_pool_closes_is_not_lost(monkeypatch):
    is_closed = threading.Event()
    spy_on_judge(monkeypatch, lambda source: is_closed.wait())
    pool = VerifierPool(1)
    for number in range(3):
        pool.submit(number, CODE, named(number))
    assert happens(lambda: pool.running)
    closing = threading.Thread(target=pool.close)
    closing.start()
    assert happens(lambda: not pool.queued)  # what waits is dropped first
    is_closed.set()
    closing.join()
    verdicts = dict(pool.results())
    assert [verdicts[number].decided_by for number in range(3)] == ["all_tests", "closed", "closed"]


def test_a_forked_pool_says_so(pool):
    child = os.fork()
    if child == 0:
        try:
            pool.run_programs([(CODE, "pass  # never seen before")])[0]
        except RuntimeError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_closed_pool_takes_nothing_and_leaves_no_process():
    with VerifierPool(2) as pool:
        pool.verify([(CODE, RIGHT), (ALGEBRA, "\\boxed{1-2\\sin^2 x}")])
    pool.close()
    with pytest.raises(RuntimeError, match="closed"):
        pool.run_programs([(CODE, "pass")])[0]
    children = subprocess.run(["ps", "-o", "args=", "--ppid", str(os.getpid())], capture_output=True, text=True).stdout
    assert "sandbox" not in children.replace("module", "")


def test_workers_end_when_the_interpreter_does_without_closing():
    script = f"""
import json, sys; sys.path.insert(0, {str(ROOT)!r})
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.local_pool import VerifierPool
from ratchet.verifiers.sandbox.server import Sandbox
pool = VerifierPool(1)
code = Problem("c", "code", "", entry_point="f", tests=json.dumps([{{"call": {{"args": []}}, "output": 1}}]))
math = Problem("s", "math", "", answer="\\\\cos 2x")
pairs = [(code, "```\\ndef f(): return 1\\n```"), (math, "\\\\boxed{{1-2\\\\sin^2 x}}")]
for number, pair in enumerate(pairs):
    pool.submit(number, *pair)
print([v.passed for _, v in sorted(pool.results())])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "[True, True]\n", done.stderr
    assert done.stderr == ""


def test_pools_that_share_slots_judge_as_many_at_a_time_as_there_are(monkeypatch):
    """Who alone has work has all slots; who then comes gets some."""
    reading, writing = os.pipe()
    slots = os.open(f"/proc/self/fd/{reading}", os.O_RDWR)
    os.write(slots, b"..")
    running, most, lock = [0], [], threading.Lock()

    def judge(*_):
        with lock:
            running[0] += 1
            most.append(running[0])
        time.sleep(0.05)
        with lock:
            running[0] -= 1
        return "done"

    programs = [(CODE, f"program {number}") for number in range(8)]
    with VerifierPool(2, slots=slots) as one, VerifierPool(2, slots=slots) as other:
        alone = one.map_programs(judge, programs)
        assert alone == ["done"] * 8 and max(most) == 2
        found = []
        threads = [
            threading.Thread(target=lambda p=p: found.append(p.map_programs(judge, programs))) for p in (one, other)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [["done"] * 8] * 2 and max(most) == 2
    assert os.read(slots, 9) == b".."
    for descriptor in (reading, writing, slots):
        os.close(descriptor)


def test_a_function_of_programs_that_fails_is_an_error_and_the_pool_lives_on():
    def broken(*_):
        raise OSError("no disk")

    with VerifierPool(1) as pool:
        with pytest.raises(RatchetError, match="no disk"):
            pool.map_programs(broken, [(CODE, "")])
        assert pool.map_programs(lambda problem, source, sandbox: source, [(CODE, "x")]) == ["x"]
