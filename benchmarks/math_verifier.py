"""Speed and accuracy of math equivalence, against math-verify, in one run on the same two processes.

    python -m benchmarks.math_verifier --pairs 4000

Generated pairs are what a policy's short answers look like (60 % integers, 15 % fractions and decimals, 10 % radicals,
8 % polynomials, 5 % tuples, 2 % trigonometry and logarithms; half of them right), eight answers to a reference as in a
group of rollouts. Labeled pairs are those of the tests; `--labeled FILE` takes others (rows of JSON with gold, pred
and equivalent). CPU seconds count the process and its children; imports stay outside. math-verify is measured without
gmpy2: with it, it never ends on some of the labeled answers, for its alarm does not interrupt C.

    python -m benchmarks.math_verifier --either [--references DIRECTORY]

What `verification.math: either` accepts beside ours, judged by the pool as in training: of the labeled pairs, of
hedged answers, none of which is right, and of published references that were corrupted (the files that
tests/verifiers/test_math_references.py reads).

    python -m benchmarks.math_verifier --opaque FILE...

The share of references that are opaque, equal only to their own tokens, of those that are formulas: at most two words
beside commands. Files are lists or lines of JSON with `answer`, `final_answer`, or a `solution` with a box.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import random
import re
import resource
import time
from collections import Counter
from pathlib import Path

from ratchet.verifiers.extraction import boxed_answer
from ratchet.verifiers.math.equivalence import reference_text, verify_math
from ratchet.verifiers.math.structure import Answer, parse_answer
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.local_pool import VerifierPool
from ratchet.verifiers.submission import JudgeSettings
from tests.verifiers.test_math_references import FILES, corruptions
from tests.verifiers.test_math_stuffed import stuffed
from tests.verifiers.tricky_pairs import BARE

PROCESSES = 2
GROUP = 8
CORRUPTED = 1000
Pair = tuple[str, str, bool]


def has_value(answer: Answer) -> bool:
    """Whether every part is a value, not words."""
    return answer.node is not None if answer.kind in ("scalar", "text") else all(map(has_value, answer.parts))


def generated(count: int, seed: int = 0) -> list[Pair]:
    """`count` pairs, the answers of one reference side by side."""
    draw = random.Random(seed)
    pairs: list[Pair] = []
    while len(pairs) < count:
        pairs += _group(draw)
    return pairs[:count]


def _group(draw: random.Random) -> list[Pair]:
    a, b = draw.randint(2, 60), draw.randint(2, 60)
    kind = draw.random()
    return [_pair(kind, a, b, draw) for _ in range(GROUP)]


def _pair(kind: float, a: int, b: int, draw: random.Random) -> Pair:
    same = draw.random() < 0.5
    off, c = 0 if same else draw.randint(1, 5), draw.randint(2, 60)
    if kind < 0.60:
        return str(a * b), str(a * b + off), same
    if kind < 0.75:
        return f"\\frac{{{a}}}{{{b}}}", f"\\dfrac{{{c * a + off}}}{{{c * b}}}", same
    if kind < 0.85:
        return f"{a}\\sqrt{{{b}}}", draw.choice(["{}", " {} ", "{}."]).format(f"\\sqrt{{{a * a * b + off}}}"), same
    if kind < 0.93:
        return f"(x+{a})(x-{b})", f"x^2 + {a - b}x - {a * b + off}".replace("+ -", "- "), same
    if kind < 0.98:
        return f"({a}, \\frac{{{b}}}{{4}})", f"\\left({a}, {b / 4 + off}\\right)", same
    if kind < 0.99:
        return f"{a}\\cos 2x", f"{a}-{2 * a + off}\\sin^2 x", same
    return f"\\log_2 {2 ** (a % 7) * 3}", f"{a % 7 + off}+\\log_2 3", same


def ours(reference: str, answer: str) -> tuple[bool, str]:
    verdict = verify_math(f"\\boxed{{{answer}}}", reference)
    return verdict.passed, verdict.decided_by


def math_verify_alone(reference: str, answer: str) -> tuple[bool, str]:
    from math_verify import LatexExtractionConfig, parse, verify

    configuration = [LatexExtractionConfig()]
    return verify(parse(f"${reference}$", configuration), parse(f"\\boxed{{{answer}}}", configuration)), ""


VERIFIERS = {"ours": ours, "math-verify": math_verify_alone}


def _work(name: str, pairs: list[Pair]) -> tuple[float, float, Counter, Counter]:
    """(CPU seconds, wall seconds, mistakes, tiers) of one process."""
    logging.disable(logging.CRITICAL)
    decide = VERIFIERS[name]
    decide("\\log_2 3", "\\log_3 2")
    mistakes: Counter[str] = Counter()
    tiers: Counter[str] = Counter()
    begin, cpu = time.perf_counter(), _cpu_s()
    for reference, answer, same in pairs:
        passed, tier = decide(reference, answer)
        tiers[tier] += 1
        if passed != same:
            mistakes["accepted wrongly" if passed else "refused wrongly"] += 1
    return _cpu_s() - cpu, time.perf_counter() - begin, mistakes, tiers


def _cpu_s() -> float:
    """Of this process and its ended children."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def measure(name: str, pairs: list[Pair]) -> float:
    """Run on `PROCESSES` fresh processes; print and return CPU seconds a pair."""
    context = multiprocessing.get_context("spawn")
    half = len(pairs) // PROCESSES // GROUP * GROUP
    with context.Pool(PROCESSES) as pool:
        parts = pool.starmap(_work, [(name, pairs[:half]), (name, pairs[half:])], chunksize=1)
    cpu, wall = sum(part[0] for part in parts), max(part[1] for part in parts)
    mistakes, tiers = sum((part[2] for part in parts), Counter()), sum((part[3] for part in parts), Counter())
    print(
        f"  {name:12} {1e3 * cpu / len(pairs):8.3f} ms of CPU a pair, {len(pairs) / cpu:9,.0f} pairs a CPU second, "
        f"{wall:6.2f} s; {len(pairs) - mistakes.total()}/{len(pairs)} right {dict(mistakes) or ''}"
    )
    if tiers.keys() - {""}:
        print("    " + ", ".join(f"{tier} {100 * count / len(pairs):.1f} %" for tier, count in tiers.most_common()))
    return cpu / len(pairs)


def compare_either(sets: dict[str, list[Pair]]) -> None:
    """What either of two verifiers accepts beside ours, by set, with examples."""
    with VerifierPool(PROCESSES, JudgeSettings(either=True)) as pool:
        for title, pairs in sets.items():
            problems = [Problem(str(n), "math", "", answer=reference) for n, (reference, _, _) in enumerate(pairs)]
            verdicts = pool.run_programs(zip(problems, (answer for _, answer, _ in pairs), strict=True))
            more = [pair for pair, v in zip(pairs, verdicts, strict=True) if v.decided_by == "math_verify"]
            wrong = [pair for pair in more if not pair[2]]
            print(
                f"{title}: {len(pairs):,} pairs, {sum(same for *_, same in pairs):,} of them right; either accepts "
                f"{len(more) - len(wrong)} more rightly and {len(wrong)} wrongly"
            )
            for reference, answer, same in (more if len(more) < 12 else wrong)[:12]:
                print(f"    {'right' if same else 'WRONG'}: {answer[:60]!r} for {reference[:60]!r}")


def corrupted(directory: Path) -> list[Pair]:
    rows = [row for file in FILES for row in json.loads((directory / f"{file}.json").read_text(encoding="utf-8"))]
    references = sorted({str(row["answer"]) for row in rows if row.get("answer")})
    pairs = [(text, answer, False) for text in references for answer in corruptions(reference_text(text))]
    return random.Random(0).sample(pairs, min(CORRUPTED, len(pairs)))


def opaque_shares(files: list[Path]) -> None:
    """Prints, per file, how many formula-like references have a part without a value."""
    for file in files:
        text = file.read_text(encoding="utf-8")
        rows = json.loads(text) if text.lstrip().startswith("[") else map(json.loads, text.splitlines())
        found = (
            row.get("final_answer") or row.get("answer") or boxed_answer(row.get("solution") or "") for row in rows
        )
        flat = {str(each[0] if isinstance(each, list) and each else each) for each in found if each}
        answers = [parse_answer(reference_text(each)) for each in flat if _is_formula(each)]
        answers = [answer for answer in answers if answer.kind != "text"]
        opaque = sum(not has_value(answer) for answer in answers)
        share = 100 * opaque / max(1, len(answers))
        print(f"{file.name}: {len(flat):,} references, {len(answers):,} formulas, {opaque} opaque ({share:.1f} %)")


def _is_formula(text: str) -> bool:
    bare = re.sub(r"\\(?:begin|end)\s*\{\w+\*?\}(?:\{[rlc|]+\})?|\\[A-Za-z]+", " ", text)
    return bool(re.search(r"[\\^_=+/()<>A-Za-z]", text)) and len(re.findall("[A-Za-z]{3,}", bare)) <= 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=4000)
    parser.add_argument("--labeled", type=Path)
    parser.add_argument("--either", action="store_true")
    parser.add_argument("--references", type=Path)
    parser.add_argument("--opaque", type=Path, nargs="+")
    options = parser.parse_args()
    os.environ |= {"MPMATH_NOGMPY": "1", "SYMPY_GROUND_TYPES": "python"}  # of the processes that measure
    labeled = [pair[1:] for pair in BARE]
    if options.labeled:
        rows = [json.loads(line) for line in options.labeled.read_text(encoding="utf-8").splitlines()]
        labeled = [(row["gold"], row["pred"], row["equivalent"]) for row in rows]
    if options.opaque:
        return opaque_shares(options.opaque)
    if options.either:
        sets = {"labeled": labeled, "hedged": [(*pair, False) for pair in stuffed()]}
        return compare_either(sets | ({"corrupted": corrupted(options.references)} if options.references else {}))
    for title, pairs in ((f"{options.pairs} generated pairs", generated(options.pairs)), ("labeled pairs", labeled)):
        print(title)
        fast, slow = measure("ours", pairs), measure("math-verify", pairs)
        print(f"  {slow / fast:.1f} times the pairs in a CPU second")


if __name__ == "__main__":
    main()
