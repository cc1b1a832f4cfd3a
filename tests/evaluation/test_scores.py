import json
import math

import numpy as np
import pytest

from evaluation.scores import score, solve_rates, without_nan


def row(problem: str, sample: int, outcome: str, tokens: int = 10, finish: str = "stop", extracted: str | None = "1"):
    return {"problem_id": problem, "sample": sample, "outcome": outcome, "tokens": tokens, "finish_reason": finish,
            "extracted": extracted}  # fmt: skip


ROWS = [
    row("a", 0, "passed", 10), row("a", 1, "failed", 20, extracted="8"), row("a", 2, "failed", 30, extracted=" 8 "),
    row("a", 3, "passed", 40, extracted="one"),
    row("b", 0, "passed", 10), row("b", 1, "failed", 99, "length", None), row("b", 2, "infra_error", 7),
    row("b", 3, "timeout", 50, extracted="2**2**99"),
]  # fmt: skip


def test_hand_worked():
    scores = score(ROWS, ["a", "b"], (1, 2, 4, 8), vote=True)
    # a: 2 of 4; b: 1 of 3, because the infra error is no response
    assert scores["pass_at"]["1"]["value"] == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert scores["pass_at"]["2"]["value"] == pytest.approx(((1 - 1 / 6) + (1 - 1 / 3)) / 2)
    assert scores["pass_at"]["1"]["standard_error"] == pytest.approx(abs(1 / 2 - 1 / 3) / 2)
    assert scores["problems"] == {"a": [2, 4], "b": [1, 3]}
    assert (scores["samples"], scores["samples_graded"], scores["infra_errors"]) == (8, 7, 1)
    assert scores["truncation_rate"] == scores["timeout_rate"] == pytest.approx(1 / 7)
    assert scores["no_answer_rate"] == 0  # the truncated one is counted once
    silent = score([*ROWS, row("b", 4, "unparseable", extracted=None)], ["a", "b"], (1,), vote=True)
    assert silent["no_answer_rate"] == pytest.approx(1 / 8)
    assert scores["accuracy_given_completion"] == pytest.approx(3 / 6)
    assert scores["response_tokens"]["correct"] == pytest.approx({"mean": 20, "median": 10, "p90": 34})
    assert scores["response_tokens"]["all"]["median"] == 30
    assert scores["average"]["value"] == pytest.approx(scores["pass_at"]["1"]["value"])
    assert scores["average"]["samples_per_question"] == 3.5
    # run 0: both passed; run 1: neither; run 2: a failed, b not graded; run 3: a passed, b timed out
    assert scores["average"]["standard_error_across_runs"] == pytest.approx(np.std([1, 0, 0, 0.5], ddof=1) / 2)


def test_k_beyond_n_is_undefined_and_says_how_many_questions_it_had():
    at = score(ROWS, ["a", "b"], (4, 8), vote=False)["pass_at"]
    assert at["4"]["questions"] == 1 and at["4"]["value"] == 1  # only `a` has four graded responses
    assert at["8"]["questions"] == 0 and math.isnan(at["8"]["value"])
    assert json.loads(json.dumps(without_nan(at)))["8"]["value"] is None


def test_votes_for_the_right_answer_unite_however_it_is_written():
    scores = score(ROWS[:4], ["a"], (4,), vote=True)
    assert scores["majority_at"]["4"]["value"] == 0.5  # two right ("1", "one") tie with two wrong ("8", " 8 ")
    assert "majority_at" not in score(ROWS[:4], ["a"], (4,), vote=False)


def test_infra_errors_are_never_zeros():
    errors = [row("a", i, "infra_error") for i in range(4)]
    assert score([*errors, row("a", 4, "passed")], ["a"], (1,), vote=False)["pass_at"]["1"]["value"] == 1
    nothing = score(errors, ["a", "b"], (1,), vote=True)
    assert nothing["infra_errors"] == 4 and nothing["questions_graded"] == 0 and nothing["questions"] == 2
    assert math.isnan(nothing["pass_at"]["1"]["value"]) and math.isnan(nothing["truncation_rate"])


def test_curve_ends_at_n_and_the_interval_stays_in_the_unit_range():
    rows = [row(p, s, "passed" if (s + int(p)) % 7 else "failed") for p in "0123456" for s in range(12)]
    scores = score(rows, list("0123456"), (1,), vote=False)
    assert scores["pass_curve"]["k"] == [1, 2, 4, 8, 12]
    assert scores["pass_curve"]["value"][0] == pytest.approx(scores["pass_at"]["1"]["value"])
    assert np.all(np.diff(scores["pass_curve"]["value"]) >= -1e-12)
    assert scores["pass_curve"]["value"][-1] == 1
    assert 0 <= scores["pass_at"]["1"]["low"] <= scores["pass_at"]["1"]["high"] <= 1


def test_solve_rate_histogram_counts_every_question_once():
    rates = np.array([0, 0, 1 / 16, 0.125, 0.5, 15 / 16, 1])
    histogram = solve_rates(rates)
    assert dict(zip(histogram["bins"], histogram["questions"], strict=True)) == {
        "never": 2, "0–12.5 %": 1, "12.5–25 %": 1, "25–37.5 %": 0, "37.5–50 %": 0, "50–62.5 %": 1, "62.5–75 %": 0,
        "75–87.5 %": 0, "87.5–100 %": 1, "always": 1,
    }  # fmt: skip
