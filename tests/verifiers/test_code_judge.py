import gzip
import json
import os
from pathlib import Path

import pytest

from ratchet.verifiers.code import problem as code_problem
from ratchet.verifiers.code.judge import examine, judge
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.sandbox.runs import Limits
from ratchet.verifiers.sandbox.server import Sandbox
from ratchet.verifiers.submission import EVERY_TEST

SHARED = Path(os.environ.get("RATCHET_SHARED_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")


def doubling(count=6, **fields):
    tests = [{"call": {"args": [number]}, "output": 2 * number} for number in range(1, count + 1)]
    fields = {"entry_point": "f", "time_limit_s": 10.0, "memory_limit_mb": 256.0} | fields
    return Problem("doubling", "code", "double", tests=json.dumps(tests), **fields)


REASONS = {
    "def f(x):\n    return 2 * x": (Outcome.PASSED, "all_tests", 1.0),
    "def f(x):\n    return x + 1": (Outcome.FAILED, "wrong_answer", 1 / 6),
    "def f(x):\n    return 2 * x if x != 4 else 1 / 0": (Outcome.FAILED, "runtime_error", 5 / 6),
    "def f(x): return 2 *": (Outcome.FAILED, "compile_error", 0.0),
    "def g(x): return 2 * x": (Outcome.FAILED, "runtime_error", 0.0),
    "def f(x):\n    while x == 5: pass\n    return 2 * x": (Outcome.TIMEOUT, "time_limit", 5 / 6),
    "def f(x):\n    return 2 * x if x < 3 else [0] * 10**9": (Outcome.FAILED, "memory_limit", 1 / 3),
    "def f(x):\n    return 2 * x if x < 3 else 'x' * 10**7": (Outcome.FAILED, "output_limit", 1 / 3),
    "import os\ndef f(x):\n    return 2 * x if x != 3 else os._exit(1)": (Outcome.FAILED, "runtime_error", 5 / 6),
    "\0": (Outcome.FAILED, "compile_error", 0.0),
}


@pytest.mark.parametrize("source", REASONS)
def test_reasons_and_fractions(source, sandbox):
    outcome, reason, fraction = REASONS[source]
    problem = doubling(time_limit_s=0.5 if reason == "time_limit" else 20.0)
    verdict = judge(problem, source, sandbox, EVERY_TEST)
    assert (verdict.outcome, verdict.decided_by, verdict.fraction) == (outcome, reason, pytest.approx(fraction)), (
        verdict
    )
    assert verdict.extracted == source
    assert judge(problem, source, sandbox).passed == verdict.passed


def test_half_a_surrogate_pair_in_an_error_can_be_logged(sandbox):
    verdict = judge(doubling(), "def f(x): raise ValueError('\\ud800')", sandbox)
    assert verdict.detail.encode() and "\\ud800" in verdict.detail


def test_the_first_failure_settles_it_when_only_all_matter(sandbox):
    verdict = judge(doubling(40), "def f(x):\n    return 2 * x if x < 11 else 0", sandbox)
    assert verdict.fraction == 1 / 40  # of two digits, and so longest, are 10, which passes, and 11
    assert verdict.detail == "test 10: got '0'"


def test_the_longest_input_comes_first_when_only_all_matter(sandbox):
    tests = [{"input": "1\n", "output": "1"}, {"input": "12345\n", "output": "5"}, {"input": "123\n", "output": "3"}]
    problem = Problem("p", "code", "", tests=json.dumps(tests))
    _, results = examine(problem, "print(0)", sandbox)
    assert [result.index for result in results] == [1]
    _, results = examine(problem, "print(len(input()))", sandbox, EVERY_TEST)
    assert [(result.index, result.status) for result in results] == [(0, "passed"), (1, "passed"), (2, "passed")]


@pytest.fixture
def judged_once(monkeypatch):
    """On a busy machine as on a quiet one: nothing that ran out of time is judged again."""
    monkeypatch.setattr("ratchet.verifiers.code.judge._Judging._hurried", lambda *_: None)


def test_a_program_slow_on_every_test_has_a_total_limit(sandbox, monkeypatch, judged_once):
    monkeypatch.setattr(code_problem, "TOTAL_LIMIT_S", 0.0)  # leaves four times the time limit
    slow = "import time\ndef f(x):\n    time.sleep(0.05)\n    return 2 * x"
    verdict = judge(doubling(400, time_limit_s=0.5), slow, sandbox)  # 20 s of sleep, where 2 s are left
    assert (verdict.outcome, verdict.decided_by) == (Outcome.TIMEOUT, "time_limit")
    assert 0 < verdict.fraction < 1


def test_a_thread_that_stays_does_not_fail_a_right_program(sandbox):
    daemon = (
        "import threading, time\ndef f(x):\n    threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n"
        "    return 2 * x"
    )
    assert judge(doubling(), daemon, sandbox).passed


@pytest.mark.parametrize(
    ("entry_point", "source"),
    [
        ("f", "f = lambda x: 2 * x"),
        ("Solution().double", "class Solution:\n    def double(self, x): return 2 * x"),
        ("double", "class Solution:\n    def double(self, x): return 2 * x"),
        ("Solution", "class Solution:\n    def double(self, x: List[int]): return Counter(a=2 * x)['a']"),
    ],
)
def test_entry_points(entry_point, source, sandbox):
    assert judge(doubling(entry_point=entry_point), source, sandbox).passed


def test_a_called_solution_is_not_the_main_program(sandbox):
    guarded = "def f(x):\n    return 2 * x\nif __name__ == '__main__':\n    raise SystemExit(input())"
    assert judge(doubling(), guarded, sandbox).passed


def test_a_prelude_is_there_and_a_solution_may_replace_it(sandbox):
    metadata = json.dumps({"prelude": "def twice(x): return 2 * x\nclass Node: pass"})
    assert judge(doubling(metadata=metadata), "def f(x): return twice(x)", sandbox).passed
    assert judge(doubling(metadata=metadata), "def f(x): return twice(x)\ndef twice(x): return x + x", sandbox).passed
    assert not judge(doubling(), "def f(x): return twice(x)", sandbox).passed


PRELUDES = {
    "LeetCode's, where there is none": (
        None,
        "from_none = SortedList([x]), Counter(), inf, ascii_lowercase, pow(x, 1, 7)",
    ),
    "its own and no other": ("import math", "try:\n        Counter\n    except NameError: math"),
    "an empty one is none": ("", "try:\n        math\n    except NameError: pass\n    else: raise ValueError"),
    "recursion as deep as it says": (
        "import sys\nsys.setrecursionlimit(50000)",
        "def g(n): return n and g(n - 1)\n    g(20000)",
    ),
}


@pytest.mark.parametrize("name", PRELUDES)
def test_a_program_has_what_its_own_harness_has(name, sandbox):
    prelude, body = PRELUDES[name]
    problem = doubling(metadata=json.dumps({"prelude": prelude}))
    verdict = judge(problem, f"def f(x):\n    {body}\n    return 2 * x", sandbox)
    assert verdict.passed, verdict
    if prelude:
        tests = json.dumps([{"input": "1\n", "output": "2"}])
        stdin = Problem("p", "code", "", tests=tests, metadata=problem.metadata)
        program = f"def f(x):\n    {body}\n    return 2 * x\nprint(f(int(input())))"
        assert judge(stdin, program, sandbox).passed


MEMORY = {
    "numpy in 64 MB": ("import numpy as np\nprint(int(np.arange(3)[2]))", 64, "all_tests"),
    "an array of 183 MiB in 256 MB": ("import numpy as np\nnp.ones(24 * 10**6)\nprint(2)", 256, "all_tests"),
    "an array of 305 MiB in 256 MB": ("import numpy as np\nnp.ones(40 * 10**6)\nprint(2)", 256, "memory_limit"),
    "shared memory": (
        "import mmap, time\nh = [mmap.mmap(-1, 1 << 24) for _ in range(9)]\nfor m in h: m.write(bytes(1 << 24))\n"
        "time.sleep(0.2)\nprint(2)", 64, "memory_limit",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MEMORY)
def test_memory_is_what_is_resident(name, sandbox):
    source, limit, reason = MEMORY[name]
    tests = json.dumps([{"input": "", "output": "2"}])
    verdict = judge(Problem("p", "code", "", tests=tests, memory_limit_mb=limit), source, sandbox)
    assert verdict.decided_by == reason, verdict


def test_keyword_arguments_and_values(sandbox):
    tests = [{"call": {"kwargs": {"a": [1], "b": {"k": None}}}, "output": [[1], {"k": None}, True, "é", 0.5]}]
    problem = Problem("p", "code", "", tests=json.dumps(tests), entry_point="f")
    assert judge(problem, "def f(a, b): return (tuple(a), b, True, 'é', 0.5)", sandbox).passed


@pytest.mark.parametrize("draw", [
    "import random\nprint(random.random(), random.sample(sorted({str(n) for n in range(9)}), 3), {'a', 'b', 'c'})",
    "import numpy as np\nprint(np.random.rand(), np.random.default_rng().random())",
    "from numpy.random import *\nfirst = default_rng()\nprint(rand(), first.random() == default_rng().random())",
])  # fmt: skip
def test_a_verdict_does_not_depend_on_chance(draw, sandbox):
    tests = [{"input": "", "output": "?"}]
    problem = Problem("p", "code", "", tests=json.dumps(tests))
    details = {judge(problem, draw, sandbox).detail for _ in range(3)}
    with Sandbox() as another:
        details.add(judge(problem, draw, another).detail)
    assert len(details) == 1 and "True" not in details.pop()


def test_what_a_check_draws_does_not_depend_on_chance(sandbox):
    draw = "import numpy as np\ndef check(candidate):\n    n = np.random.rand()\n    assert candidate(n) < 0"
    problem = Problem("p", "code", "", tests=json.dumps([{"check": draw}]), entry_point="f")
    assert len({judge(problem, "def f(n): return n", sandbox).detail for _ in range(3)}) == 1


LOOK_AROUND = """
import os
names = set(os.environ)
try:
    names |= {entry.split(b'=')[0].decode() for entry in open('/proc/self/environ', 'rb').read().split(b'\\0')}
except OSError:
    pass
print('HF_TOKEN' in names, 'PYTHONHASHSEED' in names)
"""


def test_a_program_does_not_see_the_environment_of_the_judge(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "x")
    problem = Problem("p", "code", "", tests=json.dumps([{"input": "", "output": "False True"}]))
    with Sandbox() as started_since:
        assert judge(problem, LOOK_AROUND, started_since).passed


CALL = '[{"call": {"args": [1]}, "output": 2}]'
INVALID = {
    "no tests": ({"tests": "[]"}, "no tests"),
    "nothing at all": ({"tests": None}, "no tests"),
    "not JSON": ({"tests": "[{"}, "cannot be read"),
    "no list": ({"tests": "7"}, "cannot be read"),
    "no tests in the list": ({"tests": "[7]"}, "cannot be read"),
    "unknown fields": ({"tests": '[{"inputs": "1"}]'}, "cannot be read"),
    "an output that is no text": ({"tests": '[{"input": "1", "output": 2}]'}, "test 0"),
    "no output": ({"tests": '[{"input": "1", "output": "1"}, {"input": "1"}]'}, "test 1"),
    "a call without an output": ({"tests": '[{"call": {"args": [1]}}]'}, "test 0: its output is missing"),
    "arguments that are no list": ({"tests": '[{"call": {"args": 1}, "output": 2}]'}, "args are not a list"),
    "an unknown call": ({"tests": '[{"call": [1], "output": 2}]'}, "its call is not"),
    "no entry point": ({"tests": CALL, "entry_point": None}, "names no entry point"),
    "an entry point that is no expression": ({"tests": CALL, "entry_point": "def f"}, "not an expression"),
    "a NUL byte in the entry point": ({"tests": CALL, "entry_point": "f\0"}, "not an expression"),
    "metadata that is not JSON": ({"tests": CALL, "metadata": "{"}, "metadata"),
    "metadata that is no object": ({"tests": CALL, "metadata": "[1]"}, "metadata"),
    "a prelude that is no text": ({"tests": CALL, "metadata": '{"prelude": 1}'}, "prelude"),
    "a prelude that is not Python": ({"tests": CALL, "metadata": '{"prelude": "def"}'}, "prelude fails: SyntaxError"),
    "a prelude that raises": ({"tests": CALL, "metadata": '{"prelude": "1 / 0"}'}, "prelude fails: ZeroDivision"),
    "a negative time limit": ({"tests": CALL, "time_limit_s": -1.0}, "time_limit_s is -1.0"),
    "a negative memory limit": ({"tests": CALL, "memory_limit_mb": -1}, "memory_limit_mb is -1"),
    "calls and no calls, without an entry point": (
        {"tests": '[{"input": "", "output": ""}, {"call": {"args": []}, "output": 1}]', "entry_point": None},
        "names no entry point",
    ),
    "a tolerance that is no number": ({"tests": CALL, "metadata": '{"tolerance": "1e-6"}'}, "tolerance"),
}


@pytest.mark.parametrize("name", INVALID)
def test_a_problem_by_which_nothing_can_be_judged_says_why(name, sandbox):
    fields, reason = INVALID[name]
    problem = Problem("p", "code", "", **({"entry_point": "f"} | fields))
    for _ in range(2):  # the first reading leaves nothing behind that the second takes for tests
        verdict = judge(problem, "def f(x): return 2", sandbox)
        assert (verdict.outcome, verdict.decided_by) == (Outcome.UNPARSEABLE, "invalid_problem"), verdict
        assert reason in verdict.detail


def test_a_program_cannot_blame_the_prelude(sandbox):
    forged = (
        'import os\ndef f(x):\n    for d in range(3, 64):\n        try: os.write(d, b\'{"status": "unprepared"}\\n\')\n'
        "        except OSError: pass\n    os._exit(0)"
    )
    assert judge(doubling(), forged, sandbox).outcome is Outcome.FAILED


def test_bytes_that_are_no_text_reach_a_program_and_come_back(sandbox):
    tests = [{"input": "a\0\ud800é", "output": "a\0\ud800é"}]
    problem = Problem("p", "code", "", tests=json.dumps(tests))
    assert judge(problem, "import sys\nsys.stdout.buffer.write(sys.stdin.buffer.read())", sandbox).passed
    assert not judge(problem, "import sys\nsys.stdout.buffer.write(b'\\xff\\xfe')", sandbox).passed


def test_what_is_cut_in_reports_is_not_cut_in_comparison(sandbox):
    long = "x" * (9 << 20)  # more than a program may write when less is expected
    problem = Problem("p", "code", "", tests=json.dumps([{"input": "", "output": long}]))
    assert judge(problem, f"print('x' * {len(long)})", sandbox).passed
    verdict, [result] = examine(problem, f"print('x' * {len(long) - 1} + 'y')", sandbox)
    assert verdict.decided_by == "wrong_answer"
    assert len(verdict.detail) < 300 and len(result.difference) < 600


def test_tolerance_is_what_the_problem_says(sandbox):
    def verdicts(metadata):
        program = Problem("p", "code", "", tests=json.dumps([{"input": "", "output": "0.333333"}]), metadata=metadata)
        call = [{"call": {}, "output": 1 / 3}]
        call = Problem("p", "code", "", tests=json.dumps(call), entry_point="f", metadata=metadata)
        sources = ("print(0.33334)", "def f(): return 0.33334")
        return [judge(p, source, sandbox).passed for p, source in zip((program, call), sources, strict=True)]

    assert verdicts(None) == [False, False]
    assert verdicts('{"tolerance": 1e-4}') == [True, True]
    assert verdicts('{"tolerance": 1e-6}') == [False, False]


def test_every_test_is_shown_with_its_first_difference(sandbox):
    source = "def f(x):\n    return [2 * x, 7][x == 3] if x != 4 else None / 0"
    verdict, results = examine(doubling(), source, sandbox, EVERY_TEST)
    assert [result.status for result in results] == [
        "passed", "passed", "wrong_answer", "runtime_error", "passed", "passed"
    ]  # fmt: skip
    assert results[2].difference == "value: expected '6', got '7'"
    assert results[3].difference.startswith("TypeError")
    assert all(result.seconds >= 0 for result in results)
    assert verdict.fraction == 4 / 6


def test_a_test_that_fails_beside_others_is_run_alone(sandbox, monkeypatch):
    batches = []
    run = sandbox.run
    monkeypatch.setattr(sandbox, "run", lambda *a, **k: batches.append(len(a[1])) or run(*a, **k))
    # The cache lives in a library module, so it outlives the fresh __main__ of each test.
    once = "import math\ndef f(x):\n    math.used = getattr(math, 'used', 0) + 1\n    return 2 * x + (math.used == 3)"
    assert judge(doubling(), once, sandbox).passed
    assert batches == [6, 1, *[1] * 6], "and then every test"


def test_an_endless_program_is_bounded_by_its_budget_not_by_its_tests(sandbox, monkeypatch, judged_once):
    monkeypatch.setattr(code_problem, "TOTAL_LIMIT_S", 0.0)  # leaves four times the time limit
    runs, run = [], sandbox.run
    monkeypatch.setattr(sandbox, "run", lambda *args, **options: runs.append(args) or run(*args, **options))
    verdict = judge(doubling(50, time_limit_s=0.1), "def f(x):\n    while True: pass", sandbox, EVERY_TEST)
    assert (verdict.outcome, verdict.fraction) == (Outcome.TIMEOUT, 0.0)
    assert len(runs) <= 4, "a run costs a time limit"


def real_rows(name):
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"no real data at {path}")
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


def test_canonical_solutions_of_humaneval_pass(sandbox):
    for row in real_rows("benchmarks/HumanEval.jsonl.gz"):
        prompt, entry_point, tests = row["prompt"], row["entry_point"], json.dumps([{"check": row["test"]}])
        metadata = json.dumps({"prelude": prompt})
        problem = Problem(row["task_id"], "code", prompt, tests=tests, entry_point=entry_point, metadata=metadata)
        verdict = judge(problem, prompt + row["canonical_solution"], sandbox)
        assert verdict.passed, (row["task_id"], verdict.decided_by, verdict.detail)
        assert not judge(problem, prompt + "    return None\n", sandbox).passed


def test_golden_solutions_of_leetcode_pass(sandbox):
    rows = real_rows("code_raw/LeetCodeDataset-v0.2.0-train.jsonl.gz")
    nodes = [row for row in rows if "TreeNode" in row["completion"] or "ListNode" in row["completion"]]
    judged = 0
    for row in rows[::18] + nodes[::6]:
        tests, metadata = json.dumps([{"check": row["test"]}]), json.dumps({"prelude": row["prompt"]})
        problem = Problem("p", "code", "", tests=tests, entry_point=row["entry_point"], metadata=metadata)
        verdict = judge(problem, row["completion"], sandbox, EVERY_TEST)
        assert verdict.passed, (row["task_id"], verdict.decided_by, verdict.detail)
        judged += 1
    assert judged >= 120


def test_a_value_that_is_not_json_is_read_while_the_program_goes_on(sandbox):
    """The judge looks at the report every twentieth of a second; the first value is there, the second is not."""
    tests = [{"call": {"args": [n]}, "output": [n], "exact": True} for n in (1, 2)]
    source = "import time\ndef f(x):\n    time.sleep(x - 1)\n    return {x}"
    verdict = judge(Problem.of("code", tests=tests, entry_point="f"), source, sandbox)
    assert verdict.decided_by == "wrong_answer", verdict


def test_a_judge_that_is_interrupted_leaves_no_answer_for_the_next_job(sandbox):
    tests = [{"kind": "stdin", "input": "1\n"}] * 2
    limits = Limits(20.0, 20.0, 1 << 28, 1 << 16)
    source = "import time\nprint(1)\ntime.sleep(1)"

    def interrupt(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sandbox.run(source, tests, limits, entry_point=None, prelude=None, enough=interrupt)
    [run] = sandbox.run("print(2)", tests[:1], limits, entry_point=None, prelude=None).runs
    assert run.output == b"2\n"
