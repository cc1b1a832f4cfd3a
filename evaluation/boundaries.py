"""What training gained, task by task: is it more where the base model was weak, and on which questions?

After ProRL (arXiv 2505.24864, section 4), with an interval beside every claim. A task is a benchmark, or a part of one
where its file says of every question which one task it belongs to, as reasoning-gym's do.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from ratchet.evaluation.comparison import Counts, PairedDifference, paired_difference, question_changes
from ratchet.evaluation.pass_at_k import pass_at_k_table
from ratchet.evaluation.regimes import RegimeFound, regime
from ratchet.evaluation.scores import Curves
from ratchet.evaluation.statistics import NAN, expanded_percentiles

LARGEST_K = 128
FEWEST_TASKS = 5  # that make a slope
SPLITS, DRAWS = 50, 2000

Trained = Mapping[str, Mapping[str, frozenset[float]]]
"""What the training set holds: by domain, its tasks, each with its levels. The tasks of a domain are empty where its
problems do not say theirs."""


@dataclass(frozen=True)
class Task:
    """Some questions of a benchmark at each of its checkpoints, in order, first and last at least."""

    benchmark: str
    domain: str
    name: str
    whole: bool
    """Whether it is all of the benchmark, and has its name."""
    counts: Sequence[Counts]
    levels: Mapping[str, float]
    """By question, where all have one."""
    clusters: Mapping[str, str]
    trained: frozenset[float] | None
    """Levels in the training set, whatever they are where it does not say; None for a task that is not in it."""
    known: bool
    """Whether the training set is known at all."""

    @property
    def out_of_distribution(self) -> bool:
        return self.known and self.trained is None

    @cached_property
    def k(self) -> int:
        """The k of this task's pass@k: the largest power of two up to `LARGEST_K` and up to half of the fewest
        responses to a question, as ProRL has pass@128 from 256. At k = n the estimate is a yes or a no."""
        fewest = min((n for counts in self.counts for _, n in counts.values()), default=0)
        return min(2 ** max((fewest // 2).bit_length() - 1, 0), LARGEST_K)

    @cached_property
    def gain(self) -> Callable[[int], PairedDifference]:
        """Of pass@k, first to last, by k."""
        return cache(lambda k: paired_difference(self.counts[0], self.counts[-1], k, self.clusters))

    def score(self, checkpoint: int, k: int, level: float | None = None) -> dict[str, Any]:
        """`scores.estimate` of pass@k, of one level's questions where it is given."""
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
    """The whole benchmark first, and then its tasks where each question has exactly one.

    `series` are its scores at each checkpoint, of the same content; `questions` is indexed by problem_id, with `topics`
    and `difficulty`. Only questions graded at every checkpoint count.
    """
    scores = [scores for _, scores in series]
    graded = [q for q in scores[0]["problems"] if all(s["problems"].get(q, (0, 0))[1] for s in scores)]
    asked, domain = questions.reindex(graded), scores[0]["domain"]
    topics = [() if t is None or np.ndim(t) == 0 else tuple(t) for t in asked.topics]
    own = [topic[0] if len(topic) == 1 else "" for topic in topics]
    topic_of = dict(zip(graded, own, strict=True))
    parts = sorted(set(own)) if all(own) and len(set(own)) > 1 else []
    numbers = np.asarray(pd.to_numeric(asked.difficulty, errors="coerce"), dtype=float)
    difficulty = dict(zip(graded, numbers.tolist(), strict=True))
    of_domain = None if trained is None else trained.get(domain)

    made = []
    for part in (None, *parts):
        chosen = graded if part is None else [q for q in graded if topic_of[q] == part]
        levels, found = {q: difficulty[q] for q in chosen}, {topic_of[q] for q in chosen}
        if of_domain:  # a mixture is in the training set where any of its tasks is
            known = [of_domain[task] for task in found & of_domain.keys()]
            in_training = frozenset().union(*known) if known else None
        else:
            in_training = of_domain if of_domain is None else frozenset()
        made.append(
            Task(
                benchmark, domain, part or benchmark, part is None,
                [{q: s["problems"][q] for q in chosen} for s in scores],
                {} if np.isnan([*levels.values()]).any() else levels, scores[-1].get("clusters") or {},
                in_training, trained is not None,
            )
        )  # fmt: skip
    return made


@dataclass(frozen=True)
class Boundary:
    """A benchmark before, during and after training."""

    labels: Sequence[str]
    """Of the checkpoints that were asked the same questions as the first."""
    tasks: Sequence[Task]
    """As `tasks_of` gives them."""
    questions: pd.DataFrame
    """Rows of `questions.parquet`, by problem_id."""


def boundaries_of(
    benchmarks: Mapping[str, Sequence[tuple[str, Mapping[str, Any]]]],
    directories: Mapping[str, Path],
    trained: Trained | None,
) -> list[Boundary]:
    """Of each benchmark with two comparable checkpoints; `directories` of the evaluations by label."""
    found = []
    for name, series in benchmarks.items():
        same = [(label, s) for label, s in series if s["content_hash"] == series[0][1]["content_hash"]]
        if len(same) < 2:
            continue
        asked = pq.read_table(directories[same[-1][0]] / "questions.parquet", filters=[("benchmark", "=", name)])
        questions = asked.to_pandas().set_index("problem_id")
        tasks = tasks_of(name, same, questions, trained)
        if tasks[0].counts[0]:
            found.append(Boundary([label for label, _ in same], tasks, questions))
    return found


@dataclass(frozen=True)
class Slope:
    """The line gain = intercept + slope · base pass@k through the tasks."""

    slope: float
    low: float
    high: float
    intercept: float
    tasks: int


def gain_slope(base: Sequence[Counts], last: Sequence[Counts], k: int, of: int, seed: int = 0) -> Slope | None:
    """How the gain of pass@`of` falls with the base model's pass@k, task by task; None for fewer than `FEWEST_TASKS`.

    A task whose base model was lucky seems strong and to gain little: regression to the mean, which tilts a line
    through plain scores although nothing happened. So the base model's responses are split in two: A says how strong it
    was, and B, which has other luck, how much was gained and, with A, how far the tasks differ:

        slope = cov(A, last - B) / cov(A, B),

    which is the instrumental-variable estimate (Fuller 1987, "Measurement Error Models", section 1.4), each covariance
    the mean over `SPLITS` random splits. k is at most half the responses. The 95 % interval is the expanded percentile
    interval of `DRAWS` bootstraps over tasks. NaN where the tasks do not differ beyond their noise.
    """
    if len(base) < FEWEST_TASKS:
        return None
    generator = np.random.default_rng(seed)
    strong, gain, other = (np.empty((SPLITS, len(base))) for _ in range(3))  # A at k; last - B at `of`; B at k
    for task, (before, after) in enumerate(zip(base, last, strict=True)):
        c, n = np.array([*before.values()]).T
        half, rest = n // 2, n - n // 2
        first = generator.hypergeometric(c, n - c, half, size=(SPLITS, len(c)))
        strong[:, task] = _pass_at(half, first, k)
        other[:, task] = _pass_at(rest, c - first, k)
        passed, graded = np.array([*after.values()]).T
        gain[:, task] = _pass_at(graded, passed[None], of) - _pass_at(rest, c - first, of)
    weights = generator.multinomial(len(base), [1 / len(base)] * len(base), DRAWS) / len(base)
    (slope,), (spread,) = _ratio(strong, gain, other, np.full((1, len(base)), 1 / len(base)))
    slopes, spreads = _ratio(strong, gain, other, weights)
    sure = spread > 0 and (spreads <= 0).mean() < 0.01
    low, high = expanded_percentiles(slopes[spreads > 0], len(base)) if sure else (NAN, NAN)
    slope = float(slope) if sure else NAN
    return Slope(slope, low, high, float(gain.mean() - slope * strong.mean()), len(base))


def _pass_at(n: np.ndarray, c: np.ndarray, k: int) -> np.ndarray:
    """Mean over the questions, shape [splits]; n is [questions], c [splits, questions]."""
    return pass_at_k_table(np.broadcast_to(n, c.shape).ravel(), c.ravel())[:, k - 1].reshape(c.shape).mean(axis=1)


def _ratio(a: np.ndarray, gain: np.ndarray, b: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """cov(A, gain) / cov(A, B) and cov(A, B) under each row of `weights` over tasks, shape [draws]; the others are
    [splits, tasks]."""

    def covariance(other: np.ndarray) -> np.ndarray:
        return weights @ (a * other).mean(axis=0) - ((weights @ a.T) * (weights @ other.T)).mean(axis=1)

    spread = covariance(b)
    with np.errstate(divide="ignore", invalid="ignore"):
        return covariance(gain) / spread, spread
