"""What training gained: values worked by hand."""

import pandas as pd

from ratchet.evaluation.gains import BenchmarkGains, question_table, tasks_of
from ratchet.evaluation.tables import task_rows

QUESTIONS = pd.DataFrame(
    {
        "topics": [["graph color"], ["graph color"], ["maze"], ["maze"]], "difficulty": ["5", "10", "5", "5"],
        "prompt": ["a <b>", "b", "c", "d"], "source": "file", "source_id": ["0", "1", "2", "3"],
    },
    index=pd.Index(["q0", "q1", "q2", "q3"], name="problem_id"),
)  # fmt: skip


def scores(*passed, n=8):
    return {
        "domain": "logic", "content_hash": "h", "clusters": {},
        "problems": {f"q{i}": [c, n] for i, c in enumerate(passed)},
    }  # fmt: skip


def tasks(series, questions=QUESTIONS, name="puzzles"):
    return tasks_of(name, [(str(i), one) for i, one in enumerate(series)], questions)


def test_a_benchmark_and_its_tasks():
    whole, color, maze = tasks([scores(0, 4, 8, 2), scores(8, 4, 8, 0)])
    assert [task.name for task in (whole, color, maze)] == ["puzzles", "graph color", "maze"]
    assert whole.k == color.k == 4, "half of eight"
    gains = {(row["task"], row["metric"]): row["difference"].split(" ")[0] for row in task_rows([color, maze])}
    # pass@4 of 2 in 8 is 1 - C(6, 4) / C(8, 4) = 1 - 15 / 70.
    assert gains == {
        ("graph color", "pass@1"): "+0.500", ("graph color", "pass@4"): "+0.500", ("maze", "pass@1"): "−0.125",
        ("maze", "pass@4"): f"−{(1 - 15 / 70) / 2:.3f}",
    }  # fmt: skip
    assert whole.regime is None, "two checkpoints"
    named = tasks([scores(0, 4, 8, 2)] * 2, name="maze")
    assert [(task.name, len(task.counts[0])) for task in named] == [("maze", 4), ("graph color", 2), ("maze", 2)]


def test_questions_without_one_task_each_are_one_task_and_ungraded_ones_are_left_out():
    questions = QUESTIONS.assign(topics=[["a", "b"], ["a"], [], ["a"]])
    before = scores(1, 1, 1, 1)
    before["problems"]["q3"] = [0, 0]
    (whole,) = tasks([before, scores(2, 2, 2, 2)], questions=questions)
    assert list(whole.counts[-1]) == ["q0", "q1", "q2"]


def test_k_is_supported_by_every_question():
    few = scores(1, 1, 1, 1)
    few["problems"]["q2"] = [1, 3]
    for series, k in (
        ([few, scores(1, 1, 1, 1)], 1),
        ([scores(0, 0, 0, 0, n=1000)] * 2, 128),
        ([scores(1, n=7)] * 2, 2),
    ):
        assert tasks(series)[0].k == k


def test_every_question_is_listed_with_what_became_of_it():
    series = [scores(0, 4, 8, 0), scores(3, 0, 8, 0), scores(8, 0, 8, 0)]
    found = tasks(series)
    rows = question_table(BenchmarkGains(["start", "mid", "end"], "logic", found, QUESTIONS)).to_dict("records")
    assert [row["change"] for row in rows] == ["newly solved", "newly lost", "solved before and after", "never solved"]
    assert rows[0]["task"] == "graph color" and rows[0]["level"] == "5" and rows[0]["significant"]
    assert [rows[0][f"right, {label}"] for label in ("start", "mid", "end")] == [0, 3, 8]
    assert rows[0]["graded, end"] == 8 and rows[0]["question"] == "a <b>"
