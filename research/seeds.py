"""A recipe over several seeds: `python -m research.seeds [tiny] --seeds 0 1 2 3 4 [--write PAGE]`.

Each seed is a whole pipeline of its own, from its own raw problems to its report. Prints every number and, with
`--write`, the recipe's section of the page that the README points to. A seed that is finished in the home is not run
again. With `--roundings native avx2 sse41` the seeds run as on CPUs with narrower vectors too, which round otherwise
and so sample other tokens; the section on them has each seed's last scores.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ratchet.evaluation.comparison import paired_difference

ROOT = Path(__file__).resolve().parent.parent
KS = ("1", "2", "4", "8", "16")
ROUNDINGS: dict[str, dict[str, str]] = {
    "native": {},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "sse41": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"},
}
"""Environment of a run by the widest vectors that PyTorch's and oneDNN's kernels may use."""


def run_seed(
    seed: int, home: Path, overrides: list[str], recipe: str = "tiny", environment: dict[str, str] | None = None
) -> None:
    command = [sys.executable, "-m", "ratchet.cli.main", "run", recipe, "--seed", str(seed), "--home", str(home)]
    for override in overrides:
        command += ["--set", override]
    subprocess.run(command, check=True, cwd=ROOT, env=os.environ | (environment or {}))


def evaluations_of(home: Path, seed: int | str) -> list[Path]:
    """The evaluations of a seed's last report, in pipeline order."""
    manifests = [json.loads(file.read_text()) for file in home.glob("artifacts/report/*/manifest.json")]
    if not manifests:
        raise SystemExit(f"seed {seed}: no report in {home}")
    last = max(manifests, key=lambda manifest: manifest["finished_at"])
    names = [Path(i["path"]).name for i in last["inputs"] if i["kind"] == "evaluation"]
    return [home / "artifacts" / "evaluation" / name for name in names]  # the home may have been moved


def read_scores(home: Path, seed: int) -> list[tuple[str, dict[str, Any]]]:
    """(label, scores by benchmark) of a seed's evaluations, in pipeline order."""
    scores = [json.loads((path / "scores.json").read_text()) for path in evaluations_of(home, seed)]
    return [(s["label"], s["benchmarks"]) for s in scores]


def passes(evaluation: Path) -> dict[tuple[str, str], tuple[int, int]]:
    """(passed, graded) responses of an evaluation by benchmark and question."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    columns = ["benchmark", "problem_id", "outcome"]
    for name, question, outcome in zip(
        *pq.read_table(evaluation / "generations.parquet", columns=columns).to_pydict().values(), strict=True
    ):
        passed, graded = found.get((name, question), (0, 0))
        found[name, question] = passed + (outcome == "passed"), graded + 1
    return found


def gains(homes: dict[int, Path]) -> list[str]:
    """Paired differences between the first and the last evaluation, each seed and all together: a question's seeds are
    one unit then, because they share its difficulty."""
    counts: tuple[dict[str, dict[Any, tuple[int, int]]], ...] = ({}, {})
    for end, found in zip((0, -1), counts, strict=True):
        for seed, home in homes.items():
            for (name, question), count in passes(evaluations_of(home, seed)[end]).items():
                found.setdefault(name, {})[seed, question] = count
    lines = [
        "| benchmark | seed | pass@1, end − start | 95 % | pass@16, end − start | 95 % |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for name, before in counts[0].items():
        for seed in [*homes, *(["all"] if len(homes) > 1 else [])]:
            chosen = {place: count for place, count in before.items() if seed in ("all", place[0])}
            cells = []
            for k in (1, 16):
                d = paired_difference(chosen, counts[1][name], k, {place: place[1] for place in chosen})
                cells += [f"{d.difference:+.3f}", f"{d.low:+.3f} to {d.high:+.3f}"]
            lines.append(f"| {name.removeprefix('tiny-')} | {seed} | {' | '.join(cells)} |")
    return lines


def by_difficulty(homes: dict[int, Path]) -> list[str]:
    """Scores at the start and at the end, for each difficulty that the benchmarks' questions state; none: no table."""
    rows: dict[tuple[str, float], list[list[str]]] = {}
    for end in (0, -1):
        solved: dict[tuple[str, float], list[list[bool]]] = {}
        for seed, home in homes.items():
            path = evaluations_of(home, seed)[end]
            columns = ["benchmark", "problem_id", "difficulty"]
            questions = pq.read_table(path / "questions.parquet", columns=columns).to_pylist()
            passed: dict[tuple[str, str], list[bool]] = {}
            for row in pq.read_table(path / "generations.parquet").to_pylist():
                passed.setdefault((row["benchmark"], row["problem_id"]), []).append(row["outcome"] == "passed")
            for question in (q for q in questions if q["difficulty"]):
                place = question["benchmark"], float(question["difficulty"])
                solved.setdefault(place, []).append(passed[question["benchmark"], question["problem_id"]])
        for place, groups in solved.items():
            one = statistics.fmean(sum(group) / len(group) for group in groups)
            rows.setdefault(place, []).append([f"{one:.3f}", f"{statistics.fmean(map(any, groups)):.3f}"])
    lines = ["| benchmark | level | pass@1, start | end | pass@16, start | end |", "|---|---:|---:|---:|---:|---:|"]
    for (name, level), (start, last) in sorted(rows.items()):
        cells = [name.removeprefix("tiny-"), f"{level:g}", start[0], last[0], start[1], last[1]]
        lines.append(f"| {' | '.join(cells)} |")
    return ["", *lines] if rows else []


def table(seeds: dict[int, list[tuple[str, dict[str, Any]]]]) -> list[str]:
    others = " | ".join(f"pass@{k}" for k in KS[1:])
    lines = [f"| seed | benchmark | after | pass@1 | {others} | truncated | tokens |"]
    lines.append("|---:|---|---|---:|" + "---:|" * (len(KS) + 1))
    for seed, evaluations in seeds.items():
        for name in evaluations[0][1]:
            for label, scores in evaluations:
                s = scores[name]
                first = s["pass_at"]["1"]
                others = " | ".join(f"{s['pass_at'][k]['value']:.3f}" for k in KS[1:])
                one = f"{first['value']:.3f} ± {first['standard_error']:.3f}"
                lines.append(
                    f"| {seed} | {name.removeprefix('tiny-')} | {label} | {one} | {others} | "
                    f"{s['truncation_rate']:.1%} | {s['response_tokens']['all']['mean']:.1f} |"
                )
    return lines


def means(seeds: dict[int, list[tuple[str, dict[str, Any]]]]) -> list[str]:
    first = next(iter(seeds.values()))
    lines = ["| benchmark | after | mean pass@1 | seeds' range | mean pass@16 |", "|---|---|---:|---:|---:|"]
    for name in first[0][1]:
        for label, _ in first:
            ones, last = (
                [dict(evaluations)[label][name]["pass_at"][k]["value"] for evaluations in seeds.values()]
                for k in ("1", "16")
            )
            spread = f"{min(ones):.3f} to {max(ones):.3f}"
            cells = f"{label} | {mean(ones)} | {spread} | {mean(last)}"
            lines.append(f"| {name.removeprefix('tiny-')} | {cells} |")
    return lines


def by_rounding(homes: dict[str, dict[int, Path]]) -> list[str]:
    """pass@1 of each seed's last evaluation under each rounding, and the range over all."""
    seeds = list(next(iter(homes.values())))
    head = [
        f"| benchmark | vectors | {' | '.join(f'seed {s}' for s in seeds)} | mean |",
        "|---|---|" + "---:|" * (len(seeds) + 1),
    ]
    ends: dict[str, list[float]] = {}
    rows: dict[str, list[str]] = {}
    for rounding, of_seeds in homes.items():
        last = [read_scores(home, seed)[-1][1] for seed, home in of_seeds.items()]
        for name in last[0]:
            ones = [scores[name]["pass_at"]["1"]["value"] for scores in last]
            ends.setdefault(name, []).extend(ones)
            cells = " | ".join(f"{one:.3f}" for one in ones)
            rows.setdefault(name, []).append(f"| {name.removeprefix('tiny-')} | {rounding} | {cells} | {mean(ones)} |")
    summary = "; ".join(
        f"{name.removeprefix('tiny-')} {min(ones):.3f} to {max(ones):.3f}, mean {statistics.fmean(ones):.3f}"
        for name, ones in ends.items()
    )
    return [
        f"Last pass@1 of all {len(seeds) * len(homes)} runs: {summary}.",
        "",
        *head,
        *(row for group in rows.values() for row in group),
    ]


def mean(values: list[float], digits: int = 3) -> str:
    """The mean, with its standard error where there are several values."""
    error = f" ± {statistics.stdev(values) / len(values) ** 0.5:.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.{digits}f}{error}"


def with_section(page: str, heading: str, lines: list[str]) -> str:
    """The page with this section (its heading begins with `## `, the page's own with `# `) replaced or added."""
    before, found, after = f"\n{page}".partition(f"\n{heading}\n")
    _, next_heading, others = after.partition("\n## ")
    before = before if found else before.rstrip("\n") + "\n"
    return (f"{before}\n" + "\n".join([heading, "", *lines]) + "\n" + next_heading + others).lstrip("\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="?", default="tiny")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--home", type=Path, help="one home a seed below it; .ratchet/seeds for tiny, .ratchet/RECIPE")
    parser.add_argument("--set", dest="overrides", action="append", default=[], help="passed on to `ratchet run`")
    parser.add_argument("--write", type=Path, help="write the page of results here")
    parser.add_argument("--roundings", nargs="+", choices=list(ROUNDINGS), default=["native"], help=by_rounding.__doc__)
    arguments = parser.parse_args()
    recipe = arguments.recipe
    homes = arguments.home or ROOT / ".ratchet" / ("seeds" if recipe == "tiny" else recipe)
    own: dict[str, dict[int, Path]] = {}
    for seed in arguments.seeds:
        for rounding in arguments.roundings:
            home = homes / str(seed) if rounding == "native" else homes / rounding / str(seed)
            run_seed(seed, home, arguments.overrides, recipe, ROUNDINGS[rounding])
            own.setdefault(rounding, {})[seed] = home
    command = f"    python -m research.seeds {recipe} --seeds {' '.join(map(str, arguments.seeds))}"
    if len(own) > 1:
        heading, text = OTHER_CPUS, TEXT_OF_OTHER_CPUS
        command += f" --roundings {' '.join(own)}"
        lines = by_rounding(own)
    else:
        of_seeds = own[arguments.roundings[0]]
        heading, text = HEADINGS[recipe], TEXTS[recipe]
        seeds = {seed: read_scores(home, seed) for seed, home in of_seeds.items()}
        lines = [*means(seeds), "", *gains(of_seeds), *by_difficulty(of_seeds), "", *table(seeds)]
    print("\n".join(lines))
    if arguments.write:
        written = arguments.write.read_text() if arguments.write.is_file() else ""
        section = [f"{command} --write docs/evidence/results.md", "", text, "", *lines]
        arguments.write.write_text(with_section(written, heading, section))


OTHER_CPUS = "## The tiny recipe on other CPUs"
TEXT_OF_OTHER_CPUS = (
    "CPUs with vectors of other widths round otherwise, so they sample other tokens and learn otherwise. Here the "
    "kernels of PyTorch and oneDNN are held to those of AVX2 and SSE 4.1 (`ATEN_CPU_CAPABILITY`, "
    "`ONEDNN_MAX_CPU_ISA`) on one CPU that has 512-bit vectors."
)

HEADINGS = {
    "tiny": "## The tiny recipe",
    "tiny-prorl": "## Five domains, as ProRL trains",
    "word-problems-smollm2": "## A real model on short word problems",
}
TEXTS = {
    "tiny": "Each seed has its own raw problems, teacher answers, model and training, on two CPU cores; 64 held-out "
    "problems a benchmark, 16 responses each, temperature 1. ± after one seed's score is the standard error across "
    "questions; ± after a mean is the standard error across seeds. `start` is the supervised warm start that "
    "reinforcement learning begins from: it imitates traces that stop early in long math problems and make habitual "
    "mistakes in code (`examples/tiny_world/teacher.py`). A problem's level is its number of steps or list operations. "
    "Traces and recipe were tuned on seeds 0, 1 and 3. On a CPU with 512-bit vectors "
    "([others](#the-tiny-recipe-on-other-cpus)).",
    "tiny-prorl": "ProRL's way of training: five domains at once, a KL term, four clipped updates a batch, dynamic "
    "sampling, hard resets where validation stops rising; 64 held-out problems a domain (63 puzzles), otherwise as "
    "above.",
    "word-problems-smollm2": "SmolLM2-135M-Instruct with the `--set` lines of the recipe: problems of MAWPS whose "
    "numbers are whole and below 100, 1,185 of the training file's 1,898 and 143 of the test file's 238. 1,053 are "
    "trained on: 49 share text with the test file, 83 are copies. A supervised start on 256 solutions, 45 steps of RL "
    "with 128 responses each; 64 questions of the test file with 16 responses each before and after, temperature 1. ± "
    "after one seed's score is the standard error across questions; ± after a mean is the standard error across seeds. "
    "The learning rate and its warm-up were chosen by the training rewards of seeds 0 and 1, the limit of 100 by what "
    "the start answered to test questions of all sizes. What did not help: a learning rate of 5e-5 without warm-up, "
    "which fell from 0.26 to 0.04 of the training responses in three steps; problems of all sizes, of which "
    "the start passed 0.25 of the responses with numbers below 100 and 0.09 of the others; MAWPS' equations as "
    "published, `X=((22.0-14.0)/4.0)`, as solutions. None of this was chosen by seeds 2 to 4. A seed takes 30 minutes "
    "on one core with 512-bit vectors, another seed beside it: start 3, RL 22, evaluations 1.4 each. Before RL the "
    "most frequent of 16 answers is right for 0.28 to 0.35 of the questions, so most of the gain is that single "
    "responses give it.",
}

if __name__ == "__main__":
    main()
