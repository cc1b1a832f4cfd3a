"""The ablation testbed: `python -m research.ablations --seeds 0 1 2 [--write docs/evidence/results.md]`.

Trains the recipes of `recipes/ablations` with `ratchet train`, each on every seed. All recipes of a seed share one
home: curation and supervised start are made once, and finished work is not repeated. For each effect it prints a table
of the compared recipes: means over seeds with a 95 % interval (Student's t), and differences to the first row, paired
by seed. With `--write` the tables become sections of the page, each with a picture in docs/images.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import entropy, t

from ratchet.evaluation.pass_at_k import pass_at_k_table
from ratchet.examples.ablation_testbed.world import READINGS
from ratchet.flows.runs import plan_run
from ratchet.flows.train import train
from ratchet.infra.recipe import load_recipe
from ratchet.infra.settings import load_settings
from ratchet.tasks.run_context import PlannedStep
from research.seeds import ROOT, with_section

Steps = list[dict[str, Any]]
Measure = Callable[["Run"], float | None]


@dataclass(frozen=True)
class Run:
    """One recipe on one seed, evaluated at `label`: the lines of its metrics.jsonl, the seconds of its stages so far,
    scores by benchmark, and the directories of the evaluations at the start (where there was one) and now."""

    steps: Steps
    seconds: float
    scores: dict[str, Any]
    start: Path | None
    evaluation: Path

    def passed(self, benchmark: str, at_start: bool = False) -> pd.DataFrame | None:
        """The number of passed responses (`passed`) and of words (`depth`) of each question, now or at the start; None
        where the start was not evaluated."""
        evaluation = self.start if at_start else self.evaluation
        if evaluation is None:
            return None
        of_all = [pd.read_parquet(evaluation / f"{name}.parquet") for name in ("generations", "questions")]
        rows, questions = (table[table.benchmark == benchmark] for table in of_all)
        passed = (rows.outcome == "passed").groupby(rows.problem_id).sum()
        depth = questions.set_index("problem_id").prompt.str.count("\n")
        return pd.DataFrame({"passed": passed, "depth": depth})

    def responses(self, benchmark: str) -> list[str]:
        """Texts of the responses, as the policy wrote them."""
        rows = pd.read_parquet(self.evaluation / "generations.parquet", columns=["benchmark", "text"])
        return rows.text[rows.benchmark == benchmark].tolist()

    def curve(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Million tokens sampled in training, and the values of a metric; noisy ones as a mean of five steps."""
        tokens = np.cumsum([step["sampled_tokens"] for step in self.steps]) / 1e6
        values = pd.Series([step.get(name, np.nan) for step in self.steps])
        if not name.startswith("validation"):
            values = values.rolling(5, min_periods=1).mean()
        there = values.notna().to_numpy()
        return tokens[there], values[there].to_numpy()


def score(benchmark: str, k: int = 1) -> Measure:
    return lambda run: run.scores[benchmark]["pass_at"][str(k)]["value"]


def deep_pass_at(k: int, least: int = 5) -> Measure:
    """Over the questions of depth `least` to 8."""

    def measure(run: Run) -> float:
        deep = run.passed("math-deep")
        passed = deep.passed[deep.depth >= least].to_numpy()
        return float(pass_at_k_table(np.full(len(passed), 64), passed)[:, k - 1].mean())

    return measure


def never_solved(benchmark: str) -> Measure:
    """Share of the questions solved now that no response solved at the start."""

    def measure(run: Run) -> float | None:
        before = run.passed(benchmark, at_start=True)
        if before is None or not (before.passed == 0).any():
            return None
        return float((run.passed(benchmark).passed[before.passed == 0] > 0).mean())

    return measure


def reading_entropy(run: Run) -> float:
    """Nats, mean over the words that the traces read in two ways: the entropy of how the deep responses read each. The
    mean over all tokens is held up by fillers long after this one has fallen."""
    readings: dict[str, Counter[str]] = {word: Counter() for word in READINGS}
    for text in run.responses("math-deep"):
        for word, operation in re.findall(r"^[a-h] (\w+) \d([+*-]\d)=", text, re.MULTILINE):
            if word in readings:
                readings[word][operation] += 1
    return statistics.fmean(float(entropy(list(counts.values()))) for counts in readings.values() if counts)


def tokens_until(level: float) -> Measure:
    """Million tokens sampled until the validation score reaches `level`, interpolated; None: it never does."""

    def measure(run: Run) -> float | None:
        tokens, values = run.curve("validation")
        above = np.flatnonzero(values >= level)
        if not len(above):
            return None
        i = above[0]
        before = (tokens[i - 1], values[i - 1]) if i else (0.0, 0.0)
        return float(np.interp(level, [before[1], values[i]], [before[0], tokens[i]]))

    return measure


def validation_at(tokens: float) -> Measure:
    """Validation score after so many million sampled tokens, interpolated."""
    return lambda run: float(np.interp(tokens, *run.curve("validation")))


def mean_of(name: str, steps: slice) -> Measure:
    """Mean of a metric over steps, of which the first is 0."""
    return lambda run: statistics.fmean(s[name] for s in run.steps[steps] if name in s)


@dataclass(frozen=True)
class Effect:
    """Recipes that are compared: name of the row, recipe, and what was evaluated (`start` or `rl`). `curves` are the
    metrics that the picture shows over tokens; without any it shows the columns as bars."""

    title: str
    rows: tuple[tuple[str, str, str], ...]
    columns: dict[str, Measure]
    curves: tuple[str, ...] = ()


MATH = {"shallow pass@1": score("math-shallow"), "deep pass@1": score("math-deep")}
CODE = {"code shallow pass@1": score("code-shallow"), "code deep pass@1": score("code-deep")}
ENTROPY = {
    "entropy, steps 1–20": mean_of("entropy", slice(20)),
    "entropy, last 20": mean_of("entropy", slice(-20, None)),
}
REWARDED = {
    "training pass rate, last 10 steps": mean_of("pass_rate", slice(-10, None)),
    "validation at 0.2 M tokens": validation_at(0.2),
}
EFFECTS = {
    "reach": Effect(
        "Reach: what the start cannot solve",
        (("start", "reach", "start"), ("after RL", "reach", "rl")),
        {f"deep pass@{k}": deep_pass_at(k) for k in (1, 16, 64)}
        | {"depth 8 pass@16": deep_pass_at(16, 8), "solved, of those 0 of 64": never_solved("math-deep")},
    ),
    "length": Effect(
        "Length: growing or full",
        (("growing", "reach", "rl"), ("full from the start", "full_length", "rl")),
        {"M tokens until validation 0.7": tokens_until(0.7), "until 0.8": tokens_until(0.8)} | MATH,
        ("validation", "response_tokens"),
    ),
    "updates": Effect(
        "Updates: entropy under several updates a batch",
        (("one", "one_update", "rl"), ("four", "four_updates", "rl"), ("four, clip-higher", "clip_higher", "rl")),
        ENTROPY | MATH,
        ("entropy", "validation"),
    ),
    "weak": Effect(
        "Weak tests: false positives on code",
        (("right tests", "code_only", "rl"), ("weak tests", "weak_tests", "rl")),
        REWARDED | CODE,
        ("pass_rate", "validation"),
    ),
    "wrong": Effect(
        "Wrong tests: false negatives on code",
        (("right tests", "code_only", "rl"), ("wrong tests", "wrong_tests", "rl")),
        REWARDED | CODE,
        ("pass_rate", "validation"),
    ),
    "matching": Effect(
        "Matching: a lenient and a strict judge on math",
        (("right", "reach", "rl"), ("lenient", "lenient_math", "rl"), ("strict", "strict_math", "rl")),
        REWARDED | MATH,
        ("pass_rate", "validation"),
    ),
    "filter": Effect(
        "Filter: easy prompts out or in",
        (("filtered", "reach", "rl"), ("not filtered", "no_filter", "rl")),
        {"validation at 0.3 M tokens": validation_at(0.3), "at 0.5 M": validation_at(0.5)} | MATH,
        ("validation", "zero_variance_groups"),
    ),
    "staleness": Effect(
        "Staleness: sampled while the policy learns",
        (("none", "base", "rl"), ("one batch", "staleness_1", "rl"), ("two batches", "staleness_2", "rl")),
        {"validation at 0.3 M tokens": validation_at(0.3), "at 0.5 M": validation_at(0.5)} | MATH,
        ("validation", "entropy"),
    ),
    "transfer": Effect(
        "Transfer between math and code",
        (("start", "reach", "start"), ("math only", "reach", "rl"), ("code only", "code_only", "rl")),
        MATH | CODE,
    ),
    "prolonged": Effect(
        "Prolonged training: KL with and without resets",
        (("KL", "prolonged_no_resets", "rl"), ("KL with resets", "prolonged", "rl"),
         ("no KL, 80 of 120 steps", "four_updates", "rl")),
        ENTROPY | MATH,
        ("validation", "entropy", "kl"),
    ),
}  # fmt: skip
LABELS = {"pass_rate": "training pass rate", "response_tokens": "response tokens", "entropy": "entropy (nats)",
          "kl": "KL to the reference (nats)", "zero_variance_groups": "groups without signal"}  # fmt: skip


@cache
def run(name: str, label: str, seed: int, home: Path) -> Run:
    """Train the recipe unless that is done, and read its results."""
    recipe, directory = f"ablations/{name}", str(home / str(seed))
    steps = planned(recipe, seed, directory)
    if not all(step.cached for step in steps if step.output.kind in ("checkpoint", "evaluation")):
        command = [sys.executable, "-m", "ratchet.cli.main", "train", recipe, "--seed", str(seed), "--home", directory]
        subprocess.run(command, check=True, cwd=ROOT)
        steps = planned(recipe, seed, directory)
    return read_run(steps, label)


def read_run(steps: list[PlannedStep], label: str) -> Run:
    """The results of a finished recipe at `label`: `start`, with the metrics of the first stage, or a stage."""
    made = {(step.output.kind, step.output.name): step.output.path for step in steps}
    stages = [step.output for step in steps if step.output.kind == "checkpoint" and step.output.name != "start"]
    names = [stage.name for stage in stages]
    stages = stages[: names.index(label) + 1] if label in names else stages[:1]
    lines = (stages[-1].path / "metrics.jsonl").read_text().splitlines() if stages else []
    evaluation = made["evaluation", label]
    return Run(
        [json.loads(line) for line in lines],
        sum(stage.manifest.seconds for stage in stages),
        json.loads((evaluation / "scores.json").read_text())["benchmarks"],
        made.get(("evaluation", "start")),
        evaluation,
    )


def planned(recipe: str, seed: int, home: str) -> list[PlannedStep]:
    """The steps of the recipe, without running any."""
    loaded = load_recipe(recipe, [f"seed={seed}"])
    with plan_run(loaded, load_settings(home)) as plan:
        train(plan)
    return plan.plan


def interval(values: list[float], sign: str = "") -> str:
    """Mean and 95 % interval of the mean, by Student's t."""
    mean = f"{statistics.fmean(values):{sign}.3f}"
    if len(values) < 2:
        return mean
    half = t.ppf(0.975, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
    return f"{mean} ± {half:.3f}"


def table(effect: Effect, runs: dict[str, list[Run]]) -> list[str]:
    lines = ["| | " + " | ".join(effect.columns) + " |", "|---|" + "---:|" * len(effect.columns)]
    first = next(iter(runs.values()))
    for row, seeds in runs.items():
        cells = []
        for measure in effect.columns.values():
            values = [measure(run) for run in seeds]
            known = [value for value in values if value is not None]
            cell = interval(known) if known else "never"
            if 0 < len(known) < len(values):
                cell += f" on {len(known)} of {len(values)} seeds"
            pairs = [(value, other) for value, run in zip(values, first, strict=True)
                     if value is not None and (other := measure(run)) is not None]  # fmt: skip
            if seeds is not first and pairs:
                cell += f" ({interval([value - other for value, other in pairs], sign='+')})"
            cells.append(cell)
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return lines


def picture(effect: Effect, runs: dict[str, list[Run]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = max(1, len(effect.curves))
    figure, axes = plt.subplots(1, panels, figsize=(9, 3.2), squeeze=False)
    for i, (row, seeds) in enumerate(runs.items()):
        for axis, name in zip(axes[0], effect.curves, strict=False):
            for number, one in enumerate(seeds):
                axis.plot(*one.curve(name), color=f"C{i}", lw=1, label=row if number == 0 else None)
            axis.set_title(LABELS.get(name, name), fontsize=9)
            axis.set_xlabel("M tokens sampled", fontsize=8)
        if not effect.curves:
            shown = {c: [v for r in seeds if (v := measure(r)) is not None] for c, measure in effect.columns.items()}
            places = np.arange(len(shown)) + 0.8 * i / len(runs)
            heights = [statistics.fmean(values) if values else 0.0 for values in shown.values()]
            axes[0][0].bar(places, heights, 0.8 / len(runs), align="edge", color=f"C{i}", alpha=0.6, label=row)
            for place, values in zip(places, shown.values(), strict=True):
                axes[0][0].plot([place + 0.4 / len(runs)] * len(values), values, "k.", ms=4)
            axes[0][0].set_xticks(np.arange(len(shown)) + 0.4, shown, fontsize=8)
    axes[0][0].legend(fontsize=8)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", choices=EFFECTS, default=list(EFFECTS))
    parser.add_argument("--home", type=Path, default=ROOT / ".ratchet" / "ablations", help="one home a seed below it")
    parser.add_argument("--write", type=Path, help="replace the effects' sections of this page")
    arguments = parser.parse_args()
    for name in arguments.only:
        effect = EFFECTS[name]
        runs = {row: [run(recipe, label, seed, arguments.home) for seed in arguments.seeds]
                for row, recipe, label in effect.rows}  # fmt: skip
        lines = table(effect, runs)
        print("\n".join(["", effect.title, *lines]))
        if arguments.write:
            image = f"../images/ablation_{name}.png"
            picture(effect, runs, arguments.write.parent / image)
            seeds = " ".join(map(str, arguments.seeds))
            command = f"    python -m research.ablations --seeds {seeds} --only {name} --write docs/evidence/results.md"
            section = [command, "", *lines, "", f"![{effect.title}]({image})"]
            arguments.write.write_text(with_section(arguments.write.read_text(), f"## {effect.title}", section))


if __name__ == "__main__":
    main()
