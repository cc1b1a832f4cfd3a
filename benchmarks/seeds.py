"""The tiny recipe over several seeds: `python benchmarks/seeds.py --seeds 0 1 2 3 4 [--write docs/results.md]`.

Each seed is a whole pipeline of its own, from its own raw problems to its report. Prints every number and, with
`--write`, the page that the README points to. A seed that is finished in the home is not run again.
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
BENCHMARKS = {"tiny-math": "math", "tiny-code": "code"}
KS = ("1", "2", "4", "8", "16")


def run_seed(seed: int, home: Path, overrides: list[str]) -> None:
    command = [sys.executable, "-m", "ratchet.cli.main", "run", "tiny", "--seed", str(seed), "--home", str(home)]
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
    lines = ["| seed | benchmark | after | pass@1 | " + " | ".join(f"pass@{k}" for k in KS[1:]) + " | cut | tokens |"]
    lines.append("|---:|---|---|---:|" + "---:|" * (len(KS) + 1))
    for seed, evaluations in seeds.items():
        for name, domain in BENCHMARKS.items():
            for label, scores in evaluations:
                s = scores[name]
                first = s["pass_at"]["1"]
                others = " | ".join(f"{s['pass_at'][k]['value']:.3f}" for k in KS[1:])
                one = f"{first['value']:.3f} ± {first['standard_error']:.3f}"
                lines.append(
                    f"| {seed} | {domain} | {label} | {one} | {others} | "
                    f"{s['truncation_rate']:.1%} | {s['response_tokens']['all']['mean']:.1f} |"
                )
    return lines


def means(seeds: dict[int, list[tuple[str, dict[str, Any]]]]) -> list[str]:
    labels = [label for label, _ in next(iter(seeds.values()))]
    lines = ["| benchmark | after | mean pass@1 | seeds' range | mean pass@16 |", "|---|---|---:|---:|---:|"]
    for name, domain in BENCHMARKS.items():
        for label in labels:
            ones = [dict(evaluations)[label][name]["pass_at"]["1"]["value"] for evaluations in seeds.values()]
            last = [dict(evaluations)[label][name]["pass_at"]["16"]["value"] for evaluations in seeds.values()]
            mean = f"{statistics.mean(ones):.3f}"
            if len(ones) > 1:
                mean += f" ± {statistics.stdev(ones) / len(ones) ** 0.5:.3f}"
            spread = f"{min(ones):.3f} to {max(ones):.3f}"
            lines.append(f"| {domain} | {label} | {mean} | {spread} | {statistics.mean(last):.3f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--home", type=Path, default=ROOT / ".ratchet" / "seeds", help="one home a seed below it")
    parser.add_argument("--set", dest="overrides", action="append", default=[], help="passed on to `ratchet run`")
    parser.add_argument("--write", type=Path, help="write the page of results here")
    arguments = parser.parse_args()
    seeds = {}
    for seed in arguments.seeds:
        home = arguments.home / str(seed)
        run_seed(seed, home, arguments.overrides)
        seeds[seed] = read_scores(home, seed)
    lines = [*means(seeds), "", *table(seeds)]
    print("\n".join(lines))
    if arguments.write:
        written = arguments.write.read_text() if arguments.write.is_file() else ""
        _, heading, others = written.partition("\n## ")  # what other measurements wrote below stays
        arguments.write.write_text("\n".join([*HEAD, *lines]) + "\n" + heading + others)


HEAD = [
    "# Results of the tiny recipe",
    "",
    "    python benchmarks/seeds.py --seeds 0 1 2 3 4 --write docs/results.md",
    "",
    "Each seed has its own raw problems, teacher answers, model and training, on two CPU cores; 64 held-out problems a "
    "benchmark, 16 responses each, temperature 1. ± after one seed's score is the standard error across questions; "
    "± after a mean is the standard error across seeds. `start` is the supervised warm start that reinforcement "
    "learning begins from.",
    "",
]

if __name__ == "__main__":
    main()
