"""Programs that cheat a published check or break its process, and checks that are at fault themselves."""

from dataclasses import replace

import pytest

from ratchet.verifiers.code.judge import judge
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.submission import EVERY_TEST
from tests.verifiers.checks import NODES, checked
from tests.verifiers.programs import programs

GIVEN = programs("check_attacks")
EQUAL, GARBAGE, EXCUSES = GIVEN["equal"], GIVEN["garbage"], GIVEN["excuses"]
ATTACKS = {
    "equal to everything": EQUAL + "def f(x): return Same()",
    "a float equal to everything": EQUAL.replace("class Same", "class Same(float)") + "def f(x): return Same(1)",
    "patch everything": GIVEN["patch"],
    "assertions off": "import sys\nsys.flags = None\ndef f(x): raise KeyboardInterrupt",
    "garbage": GARBAGE.format(text=b'{"value": {"object": 7}, "objects": []}'),
    "a class that compares": GARBAGE.format(text=b'{"value": {"object": 0}, "objects": [["Counter", {}]]}'),
    "a report": GARBAGE.format(text=b'{"used": 1, "calls": [], "failure": null}'),
    "deep garbage": GARBAGE.format(text=b"[" * 100_000),
    "a class of the prelude": EQUAL.replace("Same", "ListNode") + "def f(x): return ListNode()",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_check_cannot_be_cheated(name, sandbox):
    problem = checked("assert abs(candidate(5851.125) - (11702 + 0.25)) < 1e-6", prelude=NODES)
    assert judge(problem, "def f(x): return 2 * x", sandbox).passed
    for attacked in (problem, checked("assert [candidate(5851.125)] == [11702.25]", prelude=NODES)):
        verdict = judge(attacked, ATTACKS[name], sandbox)
        assert verdict.outcome in (Outcome.FAILED, Outcome.TIMEOUT), verdict


FORGED = GIVEN["forged"]


@pytest.mark.parametrize("name", FORGED)
@pytest.mark.parametrize(
    "check", ["assert candidate(5) == 10", "assert candidate(5)[0] == 10", "assert np.allclose(candidate(5), e)"]
)
def test_what_a_program_sends_is_made_only_of_data(name, check, sandbox):
    """Messages that no honest program sends: classes made by `error`, objects on types that hold memory."""
    problem = checked("import numpy as np", "e = np.array([2., 4., 6.])", "e = e + 0.0", check)
    verdict = judge(problem, FORGED[name], sandbox)
    assert verdict.outcome is Outcome.FAILED, verdict


NAN = {
    "abs(candidate(5) - 25.0) > 1e-6": "import math\nmath.isfinite = lambda x: True\ndef f(x): return float('nan')",
    "abs(float(candidate(5)) - 25.0) > 1e-6": "def f(x): return 'nan'",
    "abs(sum(candidate(5)) - 25.0) > 1e-6": "def f(x): return [float('inf'), -float('inf')]",
    "abs(candidate(5)[0] - 25.0) > 1e-6": "import array\ndef f(x): return memoryview(array.array('d', [float('nan')]))",
}


@pytest.mark.parametrize("condition", NAN)
def test_nan_is_no_answer_however_it_comes(condition, sandbox):
    assert judge(checked(f"if {condition}: raise AssertionError"), NAN[condition], sandbox).outcome is Outcome.FAILED


def test_a_generator_that_empties_its_argument_later_is_noticed(sandbox):
    problem = checked("x = [3, 1, 2]", "assert list(candidate(x)) == sorted(x)")
    assert not judge(problem, "def f(x):\n    x.clear(); return\n    yield", sandbox).passed
    assert judge(problem, "def f(x):\n    yield from sorted(x)", sandbox).passed


def test_a_built_in_type_may_be_the_program(sandbox):
    assert judge(checked("assert candidate(5) == '5'"), "f = str", sandbox).passed


def test_annotations_as_text_in_a_check(sandbox):
    lines = ["from dataclasses import dataclass", "@dataclass", "class Node:", "    val: int = 0",
             "    next: 'Node | None' = None", "assert candidate(Node(3)) == 3"]  # fmt: skip
    assert judge(checked(*lines), "def f(n): return n.val", sandbox).passed


BAD_CHECKS = {
    "a module that is nowhere": ["import nowhere", "assert candidate(1) == nowhere.x"],
    "no call": ["assert 1 + 1 == 2 + 0"],
    "not what it needs": ["import threading", "assert candidate(threading.Lock()) == 1"],
    "no end": ["while len('x'): pass"],
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_CHECKS)
def test_a_check_that_is_wrong_itself_is_not_the_programs_failure(name, sandbox, monkeypatch):
    monkeypatch.setattr("ratchet.verifiers.code.problem.DEFAULT_TIME_LIMIT_S", 0.2)
    verdict = judge(checked(*BAD_CHECKS[name]), "def f(x): return 1", sandbox)
    assert (verdict.outcome, verdict.decided_by) == (Outcome.UNPARSEABLE, "invalid_problem"), verdict
    assert "check" in verdict.detail


def test_a_check_that_is_slow_itself_is_a_timeout(sandbox, monkeypatch):
    monkeypatch.setattr("ratchet.verifiers.code.problem.DEFAULT_TIME_LIMIT_S", 0.2)
    problem = replace(checked("x = candidate(1)\nwhile x: x += 1"), time_limit_s=0.3)
    verdict = judge(problem, "def f(x): return x", sandbox)
    assert (verdict.outcome, verdict.decided_by) == (Outcome.TIMEOUT, "time_limit"), verdict


def test_a_check_that_asks_for_ever_ends(sandbox):
    problem = replace(checked("x = 0\nwhile True:\n    x = candidate(x)\n    if x is None: break"), time_limit_s=0.2)
    assert judge(problem, "def f(x): return x + 1", sandbox).outcome is Outcome.TIMEOUT


@pytest.mark.parametrize("address", ["id(POINTER) + 64 if 'POINTER' in globals() else 4096", "8", "1 << 60"])
def test_a_check_reads_no_memory_at_an_address_of_the_program(address, sandbox):
    program = GIVEN["pointer"].replace("ADDRESS", address)
    close = checked("assert np.allclose(candidate(1), [11702.25, 5.5])", before="import numpy as np")
    verdict = judge(close, program, sandbox)
    assert (verdict.outcome, verdict.decided_by) != (Outcome.TIMEOUT, "time_limit") and not verdict.passed, verdict
    seen = checked("import numpy as np\nassert np.asarray(candidate(1)).dtype == float", "assert candidate(2) == 2")
    assert judge(seen, program, sandbox, EVERY_TEST).fraction == 0


@pytest.mark.parametrize("value", ["[]", "()", "{}", "''", "np.array([])"])
def test_nothing_is_close_to_an_empty_answer(value, sandbox):
    problem = checked("assert np.allclose(candidate(1), 2.5)", before="import numpy as np")
    assert not judge(problem, f"import numpy as np\ndef f(x): return {value}", sandbox).passed
    assert judge(problem, "def f(x): return 2.5", sandbox).passed
    empty = checked("assert np.allclose(candidate(1), [])", before="import numpy as np")
    assert judge(empty, "def f(x): return []", sandbox).passed


def test_a_check_that_ends_its_process_is_not_called_slow(sandbox):
    ends = checked("import os\nassert candidate(1) == 1\nos._exit(3) if candidate(2) == 3 else None")
    assert judge(ends, "def f(x): return x", sandbox).passed
    verdict = judge(ends, "def f(x): return x if x == 1 else 3", sandbox)
    assert verdict.decided_by == "runtime_error" and "ends its process" in verdict.detail
    large = checked("hoard = candidate(1) * 10 ** 9\nassert hoard")
    assert judge(large, "def f(x): return [x]", sandbox).outcome is Outcome.FAILED


@pytest.mark.parametrize("name", EXCUSES)
def test_no_program_makes_a_check_invalid(name, sandbox):
    problem = checked("got = candidate(1)\nassert candidate(got) == 1")
    for depth in range(150, 1000, 85) if "deep" in name else (1,):
        verdict = judge(problem, EXCUSES[name].replace("DEPTH", str(depth)), sandbox)
        assert verdict.outcome is Outcome.FAILED, (depth, verdict)


def test_a_program_that_is_slow_to_be_read_is_not_a_slow_check(sandbox, monkeypatch):
    monkeypatch.setattr("ratchet.verifiers.code.problem.DEFAULT_TIME_LIMIT_S", 0.2)
    value = '{"made": ["Pattern", ["(a|b|c|[d-g])*" * 100_000, 0]]}'
    program = EXCUSES["a type as the program"].replace('{"named": "int"}', value)
    problem = replace(checked("assert abs(candidate(1)) < 1"), time_limit_s=0.2)
    verdict = judge(problem, program, sandbox)  # read within the limit or not: the machine decides
    assert verdict.decided_by in ("time_limit", "runtime_error"), verdict


def test_a_check_may_want_a_class(sandbox):
    problem = checked("assert isinstance(candidate, type)", "assert candidate(3).v == 3")
    assert judge(problem, "class f:\n    def __init__(self, v): self.v = v", sandbox).passed
    verdict = judge(problem, "def f(v): return v", sandbox)
    assert verdict.decided_by == "wrong_answer", verdict
