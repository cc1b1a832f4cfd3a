"""Whole benchmarks, graded: the references as responses, nothing as responses, and rewritings of the references.

A part of each on every change, all of them at night.
"""

import os
from pathlib import Path

import pytest

from ratchet.verifiers.serving.local_pool import VerifierPool
from tests.evaluation import golden

PART = {"aime24": 1, "amc22_23": 2, "math500": 10, "olympiad_bench": 10, "HumanEval": 33}  # every n-th question


@pytest.fixture(scope="module")
def pool():
    with VerifierPool(2) as pool:
        yield pool


@pytest.mark.parametrize("part", ["part", pytest.param("whole", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", golden.FILES)
def test_golden_answers_pass_and_empty_ones_do_not(pool, name, part, tmp_path):
    root = Path(os.environ.get("RATCHET_SHARED_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
    if not root.is_dir():
        pytest.skip(f"no published data sets at {root} (RATCHET_SHARED_DATA)")
    given = golden.problems(root, name, tmp_path)
    some = given[:: PART[name] if part == "part" else 1]
    asked = some if golden.FILES[name] == "code" else given
    right = golden.scores_of(pool, given, {p.problem_id: [golden.golden(p)] for p in asked})
    assert right["pass_at"]["1"]["value"] == 1.0
    empty = golden.scores_of(pool, given, {p.problem_id: ["", "\n", "```python\n```", "\\boxed{}"] for p in some})
    assert empty["pass_at"]["1"]["value"] == 0.0 and empty["no_answer_rate"] == 1.0
    rewritten = golden.scores_of(pool, given, {p.problem_id: list(golden.rewritings(p)) for p in some})
    assert rewritten["samples"] == golden.REWRITINGS * len(some)
    assert rewritten["pass_at"]["1"]["value"] >= 0.99
