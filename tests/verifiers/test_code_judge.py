import ast
import gzip
import json
import os
from pathlib import Path

import pytest

from infra.problems import Problem
from verifiers import code_judge
from verifiers.code_judge import judge, same_text, same_value
from verifiers.outcome import Outcome
from verifiers.sandbox.server import Sandbox

SHARED = Path(os.environ.get("RATCHET_SHARED_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox() as sandbox:
        yield sandbox


def doubling(count=6, **fields):
    tests = [{"call": {"args": [number]}, "output": 2 * number} for number in range(1, count + 1)]
    fields = {"entry_point": "f", "time_limit_s": 0.5, "memory_limit_mb": 256.0} | fields
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
    verdict = judge(doubling(), source, sandbox, fraction=True)
    assert (verdict.outcome, verdict.decided_by, verdict.fraction) == (outcome, reason, pytest.approx(fraction)), (
        verdict
    )
    assert verdict.extracted == source
    assert judge(doubling(), source, sandbox).passed == verdict.passed


def test_the_first_failure_settles_it_when_only_all_matter(sandbox):
    verdict = judge(doubling(40), "def f(x):\n    return 2 * x if x < 11 else 0", sandbox)
    assert verdict.fraction == 10 / 40
    assert verdict.detail == "test 10: got 'j0'"


def test_a_program_slow_on_every_test_has_a_total_limit(sandbox, monkeypatch):
    monkeypatch.setattr(code_judge, "TOTAL_LIMIT_S", 0.0)  # leaves four times the time limit
    slow = "import time\ndef f(x):\n    time.sleep(0.2)\n    return 2 * x"
    verdict = judge(doubling(100), slow, sandbox)
    assert (verdict.outcome, verdict.decided_by) == (Outcome.TIMEOUT, "time_limit")
    assert 5 <= 100 * verdict.fraction <= 10


def test_state_between_tests_does_not_fail_a_right_program(sandbox):
    # The cache lives in a library module, so it outlives the fresh __main__ of each test.
    once = "import math\ndef f(x):\n    assert not hasattr(math, 'used')\n    math.used = True\n    return 2 * x"
    assert judge(doubling(), once, sandbox).passed
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


def test_keyword_arguments_and_values(sandbox):
    tests = [{"call": {"kwargs": {"a": [1], "b": {"k": None}}}, "output": [[1], {"k": None}, True, "é", 0.5]}]
    problem = Problem("p", "code", "", tests=json.dumps(tests), entry_point="f")
    assert judge(problem, "def f(a, b): return (tuple(a), b, True, 'é', 0.5)", sandbox).passed


def test_checks_run_beside_the_solution(sandbox):
    check = "import math\ndef check(candidate):\n    assert math.isclose(candidate(2.0), helper(2.0))"
    problem = Problem("p", "code", "", tests=json.dumps([{"check": check}]), entry_point="f")
    assert judge(problem, "def f(x): return 4.0\ndef helper(x): return 4.0", sandbox).passed
    wrong = judge(problem, "def f(x): return 5.0\ndef helper(x): return 4.0", sandbox)
    assert wrong.decided_by == "wrong_answer"
    assert judge(problem, "def f(x): return 4.0", sandbox).decided_by == "runtime_error"
    for attack in ("import os; os._exit(0)", "def f(x): raise SystemExit(0)"):
        assert not judge(problem, attack + "\ndef helper(x): return 1", sandbox).passed


def test_a_verdict_does_not_depend_on_chance(sandbox):
    tests = [{"input": "", "output": "?"}]
    problem = Problem("p", "code", "", tests=json.dumps(tests))
    draw = (
        "import random\nprint(random.random(), random.sample(sorted({str(n) for n in range(9)}), 3), {'a', 'b', 'c'})"
    )
    details = {judge(problem, draw, sandbox).detail for _ in range(3)}
    with Sandbox() as another:
        details.add(judge(problem, draw, another).detail)
    assert len(details) == 1


def test_a_problem_without_tests_is_an_error(sandbox):
    with pytest.raises(ValueError, match="no tests"):
        judge(Problem("p", "code", "", tests="[]"), "pass", sandbox)


@pytest.mark.parametrize(
    ("written", "expected", "same"),
    [
        (b"1 2\n", "1 2", True),
        (b"1 2 \n3\n\n", "1 2\n3", True),
        (b"1\r\n2\r\n", "1\n2\n", True),
        (b"", "\n", True),
        (b"1  2", "1 2", False),
        (b" 1", "1", False),
        (b"1\n\n2", "1\n2", False),
        (b"yes", "YES", False),
        (b"1.0", "1", False),
        (b"\xff", "?", False),
        ("é".encode(), "é", True),
    ],
)
def test_same_text(written, expected, same):
    assert same_text(written, expected) is same


@pytest.mark.parametrize(
    ("written", "expected", "same"),
    [
        (b"j3", 3, True),
        (b"j3", 3.0, True),
        (b"j0.30000000000000004", 0.3, True),
        (b"j0.3001", 0.3, False),
        (b"jNaN", float("nan"), True),
        (b"j[1, [2]]", [1, [2]], True),
        (b"j[1, 2]", [2, 1], False),
        (b"j[1, 2]", [1, 2, 3], False),
        (b'j{"a": 1.0000000001}', {"a": 1.0}, True),
        (b'j{"a": 1}', {"b": 1}, False),
        (b"jtrue", True, True),
        (b"jnull", None, True),
        (b"", None, False),
        (b"x", None, False),
        (b"r<object>", None, False),
        (b"r{1, 2}", "{1, 2}", True),
        (b"jtrue", "true", False),
        (b"j" + b"[" * 100_000, [], False),
        (b"j" + b"9" * 10_000, 1, False),
        (b"j" + b"9" * 400, 1.5, False),
    ],
)
def test_same_value(written, expected, same):
    assert same_value(written, expected) is same


def real_rows(name):
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"no real data at {path}")
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


def test_canonical_solutions_of_humaneval_pass(sandbox):
    for row in real_rows("benchmarks/HumanEval.jsonl.gz"):
        tests = json.dumps([{"check": row["test"]}])
        problem = Problem(row["task_id"], "code", row["prompt"], tests=tests, entry_point=row["entry_point"])
        verdict = judge(problem, row["prompt"] + row["canonical_solution"], sandbox)
        assert verdict.passed, (row["task_id"], verdict.decided_by, verdict.detail)
        assert not judge(problem, row["prompt"] + "    return None\n", sandbox).passed


def test_golden_solutions_of_leetcode_pass(sandbox):
    judged = 0
    for row in real_rows("code_raw/LeetCodeDataset-v0.2.0-train.jsonl.gz")[::18]:
        tests = [{"check": row["test"]}]
        if "ListNode" not in row["completion"] and "TreeNode" not in row["completion"]:
            tests += filter(None, map(_as_call, row["input_output"]))
        metadata = json.dumps({"prelude": row["prompt"]})
        entry_point = row["entry_point"]
        problem = Problem("p", "code", "", tests=json.dumps(tests), entry_point=entry_point, metadata=metadata)
        verdict = judge(problem, row["completion"], sandbox, fraction=True)
        assert verdict.passed, (row["task_id"], verdict.decided_by, verdict.detail)
        judged += 1
    assert judged >= 100


def _as_call(pair):
    """A published input and output as a test; None where they are not Python literals."""
    try:
        call = ast.parse(f"f({pair['input']})", mode="eval").body
        kwargs = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
        args = [ast.literal_eval(argument) for argument in call.args]
        return {"call": {"args": args, "kwargs": kwargs}, "output": ast.literal_eval(pair["output"])}
    except (ValueError, SyntaxError):
        return None
