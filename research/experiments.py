"""Pre-registered experiments, written to docs/evidence/findings.md.

    python -m research.experiments research/preregistered/order.yaml [--write PAGE]

A declaration is a YAML file with a family of experiments: each one's hypothesis and its direction, what is compared,
the measure, the seeds, the smallest difference that matters, and what was tuned on which other seeds. It is written
before its seeds are touched:

- The first run copies it into its home. A run or a table with another text is refused, and the difference is shown.
- Its SHA-256 is in the manifest of every artifact that the runs make; an artifact without it is not counted.
- All experiments are in the table, the inconclusive ones first; p-values are corrected over the family (Holm).

Training is `ratchet train`, one home a seed; finished work is not repeated. `--write` fills
`docs/facts/experiments/FAMILY.json` from the artifacts, and makes from it the family's section of the page and the
overview of all families.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from scipy.stats import t, ttest_1samp

from research.ablations import (
    Measure,
    Run,
    mean_of,
    never_solved,
    planned,
    read_run,
    reading_entropy,
    score,
    tokens_until,
    validation_at,
)
from research.seeds import ROOT, with_section

FACTS = ROOT / "docs" / "facts" / "experiments"
DECLARATIONS = ROOT / "research" / "preregistered"
LEVEL = 0.05
"""Level of the corrected p-value, two-sided."""
DECLARATION = "declaration.yaml"
CPU_SECONDS = "cpu_seconds.jsonl"
CHECKED = ("pass_rates", "checkpoint", "evaluation")
"""Kinds of artifacts whose manifest must have the declaration: what was trained and measured."""


class _Declared(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Arm(_Declared):
    recipe: str
    after: str
    """`start`, or the stage after which it is evaluated."""


class Measured(_Declared):
    """One number of a run: `benchmark` with `k`, `metric` with `first` or `last` steps, `tokens_until`,
    `validation_at`, `never_solved` with a benchmark (the share solved now of the questions that no response solved at
    the start), or `reading_entropy` (of how words are read)."""

    benchmark: str | None = None
    k: int = 1
    metric: str | None = None
    first: int | None = None
    last: int | None = None
    tokens_until: float | None = None
    validation_at: float | None = None
    never_solved: str | None = None
    reading_entropy: bool = False

    @property
    def measure(self) -> Measure:
        if self.benchmark:
            return score(self.benchmark, self.k)
        if self.metric:
            return mean_of(self.metric, slice(self.first) if self.first else slice(-(self.last or 1), None))
        if self.tokens_until is not None:
            return tokens_until(self.tokens_until)
        if self.never_solved:
            return never_solved(self.never_solved)
        if self.reading_entropy:
            return reading_entropy
        return validation_at(self.validation_at or 0.0)

    def __str__(self) -> str:
        if self.benchmark:
            return f"{self.benchmark} pass@{self.k}"
        if self.metric:
            return f"{self.metric}, {'first' if self.first else 'last'} {self.first or self.last} steps"
        if self.tokens_until is not None:
            return f"M tokens until validation {self.tokens_until}"
        if self.never_solved:
            return f"share solved, of the questions of {self.never_solved} that the start never solves"
        if self.reading_entropy:
            return "entropy of the readings, nats"
        return f"validation at {self.validation_at} M tokens"


class Experiment(_Declared):
    name: str
    hypothesis: str
    paper: str
    """The paper's evidence, or what else suggests it."""
    baseline: Arm
    arm: Arm
    measure: Measured
    expected: Literal["higher", "lower", "not lower"]
    """`not lower`: by less than `matters`."""
    matters: float = Field(gt=0)
    """The smallest difference of interest."""


class Tuned(_Declared):
    seeds: tuple[int, ...]
    what: str


class Family(_Declared):
    family: str
    question: str
    seeds: tuple[int, ...] = Field(min_length=2)
    why_seeds: str
    tuned: Tuned
    before: tuple[str, ...] = ()
    """Every earlier form of these experiments, with the reason for the change and what it turned."""
    experiments: tuple[Experiment, ...] = Field(min_length=1)


class Refused(SystemExit):
    """The table is not filled; the message says why."""


def read(file: Path) -> tuple[Family, str]:
    """A declaration and the SHA-256 of its text."""
    text = file.read_bytes()
    try:
        return Family.model_validate(yaml.safe_load(text)), hashlib.sha256(text).hexdigest()
    except (yaml.YAMLError, ValidationError) as error:
        raise Refused(f"{file} is not a declaration: {error}") from error


def hold_to(file: Path, home: Path) -> None:
    """Copy the declaration into the home before anything runs there. Raises Refused if it has changed since."""
    copy = home / DECLARATION
    if not copy.is_file():
        home.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    before, now = copy.read_text().splitlines(), file.read_text().splitlines()
    if before != now:
        lines = difflib.unified_diff(before, now, "when its seeds were touched", "now", n=0, lineterm="")
        raise Refused(
            f"{file} has changed since its seeds were touched ({copy}). Declare a new family with untouched seeds, and "
            "say there what was changed and why:\n" + "\n".join(lines)
        )


def train(recipe: str, seed: int, home: Path, declaration: str) -> str:
    """Run the recipe on the seed; an error's last line, empty if there was none. The processor time of all its
    processes is a line of `cpu_seconds.jsonl` in the home."""
    command = [sys.executable, "-m", "ratchet.cli.main", "train", recipe, "--seed", str(seed), "--home", str(home)]
    environment = os.environ | {"RATCHET_DECLARATION": declaration}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    home.mkdir(parents=True, exist_ok=True)
    with open(home / CPU_SECONDS, "a") as file:
        file.write(json.dumps({"recipe": recipe, "seconds": seconds}) + "\n")
    return (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1] if ended.returncode else ""


def result(arm: Arm, seed: int, home: Path, declaration: str) -> Run:
    """The arm's stored run. Raises Refused if an artifact of it was made under another declaration, or none."""
    steps = planned(arm.recipe, seed, str(home))
    for step in (step for step in steps if step.output.kind in CHECKED):
        made_under = (step.output.manifest.declaration or None) if step.cached else "nothing"
        if made_under != declaration:
            raise Refused(f"{step.output.path}: made under {made_under or 'no declaration'}, not under {declaration}")
    return read_run(steps, arm.after)


def measured(experiment: Experiment, seed: int, home: Path, failures: dict[str, str], declaration: str) -> Any:
    """The experiment's values on a seed, or the reason why there are none."""
    for arm in (experiment.baseline, experiment.arm):
        if arm.recipe in failures:
            return {"seed": seed, "failed": f"{arm.recipe}: {failures[arm.recipe]}"}
    baseline, arm = (result(one, seed, home, declaration) for one in (experiment.baseline, experiment.arm))
    values = [experiment.measure.measure(run) for run in (baseline, arm)]
    if None in values:
        return {"seed": seed, "failed": f"{experiment.measure}: no value"}
    cost = {"million_tokens": sum(step["sampled_tokens"] for step in arm.steps) / 1e6, "minutes": arm.seconds / 60}
    return {"seed": seed, "baseline": values[0], "arm": values[1], **cost}


def test(experiment: Experiment, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The paired difference over seeds, its 95 % interval and p-value (Student's t); 1 where a seed has failed."""
    differences = [row["arm"] - row["baseline"] for row in rows if "arm" in row]
    if len(differences) < len(rows):
        return {"p": 1.0}
    mean = statistics.fmean(differences)
    half = t.ppf(0.975, len(differences) - 1) * statistics.stdev(differences) / len(differences) ** 0.5
    if experiment.expected == "not lower":
        p = ttest_1samp(differences, -experiment.matters, alternative="greater").pvalue
    else:
        p = ttest_1samp(differences, 0.0).pvalue
    return {"difference": mean, "low": mean - half, "high": mean + half, "p": float(p)}


def opposite_p(experiment: Experiment, outcome: dict[str, Any]) -> float:
    """P-value of the other direction: for `not lower`, of a difference below -matters; the others' is two-sided."""
    other_side = experiment.expected == "not lower" and "difference" in outcome
    return 1.0 - outcome["p"] if other_side else outcome["p"]


def holm(values: Sequence[float]) -> list[float]:
    """P-values corrected for their number (Holm 1979): step down from the smallest, never decreasing."""
    corrected, largest = [0.0] * len(values), 0.0
    for rank, index in enumerate(sorted(range(len(values)), key=lambda i: values[i])):
        largest = max(largest, min(1.0, (len(values) - rank) * values[index]))
        corrected[index] = largest
    return corrected


def verdict(experiment: Experiment, outcome: dict[str, Any], opposite: float) -> str:
    """`opposite`: the corrected p-value of `opposite_p`."""
    if "difference" not in outcome:
        return "failed"
    if experiment.expected == "not lower":
        return "contradicted" if opposite < LEVEL else "supported" if outcome["corrected"] < LEVEL else "inconclusive"
    if outcome["corrected"] >= LEVEL:
        return "inconclusive"
    if (outcome["difference"] > 0) != (experiment.expected == "higher"):
        return "contradicted"
    return "supported" if abs(outcome["difference"]) >= experiment.matters else "supported, but too small to matter"


def cpu_minutes(home: Path) -> float:
    """Processor time of all runs below the family's home, unfinished ones too."""
    lines = [line for file in sorted(home.glob(f"*/{CPU_SECONDS}")) for line in file.read_text().splitlines()]
    return sum(json.loads(line)["seconds"] for line in lines) / 60


def facts(
    family: Family, declaration: str, rows: dict[str, list[dict[str, Any]]], minutes: float | None = None
) -> dict[str, Any]:
    """The stored facts of a family: `minutes` of processor time, where they were recorded, and each experiment's
    outcome with its seeds."""
    outcomes = [test(experiment, rows[experiment.name]) for experiment in family.experiments]
    for outcome, p in zip(outcomes, holm([outcome["p"] for outcome in outcomes]), strict=True):
        outcome["corrected"] = p
    opposites = holm([opposite_p(e, outcome) for e, outcome in zip(family.experiments, outcomes, strict=True)])
    results = {
        e.name: {**outcome, "verdict": verdict(e, outcome, opposite), "seeds": rows[e.name]}
        for e, outcome, opposite in zip(family.experiments, outcomes, opposites, strict=True)
    }
    return {"declaration": declaration} | ({} if minutes is None else {"cpu_minutes": minutes}) | {"results": results}


ORDER = ("failed", "inconclusive", "contradicted", "supported, but too small to matter", "supported")


def section(family: Family, file: str, found: dict[str, Any]) -> list[str]:
    """The family's section of the page."""
    lines = [
        f"    python -m research.experiments {file} --write docs/evidence/findings.md", "", family.question, "",
        f"Registered as `{found['declaration'][:12]}`, seeds {', '.join(map(str, family.seeds))} ({family.why_seeds}). "
        f"Tuned on seeds {', '.join(map(str, family.tuned.seeds))}: {family.tuned.what}", "",
        "| hypothesis | evidence for it | difference | 95 % | p, corrected | M tokens | minutes | here |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]  # fmt: skip
    for one in sorted(family.experiments, key=lambda e: ORDER.index(found["results"][e.name]["verdict"])):
        outcome = found["results"][one.name]
        lines.append("| " + " | ".join([one.hypothesis, one.paper, *_cells(one, outcome), outcome["verdict"]]) + " |")
    lines += ["", "| | seed | before or without | after or with |", "|---|---:|---:|---:|"]
    for one in family.experiments:
        for row in found["results"][one.name]["seeds"]:
            values = (
                [f"{row[end]:.3f}" for end in ("baseline", "arm")] if "arm" in row else [f"failed: {row['failed']}", ""]
            )
            lines.append(f"| {one.name}: {one.measure} | {row['seed']} | {' | '.join(values)} |")
    return lines + [line for change in family.before for line in ("", f"Before: {change}")]


def overview() -> list[str]:
    """The page's first section: all families that have run, and what would be left of them with one correction over
    every pre-registered experiment that was run."""
    kept = {file.stem: json.loads(file.read_text()) for file in sorted(FACTS.glob("*.json"))}
    outcomes = [one for found in kept.values() for one in found["results"].values()]
    for outcome, p in zip(outcomes, holm([outcome["p"] for outcome in outcomes]), strict=True):
        outcome["over_all"] = p
    lines = [
        "| family | seeds | " + " | ".join(ORDER) + f" | below {LEVEL} of all {len(outcomes)} | CPU minutes |",
        "|---|---|" + "---:|" * (len(ORDER) + 2),
    ]
    for name, found in kept.items():
        family, results = read(DECLARATIONS / f"{name}.yaml")[0], found["results"].values()
        counts = [sum(one["verdict"] == verdict for one in results) for verdict in ORDER]
        left = sum(one["over_all"] < LEVEL for one in results)
        minutes = f"{found['cpu_minutes']:.0f}" if "cpu_minutes" in found else "not recorded"
        cells = [", ".join(map(str, family.seeds)), *map(str, counts), str(left), minutes]
        lines.append(f"| [{name}](#{name}) | " + " | ".join(cells) + " |")
    waiting = [file.stem for file in sorted(DECLARATIONS.glob("*.yaml")) if file.stem not in kept]
    return lines + ([f"\nPre-registered, and not run: {', '.join(waiting)}."] if waiting else [])


def _cells(experiment: Experiment, outcome: dict[str, Any]) -> list[str]:
    failures = [f"seed {row['seed']}: {row['failed']}" for row in outcome["seeds"] if "failed" in row]
    if failures:
        return ["; ".join(failures), "", "", "", ""]
    cost = [f"{statistics.fmean(row[name] for row in outcome['seeds']):.2f}" for name in ("million_tokens", "minutes")]
    ends = f"{outcome['low']:+.3f} to {outcome['high']:+.3f}"
    return [f"{outcome['difference']:+.3f} {experiment.measure}", ends, f"{outcome['corrected']:.3f}", *cost]


def run_family(family: Family, home: Path, declaration: str) -> dict[str, list[dict[str, Any]]]:
    """Train every recipe of the family on every seed; the rows of each experiment. A recipe that fails on a seed ends
    neither the others nor the table."""
    rows: dict[str, list[dict[str, Any]]] = {experiment.name: [] for experiment in family.experiments}
    recipes = dict.fromkeys(arm.recipe for e in family.experiments for arm in (e.baseline, e.arm))
    for seed in family.seeds:
        failures = {r: error for r in recipes if (error := train(r, seed, home / str(seed), declaration))}
        for experiment in family.experiments:
            rows[experiment.name].append(measured(experiment, seed, home / str(seed), failures, declaration))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("declaration", type=Path)
    parser.add_argument(
        "--home", type=Path, default=ROOT / ".ratchet" / "experiments", help="one home a family and seed"
    )
    parser.add_argument("--write", type=Path, help="replace the family's section of this page")
    arguments = parser.parse_args()
    family, declaration = read(arguments.declaration)
    home = arguments.home / family.family
    hold_to(arguments.declaration, home)
    rows = run_family(family, home, declaration)
    found = facts(family, declaration, rows, cpu_minutes(home))
    file = f"research/preregistered/{arguments.declaration.name}"
    lines = section(family, file, found)
    print("\n".join(lines))
    if arguments.write:
        FACTS.mkdir(parents=True, exist_ok=True)
        (FACTS / f"{family.family}.json").write_text(json.dumps(found, indent=1) + "\n")
        page = with_section(arguments.write.read_text(), f"## {family.family.capitalize()}", lines)
        arguments.write.write_text(with_section(page, "## Overview", overview()))


if __name__ == "__main__":
    main()
