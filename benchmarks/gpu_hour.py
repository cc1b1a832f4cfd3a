"""The first hour on GPUs: which assumptions of a plan are wrong, by how much, and what to change.

    python -m benchmarks.gpu_hour 1.5b-1gpu --home HOME --write REPORT    # on one GPU
    python -m benchmarks.gpu_hour 7b-8gpu --home HOME --write REPORT      # on eight

Unattended: `ratchet preflight RECIPE`, then parts of `benchmarks.assumptions` in process groups of their own, then
`benchmarks.gpu_proof`. Each has a share of the minutes and is ended when they are over; what it had measured counts.
REPORT.md and REPORT.json are written after each part, so that an hour cut short leaves a report.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.assumptions import LINES, MeasuredPart
from ratchet.data_curation.base.journal import read_lines
from ratchet.infra.launching.group import environment_of_groups
from ratchet.infra.recipe import Recipe, load_recipe
from ratchet.training.machine import local_machine, measured_file
from ratchet.verifiers.processes import last_lines, process_group

ROOT = Path(__file__).resolve().parents[1]
SHARES = {"doctor": 0.3, "links": 0.05, "engine": 0.2, "update": 0.08, "proof": 0.12}
"""Shares of the minutes; there are at most four updates."""
WRONG = 1.25
"""Times by which a value may differ from the plan's: published steps agree within a quarter."""


@dataclass
class Part:
    """One process group: its command's arguments, its share of the time, and how it ended."""

    name: str
    argv: Sequence[str]
    share: float
    state: str = "no time was left"
    seconds: float = 0.0


@dataclass
class Report:
    recipe: str
    machine: str
    minutes: float
    parts: list[Part] = field(default_factory=list)
    assumptions: list[dict[str, Any]] = field(default_factory=list)
    doctor: list[str] = field(default_factory=list)
    proof: str = ""

    def markdown(self) -> str:
        measured = [row for row in self.assumptions if "measured" in row]
        wrong = [row for row in measured if not 1 / WRONG <= ratio(row) <= WRONG]
        head = ["| assumption | planned | measured | ratio | constant | change to |", "|---|---:|---:|---:|---|---:|"]
        rows = [
            f"| {row['name']} | {row['planned']:.3g} {row['unit']} | {row['measured']:.3g} {row['unit']} | "
            f"{ratio(row):.2f} | {row['constant']} | {shown(row['to']) if row in wrong else ''} |"
            for row in measured
        ]
        lines = [
            f"# {self.recipe} on {self.machine}", "",
            f"{len(wrong)} of {len(measured)} assumptions are off by more than {WRONG:g} times.", "", *head, *rows, "",
            *(f"- not measured: {row['name']}: {row['why']}" for row in self.assumptions if "why" in row), "",
            "| part | seconds | |", "|---|---:|---|",
            *(f"| {part.name} | {part.seconds:.0f} | {part.state} |" for part in self.parts), "",
            "```", *self.doctor, "```", "", self.proof,
        ]  # fmt: skip
        return "\n".join(lines) + "\n"


def ratio(row: dict[str, Any]) -> float:
    return row["measured"] / row["planned"] if row["planned"] else float("inf")


def shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def variants(recipe: Recipe) -> dict[str, dict[str, Any]]:
    """Hardware to time the update with, by a label: the recipe's, and where ranks are enough the others."""
    hardware = recipe.training.hardware
    labeled: dict[str, dict[str, Any]] = {"as in the recipe": {}}
    if hardware.ranks >= 4 and hardware.machines == 1:
        halves = {"machines": 2, "processes": hardware.ranks // 2, "zero_stage": 3}
        for words, copied in (("ZeRO 3 in two halves, each with a copy", True), ("ZeRO 3 in two halves", False)):
            labeled[words] = {**halves, "advanced": {**hardware.advanced.model_dump(), "hierarchical": copied}}
    if hardware.ranks > 1:
        advanced = {**hardware.advanced.model_dump(), "hierarchical": None, "overlap_gradients": True}
        labeled["ZeRO 2, gradients overlapped"] = {"zero_stage": 2, "advanced": advanced}
    return labeled


def measured_parts(recipe: Recipe) -> list[tuple[str, str, dict[str, Any]]]:
    """Part, label and changed hardware of each process group that measures assumptions."""
    return [("links", "", {}), ("engine", "", {}), *(("update", *each) for each in variants(recipe).items())]


def specification(recipe: Recipe, work: Path, part: str, label: str, changes: dict[str, Any]) -> MeasuredPart:
    plain = recipe.model_dump(mode="json")
    plain["training"]["hardware"] |= changes
    named = {"part": part, "label": label, "launched": time.time()}
    return MeasuredPart.of(
        Recipe.model_validate(plain), kind="preflight", work_dir=work, measured=work / "measured.json", **named
    )


class Hour:
    def __init__(self, recipe: Recipe, named: str, home: Path, minutes: float, write: Path, tiny: bool) -> None:
        self.recipe, self.home, self.write = recipe, home, write
        self.work = home / "gpu_hour" / recipe.name
        self.work.mkdir(parents=True, exist_ok=True)
        for name in (LINES, "proof.md"):  # of an earlier hour
            (self.work / name).unlink(missing_ok=True)
        self.budget, self.ends = 60 * minutes, time.monotonic() + 60 * minutes
        self.report = Report(recipe.name, str(local_machine()), minutes)
        python = (sys.executable, "-m")
        self.doctor = Part(
            "doctor", (*python, "ratchet.cli.main", "preflight", named, "--home", str(home)), SHARES["doctor"]
        )
        proof = ("--tiny",) if tiny else ("--seconds", str(0.8 * SHARES["proof"] * self.budget))
        table = ("--write", str(self.work / "proof.md"))
        self.proof = Part("proof", (*python, "benchmarks.gpu_proof", *proof, *table), SHARES["proof"])

    def run(self) -> Report:
        self.part(self.doctor)
        for name, label, changes in measured_parts(self.recipe):
            file = self.work / "spec.json"
            file.write_text(specification(self.recipe, self.work, name, label, changes).model_dump_json())
            hardware = self.recipe.training.hardware
            launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(hardware.ranks))
            argv = (sys.executable, *launch, "-m", "benchmarks.assumptions", str(file))
            self.part(Part(f"{name} {label}".strip(), argv, SHARES[name]))
        self.part(self.proof)
        return self.report

    def part(self, part: Part) -> None:
        """Run it to its end or to the end of its time, and write what is known by then."""
        self.report.parts.append(part)
        limit = min(part.share * self.budget, self.ends - time.monotonic())
        if limit > 1:
            log, started = self.work / f"{part.name.replace(' ', '-').replace(',', '')}.log", time.monotonic()
            log.unlink(missing_ok=True)
            environment = {**environment_of_groups(), "PYTHONPATH": str(ROOT)}
            with process_group(part.argv, log, environment) as process:
                while process.poll() is None and time.monotonic() - started < limit:
                    time.sleep(0.2)
                code = process.poll()
            part.seconds = time.monotonic() - started
            part.state = "ended when its time was over" if code is None else f"ended with code {code}"
            part.state = "done" if code == 0 else f"{part.state}: {last_lines(log, 1)[:200]}"
            if part.name == "doctor":
                self.report.doctor = log.read_text(errors="replace").splitlines()
        self.collect()

    def collect(self) -> None:
        lines, proof = self.work / LINES, self.work / "proof.md"
        self.report.assumptions = [line for _, line in read_lines(lines)] if lines.is_file() else []
        self.report.assumptions += of_doctor(measured_file(self.home, self.recipe.name))
        self.report.proof = proof.read_text() if proof.is_file() else ""
        self.write.with_suffix(".md").write_text(self.report.markdown())
        self.write.with_suffix(".json").write_text(json.dumps(asdict(self.report), indent=1) + "\n")


def of_doctor(file: Path) -> list[dict[str, Any]]:
    """The rates that the doctor measured beside those assumed. Plans of this recipe use them already."""
    if not file.is_file():
        return []
    rates, assumed = json.loads(file.read_text())["rates"], local_machine().rates
    return [
        {
            "name": f"doctor: {name}", "unit": "", "planned": planned, "measured": rates[name],
            "constant": f"training/machine.py Rates.{name}", "to": rates[name],
        }
        for name, planned in asdict(assumed).items()
        if isinstance(planned, float) and rates[name] != planned
    ]  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--home", type=Path, default=Path(".ratchet"))
    parser.add_argument("--minutes", type=float, default=58.0, help="after which everything has ended")
    parser.add_argument("--write", type=Path, default=Path("gpu_hour"), help="the report's files, without endings")
    parser.add_argument("--tiny", action="store_true", help="the proof's small model: what the tests run on a CPU")
    parser.add_argument("--set", dest="overrides", action="append", default=[], help="as for `ratchet preflight`")
    parser.add_argument("--specs", action="store_true", help="print what each part would be given, and run nothing")
    asked = parser.parse_args(arguments)
    recipe = load_recipe(asked.recipe, asked.overrides)
    if asked.specs:
        work = asked.home.resolve() / "gpu_hour" / recipe.name
        specs = (specification(recipe, work / str(n), *part) for n, part in enumerate(measured_parts(recipe)))
        print(json.dumps([spec.model_dump(mode="json") for spec in specs]))
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    hour = Hour(recipe, asked.recipe, asked.home.resolve(), asked.minutes, asked.write, asked.tiny)
    hour.doctor.argv = (*hour.doctor.argv, *(word for each in asked.overrides for word in ("--set", each)))
    print(hour.run().markdown())


if __name__ == "__main__":
    main()
