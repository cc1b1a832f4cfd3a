import json
from contextlib import nullcontext

import pytest

from ratchet.data_curation import retry_timeouts
from ratchet.data_curation.base.files import HALF_WRITTEN
from ratchet.data_curation.base.problem_table import from_table, to_table
from ratchet.data_curation.code_tests import validation
from ratchet.data_curation.code_tests.golden_agreement import QUICK_S, QUICK_WIDER, Case, settle, verdicts
from ratchet.data_curation.code_tests.validation import validate_tests
from ratchet.data_curation.curation_step import Rows, StepContext
from ratchet.data_curation.settings.curation import TestValidation
from ratchet.data_curation.steps import run_steps
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.problem import Problem, problem_id
from ratchet.verifiers.serving.local_pool import VerifierPool

GOLDEN = "def solve(xs):\n    return max([x for x in xs if x > 3], default=0)\n"
STRONG = [([1, 2], 0), ([3], 0), ([4], 4), ([9, 4, 1], 9), ([], 0), ([-5, 3, 5], 5)]
WEAK = [([100], 100), ([200], 200), ([300], 300)]


@pytest.fixture(scope="module")
def pool():
    with VerifierPool(workers=1) as pool:
        yield pool


def rejected(split) -> dict[str, str]:
    return {row["source_id"]: row["rule"] for row in split.rejected.to_pylist()}


def row(name: str, golden: list[str], tests: list) -> dict:
    return {
        "problem_id": problem_id("code", name), "domain": "code", "source": "test", "source_id": name, "prompt": name,
        "entry_point": "solve", "golden_solutions": golden,
        "tests": json.dumps([{"call": {"args": [xs]}, "output": value} for xs, value in tests]),
    }  # fmt: skip


def test_each_rule_takes_its_own(pool):
    table = to_table([
        row("sound", [GOLDEN], STRONG),
        row("few", [GOLDEN], STRONG[:2]),
        row("wrong tests", [GOLDEN], [(xs, value + 1) for xs, value in STRONG]),
        row("weak tests", [GOLDEN], WEAK),
        row("second solution passes", ["def solve(xs): return 1", GOLDEN], STRONG),
        row("broken solution", ["def solve(xs) return"], STRONG),
        row("no solution", [], STRONG),
        row("few and no solution", [], STRONG[:2]),
    ])  # fmt: skip
    split = validate_tests(table, TestValidation(), pool)
    assert split.kept.column("source_id").to_pylist() == ["sound", "second solution passes", "no solution"]
    assert rejected(split) == {
        "few": "too_few_tests", "few and no solution": "too_few_tests", "wrong tests": "golden_fails",
        "weak tests": "weak_tests", "broken solution": "golden_fails",
    }  # fmt: skip
    evidence = json.loads(split.rejected.column("evidence").to_pylist()[1])
    assert evidence["failures"][0]["decided_by"] == "wrong_answer"
    facts = [json.loads(text)["validate_tests"] for text in split.kept.column("metadata").to_pylist()]
    assert facts[0] == {"tests": len(STRONG), "mutants": facts[0]["mutants"]} and facts[0]["mutants"] > 0
    assert facts[2] == {"tests": len(STRONG), "unchecked": True} and split.summary["unchecked"] == 1


def test_a_slow_solution_and_its_mutants_get_the_time_of_the_problem(pool):
    slow = "import time\n\n\ndef solve(xs):\n    time.sleep(0.3)\n    return len(xs) + 1\n"
    table = to_table([row("slow", [slow], [([1], 2), ([3, 4], 3)])])
    split = validate_tests(table, TestValidation(min_tests=2, min_mutants_killed=1.0, max_mutants=3), pool)
    assert split.rejected.column("rule").to_pylist() == ["weak_tests"]
    # The survivor is the program without its sleep; held to the mutants' limit, every mutant would have died.
    assert "sleep" not in json.loads(split.rejected.column("evidence")[0].as_py())["survivor"]


COUNTING = "def solve(xs):\n    n = 0\n    while n < len(xs):\n        n += 1\n    return n\n"
COUNTED = [([1, 2], 2), ([], 0), ([5], 1)]


def test_an_endless_loop_is_a_fault_that_every_test_notices_and_counted_apart(pool):
    settings = TestValidation(max_mutants=6, min_mutants_killed=1.0)
    split = validate_tests(to_table([row("loop", [COUNTING], COUNTED)]), settings, pool)
    [kept] = split.kept.to_pylist()
    assert json.loads(kept["metadata"])["validate_tests"] == {"tests": 3, "mutants": 6}
    assert split.summary["timed_out"] > 0


def spinning(seconds: float, value: str) -> str:
    """A solution whose every test takes so much CPU time."""
    return (
        f"import time\n\n\ndef solve(xs):\n    end = time.process_time() + {seconds}\n"
        f"    while time.process_time() < end:\n        pass\n    return {value}\n"
    )


def test_a_mutant_that_is_only_slow_has_survived(pool):
    """With the short limit alone its timeout looked like a fault that the tests detect."""
    golden = "def solve(xs):\n    return len(xs)\n"
    slow = spinning(0.4, "len(xs)")
    cases = [Case.of(problem) for problem in from_table(to_table([row("slow", [golden], COUNTED)]))]
    settle(cases, pool)
    assert cases[0].time_limit_s == QUICK_S
    [problem] = cases[0].programs([slow])
    assert pool.run_programs([problem])[0].outcome is Outcome.TIMEOUT
    assert verdicts(pool, [problem], 10 * QUICK_WIDER)[0].passed  # ten times, for slow machines


def test_a_golden_solution_somewhat_beyond_its_limit_rejects_no_row(pool, monkeypatch):
    widened = retry_timeouts._widened
    monkeypatch.setattr(retry_timeouts, "_widened", lambda submission, wider: widened(submission, 10 * wider))
    rows = [
        row(name, [spinning(seconds, "len(xs)")], COUNTED[:1]) | {"time_limit_s": 0.1}
        for name, seconds in (("slowed", 0.2), ("slow", 9999))
    ]
    settings = TestValidation(min_tests=1, min_mutants_killed=0, max_mutants=1)
    split = validate_tests(to_table(rows), settings, pool)
    assert split.kept.column("source_id").to_pylist() == ["slowed"]
    [evidence] = split.rejected.column("evidence").to_pylist()
    assert json.loads(evidence)["failures"][0]["decided_by"] == "time_limit"


def test_evidence_has_no_address(pool):
    golden = ["def solve(xs):\n    return repr(object())\n"]
    split = validate_tests(to_table([row("addresses", golden, COUNTED)]), TestValidation(), pool)
    [evidence] = split.rejected.column("evidence").to_pylist()
    assert "object at 0x…" in evidence


def test_check_functions_count_their_assertions(pool):
    asserted = ("candidate([1]) == 1", "candidate([]) == 0", "candidate([2]) == 2")
    check = "def check(candidate):\n" + "".join(f"    assert {assertion}\n" for assertion in asserted)
    problem = row("check", ["def solve(xs):\n    return sum(xs)\n"], []) | {"tests": json.dumps([{"check": check}])}
    split = validate_tests(to_table([problem]), TestValidation(), pool)
    assert json.loads(split.kept.column("metadata")[0].as_py())["validate_tests"]["tests"] == 3


SUM = "def solve(xs):\n    return sum(xs)\n"
ALSO_SUM = "def solve(xs):\n    total = 0\n    for x in xs:\n        total += x\n    return total\n"
THIRD_SUM = "from functools import reduce\n\n\ndef solve(xs):\n    return reduce(lambda a, b: a + b, xs, 0)\n"
LARGEST = "def solve(xs):\n    return max(xs, default=0)\n"
SUMS = [([1, 2], 3), ([], 0), ([5, 5], 10), ([7], 7), ([2, 3, 4], 9)]


def test_several_golden_solutions_settle_which_tests_and_which_of_them_are_wrong(pool):
    wrong = [*SUMS[:2], ([5, 5], 11), *SUMS[3:]]
    drawing = "import random\n\n\ndef solve(xs):\n    return {} if xs == [5, 5] else sum(xs)\n"
    disagreeing = [drawing.format(number) for number in (1, 2, 3)]
    table = to_table([
        row("one wrong test", [SUM, ALSO_SUM, THIRD_SUM], wrong),
        row("a copy is no witness", [SUM, SUM + "# the same\n"], wrong),
        row("wrong test, wrong solution", [SUM, LARGEST, THIRD_SUM], wrong),
        row("wrong solution", [SUM, LARGEST], SUMS),
        row("nobody agrees", disagreeing, SUMS),
        row("another problem's tests", [SUM, ALSO_SUM], [(xs, value + 1) for xs, value in SUMS]),
    ])  # fmt: skip
    split = validate_tests(table, TestValidation(min_mutants_killed=0), pool)
    kept = {problem["source_id"]: problem for problem in split.kept.to_pylist()}
    assert rejected(split) == {"a copy is no witness": "golden_fails", "another problem's tests": "golden_fails"}
    facts = {name: json.loads(problem["metadata"])["validate_tests"] for name, problem in kept.items()}
    for name in ("one wrong test", "wrong test, wrong solution", "nobody agrees"):
        tests = json.loads(kept[name]["tests"])
        assert [test["call"]["args"] for test in tests] == [[xs] for xs, _ in SUMS if xs != [5, 5]]
    [dropped] = facts["one wrong test"]["dropped"]
    assert (dropped["test"], dropped["golden"]) == (2, "3 of 3") and "11" in dropped["differences"][0]
    assert facts["wrong test, wrong solution"]["dropped"][0]["golden"] == "3 of 3"
    assert [text for text in facts["nobody agrees"]["dropped"][0]["differences"] if "10" in text]
    assert kept["wrong test, wrong solution"]["golden_solutions"] == [SUM, THIRD_SUM]
    assert kept["wrong solution"]["golden_solutions"] == [SUM] and "dropped" not in facts["wrong solution"]
    assert split.summary["tests_dropped"] == 3


def test_a_killed_run_goes_on_from_its_journal(pool, tmp_path, monkeypatch):
    monkeypatch.setattr(validation, "BATCH", 2)
    table = to_table([
        row("sound", [GOLDEN], STRONG), row("weak", [GOLDEN], WEAK), row("wrong", [SUM], STRONG),
        row("repaired", [SUM, ALSO_SUM], [*SUMS[:4], ([2], 3)]), row("few", [GOLDEN], STRONG[:2]),
    ])  # fmt: skip
    quiet = validate_tests(table, TestValidation(), pool)
    journal = tmp_path / "journal.jsonl"

    def kill(done, total):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        validate_tests(table, TestValidation(), pool, kill, journal)
    journal.write_text(journal.read_text() + '[4, {"rejec')
    judged = []
    monkeypatch.setattr(validation, "_settle", lambda rows, *rest: judged.append(len(rows)) or settle_rows(rows, *rest))
    resumed = validate_tests(table, TestValidation(), pool, journal=journal)
    assert judged == [1]
    assert (
        resumed.kept.equals(quiet.kept) and resumed.rejected.equals(quiet.rejected) and resumed.summary == quiet.summary
    )
    assert len(journal.read_text().splitlines()) == 5


settle_rows = validation._settle


def test_what_is_settled_stays_until_the_rows_are_stored(pool, tmp_path):
    table = to_table([row("few", [GOLDEN], STRONG[:2])])
    context = StepContext("code", folder=tmp_path, open_pool=lambda **asked: nullcontext(pool))
    assert [len(split.rejected) for split in validation.ValidateTests().run(Rows(table), context)] == [1]
    assert len(list(tmp_path.glob(f"*{HALF_WRITTEN}"))) == 1  # which finishing the artifact removes
    run_steps(table, ["validate_tests"], context)
    assert not list(tmp_path.iterdir())


def test_a_golden_solution_stands_for_those_that_differ_in_layout():
    wrong, again, right, more = "print(1)", "# again\nprint( 1 )", "print(2)", "print( 2 )"
    case = Case.of(Problem("p", "code", "Print 2.", tests="[]", golden_solutions=[wrong, right, again, more]))
    assert case.golden == [wrong, right] and case.outcome()["golden"] is None
    case.failed_golden = [wrong]
    assert case.outcome()["golden"] == [right, more]


HALVES = "n = int(input())\nprint(n // 2, n - n // 2)\n"
SUM_CHECKER = """import sys
n = int(open(sys.argv[1]).read())
a, b = map(int, open(sys.argv[3]).read().split())
print(1 if a + b == n else 0)
"""


def test_golden_solutions_and_mutants_go_through_the_checker(pool):
    def checked(name, source, golden):
        facts = {"checker": {"protocol": "script", "source": source}}
        tests = [{"input": f"{n}\n", "output": f"0 {n}\n"} for n in (1, 2, 5, 10, 101)]
        return row(name, golden, []) | {
            "entry_point": None, "tests": json.dumps(tests), "metadata": json.dumps(facts),
        }  # fmt: skip

    table = to_table([
        checked("sound", SUM_CHECKER, [HALVES]),
        checked("wrong", SUM_CHECKER, ["print(1, 1)"]),
        checked("accepts all", "print(1)", [HALVES]),
        checked("broken", "1 / 0", [HALVES]),
    ])  # fmt: skip
    split = validate_tests(table, TestValidation(max_mutants=2), pool)
    assert split.kept.column("source_id").to_pylist() == ["sound"]
    assert rejected(split) == {"wrong": "golden_fails", "accepts all": "weak_tests", "broken": "golden_fails"}
    facts = json.loads(split.kept.column("metadata").to_pylist()[0])
    assert "unchecked" not in facts["validate_tests"]
