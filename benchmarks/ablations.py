"""The ablation recipes on the tiny world: `python -m benchmarks.ablations --seeds 0 1 2 [--write docs/results.md]`.

Every recipe of `recipes/ablations` runs once a seed; all of a seed share one home, so curation and warm start are done
once. Reported, as means over seeds with the standard error across them: held-out pass@1 and pass@16 at the end, the
difference to the baseline (paired by seed), entropy and length at the end, and the compute that it took: tokens
sampled in all, and tokens sampled until the training pass rate (mean of ten steps) first reached `--reach`. With
`--write` also a picture of the learning curves beside the page, in images/ablations.png. What is finished in the home
is not run again.
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
RECIPES = sorted(path.stem for path in (ROOT / "recipes" / "ablations").glob("*.yaml") if path.stem != "baseline")
HEADING = "## Ablations"
WINDOW = 10


def run(name: str, seed: int, home: Path) -> dict[str, Any]:
    """One recipe to its end; its scores and, step by step, what its stages measured."""
    command = [sys.executable, "-m", "ratchet.cli.main", "train", f"ablations/{name}", "--seed", str(seed)]
    subprocess.run([*command, "--home", str(home)], check=True, cwd=ROOT)
    plan = [json.loads(file.read_text()) for file in home.glob("artifacts/*/*/manifest.json")]
    made = {manifest["key"]: manifest for manifest in plan}
    recipe_keys = keys_of(command, home)
    manifests = sorted((made[key] for key in recipe_keys if key in made), key=lambda m: m["finished_at"])
    steps: list[dict[str, Any]] = []
    scores: dict[str, Any] = {}
    for manifest in manifests:
        directory = home / "artifacts" / manifest["kind"] / f"{manifest['name']}-{manifest['key'][:12]}"
        if manifest["step"] == "train":
            steps += [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
        elif manifest["step"] == "evaluate":
            scores[manifest["name"]] = json.loads((directory / "scores.json").read_text())["benchmarks"]["tiny-math"]
    return {"steps": steps, "scores": scores}


def keys_of(command: list[str], home: Path) -> list[str]:
    """The artifacts that a recipe is made of, in order, without running anything."""
    code = (
        "import sys, json; from ratchet.infra.recipe import load_recipe\n"
        "from ratchet.infra.settings import load_settings\n"
        "from ratchet.tasks.pipeline_run import plan_run; from ratchet.flows.train import train\n"
        "recipe = load_recipe(sys.argv[1], ['seed=' + sys.argv[2]])\n"
        "with plan_run(recipe, load_settings(sys.argv[3])) as plan: train.fn(recipe)\n"
        "print(json.dumps([step.output.key for step in plan.plan]))"
    )
    arguments = [command[4], command[6], str(home)]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, cwd=ROOT, capture_output=True, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def curve(steps: list[dict[str, Any]]) -> tuple[list[float], list[float]]:
    """Tokens sampled so far, and the pass rate as a running mean."""
    sampled, rates, total = [], [], 0.0
    for i, step in enumerate(steps):
        total += step["sampled_tokens"]
        sampled.append(total)
        rates.append(statistics.fmean(s["pass_rate"] for s in steps[max(0, i - WINDOW + 1) : i + 1]))
    return sampled, rates


def facts(result: dict[str, Any], reach: float) -> dict[str, float | None]:
    sampled, rates = curve(result["steps"])
    last = result["steps"][-WINDOW:]
    final = list(result["scores"].values())[-1]["pass_at"]
    return {
        "pass@1": final["1"]["value"],
        "pass@16": final["16"]["value"],
        "entropy": statistics.fmean(s["entropy"] for s in last if "entropy" in s),
        "tokens": statistics.fmean(s["response_tokens"] for s in last),
        "sampled": sampled[-1] / 1e6,
        "until": next((s / 1e6 for s, r in zip(sampled, rates, strict=True) if r >= reach), None),
    }


def mean(values: list[float | None], digits: int = 3) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "never"
    error = f" ± {statistics.stdev(known) / len(known) ** 0.5:.{digits}f}" if len(known) > 1 else ""
    some = f" ({len(known)} of {len(values)})" if len(known) < len(values) else ""
    return f"{statistics.fmean(known):.{digits}f}{error}{some}"


def table(found: dict[str, list[dict[str, Any]]], reach: float) -> list[str]:
    head = ["recipe", "pass@1", "against baseline", "pass@16", "entropy", "response tokens", "M tokens sampled"]
    lines = ["| " + " | ".join([*head, f"until {reach:.0%}"]) + " |", "|---|" + "---:|" * len(head)]
    base = [f["pass@1"] for f in found["baseline"]]
    for name, seeds in found.items():
        gains = [f["pass@1"] - b for f, b in zip(seeds, base, strict=True)]
        cells = [mean([f["pass@1"] for f in seeds]), "" if name == "baseline" else mean(gains)]
        cells += [mean([f[key] for f in seeds]) for key in ("pass@16", "entropy")]
        cells += [mean([f["tokens"] for f in seeds], 1), mean([f["sampled"] for f in seeds], 2)]
        cells += [mean([f["until"] for f in seeds], 2)]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def picture(results: dict[str, list[dict[str, Any]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    figure, axes = plt.subplots(2, (len(results)) // 2, figsize=(14, 5.5), sharex=True, sharey=True)
    others = [name for name in results if name != "baseline"]
    for axis, name in zip(axes.flat, others, strict=False):
        for shown, colour in (("baseline", "0.6"), (name, "C0")):
            for i, result in enumerate(results[shown]):
                sampled, rates = curve(result["steps"])
                label = ("the recipe" if shown == name else shown) if i == 0 else None
                axis.plot(np.array(sampled) / 1e6, rates, color=colour, lw=1, label=label)
        axis.set_title(name, fontsize=9)
    axes.flat[0].legend(loc="lower right", fontsize=8)
    for axis in axes[-1]:
        axis.set_xlabel("M tokens sampled")
    for axis in axes[:, 0]:
        axis.set_ylabel("training pass rate")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--recipes", nargs="+", default=RECIPES, choices=RECIPES)
    parser.add_argument("--reach", type=float, default=0.6)
    parser.add_argument("--home", type=Path, default=ROOT / ".ratchet" / "ablations", help="one home a seed below it")
    parser.add_argument("--write", type=Path, help="replace the section on ablations of this page")
    arguments = parser.parse_args()
    results = {
        name: [run(name, seed, arguments.home / str(seed)) for seed in arguments.seeds]
        for name in ("baseline", *arguments.recipes)
    }
    found = {name: [facts(result, arguments.reach) for result in seeds] for name, seeds in results.items()}
    lines = table(found, arguments.reach)
    print("\n".join(lines))
    if arguments.write:
        picture(results, arguments.write.parent / "images" / "ablations.png")
        before, _, after = arguments.write.read_text().partition(f"\n{HEADING}\n")
        _, heading, others = after.partition("\n## ")
        seeds = " ".join(map(str, arguments.seeds))
        section = [
            HEADING, "", f"    python -m benchmarks.ablations --seeds {seeds} --write docs/results.md", "",
            "The tiny recipe's math stages alone, each recipe of `recipes/ablations` changing one thing of the "
            "baseline. ± is the standard error across seeds; differences are paired by seed. The last column is the "
            f"compute until the training pass rate, a mean of {WINDOW} steps, first reached {arguments.reach:.0%}.",
            "", *lines, "", "![Training pass rate over tokens sampled, beside the baseline](images/ablations.png)",
        ]  # fmt: skip
        arguments.write.write_text(f"{before}\n" + "\n".join(section) + "\n" + heading + others)


if __name__ == "__main__":
    main()
