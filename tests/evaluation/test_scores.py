import json
import math
from dataclasses import replace
from datetime import date

import numpy as np
import pandas as pd
import pytest

from ratchet.data_curation.base.metadata import difficulty_of, topics_of
from ratchet.evaluation import scores as scoring
from ratchet.evaluation.scores import flat, solve_rates, without_nan
from ratchet.verifiers.problem import Problem


def row(problem: str, sample: int, outcome: str, tokens: int = 10, finish: str = "stop", answer: int | None = 0):
    return {"problem_id": problem, "sample": sample, "outcome": outcome, "decided_by": "exact", "tokens": tokens,
            "finish_reason": finish, "answer_class": answer,
            "empty": outcome == "unparseable" and finish != "length"}  # fmt: skip


def score(rows: list[dict], *arguments, **named) -> dict:
    return scoring.score(pd.DataFrame(rows), *arguments, **named)


def problems(*names: str, **metadata) -> list[Problem]:
    return [Problem(name, "math", "?", metadata=json.dumps(metadata) if metadata else None) for name in names]


ROWS = [
    row("a", 0, "passed", 10), row("a", 1, "failed", 20, answer=1), row("a", 2, "failed", 30, answer=1),
    row("a", 3, "passed", 40),
    row("b", 0, "passed", 10), row("b", 1, "failed", 99, "length", None), row("b", 2, "infra_error", 7, answer=None),
    row("b", 3, "timeout", 50, answer=1),
]  # fmt: skip


def test_hand_worked():
    scores = score(ROWS, problems("a", "b"), (1, 2, 4, 8), vote=True)
    # a: 2 of 4; b: 1 of 3, because the infra error is no response
    assert scores["pass_at"]["1"]["value"] == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert scores["pass_at"]["2"]["value"] == pytest.approx(((1 - 1 / 6) + (1 - 1 / 3)) / 2)
    assert scores["pass_at"]["1"]["standard_error"] == pytest.approx(abs(1 / 2 - 1 / 3) / 2)
    assert scores["problems"] == {"a": [2, 4], "b": [1, 3]}
    assert (scores["samples"], scores["samples_graded"], scores["infra_errors"]) == (8, 7, 1)
    assert scores["truncation_rate"] == scores["timeout_rate"] == pytest.approx(1 / 7)
    assert scores["no_answer_rate"] == 0  # the truncated one is counted once
    silent = score([*ROWS, row("b", 4, "unparseable", answer=None)], problems("a", "b"), (1,), vote=True)
    assert silent["no_answer_rate"] == silent["empty_rate"] == pytest.approx(1 / 8)
    assert scores["accuracy_given_completion"] == pytest.approx(3 / 6)
    assert scores["response_tokens"]["correct"] == pytest.approx({"mean": 20, "median": 10, "p90": 34, "p99": 39.4})
    assert scores["response_tokens"]["all"]["median"] == 30
    variances = 1 / 2 * 1 / 2 / 3 + 1 / 3 * 2 / 3 / 2
    assert scores["standard_error_at_fixed_questions"] == pytest.approx(variances**0.5 / 2)


def test_k_beyond_n_is_undefined_and_says_how_many_questions_it_had():
    at = score(ROWS, problems("a", "b"), (4, 8), vote=False)["pass_at"]
    assert at["4"]["questions"] == 1 and at["4"]["value"] == 1  # only `a` has four graded responses
    assert at["8"]["questions"] == 0 and math.isnan(at["8"]["value"])
    assert json.loads(json.dumps(without_nan(at)))["8"]["value"] is None
    numbers = flat(score(ROWS, problems("a", "b"), (2, 4), vote=True))  # without the number of questions
    for name in ("pass_at_{}", "pass_at_{}_standard_error", "majority_at_{}"):
        assert numbers[name.format(4)] is None and numbers[name.format(2)] is not None


def test_the_vote_counts_classes():
    scores = score(ROWS[:4], problems("a"), (4,), vote=True)
    assert scores["majority_at"]["4"]["value"] == 0.5  # two right ones tie with two equal wrong ones
    assert "majority_at" not in score(ROWS[:4], problems("a"), (4,), vote=False)


def test_curve_ends_at_n_and_the_interval_stays_in_the_unit_range():
    rows = [row(p, s, "passed" if (s + int(p)) % 7 else "failed") for p in "0123456" for s in range(12)]
    scores = score(rows, problems(*"0123456"), (1,), vote=False)
    assert scores["pass_curve"]["k"] == [1, 2, 4, 8, 12]
    assert scores["pass_curve"]["value"][0] == pytest.approx(scores["pass_at"]["1"]["value"])
    assert np.all(np.diff(scores["pass_curve"]["value"]) >= -1e-12)
    assert scores["pass_curve"]["value"][-1] == 1
    assert 0 <= scores["pass_at"]["1"]["low"] <= scores["pass_at"]["1"]["high"] <= 1


def test_solve_rate_histogram_counts_every_question_once():
    c = np.array([0, 0, 1, 2, 8, 15, 16])
    histogram = solve_rates(np.full(7, 16), c)
    assert dict(zip(histogram["bins"], histogram["questions"], strict=True)) == {
        "never": 2, "0–12.5 %": 1, "12.5–25 %": 1, "25–37.5 %": 0, "37.5–50 %": 0, "50–62.5 %": 1, "62.5–75 %": 0,
        "75–87.5 %": 0, "87.5–100 %": 1, "always": 1,
    }  # fmt: skip


def test_no_rate_exceeds_one_whatever_happened():
    """One harness counted "no answer" once for each way of scoring, and reported 300 %."""
    silent = [row("a", i, "unparseable", finish="stop" if i % 2 else "length", answer=None) for i in range(6)]
    scores = score([*silent, row("a", 6, "infra_error")], problems("a"), (1, 2, 4), vote=True)
    assert scores["no_answer_rate"] == 0.5 and scores["truncation_rate"] == 0.5
    assert scores["infra_error_rate"] == pytest.approx(1 / 7)


def test_infra_errors_change_neither_score_nor_error():
    """Runs that broke are not dropped as a whole, nor counted as wrong: each question keeps what it has."""
    whole = score(ROWS[:5], problems("a", "b"), (1, 2), vote=True)
    broken = [*ROWS[:5], *(row("b", i, "infra_error", answer=None) for i in range(1, 9))]
    after = score(broken, problems("a", "b"), (1, 2), vote=True)
    for name in ("pass_at", "majority_at", "problems", "truncation_rate"):
        assert after[name] == whole[name]
    assert after["pass_at"]["1"]["standard_error"] > 0  # across questions, not over pooled responses
    nothing = score([row("a", i, "infra_error") for i in range(4)], problems("a", "b"), (1,), vote=True)
    assert nothing["infra_errors"] == 4 and nothing["questions_graded"] == 0 and nothing["questions"] == 2
    assert math.isnan(nothing["pass_at"]["1"]["value"]) and math.isnan(nothing["truncation_rate"])


def test_scores_with_and_without_contaminated_questions():
    scores = score(ROWS, problems("a", "b"), (1,), vote=False, contaminated={"a", "not asked"})
    assert scores["contamination"]["flagged"] == ["a"]
    assert scores["contamination"]["pass_at_without"]["1"] == pytest.approx(
        {"value": 1 / 3, "standard_error": math.nan, "low": math.nan, "high": math.nan, "questions": 1}, nan_ok=True
    )
    assert score(ROWS, problems("a", "b"), (1,), vote=False)["contamination"] is None
    assert score(ROWS, problems("a", "b"), (1,), vote=False, contaminated=())["contamination"]["flagged"] == []


def test_contests_come_from_the_metadata():
    rated = [replace(p, metadata=json.dumps({"contest_id": "c"})) for p in problems("a", "b")]
    scores = score([*ROWS, row("c", 0, "passed")], [*rated, *problems("c")], (1,), vote=False)
    assert len(set(scores["clusters"].values())) == 1 and set(scores["clusters"]) == {"a", "b"}


def test_every_interval_that_is_shown_is_across_contests():
    """Eight contests of four questions that are all right or all wrong: eight pieces of evidence, not 32."""
    names = [f"{contest}-{i}" for contest in range(8) for i in range(4)]
    rows = [row(name, k, "passed" if int(name[0]) % 2 else "failed") for name in names for k in range(2)]
    alone = [replace(p, released=date(2024, 1 + int(p.problem_id[0]) // 2, 1)) for p in problems(*names)]
    metadata = [{"contest_id": p.problem_id[0], "topic": "t", "difficulty": 1} for p in alone]
    grouped = [replace(p, metadata=json.dumps(m)) for p, m in zip(alone, metadata, strict=True)]

    def shown(problems: list[Problem]) -> list[dict]:
        found = score(rows, problems, (1, 2), vote=True, contaminated=[])
        points = [found[kind]["1"] for kind in ("pass_at", "all_pass_at", "majority_at")]
        points += [found["contamination"]["pass_at_without"]["1"], *found["topics"], *found["months"]]
        return [*points, *found["budgets"], {name: found["pass_curve"][name][0] for name in ("value", "low", "high")}]

    one_by_one, by_contest = shown([replace(p, metadata=json.dumps({"topic": "t"})) for p in alone]), shown(grouped)
    assert len(one_by_one) == len(by_contest) == 4 + 1 + 4 + 5 + 1
    for narrow, wide in zip(one_by_one, by_contest, strict=True):
        assert wide["value"] == narrow["value"] and wide["high"] - wide["low"] > 1.4 * (narrow["high"] - narrow["low"])


def test_months_and_budgets():
    asked = [replace(p, released=date(2024, 1 + i // 3, 15)) for i, p in enumerate(problems(*"abcdef"))]
    rows = [row(p.problem_id, 0, "passed", tokens=100 * (i + 1)) for i, p in enumerate(asked)]
    rows[5]["outcome"] = "failed"
    found = score(rows, asked, (1,), vote=False)
    assert [(m["topic"], m["questions"], m["value"]) for m in found["months"]] == [
        ("2024-01", 3, 1.0), ("2024-02", 3, pytest.approx(2 / 3))
    ]  # fmt: skip
    budgets = {point["tokens"]: point["value"] for point in found["budgets"]}
    assert budgets == pytest.approx({32: 0, 64: 0, 128: 1 / 6, 256: 2 / 6, 512: 5 / 6, 1024: 5 / 6})
    rows[0]["tokens"] = None  # of one response nobody knows the length
    assert score(rows, asked, (1,), vote=False)["budgets"] == []


def problem(number: int, **metadata) -> Problem:
    return Problem(str(number), "math", "?", metadata=json.dumps(metadata))


def by_topic(rates: dict[str, float], problems: list[Problem]) -> list[dict]:
    return scoring.by_topic(rates, *({p.problem_id: of(p) for p in problems} for of in (topics_of, difficulty_of)))


def test_topics_and_difficulties_as_published():
    assert topics_of(problem(1, subject="Intermediate Algebra")) == ("intermediate algebra",)
    assert topics_of(problem(1, unique_id="test/number_theory/572.json")) == ("number theory",)
    assert topics_of(problem(1, tags=["dp", "graphs", "dp"])) == ("dp", "graphs")
    assert topics_of(problem(1, unique_id="17")) == topics_of(Problem("1", "math", "?")) == ()
    found = [
        difficulty_of(problem(1, **m))
        for m in ({"difficulty": 2}, {"difficulty": "Hard"}, {"level": "5"}, {"level": "Level 2"}, {})
    ]
    assert found == [2.0, "hard", 5.0, 2.0, None]


def test_topics_by_hand():
    """Two strata of means 0.8 and 0.2; topic x has three easy questions, y one easy and three hard ones."""
    rates = {"0": 1.0, "1": 0.8, "2": 0.6, "3": 0.8, "4": 0.1, "5": 0.2, "6": 0.3}
    problems = [problem(i, topic="x" if i < 3 else "y", difficulty="easy" if i < 4 else "hard") for i in range(7)]
    y, x = by_topic(rates, problems)
    assert (x["topic"], x["questions"], x["value"]) == ("x", 3, pytest.approx(0.8))
    overall = np.mean(list(rates.values()))
    assert x["adjusted"] == pytest.approx(overall) and y["adjusted"] == pytest.approx(overall)
    assert x["adjusted_standard_error"] == pytest.approx(0.2 / 3**0.5)
    assert x["low"] < 0.8 < x["high"]


def test_a_topic_of_hard_questions_is_not_a_weakness():
    generator = np.random.default_rng(0)
    difficulty = generator.uniform(1, 10, 400)
    hard_topic = difficulty + generator.normal(0, 1, 400) > 6
    chance = 1 / (1 + np.exp(difficulty - 5))
    weak = ~hard_topic & (generator.random(400) < 0.3)
    rates = generator.binomial(16, np.where(weak, chance * 0.5, chance)) / 16
    names = np.where(weak, "weak", np.where(hard_topic, "hard", "easy"))
    problems = [
        problem(i, topic=str(t), difficulty=float(d)) for i, (t, d) in enumerate(zip(names, difficulty, strict=True))
    ]
    rows = {
        row["topic"]: row for row in by_topic(dict(zip(map(str, range(400)), rates.tolist(), strict=True)), problems)
    }
    assert rows["hard"]["value"] < rows["weak"]["value"]
    assert rows["weak"]["adjusted"] < rows["hard"]["adjusted"] - 0.1


def test_without_difficulties_there_is_no_adjustment_and_small_topics_are_left_out():
    problems = [problem(i, topic="x") for i in range(3)] + [problem(3, topic="rare")]
    (row,) = by_topic({str(i): 0.5 for i in range(4)}, problems)
    assert row["adjusted"] is None and row["topic"] == "x"
    assert by_topic({}, problems) == []
