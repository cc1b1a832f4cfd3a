"""Coverage of a report's 95 % intervals, simulated: `python -m research.coverage` prints the tables of
docs/reference/evaluation.md, in three minutes.

Evaluations are drawn from worlds whose scores are known: solve rates of the questions from a beta distribution, 16
responses to each; clustered questions come in fours whose difficulty has a correlation of 0.4 (Gaussian copula). For a
paired comparison the same questions are asked again after a change. An interval that is not given counts as neither;
the share that is given stands beside the coverage.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, expit, logit, ndtr

from ratchet.evaluation import regimes
from ratchet.evaluation.pass_at_k import pass_at_k_table
from ratchet.evaluation.scores import estimate
from ratchet.evaluation.statistics import gain_limit, paired_interval, paired_p_value

RESPONSES, IN_A_CONTEST, CORRELATION = 16, 4, 0.4
QUESTIONS, KS = (30, 64, 500), (1, 4, 16)
SOLVE_RATES = {
    "even": (1.0, 1.0), "like AIME": (0.3, 0.1), "hard": (0.1, 0.9), "near the ceiling": (9.0, 1.0),
    "nearly all solved": (0.2, 0.02),
}  # fmt: skip
Change = Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]
CHANGES: dict[str, Change] = {
    "nothing": lambda p, luck, generator: p,
    "better": lambda p, luck, generator: expit(logit(np.clip(p, 1e-9, 1 - 1e-9)) + 0.7 + 0.5 * luck),
    "some new": lambda p, luck, generator: np.where(generator.random(p.shape) < 0.05, generator.random(p.shape), p),
}
FEWEST_GIVEN = 0.1  # a cell with fewer intervals is not shown


@dataclass(frozen=True)
class Cell:
    coverage: float
    given: float
    """Share of the evaluations that have an interval."""

    def __str__(self) -> str:
        if self.given < FEWEST_GIVEN:
            return "–"
        return f"{self.coverage:.1%}" + (f" ({self.given:.0%})" if self.given < 1 else "")


def contests(questions: int, clustered: bool) -> np.ndarray:
    """The cluster of each question; alone, each has its own."""
    return np.arange(questions) // (IN_A_CONTEST if clustered else 1)


def normal(sets: int, clusters: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Standard normal, shape [sets, questions], correlated within clusters of several."""
    alone = generator.normal(size=(sets, clusters.size))
    if len(np.unique(clusters)) == clusters.size:
        return alone
    shared = generator.normal(size=(sets, clusters.max() + 1))[:, clusters]
    return CORRELATION**0.5 * shared + (1 - CORRELATION) ** 0.5 * alone


def solve_rates(distribution: str, sets: int, clusters: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    quantiles = betaincinv(*SOLVE_RATES[distribution], (np.arange(20_000) + 0.5) / 20_000)
    return quantiles[(ndtr(normal(sets, clusters, generator)) * 20_000).astype(int)]


def pass_at(rates: np.ndarray, k: int, generator: np.random.Generator) -> np.ndarray:
    table = pass_at_k_table([RESPONSES] * (RESPONSES + 1), range(RESPONSES + 1))
    return table[generator.binomial(RESPONSES, rates), k - 1]


def of_scores(distribution: str, questions: int, k: int, clustered: bool = False, sets: int = 2000) -> Cell:
    """Coverage of the interval beside every score, and of the band around every curve."""
    generator, clusters = np.random.default_rng(11), contests(questions, clustered)
    truth = (1 - (1 - solve_rates(distribution, 2000, np.arange(100), generator)) ** k).mean()
    scores = pass_at(solve_rates(distribution, sets, clusters, generator), k, generator)
    found = [estimate(values, clusters.tolist()) for values in scores]
    return _cell([(point["low"], point["high"]) for point in found], truth)


def of_differences(
    distribution: str, change: str, questions: int, k: int, clustered: bool = False, sets: int = 2000
) -> tuple[Cell, float]:  # fmt: skip
    """Coverage of the interval of a paired difference; and how often p is below 0.05, which is the test's power, or its
    rate of false alarms where nothing changes."""
    generator, clusters = np.random.default_rng(6), contests(questions, clustered)

    def drawn(sets: int, clusters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        before = solve_rates(distribution, sets, clusters, generator)
        return before, CHANGES[change](before, normal(sets, clusters, generator), generator)

    before, after = drawn(4000, np.arange(100))
    truth = ((1 - before) ** k - (1 - after) ** k).mean()
    before, after = drawn(sets, clusters)
    gains = pass_at(after, k, generator) - pass_at(before, k, generator)
    p_values = [paired_p_value(each, clusters.tolist()) for each in gains]
    cell = _cell([paired_interval(each, clusters.tolist()) for each in gains], truth)
    return cell, float(np.mean(np.array(p_values) < 0.05))


def _cell(intervals: list[tuple[float, float]], truth: float) -> Cell:
    given = [(low, high) for low, high in intervals if not np.isnan(low)]
    held = [low - 1e-12 <= truth <= high + 1e-12 for low, high in given]
    return Cell(float(np.mean(held)) if held else np.nan, len(given) / len(intervals))


def above_the_limit(won: float, questions: int) -> float:
    """Share of samples in which a gain is above its upper limit, where a share of the questions is won whole."""
    sets = np.random.default_rng(7).random((2000, questions)) < won
    return float(np.mean([gain_limit(gains, range(questions)) < won for gains in sets]))


def of_whole_changes(sizes: Sequence[int], share: float, noise: float, sets: int = 2000) -> tuple[float, float]:
    """A share of the clusters is won whole, the others have noise: how often the interval holds the truth, and how
    often the upper limit is not below it."""
    generator, clusters = np.random.default_rng(8), np.repeat(np.arange(len(sizes)), sizes)
    won = (generator.random((sets, len(sizes))) < share)[:, clusters]
    gains = np.where(won, 1.0, np.clip(generator.normal(0, noise, won.shape), -1, 1) if noise else 0.0)
    each = clusters.tolist()
    intervals = [paired_interval(one, each) for one in gains]
    within = np.mean([low <= share <= high for low, high in intervals])
    return float(within), float(np.mean([gain_limit(one, each) >= share for one in gains]))


def jumping(share: float, late: bool = False) -> Callable[[np.ndarray, np.random.Generator], tuple[np.ndarray, ...]]:
    """A share of the questions, never solved before, is always solved after; the others only become surer."""

    def checkpoints(rates: np.ndarray, generator: np.random.Generator) -> tuple[np.ndarray, ...]:
        base = np.where(generator.random(rates.shape) < 0.5, 0.0, rates)
        last = np.where(base, np.minimum(base * 1.5, 1), (generator.random(rates.shape) < 2 * share) * 1.0)
        return base, (np.where(base, last, 0) if late else last), last

    return checkpoints


GAINS, NOTHING = {"sustained", "plateau"}, {"sustained", "plateau", "diminish"}
CLAIMS = {
    # The distribution, what happens at each checkpoint, and the regimes that are then false.
    "nothing changes": ("like AIME", lambda p, _: (p, p, p), {*NOTHING, "at ceiling"}),
    "nothing changes, hard": ("hard", lambda p, _: (p, p, p), {*NOTHING, "at ceiling"}),
    "gains the margin": ("even", jumping(regimes.MARGIN), {"diminish", "sustained", "at ceiling"}),
    "gains the margin late": ("even", jumping(regimes.MARGIN, late=True), {"diminish", "plateau", "at ceiling"}),
    "just below the ceiling": (
        "even",
        lambda p, generator: ((generator.random(p.shape) < 1 - regimes.MARGIN) * 0.9,) * 3,
        {*NOTHING, "at ceiling"},
    ),
}


def false_claims(name: str, questions: int, k: int, clustered: bool = False, sets: int = 300) -> float:
    """Share of reports that name a regime that is false in this distribution."""
    distribution, change, false = CLAIMS[name]
    generator, clusters = np.random.default_rng(5), contests(questions, clustered)
    contest_of = {str(question): int(contest) for question, contest in enumerate(clusters)}
    named = 0
    for _ in range(sets):
        rates = change(solve_rates(distribution, 1, clusters, generator)[0], generator)
        counts = [generator.binomial(2 * k, np.clip(p, 0, 1)).tolist() for p in rates]
        asked = [{str(q): (c, 2 * k) for q, c in enumerate(each)} for each in counts]
        named += regimes.regime(*asked, k=k, clusters=contest_of) in false
    return named / sets


def _table(title: str, rows: dict[str, list[str]], columns: list[str]) -> None:
    print(f"\n| {title} | {' | '.join(columns)} |\n|---|{'--:|' * len(columns)}", flush=True)
    for name, cells in rows.items():
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=2000, help="Evaluations in each cell.")
    sets = parser.parse_args().sets
    columns = [f"{questions}, pass@{k}" for questions in QUESTIONS for k in KS]
    cells = [(questions, k) for questions in QUESTIONS for k in KS]
    for clustered in (False, True):
        kind = "contests of 4" if clustered else "alone"
        rows = {name: [str(of_scores(name, *cell, clustered, sets)) for cell in cells] for name in SOLVE_RATES}
        _table(f"one sample, {kind}", rows, columns)
        pairs = [(name, change) for name in SOLVE_RATES for change in CHANGES]
        paired = {
            f"{name}, {change}": [of_differences(name, change, *cell, clustered, sets) for cell in cells]
            for name, change in pairs
        }
        _table(f"paired, {kind}", {name: [str(cell) for cell, _ in row] for name, row in paired.items()}, columns)
        found = {name: [f"{share:.1%}" for _, share in row] for name, row in paired.items()}
        _table(f"paired, p < 0.05, {kind}", found, columns)
        claims = {
            name: [f"{false_claims(name, *cell, clustered, sets // 5):.1%}" for cell in cells[:6]] for name in CLAIMS
        }
        _table(f"false regimes, {kind}", claims, columns[:6])
    for sizes in ([1] * 64, [1] * 200, [4] * 16, [4] * 50, [1, 7, 3, 9, 2, 6] * 5):
        for share in (0.01, 0.02, 0.05, 0.1, 0.3):
            found = " / ".join(
                "{:.1%}, {:.1%}".format(*of_whole_changes(sizes, share, noise, sets)) for noise in (0, 0.07)
            )
            print(f"{share:.0%} of {len(sizes)} clusters ({sum(sizes)} questions) won whole: interval, limit {found}")
    for won, questions in ((0.05, 30), (0.05, 100), (0.1, 30), (0.01, 100)):
        print(f"{won:.0%} of {questions} questions won, above the limit: {above_the_limit(won, questions):.1%}")


if __name__ == "__main__":
    main()
