import json
import sys

import pytest

from data_curation.mutation import mutants
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
    assert evidence["failures"][0]["by"] == "wrong_answer"
    strength = json.loads(split.kept.column("metadata").to_pylist()[0])["validation"]
    assert strength["mutants_killed"] > 0


def test_mutants_differ_from_the_program_and_from_one_another():
    found = mutants(GOLDEN, most=50, seed=1)
    assert len(found) == len(set(found)) >= 5
    assert any("x >= 3" in m for m in found) and any("min(" in m for m in found) and any("x > 4" in m for m in found)
    assert mutants(GOLDEN, 3, seed=1) == found[:3]
    assert mutants(GOLDEN, 50, seed=2) != found


@pytest.mark.parametrize("source", ["def solve(xs) return", "(" * 5000, "x = '\x00'", "-" * 100_000 + "1"])
def test_programs_that_cannot_be_parsed_have_no_mutants(source):
    assert mutants(source, 5, seed=0) == []
    assert sys.getrecursionlimit() >= 1000
