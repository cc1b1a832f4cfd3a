"""Ablations on the tiny world: `python -m benchmarks.ablations [math] --seeds 0 1 2 [--write docs/results.md]`.

`math`: each recipe of `recipes/ablations` against `baseline`. `prorl`: each `prorl_…` against `tiny-prorl`. Every
recipe runs once a seed; all of a seed share one home, so curation and warm start are done once.

Reported, as means over seeds with the standard error across them: held-out pass@1 and pass@16 at the end, means over
the benchmarks, the difference to the baseline (paired by seed), entropy and length at the end, and the compute that it
took: tokens sampled in all, and tokens sampled until the training pass rate (mean of ten steps) first reached
`--reach`. With `--write` also a picture of the curves beside the page, in images/. What is finished in the home is not
run again.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.seeds import mean, with_section

ROOT = Path(__file__).resolve().parent.parent
ALL = sorted(path.stem for path in (ROOT / "recipes" / "ablations").glob("*.yaml") if path.stem != "baseline")
WINDOW = 10
"""Steps that a point of a curve is the mean of."""
CURVES = {"pass_rate": "training pass rate", "entropy": "entropy (nats)", "kl": "KL (nats)", "validation": "validation"}


@dataclass(frozen=True)
class Family:
    """Recipes that each change one thing of a baseline, and how they are shown."""

    baseline: str
    recipes: tuple[str, ...]
    curves: tuple[str, ...]
    heading: str
    text: str
    picture: str


FAMILIES = {
    "math": Family(
        "ablations/baseline", tuple(name for name in ALL if not name.startswith("prorl_")), ("pass_rate",),
        "## Ablations",
        "The tiny recipe's math stages alone, each recipe of `recipes/ablations` changing one thing of the baseline.",
        "ablations.png",
    ),
    "prorl": Family(
        "tiny-prorl", tuple(name for name in ALL if name.startswith("prorl_")), ("validation", "entropy", "kl"),
        "## Ablations of five domains",
        "Each `prorl_…` of `recipes/ablations` changing one thing of `tiny-prorl`; scores are means over the domains.",
        "ablations_prorl.png",
    ),
}  # fmt: skip


def run(recipe: str, seed: int, home: Path, overrides: list[str]) -> dict[str, Any]:
    """One recipe to its end; its last scores and, step by step, what its stages measured."""
    command = [sys.executable, "-m", "ratchet.cli.main", "train", recipe, "--seed", str(seed), "--home", str(home)]
    subprocess.run([*command, *(word for each in overrides for word in ("--set", each))], check=True, cwd=ROOT)
    plan = [json.loads(file.read_text()) for file in home.glob("artifacts/*/*/manifest.json")]
    made = {manifest["key"]: manifest for manifest in plan}
    recipe_keys = keys_of(recipe, [f"seed={seed}", *overrides], home)
    manifests = sorted((made[key] for key in recipe_keys if key in made), key=lambda m: m["finished_at"])
    steps: list[dict[str, Any]] = []
    scores: dict[str, Any] = {}
    for manifest in manifests:
        directory = home / "artifacts" / manifest["kind"] / f"{manifest['name']}-{manifest['key'][:12]}"
        if manifest["step"] == "train":
            steps += [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
        elif manifest["step"] == "evaluate":
            scores = json.loads((directory / "scores.json").read_text())["benchmarks"]
    return {"steps": steps, "scores": scores}


def keys_of(recipe: str, overrides: list[str], home: Path) -> list[str]:
    """The artifacts that a recipe is made of, in order, without running anything."""
    code = (
        "import sys, json; from ratchet.infra.recipe import load_recipe\n"
        "from ratchet.infra.settings import load_settings\n"
        "from ratchet.tasks.pipeline_run import plan_run; from ratchet.flows.train import train\n"
        "recipe = load_recipe(sys.argv[2], sys.argv[3:])\n"
        "with plan_run(recipe, load_settings(sys.argv[1])) as plan: train.fn(recipe)\n"
        "print(json.dumps([step.output.key for step in plan.plan]))"
    )
    arguments = [str(home), recipe, *overrides]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, cwd=ROOT, capture_output=True, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def curve(steps: list[dict[str, Any]], name: str = "pass_rate") -> tuple[list[float], list[float]]:
    """Tokens sampled so far, and a running mean of what was measured; of validations, each as it is."""
    window, sampled, values, total = 1 if name == "validation" else WINDOW, [], [], 0.0
    measured: list[float] = []
    for step in steps:
        total += step["sampled_tokens"]
        if name in step:
            measured.append(step[name])
            sampled.append(total)
            values.append(statistics.fmean(measured[-window:]))
    return sampled, values


def facts(result: dict[str, Any], reach: float) -> dict[str, float | None]:
    sampled, rates = curve(result["steps"])
    last, scores = result["steps"][-WINDOW:], result["scores"].values()
    return {
        "pass@1": statistics.fmean(s["pass_at"]["1"]["value"] for s in scores),
        "pass@16": statistics.fmean(s["pass_at"]["16"]["value"] for s in scores),
        "entropy": statistics.fmean(s["entropy"] for s in last if "entropy" in s),
        "tokens": statistics.fmean(s["response_tokens"] for s in last),
        "sampled": sampled[-1] / 1e6,
        "until": next((s / 1e6 for s, r in zip(sampled, rates, strict=True) if r >= reach), None),
    }


def mean_of_known(values: list[float | None], digits: int = 3) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "never"
    return mean(known, digits) + (f" ({len(known)} of {len(values)})" if len(known) < len(values) else "")


def table(found: dict[str, list[dict[str, Any]]], reach: float) -> list[str]:
    head = ["recipe", "pass@1", "against baseline", "pass@16", "entropy", "response tokens", "M tokens sampled"]
    lines = ["| " + " | ".join([*head, f"until {reach:.0%}"]) + " |", "|---|" + "---:|" * len(head)]
    baseline = next(iter(found.values()))
    for name, seeds in found.items():
        gains = [f["pass@1"] - b["pass@1"] for f, b in zip(seeds, baseline, strict=True)]
        cells = [mean([f["pass@1"] for f in seeds]), "" if seeds is baseline else mean(gains)]
        cells += [mean([f[key] for f in seeds]) for key in ("pass@16", "entropy")]
        cells += [mean([f["tokens"] for f in seeds], 1), mean([f["sampled"] for f in seeds], 2)]
        cells += [mean_of_known([f["until"] for f in seeds], 2)]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def picture(results: dict[str, list[dict[str, Any]]], curves: tuple[str, ...], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    baseline, *others = results
    panels = [(name, measured) for name in others for measured in curves]
    columns = len(curves) if len(curves) > 1 else (len(panels) + 1) // 2
    rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(14, 1 + 2.2 * rows), sharex=True, squeeze=False)
    for axis, (name, measured) in zip(axes.flat, panels, strict=False):
        for shown, color in ((baseline, "0.6"), (name, "C0")):
            for i, result in enumerate(results[shown]):
                sampled, values = curve(result["steps"], measured)
                label = ("the recipe" if shown == name else "baseline") if i == 0 else None
                axis.plot(np.array(sampled) / 1e6, values, color=color, lw=1, label=label)
        axis.set_title(f"{name}: {CURVES[measured]}", fontsize=9)
    axes.flat[0].legend(fontsize=8)
    for axis in axes[-1]:
        axis.set_xlabel("M tokens sampled")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", nargs="?", default="math", choices=FAMILIES)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--recipes", nargs="+", choices=ALL, help="those of the family unless given")
    parser.add_argument("--reach", type=float, default=0.6)
    parser.add_argument("--set", dest="overrides", action="append", default=[], help="passed on to `ratchet train`")
    parser.add_argument("--home", type=Path, help="one home a seed below it; .ratchet/ablations, .ratchet/tiny-prorl")
    parser.add_argument("--write", type=Path, help="replace the family's section of this page")
    arguments = parser.parse_args()
    family = FAMILIES[arguments.family]
    # That of `benchmarks.seeds`: the baseline of five domains is the recipe itself.
    homes = arguments.home or ROOT / ".ratchet" / ("ablations" if arguments.family == "math" else family.baseline)
    recipes = {family.baseline.removeprefix("ablations/"): family.baseline}
    recipes |= {name: f"ablations/{name}" for name in arguments.recipes or family.recipes}
    results = {
        name: [run(recipe, seed, homes / str(seed), arguments.overrides) for seed in arguments.seeds]
        for name, recipe in recipes.items()
    }
    found = {name: [facts(result, arguments.reach) for result in seeds] for name, seeds in results.items()}
    lines = table(found, arguments.reach)
    print("\n".join(lines))
    if arguments.write:
        picture(results, family.curves, arguments.write.parent / "images" / family.picture)
        words = [arguments.family, "--seeds", *map(str, arguments.seeds)]
        words += [word for each in arguments.overrides for word in ("--set", each)]
        shown = ", ".join(CURVES[measured] for measured in family.curves)
        section = [
            f"    python -m benchmarks.ablations {shlex.join(words)} --write docs/results.md", "",
            f"{family.text} ± is the standard error across seeds; differences are paired by seed. The last column is "
            f"the compute until the training pass rate, a mean of {WINDOW} steps, first reached {arguments.reach:.0%}.",
            "", *lines, "", f"![Over tokens sampled, beside the baseline: {shown}](images/{family.picture})",
        ]  # fmt: skip
        arguments.write.write_text(with_section(arguments.write.read_text(), family.heading, section))


if __name__ == "__main__":
    main()
