"""Gains by task, after ProRL (arXiv 2505.24864, section 4), each with an interval.

A task is a benchmark, or a part of one: where its file states exactly one topic or task for each question, as
reasoning-gym's does, the questions of one topic are a task.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from ratchet.evaluation.comparison import SIGNIFICANT, Counts, PairedDifference, paired_difference, question_changes
from ratchet.evaluation.pass_at_k import pass_at_k_table
from ratchet.evaluation.regimes import RegimeFound, regime
from ratchet.evaluation.scores import Curves

LARGEST_K = 128
FEWEST_TASKS = 5  # for a correlation
SPLITS = 50
SHOWN = 240  # characters of a question in `question_table`
CHANGES = ("newly solved", "newly lost", "solved before and after", "never solved")

Trained = Mapping[str, Mapping[str, frozenset[float]]]
"""The training set: by domain, its tasks, each with its levels; no tasks for a domain whose problems do not state
them."""


def supported_k(*checkpoints: Counts) -> int:
    """The largest power of two up to `LARGEST_K` and up to half of the fewest responses to a question, as ProRL
    estimates pass@128 from 256."""
    fewest = min((n for counts in checkpoints for _, n in counts.values()), default=0)
    return min(2 ** max((fewest // 2).bit_length() - 1, 0), LARGEST_K)


@dataclass(frozen=True)
class Task:
    """Questions of a benchmark, graded at two or more checkpoints."""

    benchmark: str
    domain: str
    name: str
    counts: Sequence[Counts]
    levels: Mapping[str, float]
    """By question; empty unless all have one."""
    clusters: Mapping[str, str]
    trained: frozenset[float] | None
    """Levels in the training set, empty where it does not state them; None for a task that is not in it."""
    out_of_distribution: bool
    """False where the training set is unknown."""

    @property
    def title(self) -> str:
        return self.name + (" (out of distribution)" if self.out_of_distribution else "")

    @cached_property
    def k(self) -> int:
        return supported_k(*self.counts)

    @cached_property
    def gain(self) -> Callable[[int], PairedDifference]:
        """The paired gain of pass@k from the first to the last checkpoint, by k."""
        return cache(lambda k: paired_difference(self.counts[0], self.counts[-1], k, self.clusters))

    def score(self, checkpoint: int, k: int, level: float | None = None) -> dict[str, Any]:
        """`scores.estimate` of pass@k, on all questions or those of one level."""
        every = self.counts[checkpoint]
        chosen = [q for q in every if level is None or self.levels[q] == level]
        table = pass_at_k_table([every[q][1] for q in chosen], [every[q][0] for q in chosen])
        return Curves(table, [self.clusters.get(q, (q,)) for q in chosen]).at(k)

    @cached_property
    def regime(self) -> RegimeFound | None:
        """None for fewer than three checkpoints, two questions, or four responses to each."""
        if len(self.counts) < 3 or self.k < 2 or len(self.counts[0]) < 2:
            return None
        return regime(self.counts[0], self.counts[len(self.counts) // 2], self.counts[-1], self.k, self.clusters)

    @cached_property
    def changes(self) -> pd.DataFrame:
        return question_changes(self.counts[0], self.counts[-1])


def tasks_of(
    benchmark: str, series: Sequence[tuple[str, Mapping[str, Any]]], questions: pd.DataFrame, trained: Trained | None
) -> list[Task]:
    """The whole benchmark, followed by its tasks where each question has exactly one.

    `series` are its scores at each checkpoint, of the same content; `questions` is indexed by problem_id, with `topics`
    and `difficulty`. Only questions graded at every checkpoint count.
    """
    scores = [scores for _, scores in series]
    graded = [q for q in scores[0]["problems"] if all(s["problems"].get(q, (0, 0))[1] for s in scores)]
    rows, domain = questions.reindex(graded), scores[0]["domain"]
    topics = [() if t is None or np.ndim(t) == 0 else tuple(t) for t in rows.topics]
    own = [topic[0] if len(topic) == 1 else "" for topic in topics]
    topic_of = dict(zip(graded, own, strict=True))
    parts = sorted(set(own)) if all(own) and len(set(own)) > 1 else []
    numbers = np.asarray(pd.to_numeric(rows.difficulty, errors="coerce"), dtype=float)
    difficulty = dict(zip(graded, numbers.tolist(), strict=True))
    of_domain = None if trained is None else trained.get(domain)

    tasks = []
    for part in (None, *parts):
        chosen = graded if part is None else [q for q in graded if topic_of[q] == part]
        levels, topic_names = {q: difficulty[q] for q in chosen}, {topic_of[q] for q in chosen}
        if of_domain:  # a benchmark of several tasks is in the training set if any of them is
            subsets = [of_domain[task] for task in topic_names & of_domain.keys()]
            in_training = frozenset().union(*subsets) if subsets else None
        else:
            in_training = of_domain if of_domain is None else frozenset()
        tasks.append(
            Task(
                benchmark, domain, part or benchmark,
                [{q: s["problems"][q] for q in chosen} for s in scores],
                {} if np.isnan([*levels.values()]).any() else levels, scores[-1].get("clusters") or {},
                in_training, trained is not None and in_training is None,
            )
        )  # fmt: skip
    return tasks


@dataclass(frozen=True)
class BenchmarkGains:
    """A benchmark at several checkpoints of a training run."""

    labels: Sequence[str]
    """The checkpoints with the same questions as the first."""
    tasks: Sequence[Task]
    """As `tasks_of` gives them."""
    questions: pd.DataFrame
    """Rows of `questions.parquet`, by problem_id."""


def gains_of(
    benchmarks: Mapping[str, Sequence[tuple[str, Mapping[str, Any]]]],
    directories: Mapping[str, Path],
    trained: Trained | None,
) -> list[BenchmarkGains]:
    """Each benchmark with two comparable checkpoints; `directories` of the evaluations by label."""
    gains = []
    for name, series in benchmarks.items():
        same = [(label, s) for label, s in series if s["content_hash"] == series[0][1]["content_hash"]]
        if len(same) < 2:
            continue
        table = pq.read_table(directories[same[-1][0]] / "questions.parquet", filters=[("benchmark", "=", name)])
        questions = table.to_pandas().set_index("problem_id")
        tasks = tasks_of(name, same, questions, trained)
        if tasks[0].counts[0]:
            gains.append(BenchmarkGains([label for label, _ in same], tasks, questions))
    return gains


def question_table(gains: BenchmarkGains) -> pd.DataFrame:
    """One row per question: `change` from the first checkpoint to the last, whether that is `significant` for the
    question alone, and `right, LABEL` of `graded, LABEL` responses at each checkpoint."""
    whole, *parts = gains.tasks
    task_of = {question: part.name for part in parts for question in part.counts[0]}
    changes, facts = whole.changes, gains.questions.reindex(whole.changes.index)
    change = np.select(
        [changes.newly_solved, changes.newly_lost, changes.passed + changes.passed_after > 0], CHANGES[:3], CHANGES[3]
    )
    rows = pd.DataFrame(
        {
            "benchmark": whole.benchmark, "domain": whole.domain,
            "task": [task_of.get(str(question), whole.name) for question in changes.index],
            "level": facts.difficulty, "change": change, "significant": changes.q_value < SIGNIFICANT,
            "source": facts.source, "source_id": facts.source_id, "question": facts.prompt.str.slice(0, SHOWN),
        }
    )  # fmt: skip
    for label, counts in zip(gains.labels, whole.counts, strict=True):
        rows[f"right, {label}"] = [counts[str(question)][0] for question in changes.index]
        rows[f"graded, {label}"] = [counts[str(question)][1] for question in changes.index]
    return rows.rename_axis("problem_id").reset_index()


class Correlation(NamedTuple):
    """Pearson's r over tasks, with a 95 % interval."""

    r: float
    low: float
    high: float
    tasks: int


def gain_correlation(
    base: Sequence[Counts], last: Sequence[Counts], k: int, of: int, seed: int = 0
) -> Correlation | None:
    """The correlation, over tasks, of the gain of pass@`of` with the base model's pass@k; None for fewer than
    `FEWEST_TASKS`, NaN where the tasks do not differ.

    A task whose base model was lucky looks strong and seems to gain little: regression to the mean, a negative
    correlation where nothing happened. So the base model's responses are split in two random halves: one gives the
    strength, the other the gain. k is at most half the responses. Mean of Fisher's z over `SPLITS` splits, with z's
    interval; sampling noise pulls r towards 0.
    """
    if len(base) < FEWEST_TASKS:
        return None
    generator = np.random.default_rng(seed)
    strength, gain = np.empty((2, SPLITS, len(base)))
    for task, (before, after) in enumerate(zip(base, last, strict=True)):
        c, n = np.array([*before.values()]).T
        half = n // 2
        first = generator.hypergeometric(c, n - c, half, size=(SPLITS, len(c)))
        passed, graded = np.array([*after.values()]).T
        strength[:, task] = _pass_at(half, first, k)
        gain[:, task] = _pass_at(graded, passed[None], of) - _pass_at(n - half, c - first, of)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.arctanh([np.corrcoef(*pair)[0, 1] for pair in zip(strength, gain, strict=True)]).mean()
    half = 1.96 / np.sqrt(len(base) - 3)
    return Correlation(float(np.tanh(z)), float(np.tanh(z - half)), float(np.tanh(z + half)), len(base))


def _pass_at(n: np.ndarray, c: np.ndarray, k: int) -> np.ndarray:
    """Mean over the questions, shape [splits]; n is [questions], c [splits, questions]."""
    return pass_at_k_table(np.broadcast_to(n, c.shape).ravel(), c.ravel())[:, k - 1].reshape(c.shape).mean(axis=1)
