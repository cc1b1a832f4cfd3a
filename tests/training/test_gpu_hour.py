"""The first hour on GPUs, rehearsed: its report, its clock, every part on CPU ranks and under the stub of CUDA."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import gpu_hour
from benchmarks.assumptions import LINES
from ratchet.infra.recipe.recipe import Recipe
from tests.flows.conftest import MINI
from tests.training.test_main import RECIPE
from tests.training.test_stub_accelerator import Job, recipe, run


def hour(tmp_path: Path, minutes: float) -> gpu_hour.Hour:
    return gpu_hour.Hour(RECIPE, "mini", tmp_path, minutes, tmp_path / "report", tiny=True)


def test_a_report_says_what_is_wrong_and_what_to_change(tmp_path):
    measuring = hour(tmp_path, 1.0)
    rows = [
        {"name": "an iteration", "unit": "s", "planned": 0.01, "measured": 0.02, "constant": "A", "to": 0.5},
        {"name": "update, as in the recipe", "unit": "s", "planned": 1.0, "measured": 1.1, "constant": "B", "to": 7},
        {"name": "update, ZeRO 2", "unit": "s", "planned": 1.0, "measured": 0.9, "constant": "B", "to": 7},
        {"name": "engine", "why": "no room"},
    ]  # fmt: skip
    (measuring.work / LINES).write_text("".join(json.dumps(row) + "\n" for row in rows))
    measuring.collect()
    said = (tmp_path / "report.md").read_text()
    assert "1 of 3 assumptions are off by more than 1.25 times" in said
    assert "| an iteration | 0.01 s | 0.02 s | 2.00 | A | 0.5 |" in said
    assert "| update, as in the recipe | 1 s | 1.1 s | 1.10 | B |  |" in said
    assert "Fastest update: ZeRO 2 (as in the recipe 1.1 s, ZeRO 2 0.9 s)." in said
    assert "- not measured: engine: no room" in said
    assert json.loads((tmp_path / "report.json").read_text())["assumptions"] == rows


def test_no_part_takes_more_than_its_time_or_the_hours(tmp_path):
    measuring = hour(tmp_path, 0.1)
    slow = (sys.executable, "-c", "import time; print('began', flush=True); time.sleep(60)")
    for name, share in (("slow", 0.5), ("slower", 2.0), ("late", 0.5)):
        measuring.part(gpu_hour.Part(name, slow, share))
    slow, slower, late = measuring.report.parts
    assert slow.state == slower.state == "ended when its time was over: began"
    assert late.state == "no time was left"
    assert "| late | 0 | no time was left |" in (tmp_path / "report.md").read_text()


def test_each_way_to_share_is_timed_where_ranks_are_enough():
    def asked(**hardware) -> dict:
        return gpu_hour.variants(Recipe.model_validate(recipe(**hardware)))

    assert list(asked(processes=1)) == ["as in the recipe"]
    assert len(asked(processes=2)) == 2
    eight = asked(processes=8, zero_stage=3)
    halves = eight["ZeRO 3 in two halves, each with a copy"]
    assert (halves["machines"], halves["processes"], halves["advanced"]["hierarchical"]) == (2, 4, True)
    for changes in eight.values():  # the recipe takes them
        spec = gpu_hour.specification(Recipe.model_validate(recipe(processes=8)), Path(), "update", "", changes)
        Recipe.model_validate(spec["recipe"])


@pytest.mark.slow
def test_every_part_on_four_gpus_that_are_not_there(micro_model, tmp_path):
    asked = Recipe.model_validate(recipe(micro_model, processes=4, zero_stage=3))
    jobs = []
    parts = [("links", "", {}), ("engine", "", {}), *(("update", *each) for each in gpu_hour.variants(asked).items())]
    for number, (part, label, changes) in enumerate(parts):
        work = tmp_path / str(number)
        jobs.append(Job(work, **gpu_hour.specification(asked, work / "work", part, label, changes)))
        (work / "work").mkdir()
    run(4, tmp_path, *jobs)
    names = []
    for job in jobs:
        job.check(4)
        names += [json.loads(line) for line in (job.work / "work" / LINES).read_text().splitlines()]
    assert not [row for row in names if "why" in row]
    found = {row["name"] for row in names}
    assert {"all-reduce of 64 KiB", "start of the engine", "weights to the engine"} <= found
    assert {f"update, {label}" for label in gpu_hour.variants(asked)} <= found


@pytest.mark.slow
def test_the_whole_hour_on_two_cpu_ranks(tmp_path):
    gpu_hour.main([str(MINI), "--home", str(tmp_path / "home"), "--write", str(tmp_path / "report"), "--tiny"])
    report = json.loads((tmp_path / "report.json").read_text())
    assert {part["state"] for part in report["parts"]} == {"done"}
    found = {row["name"] for row in report["assumptions"]}
    assert {"start of processes", "an iteration of 64 responses", "update, as in the recipe", "doctor: update"} <= found
    assert "training step" in report["proof"] and any("resume" in line for line in report["doctor"])
