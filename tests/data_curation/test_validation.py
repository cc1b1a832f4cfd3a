import json

import pytest

from data_curation.validation import validate_tests
from infra.problems import problem_id, to_table
from infra.recipe.model import TestValidation
from verifiers.pool import VerifierPool

GOLDEN = "def solve(xs):\n    return max([x for x in xs if x > 3], default=0)\n"
STRONG = [([1, 2], 0), ([3], 0), ([4], 4), ([9, 4, 1], 9), ([], 0), ([-5, 3, 5], 5)]
WEAK = [([100], 100), ([200], 200), ([300], 300)]


@pytest.fixture(scope="module")
def pool():
    with VerifierPool(workers=1) as pool:
        yield pool


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
    ])  # fmt: skip
    split = validate_tests(table, TestValidation(), pool)
    assert split.kept.column("source_id").to_pylist() == ["sound", "second solution passes"]
    rules = dict(
        zip(split.rejected.column("source_id").to_pylist(), split.rejected.column("rule").to_pylist(), strict=True)
    )
    assert rules == {
        "few": "too_few_tests",
        "wrong tests": "golden_fails",
        "weak tests": "weak_tests",
        "broken solution": "golden_fails",
    }
    evidence = json.loads(split.rejected.column("evidence").to_pylist()[1])
    assert evidence["failures"][0]["decided_by"] == "wrong_answer"
    strength = json.loads(split.kept.column("metadata").to_pylist()[0])["validate_tests"]
    assert strength["killed"] > 0 and strength["tests"] == len(STRONG)


def test_a_slow_solution_and_its_mutants_get_the_time_of_the_problem(pool):
    slow = "import time\n\n\ndef solve(xs):\n    time.sleep(0.3)\n    return len(xs) + 1\n"
    table = to_table([row("slow", [slow], [([1], 2), ([3, 4], 3)])])
    split = validate_tests(
        table, TestValidation(min_tests=2, min_mutants_killed=1.0, max_mutants=3, generated_inputs=0), pool
    )
    assert split.rejected.column("rule").to_pylist() == ["weak_tests"]
    # The survivor is the program without its sleep; held to the mutants' limit, every mutant would have died.
    assert "sleep" not in json.loads(split.rejected.column("evidence")[0].as_py())["survivor"]


def test_an_endless_loop_is_a_fault_that_every_test_notices(pool):
    counting = "def solve(xs):\n    n = 0\n    while n < len(xs):\n        n += 1\n    return n\n"
    table = to_table([row("loop", [counting], [([1, 2], 2), ([], 0), ([5], 1)])])
    split = validate_tests(table, TestValidation(max_mutants=6), pool)
    assert len(split.kept) == 1


def test_check_functions_count_their_assertions(pool):
    asserted = ("candidate([1]) == 1", "candidate([]) == 0", "candidate([2]) == 2")
    check = "def check(candidate):\n" + "".join(f"    assert {assertion}\n" for assertion in asserted)
    problem = row("check", ["def solve(xs):\n    return sum(xs)\n"], []) | {"tests": json.dumps([{"check": check}])}
    split = validate_tests(to_table([problem]), TestValidation(), pool)
    assert json.loads(split.kept.column("metadata")[0].as_py())["validate_tests"]["tests"] == 3
