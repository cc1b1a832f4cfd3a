"""Published checks are run as they are written, and values cross unchanged in both directions."""

import json
from collections import Counter, OrderedDict, deque
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest

from ratchet.verifiers.code.judge import examine, judge
from ratchet.verifiers.code.problem import read_problem
from ratchet.verifiers.code.published_checks import read_check
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.sandbox import values
from ratchet.verifiers.submission import EVERY_TEST
from tests.verifiers.checks import NODES, checked


def kinds(problem):
    return ["check" if test.check else "call" for test in read_problem(problem).tests]


def test_a_check_of_literal_assertions_alone_becomes_calls():
    statements = ['"What it says."', "assert True", "assert candidate(1, b=[2]) == [3, None]",
                  "assert candidate('') == {'a': 1.5}"]  # fmt: skip
    first, second = read_problem(checked(*statements)).tests
    assert (first.call, first.output, first.exact) == ({"args": [1], "kwargs": {"b": [2]}}, [3, None], True)
    assert (second.call, second.output, second.exact) == ({"args": [""], "kwargs": {}}, {"a": 1.5}, True)
    other = checked(*statements, "assert abs(candidate(0.5) - 1 / 3) < 1e-6")
    *calls, last = read_problem(other).tests
    assert calls == [first, second]
    assert last.check == "def check(candidate):\n    assert abs(candidate(0.5) - 1 / 3) < 1e-06"


@pytest.mark.parametrize(
    ("statements", "before"),
    [
        (["n = candidate(1)", "assert candidate(2) == 2"], ""),
        (["assert (n := candidate(1)) == 1", "assert n == 1"], ""),
        (["assert candidate(DATA) == 1", "assert candidate(1) == 1"], "DATA = [1]"),
        (["assert candidate(1) == 1", "assert candidate(2) == 2"], "print(3)"),
        (["import math", "assert candidate(1) == 1"], ""),
        (
            ["assert candidate(n()) == 1", "assert candidate(n()) == 2"],
            "a = []\ndef n():\n    a.append(0)\n    return len(a)",
        ),
        (
            ["assert candidate(n()) == 1", "assert candidate(n()) == 2"],
            "a = 0\ndef n():\n    global a\n    a += 1\n    return a",
        ),
        (
            ["assert candidate(n()) == 1", "assert candidate(n()) == 2"],
            "def n(a=[]):\n    a.append(0)\n    return len(a)",
        ),
    ],
)
def test_other_checks_stay_whole(statements, before):
    assert kinds(checked(*statements, before=before)) == ["check"]


def test_assertions_that_do_not_use_the_program_go_with_those_that_do(sandbox):
    before = "EPS = 1e-6\ndef near(a, b): return abs(a - b) < EPS"
    idle = ["assert callable(candidate)", "assert near(1, 1)", "assert candidate is not None"]
    first, second, last = read_problem(
        checked(*idle, "assert near(candidate(1), 1)", "assert candidate(2) == 2", "assert candidate(3) == 3", idle[1],
                before=before)
    ).tests  # fmt: skip
    assert (
        first.check.count("assert") == 4
        and last.check.count("assert") == 2
        and second.call == {"args": [2], "kwargs": {}}
    )
    for problem in (
        checked(idle[0], "assert candidate(1) == 1"),
        checked("assert candidate(1) == 1", "assert 1 + 1 == 2"),
    ):
        assert len(read_problem(problem).tests) == 1 and judge(problem, "def f(x): return x", sandbox).passed
        assert judge(problem, "def f(x): return 0", sandbox).decided_by == "wrong_answer"


def test_of_two_checks_the_later_one_counts(sandbox):
    problem = checked("assert candidate(1) == 2", before="def check(candidate):\n    assert candidate(1) == 1")
    assert judge(problem, "def f(x): return 2", sandbox).passed
    assert judge(problem, "def f(x): return 1", sandbox).decided_by == "wrong_answer"


def test_a_check_that_its_source_calls_runs_once(sandbox):
    called = checked("assert candidate() == 1", "x = candidate()\nassert x == 2")
    tests = json.loads(called.tests)
    tests[0]["check"] += "\ncheck(f)"
    counts = "n = 0\ndef f():\n    global n\n    n += 1\n    return n"
    assert judge(replace(called, tests=json.dumps(tests)), counts, sandbox).passed


def test_state_is_that_of_one_process_in_the_order_of_the_check(sandbox):
    counts = "n = 0\ndef f(*_):\n    global n\n    n += 1\n    return n"
    assert judge(
        checked("assert candidate() == 1", "x = candidate()", "assert x == 2 and candidate() == 3"), counts, sandbox
    ).passed
    mixed = checked("assert candidate() == 1", "assert candidate() in (2,)", "assert candidate() == 3")
    assert judge(mixed, counts, sandbox).passed
    # Stored as calls and a check by an earlier version: the calls are part of the check.
    tests = [
        {"call": {"args": []}, "output": 1, "exact": True},
        {"check": "def check(candidate):\n    assert candidate() == 2 + 0"},
    ]
    assert judge(replace(mixed, tests=json.dumps(tests)), counts, sandbox).passed
    # A value that JSON has not makes all of them a check, from the beginning.
    odd = checked("assert candidate(1) == 1", "assert candidate(2) == 2", "assert candidate(3) == 3")
    assert kinds(odd) == ["call"] * 3
    assert judge(
        odd, counts.replace("return n", "return n if n != 2 else __import__('fractions').Fraction(2)"), sandbox
    ).passed


def test_a_method_of_solution_comes_before_a_function_of_its_name(sandbox):
    problem = checked("assert candidate(12, 18) == 6 + 0", entry_point="gcd")
    source = "from math import gcd\nclass Solution:\n    def gcd(self, a, b): return gcd(a, b)"
    assert judge(problem, source, sandbox).passed
    assert not judge(problem, source.replace("gcd(a, b)\n", "").replace("return gcd(a, b)", "return 0"), sandbox).passed


LOST_IN_JSON = [
    "candidate((1, 2)) == 3", "candidate([(1,)]) == 3", "candidate(1) == (2,)", "candidate({1: 2}) == 3",
    "candidate(1) is True", "candidate(1)", "not candidate(1)", "candidate(1) == 1e999", "candidate({1}) == 3",
]  # fmt: skip


@pytest.mark.parametrize("asserted", LOST_IN_JSON)
def test_what_json_would_change_stays_a_check(asserted):
    assert kinds(checked(f"assert {asserted}")) == ["check"]


@pytest.mark.parametrize("source", ["def check(", "x = 1", "def check():\n    pass", "\0", "(" * 5000])
def test_what_is_no_check_says_so(source, sandbox):
    with pytest.raises(ValueError, match=r"not Python|no check"):
        read_check(source)
    problem = Problem("p", "code", "", tests=json.dumps([{"check": source}]), entry_point="f")
    verdict = judge(problem, "def f(): pass", sandbox)
    assert (verdict.outcome, verdict.decided_by) == (Outcome.UNPARSEABLE, "invalid_problem")


def test_assertions_beside_an_empty_check_decide(sandbox):
    check = "candidate = f\nassert candidate(2) == 4\ndef check(x): pass"
    problem = Problem("p", "code", "", tests=json.dumps([{"check": check}]), entry_point="f")
    assert judge(problem, "def f(x): return 2 * x", sandbox).passed
    assert judge(problem, "def f(x): return 2 + x - (x == 2)", sandbox).decided_by == "wrong_answer"


def test_nodes_of_the_prelude_go_in_and_come_out(sandbox):
    problem = checked(
        "assert same(candidate(chain([1, 2, 3]), 9), chain([9, 1, 2, 3]))",
        "assert same(candidate(chain([]), 9), chain([9]))",
        prelude=NODES,
    )
    assert judge(problem, "def f(head, x): return ListNode(x, head)", sandbox).passed
    own = "class ListNode:\n    def __init__(self, val, next): self.val, self.next = val, next\n"
    assert judge(problem, own + "def f(head, x): return ListNode(x, head)", sandbox).passed
    verdict, results = examine(problem, "def f(head, x): return ListNode(x)", sandbox, EVERY_TEST)
    assert (verdict.decided_by, verdict.fraction) == ("wrong_answer", 0.5)
    assert "does not hold: 'assert same(candidate(chain([1, 2, 3]), 9)" in results[0].difference
    looping = "def f(head, x):\n    node = ListNode(9)\n    node.next = node\n    return node"
    assert not judge(problem, looping, sandbox).passed


def test_nodes_of_the_prelude_may_be_changed_in_place(sandbox):
    appends = checked("head = chain([1, 2])", "candidate(head)", "assert same(head, chain([1, 2, 9]))", prelude=NODES)
    assert judge(appends, "def f(head): head.next.next = ListNode(9)", sandbox).passed
    assert judge(appends, "def f(head): return None", sandbox).outcome is Outcome.FAILED
    returns = checked("head = chain([3, 1])", "assert same(candidate(head), chain([head.next.val, 3]))", prelude=NODES)
    assert not judge(returns, "def f(head):\n    head.next.val = 3\n    return head", sandbox).passed


def test_an_exception_that_no_check_expects_is_a_runtime_error(sandbox):
    problem = checked("try:\n    candidate(1)\nexcept ValueError:\n    pass")
    assert judge(problem, "def f(x): raise ValueError", sandbox).passed
    verdict = judge(problem, "def f(x): raise KeyError", sandbox)
    assert (verdict.outcome, verdict.decided_by) == (Outcome.FAILED, "runtime_error"), verdict


def test_long_chains_need_no_recursion(sandbox):
    problem = checked("assert same(candidate(chain([1] * 20000)), chain([1] * 20000))", prelude=NODES)
    assert judge(replace(problem, time_limit_s=60.0), "def f(head): return head", sandbox).passed


def test_the_calls_of_a_check_share_a_module_as_in_its_own_harness(sandbox):
    sieve = "import time\ntime.sleep(0.3)\ndef f(x): return x"
    calls = checked(*(f"assert candidate({i}) == {i}" for i in range(60)))  # its module runs once: 0.3 of 10 seconds
    assert judge(calls, sieve, sandbox, EVERY_TEST).passed
    alike = checked("assert candidate([1]) == [1] and candidate((1,)) == (1,)", "assert candidate(1) == [1]")
    verdict, _ = examine(alike, sieve, sandbox, EVERY_TEST)
    assert verdict.fraction == 0.5


def test_a_program_that_ends_in_one_check_is_asked_again_by_the_next(sandbox):
    problem = replace(checked(*(f"assert candidate(({i},)) == {i}" for i in range(4))), time_limit_s=0.5)
    source = "import os, time\ndef f(x):\n    if x[0] == 1: os._exit(0)\n    while x[0] == 2: pass\n    return x[0]"
    verdict, results = examine(problem, source, sandbox, EVERY_TEST)
    assert verdict.fraction == 0.5
    assert [result.status for result in results] == ["passed", "runtime_error", "time_limit", "passed"]


def test_a_name_that_the_program_was_to_define_is_its_own_failure(sandbox):
    problem = checked("assert candidate([Pair(1, 2)]) == 3")
    pair = "class Pair:\n    def __init__(self, *a): self.a = a\n"
    assert judge(problem, pair + "def f(x): return sum(x[0].a)", sandbox).passed
    verdict = judge(problem, "def f(x): return 3", sandbox)
    assert (verdict.outcome, verdict.decided_by) == (Outcome.FAILED, "runtime_error") and "Pair" in verdict.detail


ADDS = "def f(a, b): return 2 * add(a, b)\ndef add(a, b): return a + b"


@pytest.mark.parametrize(
    ("program", "decided_by"),
    [
        (ADDS, "all_tests"),
        ("def f(a, b): return 2 * (a + b)\ndef add(a, b): return a - b", "wrong_answer"),
        ("def f(a, b): return 2 * (a + b)", "runtime_error"),
    ],
)
def test_a_function_of_the_default_prelude_is_the_programs(program, decided_by, sandbox):
    split = checked("assert candidate(1, 2) == 6", "assert add(1, 2) == 3")
    for problem in (split, checked("for a, b in ((1, 2), (3, 4)): assert candidate(a, b) == 2 * add(a, b)")):
        assert judge(problem, program, sandbox).decided_by == decided_by


def test_a_comparison_of_the_default_prelude_is_the_checks(sandbox):
    problem = checked("assert isclose(candidate(2), 4.0) and math.isclose(candidate(3), 6.0)")
    assert judge(problem, "def f(x): return 2.0 * x", sandbox).passed
    own = "def isclose(a, b): return True\nclass math: isclose = isclose\n"
    assert judge(problem, own + "def f(x): return 0.0", sandbox).decided_by == "wrong_answer"


class Point:
    __module__ = values.PRELUDE

    def __init__(self, **fields):
        vars(self).update(fields)


class Slotted:
    __slots__ = ("x",)


class OfPrelude(values.Wire):
    def class_of(self, name):
        return {"Point": Point, "Slotted": Slotted}.get(name)


def test_values_come_back_as_they_went():
    wire = OfPrelude()

    def there_and_back(value):
        return wire.decode(json.loads(json.dumps(wire.encode(value))))

    shared, slotted = Point(x=1), Slotted()
    shared.itself, slotted.x = shared, (2,)
    plain = [
        None, True, -3, 0.1, "é\ud800", (1, [2]), {3, 4}, frozenset({5}), {(1, 2): {"object": 0}}, b"\xff",
        bytearray(b"a"), 2j, 10**400, range(1, 9, 2), Fraction(1, 3), Decimal("1.50"), date(2024, 2, 29),
        timedelta(1, 2, 3), deque([1], 4), datetime(2024, 1, 2, 3, 4, 5, 6, UTC), time(1, 2), Counter("aab"),
        OrderedDict(b=1, a=2), int, ..., slice(1, 2), {1: 2}.items(),
    ]  # fmt: skip
    back = there_and_back(plain)
    assert back == plain and list(map(type, back)) == list(map(type, plain))
    one, [other], third = there_and_back((shared, [shared], slotted))
    assert one is other and one.itself is one and one.x == 1 and type(one) is Point and third.x == (2,)
    with pytest.raises(TypeError, match="function is not data"):
        wire.encode([lambda: 0])
    for text in ('{"value": 0, "objects": [[99, "of Other", {}]]}', '{"value": {"eval": "1"}, "objects": []}'):
        with pytest.raises(ValueError, match=r"no class|no kind"):
            wire.decode(json.loads(text))
