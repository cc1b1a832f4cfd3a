"""Pre-registered claims over several seeds: `python -m research.claims acereason-0.5b SEED [SEED …]`.

A seed is the home of its run, or a file of its counts, which `--save FILE` writes for one home: seeds that ran on
different machines are judged together from their files. Each claim is the paired change of a benchmark's pass@1 between
two evaluations of a run. A question's seeds are one unit of the interval over all seeds, because they share its
difficulty.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ratchet.evaluation.comparison import paired_difference
from research.seeds import evaluations_of, passes


class Claim(NamedTuple):
    text: str
    benchmark: str
    before: str
    after: str
    floor: float = 0.0
    """The claim is that the change is above this."""

    def verdict(self, low: float, high: float) -> str:
        """Of a 95% interval: *supported* if all of it is above the floor, *contradicted* if all of it is below."""
        return "supported" if low > self.floor else "contradicted" if high < self.floor else "inconclusive"


CLAIMS = {
    "acereason-0.5b": [
        Claim("math RL raises GSM8K", "gsm8k", "start", "math-400"),
        Claim("code RL raises MBPP", "mbpp", "math-400", "code-160"),
        Claim("math-only RL lowers MBPP by less than 0.03", "mbpp", "start", "math-400", -0.03),
        Claim("math-only RL lowers HumanEval by less than 0.03", "humaneval", "start", "math-400", -0.03),
        Claim("code-only RL lowers GSM8K by less than 0.03", "gsm8k", "math-400", "code-160", -0.03),
        Claim("the whole run raises GSM8K", "gsm8k", "start", "math-400-again"),
        Claim("the whole run raises MBPP", "mbpp", "start", "math-400-again"),
    ]
}
Counts = dict[tuple[str, int, str], tuple[int, int]]
"""(passed, graded) responses by benchmark, seed and question."""
Seed = dict[str, dict[str, dict[str, list[int]]]]
"""[passed, graded] responses by evaluation's label, benchmark and question."""


def read_seed(path: Path) -> Seed:
    """The counts in a file, or those of the evaluations of a home's last report."""
    if path.is_file():
        return json.loads(path.read_text())  # type: ignore[no-any-return]
    seed: Seed = {}
    for evaluation in evaluations_of(path, str(path)):
        of_label = seed.setdefault(json.loads((evaluation / "scores.json").read_text())["label"], {})
        for (name, question), count in passes(evaluation).items():
            of_label.setdefault(name, {})[question] = [*count]
    return seed


def counts(seeds: Iterable[Seed]) -> dict[str, Counts]:
    """The counts of each evaluation of the seeds, by its label."""
    found: dict[str, Counts] = {}
    for number, seed in enumerate(seeds):
        for label, benchmarks in seed.items():
            of_label = found.setdefault(label, {})
            for name, questions in benchmarks.items():
                of_label |= {(name, number, q): (passed, graded) for q, (passed, graded) in questions.items()}
    return found


def table(claims: Iterable[Claim], found: dict[str, Counts], seeds: int) -> list[str]:
    """Markdown: each claim's change by seed, over all seeds with its interval, and its verdict."""
    numbers = range(seeds)
    lines = [
        f"| claim | {' | '.join(f'seed {seed}' for seed in numbers)} | all seeds, 95% | verdict |",
        "|---|" + "--:|" * seeds + "--:|---|",
    ]
    for claim in claims:
        sides = [
            {place[1:]: count for place, count in found[label].items() if place[0] == claim.benchmark}
            for label in (claim.before, claim.after)
        ]
        cells = []
        for chosen in [*([seed] for seed in numbers), numbers]:
            before, after = ({place: n for place, n in side.items() if place[0] in chosen} for side in sides)
            d = paired_difference(before, after, 1, {place: place[1] for place in before})
            cells.append(f"{d.difference:+.3f}")
        lines.append(
            f"| {claim.text} | {' | '.join(cells)} ({d.low:+.3f} to {d.high:+.3f}) | {claim.verdict(d.low, d.high)} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", choices=list(CLAIMS))
    parser.add_argument("seeds", type=Path, nargs="+", help="homes, or files that --save wrote")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the counts of the first seed here")
    arguments = parser.parse_args()
    seeds = [read_seed(path) for path in arguments.seeds]
    print("\n".join(table(CLAIMS[arguments.recipe], counts(seeds), len(seeds))))
    if arguments.save:
        arguments.save.write_text(json.dumps(seeds[0], separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
