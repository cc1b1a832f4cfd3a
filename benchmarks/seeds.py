"""A recipe over several seeds: `python -m benchmarks.seeds [tiny] --seeds 0 1 2 3 4 [--write docs/results.md]`.

Each seed is a whole pipeline of its own, from its own raw problems to its report. Prints every number and, with
`--write`, the recipe's section of the page that the README points to. A seed that is finished in the home is not run
again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
KS = ("1", "2", "4", "8", "16")


def run_seed(seed: int, home: Path, overrides: list[str], recipe: str = "tiny") -> None:
    command = [sys.executable, "-m", "ratchet.cli.main", "run", recipe, "--seed", str(seed), "--home", str(home)]
    for override in overrides:
        command += ["--set", override]
    subprocess.run(command, check=True, cwd=ROOT)


def read_scores(home: Path, seed: int) -> list[tuple[str, dict[str, Any]]]:
    """(label, scores by benchmark) of a seed's evaluations, in pipeline order."""
    found = []
    for manifest_file in home.glob("artifacts/report/*/manifest.json"):
        manifest = json.loads(manifest_file.read_text())
        evaluations = [Path(i["path"]) for i in manifest["inputs"] if i["kind"] == "evaluation"]
        scores = [json.loads((path / "scores.json").read_text()) for path in evaluations]
        found.append((manifest["finished_at"], [(s["label"], s["benchmarks"]) for s in scores]))
    if not found:
        raise SystemExit(f"seed {seed}: no report in {home}")
    return max(found)[1]


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


def mean(values: list[float], digits: int = 3) -> str:
    """With the standard error across them, where there are several."""
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
    arguments = parser.parse_args()
    recipe = arguments.recipe
    homes = arguments.home or ROOT / ".ratchet" / ("seeds" if recipe == "tiny" else recipe)
    seeds = {}
    for seed in arguments.seeds:
        run_seed(seed, homes / str(seed), arguments.overrides, recipe)
        seeds[seed] = read_scores(homes / str(seed), seed)
    lines = [*means(seeds), "", *table(seeds)]
    print("\n".join(lines))
    if arguments.write:
        named = " ".join(map(str, arguments.seeds))
        command = f"    python -m benchmarks.seeds {recipe} --seeds {named} --write docs/results.md"
        written = arguments.write.read_text() if arguments.write.is_file() else ""
        arguments.write.write_text(with_section(written, HEADINGS[recipe], [command, "", TEXTS[recipe], "", *lines]))


HEADINGS = {"tiny": "# Results of the tiny recipe", "tiny-prorl": "## Five domains, as ProRL trains"}
TEXTS = {
    "tiny": "Each seed has its own raw problems, teacher answers, model and training, on two CPU cores; 64 held-out "
    "problems a benchmark, 16 responses each, temperature 1. ± after one seed's score is the standard error across "
    "questions; ± after a mean is the standard error across seeds. `start` is the supervised warm start that "
    "reinforcement learning begins from.",
    "tiny-prorl": "ProRL's way of training: five domains at once, a KL term, four clipped updates a batch, dynamic "
    "sampling, hard resets where validation stops rising; 64 held-out problems a domain (63 puzzles), otherwise as "
    "above.",
}

if __name__ == "__main__":
    main()
