import json

import numpy as np
import pytest

from ratchet.data_curation.base.metadata import difficulty_of, topics_of
from ratchet.evaluation.scores import by_topic as by_topic_of
from ratchet.verifiers.problem import Problem


def problem(number: int, **metadata) -> Problem:
    return Problem(str(number), "math", "?", metadata=json.dumps(metadata))


def by_topic(rates: dict[str, float], problems: list[Problem]) -> list[dict]:
    return by_topic_of(rates, *({p.problem_id: of(p) for p in problems} for of in (topics_of, difficulty_of)))


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


def test_by_hand():
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
