"""Speed and accuracy of math equivalence, against math-verify alone.

    python benchmarks/math_verifier.py --pairs 2000

Generated pairs are what a policy's answers look like (60 % integers, 15 % fractions and decimals, 10 % radicals, 8 %
polynomials, 7 % tuples; half of them right). Tricky pairs are the hand-labelled ones of the tests. Ours runs algebra
in a worker process; math-verify runs here, with its own time limits.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.verifiers.tricky_pairs import ALL
from verifiers.math_equivalence import verify_math

Pair = tuple[str, str, bool]


def generated(count: int, seed: int = 0) -> list[Pair]:
    draw = random.Random(seed)
    return [_pair(draw) for _ in range(count)]


def _pair(draw: random.Random) -> Pair:
    a, b, c = (draw.randint(2, 60) for _ in range(3))
    same = draw.random() < 0.5
    off = 0 if same else draw.randint(1, 5)
    kind = draw.random()
    if kind < 0.60:
        return str(a * b), str(a * b + off), same
    if kind < 0.75:
        return f"\\frac{{{a}}}{{{b}}}", f"\\dfrac{{{c * a + off}}}{{{c * b}}}", same
    if kind < 0.85:
        return f"{a}\\sqrt{{{b}}}", f"\\sqrt{{{a * a * b + off}}}", same
    if kind < 0.93:
        return f"(x+{a})(x-{b})", f"x^2 + {a - b}x - {a * b + off}".replace("+ -", "- "), same
    return f"({a}, \\frac{{{b}}}{{4}})", f"\\left({a}, {b / 4 + off}\\right)", same


def ours(reference: str, answer: str) -> bool:
    verdict = verify_math(f"\\boxed{{{answer}}}", reference)
    tiers[verdict.decided_by] += 1
    return verdict.passed


def math_verify_alone(reference: str, answer: str) -> bool:
    from math_verify import LatexExtractionConfig, parse, verify

    configuration = [LatexExtractionConfig()]
    return verify(parse(f"${reference}$", configuration), parse(f"\\boxed{{{answer}}}", configuration))


tiers: Counter[str] = Counter()


def measure(name: str, decide: Callable[[str, str], bool], pairs: list[Pair]) -> float:
    decide("\\sqrt{2}", "\\sqrt{3}")  # imports and workers start outside the clock
    tiers.clear()
    begin = time.perf_counter()
    results = [decide(reference, answer) for reference, answer, _ in pairs]
    seconds = time.perf_counter() - begin
    wrong = Counter(
        "accepted wrongly" if result else "refused wrongly"
        for result, (_, _, same) in zip(results, pairs, strict=True)
        if result != same
    )
    right = f"{len(pairs) - wrong.total()}/{len(pairs)} right {dict(wrong) or ''}"
    print(f"  {name:18} {1e3 * seconds / len(pairs):8.3f} ms a pair, {right}")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=2000)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    tricky = [(reference, answer, same) for _, reference, answer, same in ALL]
    for title, pairs in ((f"{options.pairs} generated pairs", generated(options.pairs)), ("tricky pairs", tricky)):
        print(title)
        fast = measure("ours", ours, pairs)
        decided = ", ".join(f"{tier} {100 * count / len(pairs):.0f} %" for tier, count in tiers.most_common())
        slow = measure("math-verify alone", math_verify_alone, pairs)
        print(f"  ratio {slow / fast:.1f}; decided by: {decided}")


if __name__ == "__main__":
    main()
