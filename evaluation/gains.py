"""Gains by task, as in ProRL (arXiv 2505.24864, section 4), each with an interval.

A task is a benchmark, or a part of one: where its file states exactly one topic or task for each question, as
reasoning-gym's does, the questions of one topic are a task.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from ratchet.evaluation.comparison import SIGNIFICANT, Counts, question_changes
from ratchet.evaluation.regimes import Regime, regime

LARGEST_K = 128
SHOWN = 240  # characters of a question in `question_table`
CHANGES = ("newly solved", "newly lost", "solved before and after", "never solved")


def supported_k(*checkpoints: Counts) -> int:
    """The largest power of two up to `LARGEST_K` and up to half of the fewest responses to a question graded at each
    checkpoint, as ProRL estimates pass@128 from 256."""
    graded = ([counts.get(question, (0, 0))[1] for counts in checkpoints] for question in checkpoints[0])
    fewest = min((min(tries) for tries in graded if all(tries)), default=0)
    return min(2 ** max((fewest // 2).bit_length() - 1, 0), LARGEST_K)


@dataclass(frozen=True)
class Task:
    """Questions of a benchmark, graded at two or more checkpoints."""

    benchmark: str
    name: str
    counts: Sequence[Counts]
    clusters: Mapping[str, str]

    @property
    def k(self) -> int:
        return supported_k(*self.counts)

    @property
    def regime(self) -> Regime | None:
        """The task's regime; None for fewer than three checkpoints, two questions, or four responses to each."""
        if len(self.counts) < 3 or self.k < 2 or len(self.counts[0]) < 2:
            return None
        return regime(self.counts[0], self.counts[len(self.counts) // 2], self.counts[-1], self.k, self.clusters)


def tasks_of(benchmark: str, series: Sequence[tuple[str, Mapping[str, Any]]], questions: pd.DataFrame) -> list[Task]:
    """The tasks of a benchmark: the whole benchmark, followed by its tasks if each question has exactly one.

    `series` are its scores at each checkpoint, of the same content; `questions` is indexed by problem_id, with
    `topics`. Only questions graded at every checkpoint count.
    """
    scores = [scores for _, scores in series]
    graded = [q for q in scores[0]["problems"] if all(s["problems"].get(q, (0, 0))[1] for s in scores)]
    topics = [() if t is None or np.ndim(t) == 0 else tuple(t) for t in questions.reindex(graded).topics]
    task_of = {q: topic[0] if len(topic) == 1 else "" for q, topic in zip(graded, topics, strict=True)}
    names = sorted({*task_of.values()})
    parts = {name: [q for q in graded if task_of[q] == name] for name in names if all(names) and len(names) > 1}
    return [
        Task(benchmark, name, [{q: s["problems"][q] for q in own} for s in scores], scores[-1].get("clusters") or {})
        for name, own in [(benchmark, graded), *parts.items()]
    ]


@dataclass(frozen=True)
class BenchmarkGains:
    """A benchmark at several checkpoints of a training run."""

    labels: Sequence[str]
    """The checkpoints with the same questions as the first."""
    domain: str
    tasks: Sequence[Task]
    """Gains by task, as returned by `tasks_of`."""
    questions: pd.DataFrame
    """Rows of `questions.parquet`, by problem_id."""


def gains_of(
    benchmarks: Mapping[str, Sequence[tuple[str, Mapping[str, Any]]]], directories: Mapping[str, Path]
) -> list[BenchmarkGains]:
    """The gains on each benchmark with two comparable checkpoints; `directories` are those of the evaluations, by
    label."""
    gains = []
    for name, series in benchmarks.items():
        same = [(label, s) for label, s in series if s["content_hash"] == series[0][1]["content_hash"]]
        if len(same) < 2:
            continue
        table = pq.read_table(directories[same[-1][0]] / "questions.parquet", filters=[("benchmark", "=", name)])
        questions = table.to_pandas().set_index("problem_id")
        tasks = tasks_of(name, same, questions)
        if tasks[0].counts[0]:
            gains.append(BenchmarkGains([label for label, _ in same], same[0][1]["domain"], tasks, questions))
    return gains


def question_table(gains: BenchmarkGains) -> pd.DataFrame:
    """A table with one row per question: `change` from the first checkpoint to the last, whether that is `significant`
    for the question alone, and `right, LABEL` of `graded, LABEL` responses at each checkpoint."""
    whole, *parts = gains.tasks
    task_of = {question: part.name for part in parts for question in part.counts[0]}
    changes = question_changes(whole.counts[0], whole.counts[-1])
    facts = gains.questions.reindex(changes.index)
    change = np.select(
        [changes.newly_solved, changes.newly_lost, changes.passed + changes.passed_after > 0], CHANGES[:3], CHANGES[3]
    )
    rows = pd.DataFrame(
        {
            "benchmark": whole.benchmark, "domain": gains.domain,
            "task": [task_of.get(str(question), whole.name) for question in changes.index],
            "level": facts.difficulty, "change": change, "significant": changes.q_value < SIGNIFICANT,
            "source": facts.source, "source_id": facts.source_id, "question": facts.prompt.str.slice(0, SHOWN),
        }
    )  # fmt: skip
    for label, counts in zip(gains.labels, whole.counts, strict=True):
        rows[f"right, {label}"] = [counts[str(question)][0] for question in changes.index]
        rows[f"graded, {label}"] = [counts[str(question)][1] for question in changes.index]
    return rows.rename_axis("problem_id").reset_index()
