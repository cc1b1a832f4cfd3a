"""All pass@k, k = 1 … n, of many questions, against the usual product formula in the same process.

    python -m benchmarks.pass_at_k [--questions 10000] [--responses 1024]

The product formula (Chen et al. 2021) is evaluated for each question and each k, as harnesses do; for it a sample of
the questions is timed and scaled up. CPU seconds, from the table of single outcomes to the mean curve.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from ratchet.evaluation.pass_at_k import pass_at_k_table


def product_formula(n: int, c: int, k: int) -> float:
    return 1.0 if n - c < k else float(1 - np.prod(1 - k / np.arange(n - c + 1, n + 1)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--responses", type=int, default=1024)
    parser.add_argument("--sample", type=int, default=20, help="questions that the product formula is timed on")
    arguments = parser.parse_args()
    generator = np.random.default_rng(0)
    solve_rates = generator.beta(0.3, 0.7, (arguments.questions, 1))
    passed = generator.random((arguments.questions, arguments.responses)) < solve_rates

    started = time.process_time()
    counts = passed.sum(axis=1)
    table = pass_at_k_table(np.full(len(counts), arguments.responses), counts)
    table.mean(axis=0)
    ours = time.process_time() - started

    started = time.process_time()
    n = arguments.responses
    curves = [[product_formula(n, int(c), k) for k in range(1, n + 1)] for c in counts[: arguments.sample]]
    theirs = (time.process_time() - started) * arguments.questions / arguments.sample
    assert np.allclose(curves, table[: arguments.sample])
    print(f"{arguments.questions:,} questions x {n:,} responses, every k up to {n:,}")
    print(f"one recurrence       {ours:10.2f} CPU s")
    print(f"product formula      {theirs:10.2f} CPU s, from {arguments.sample} questions")
    print(f"ratio                {theirs / ours:10.0f}")


if __name__ == "__main__":
    main()
