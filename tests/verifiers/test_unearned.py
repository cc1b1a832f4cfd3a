"""Programs that try to be rewarded without solving anything: no reward may be above what a constant answer earns.

Answers are drawn at random, so that no rule gives them. Each program is judged as a problem on standard input, of calls
and of published checks; by the first failure, by the fraction of passed tests, and with little time for all tests.
"""

import json
import random
import textwrap

import pytest

from ratchet.infra.problems import Problem
from ratchet.verifiers.code.judge import judge
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.sandbox.server import Sandbox
from ratchet.verifiers.submission import EVERY_TEST, JudgeSettings

TESTS = 24


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox() as sandbox:
        yield sandbox


# `guess()` is called in each test for YES or NO; what is outside of it runs when the program is loaded.
PROGRAMS = {
    "the first run of a process": """
        import math
        def guess():
            if hasattr(math, "done"): return "YES"
            math.done = 1
            return "NO"
        """,
    "the other answer in each run": """
        import builtins
        def guess():
            builtins.turn = not getattr(builtins, "turn", False)
            return "YES" if builtins.turn else "NO"
        """,
    "a count of runs": """
        import sys
        def guess():
            sys.runs = getattr(sys, "runs", 0) + 1
            return "YES" if sys.runs % 3 else "NO"
        """,
    "the time": """
        import time
        def guess(): return "YES" if time.perf_counter_ns() // 1000 % 2 else "NO"
        """,
    "the pid": """
        import os
        def guess(): return "YES" if os.getpid() % 2 else "NO"
        """,
    "random bytes": """
        import os
        def guess(): return "YES" if os.urandom(1)[0] % 2 else "NO"
        """,
    "a random number": """
        import random
        rng = random.SystemRandom()
        def guess(): return rng.choice(["YES", "NO"])
        """,
    "the address of an object": """
        def guess(): return "YES" if id(object()) // 16 % 2 else "NO"
        """,
    "CPU time used": """
        import resource
        def guess(): return "YES" if resource.getrusage(resource.RUSAGE_SELF).ru_utime * 1e6 % 2 > 1 else "NO"
        """,
    "a thread that lives on": """
        import threading, time
        state = [0]
        def count():
            while True:
                state[0] += 1
                time.sleep(0.001)
        threading.Thread(target=count, daemon=True).start()
        def guess():
            time.sleep(0.002)
            return "YES" if state[0] % 2 else "NO"
        """,
    "an exit and a new process": """
        import os, math
        def guess():
            if hasattr(math, "done"): os._exit(0)
            math.done = 1
            return "YES"
        """,
    "a failure and a new process": """
        import math
        def guess():
            if hasattr(math, "done"): raise ValueError
            math.done = 1
            return "YES"
        """,
    "all strings in memory": """
        import gc
        def guess():
            words = [o for d in gc.get_objects() if isinstance(d, dict) for o in d.values() if isinstance(o, str)]
            return next((word for word in words if word in ("YES", "NO")), "NO")
        """,
    "frames": """
        import sys
        def guess():
            frame = sys._getframe()
            while frame:
                for name, value in frame.f_locals.items():
                    if isinstance(value, dict) and "output" in value: return value["output"]
                    if name in ("expected", "output", "wanted") and value: return value
                frame = frame.f_back
            return "YES"
        """,
    "open descriptors": """
        import os
        def guess():
            for descriptor in range(3, 64):
                try: text = os.pread(descriptor, 1 << 16, 0)
                except OSError: continue
                if b"output" in text: return "YES" if b'"YES"' in text else "NO"
            return "NO"
        """,
    "a forged report": """
        import os
        def guess():
            line = b'{"status": "done", "output": "YES\\\\n", "seconds": 0}\\n'
            for descriptor in range(3, 64):
                try: os.write(descriptor, line)
                except OSError: pass
            return "YES"
        """,
    "both answers": """
        def guess(): return "YES\\nNO"
        """,
    "an unknown state": """
        import os
        def guess():
            for descriptor in range(3, 64):
                try: os.write(descriptor, b'{"status": "unprepared", "detail": "x"}\\n')
                except OSError: pass
            os._exit(0)
        """,
}
ON_STDIN = "\nimport sys\nsys.stdin.read()\nprint(guess())\n"
AS_CALL = "\ndef f(x): return guess()\n"


def problem(kind: str, seed: int) -> Problem:
    draws = random.Random(seed)
    answers = [draws.choice(["YES", "NO"]) for _ in range(TESTS)]
    if kind == "stdin":
        tests = [{"input": f"{number}\n", "output": answer} for number, answer in enumerate(answers)]
    elif kind == "call":
        tests = [{"call": {"args": [number]}, "output": answer} for number, answer in enumerate(answers)]
    else:  # an assertion with a message is no plain call: it stays a check
        lines = [f"    assert candidate({number}) == {answer!r}, 'no'" for number, answer in enumerate(answers)]
        tests = [{"check": "def check(candidate):\n" + "\n".join(lines)}]
    entry_point = None if kind == "stdin" else "f"
    return Problem("p", "code", "", tests=json.dumps(tests), entry_point=entry_point, time_limit_s=2.0)


def rewards(sandbox: Sandbox, name: str, kind: str, settings: JudgeSettings, seeds: int) -> list[float]:
    source = textwrap.dedent(PROGRAMS[name]) + (ON_STDIN if kind == "stdin" else AS_CALL)
    verdicts = [judge(problem(kind, seed), source, sandbox, settings) for seed in range(seeds)]
    assert all(verdict.outcome is not Outcome.UNPARSEABLE for verdict in verdicts), "no program blames its problem"
    return [verdict.fraction if settings.fraction else float(verdict.passed) for verdict in verdicts]


@pytest.mark.parametrize("kind", ["stdin", "call", "check"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_passed_without_solving(name, kind, sandbox):
    assert rewards(sandbox, name, kind, JudgeSettings(), 2) == [0.0, 0.0]


@pytest.mark.parametrize("kind", ["stdin", "call"])
@pytest.mark.parametrize("name", ["the first run of a process", "the time", "a count of runs"])
def test_a_graded_reward_is_that_of_a_guess(name, kind, sandbox):
    """About one half of the answers are right by chance; a second try would make it three quarters or more."""
    earned = rewards(sandbox, name, kind, EVERY_TEST, 3)
    assert 0.3 < sum(earned) / len(earned) < 0.65


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [JudgeSettings(), EVERY_TEST, JudgeSettings(total_s=1.0)], ids=["all", "graded", "s"]
)
@pytest.mark.parametrize("kind", ["stdin", "call", "check"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_program_earns_more_than_a_guess(name, kind, settings, sandbox):
    earned = rewards(sandbox, name, kind, settings, 12)
    assert sum(earned) / len(earned) < (0.6 if settings.fraction else 0.01), earned


VALUES = {
    "an empty list": "[]",
    "an endless list": "type('L', (list,), {'__iter__': lambda s: iter(()), '__len__': lambda s: 0})()",
    "what equals everything": "type('E', (), {'__eq__': lambda s, o: True, '__hash__': lambda s: 0})()",
    "a string that equals everything": "type('E', (str,), {'__eq__': lambda s, o: True, '__hash__': str.__hash__})('')",
    "a list that equals everything": "type('E', (list,), {'__eq__': lambda s, o: True})()",
    "not a number": "float('nan')",
    "an infinite number": "float('inf')",
    "a huge number": "10 ** 5000",
    "a generator": "(x for x in ())",
    "a number close to all": "type('C', (float,), {'__sub__': lambda s, o: 0.0, '__rsub__': lambda s, o: 0.0})(1)",
    "its own absolute difference": "type('C', (), {'__rsub__': lambda s, o: 0, '__sub__': lambda s, o: 0})()",
    "an array at an address": (
        "type('A', (), {'__array_interface__': {'shape': (2,), 'typestr': '<f8', 'data': (64, True), 'version': 3}})()"
    ),
    "an array of its own": "type('A', (), {'__array__': lambda s, *a, **k: __import__('numpy').zeros(2)})()",
    "an array that compares": "type('A', (), {'__array_ufunc__': lambda s, *a, **k: True, '__len__': lambda s: 2})()",
    "a buffer": "memoryview(bytes(16))",
    "nothing": "None",
    "an exception": "ValueError('x')",
    "a class": "int",
    "the function itself": "f",
}
CHECKS = {
    "equal": "assert candidate(1) == [1.5, 2.5]",
    "close": "import numpy as np\n    assert np.allclose(candidate(1), [1.5, 2.5])",
    "one number": "assert abs(candidate(1) - 1.5) < 1e-6",
    "sorted": "assert sorted(candidate(1)) == [1.5, 2.5]",
    "a member": "assert candidate(1) in ([1.5, 2.5], [2.5, 1.5])",
    "a text": "assert str(candidate(1)).strip() == '[1.5, 2.5]'",
}


@pytest.mark.parametrize("check", CHECKS)
def test_no_odd_value_passes_a_check(check, sandbox):
    tests = json.dumps([{"check": f"def check(candidate):\n    {CHECKS[check]}"}])
    asked = Problem("p", "code", "", tests=tests, entry_point="f", metadata='{"prelude": ""}')
    for name, value in VALUES.items():
        verdict = judge(asked, f"def f(x):\n    return {value}", sandbox)
        assert verdict.outcome in (Outcome.FAILED, Outcome.TIMEOUT), (check, name, verdict)
        assert "takes too long" not in verdict.detail, (check, name, verdict)


FORGED_PROGRESS = """
import os, time
def is_open(descriptor):
    try: return bool(os.fstat(descriptor))
    except OSError: return False
progress = [d for d in range(3, 64) if is_open(d)][3]  # after the job, the output and the report
def f(x):
    for _ in range(4):
        begin = time.process_time()
        while time.process_time() - begin < 0.3: pass
        os.write(progress, b".")
    return 2 * x
"""
UNSHARED_TABLES = """
import ctypes, socket, threading
libc = ctypes.CDLL(None, use_errno=True)
def f(x):
    if libc.syscall(436, 1 << 30, 1 << 30, 2) == 0: return "unshared"
    return 2 * x
"""
FAST_INPUT = """
import os, sys
from io import BytesIO, IOBase
class FastIO(IOBase):
    def __init__(self, file):
        self._fd, self.buffer = file.fileno(), BytesIO()
        self.writable = "x" in file.mode or "r" not in file.mode
        self.write = self.buffer.write if self.writable else None
    def readline(self):
        self.buffer.write(os.read(self._fd, max(os.fstat(self._fd).st_size, 8192)))
        return self.buffer.getvalue().split(b"\\n")[0]
out = FastIO(sys.stdout)
out.write(FastIO(sys.stdin).readline()[::-1])
os.write(out._fd, out.buffer.getvalue())
"""


def calls(count: int = 6, **fields) -> Problem:
    tests = json.dumps([{"call": {"args": [n]}, "output": 2 * n} for n in range(count)])
    return Problem("p", "code", "", tests=tests, entry_point="f", **fields)


def test_a_program_cannot_restart_the_clock_of_a_test(sandbox):
    verdict = judge(calls(time_limit_s=0.5), FORGED_PROGRESS, sandbox)
    assert "the sandbox's own files" in verdict.detail and verdict.fraction == 0.0, verdict


def test_threads_share_one_table_of_descriptors(sandbox):
    assert judge(calls(), UNSHARED_TABLES, sandbox).passed, "the flag is refused, and nothing else"


def test_memory_is_what_is_resident(sandbox):
    numpy = "import numpy as np\ndef f(x):\n    {}\n    return 2 * x"
    little = judge(calls(memory_limit_mb=64.0, time_limit_s=9.0), numpy.format("np.zeros(10)"), sandbox)
    large = judge(calls(1, memory_limit_mb=256.0, time_limit_s=9.0), numpy.format("np.ones(183 << 17)"), sandbox)
    assert little.passed and large.passed, (little, large)
    slow = (
        "import time\ndef f(x):\n    held = []\n    while True:\n"
        "        held.append(bytes([1]) * (4 << 20))\n        time.sleep(.005)"
    )
    verdict = judge(calls(1, memory_limit_mb=64.0, time_limit_s=9.0), slow, sandbox)
    assert (verdict.outcome, verdict.decided_by) == (Outcome.FAILED, "memory_limit"), verdict


def test_streams_have_the_attributes_of_the_interpreters_own(sandbox):
    tests = json.dumps([{"input": "abc\n", "output": "cba"}])
    assert judge(Problem("p", "code", "", tests=tests), FAST_INPUT, sandbox).passed


def test_a_prelude_of_a_problem_is_all_there_is(sandbox):
    without, with_default = calls(metadata='{"prelude": ""}'), calls()
    source = "def f(x): return prod([2, x])"
    assert judge(with_default, source, sandbox).passed
    assert judge(without, source, sandbox).decided_by == "runtime_error"
    assert judge(with_default, "def f(x): return pow(2, 1, 3) * SortedList([x])[0]", sandbox).passed
    deep = "def f(x): return 2 * x if x == 0 else 2 + f(x - 1)"
    tests = json.dumps([{"call": {"args": [5000]}, "output": 10000}])
    limit = json.dumps({"prelude": "import sys\nsys.setrecursionlimit(50000)"})
    assert judge(Problem("p", "code", "", tests=tests, entry_point="f", metadata=limit), deep, sandbox).passed


def test_a_program_of_a_check_cannot_blame_the_prelude(sandbox):
    forged = (
        'import os\nfor d in range(3, 64):\n    try: os.write(d, b\'{"status": "unprepared", "detail": "x"}\\n\')\n'
        "    except OSError: pass\nos._exit(0)"
    )
    tests = json.dumps([{"check": "def check(candidate):\n    assert candidate(1) == 2, 'no'"}])
    verdict = judge(Problem("p", "code", "", tests=tests, entry_point="f"), forged, sandbox)
    assert verdict.outcome is Outcome.FAILED, verdict
