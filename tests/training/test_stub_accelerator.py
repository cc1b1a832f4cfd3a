"""The product's ranks on several GPUs, as far as a stub of CUDA and NCCL can tell: what a GPU would refuse in the order
of devices, groups and collectives, on which device each tensor is."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.infra.recipe.recipe import Recipe
from tests.evaluation.conftest import benchmark_files, random_model  # noqa: F401  pytest finds fixtures by name
from tests.evaluation.conftest import spec as evaluation_spec  # noqa: F401
from tests.training.processes import ENVIRONMENT, RECIPE, ROOT, specification
from tests.training.stub_accelerator import disagreement


def recipe(model: str = "", **hardware: Any) -> dict[str, Any]:
    changed = RECIPE.model_dump(mode="json")
    changed["training"]["hardware"] |= hardware
    changed["training"]["stages"][0] |= {"steps": 2, "kl_coefficient": 0.1, "max_difficulty": None}
    if model:
        changed["model"]["path"] = model
    changed["training"]["stages"][0]["mix"] = {"math": 1.0}
    changed["training"]["warm_start"] = {"traces": 40, "batch_size": 16}
    return Recipe.model_validate(changed).model_dump(mode="json")


class Job:
    """Ranks of one specification under the stub."""

    def __init__(self, work: Path, fault: str = "", **facts: Any) -> None:
        work.mkdir(parents=True, exist_ok=True)
        self.work, self.fault, self.file, self.traces = work, fault, work / "spec.json", work / f"traces{fault}"
        self.file.write_text(json.dumps(facts))

    @classmethod
    def of_training(cls, work: Path, model: str, fault: str = "", **changes: Any) -> Job:
        return cls(work, fault, **specification(work, Path(model), **changes))

    def events(self) -> list[list[list[Any]]]:
        """Of each rank."""
        files = sorted(self.traces.glob("[0-9]*.jsonl"), key=lambda file: int(file.stem))
        return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]

    def refused(self) -> str:
        return "\n".join(event[1] for events in self.events() for event in events if event[0] == "refused")

    def check(self, count: int) -> None:
        """Every rank took its GPU first of all, none was refused anything, and all communicated in the same order."""
        events = self.events()
        assert len(events) == count and not self.refused() and not disagreement(self.traces)
        for rank, mine in enumerate(events):
            kinds = [kind for kind, *_ in mine]
            assert mine[kinds.index("set_device")] == ["set_device", rank]
            assert kinds.index("set_device") < kinds.index("init_process_group")
            assert mine[kinds.index("init_process_group")] == ["init_process_group", "nccl", rank]
            assert "barrier" in kinds or "all_gather" in kinds

    def finished(self) -> bool:
        return json.loads((self.work / "work" / "status.json").read_text())["state"] == "finished"


def run(count: int, work: Path, *jobs: Job) -> None:
    file = work / "jobs.json"
    file.write_text(json.dumps([{"spec": str(j.file), "fault": j.fault, "traces": str(j.traces)} for j in jobs]))
    command = [sys.executable, "-m", "tests.training.stub_ranks", str(count), str(file)]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    (work / "log").write_text(done.stdout + done.stderr)
    assert done.returncode == 0, done.stderr[-3000:]


FAULTS = {
    "late_device": "a process group is made before this rank has chosen a device",
    "other_device": "Attempt to perform collective on tensor not on device passed to init_process_group: all_gather",
    "skipped_collective": "ranks disagree: call 1 of world is",
    "other_order": "is new_group [1] here, and new_group [0, 1] on another rank",
    "mixed_devices": "Expected all tensors to be on the same device, but found ['cpu', 'cuda:",
}


@pytest.mark.slow
def test_two_gpus_and_what_is_planted(micro_model, tmp_path):
    """A preflight with its kill and resume, and five faults: each is caught where it happens."""
    plain = preflight(tmp_path / "preflight", micro_model)
    faulty = {name: preflight(tmp_path / name, micro_model, name) for name in FAULTS}
    resumed = copy.copy(plain)
    resumed.traces = tmp_path / "resumed"
    run(2, tmp_path, plain, resumed, *faulty.values())
    lines = [json.loads(line) for line in (plain.work / "work" / "preflight.jsonl").read_text().splitlines()]
    assert {line["name"]: line["state"] for line in lines if line["state"] != "OK"} == {}
    assert {"links", "weights", "step math-12", "checkpoint", "resume"} <= {line["name"] for line in lines}
    plain.check(2)
    resumed.check(2)
    for name, words in FAULTS.items():
        message = faulty[name].refused()
        assert words in message or (name == "other_order" and "new_group [0, 1] here, and new_group [1]" in message)


def preflight(work: Path, model: str, fault: str = "") -> Job:
    files = {"measured": str(work / "measured.json")}
    return Job.of_training(work, model, fault, kind="preflight", stage=None, recipe=recipe(model), **files)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 8])
def test_everything_that_trains_and_samples(count, micro_model, evaluation_spec, tmp_path):  # noqa: F811
    """Stages under each kind of sharding, a warm start, pass rates and an evaluation's sampling."""
    from ratchet.evaluation.sampling import SampledGenerations
    from ratchet.evaluation.spec import load_plan, read_spec

    work, jobs = tmp_path, {}
    for zero in (0, 1, 2, 3):
        jobs[f"stage {zero}"] = Job.of_training(
            work / f"stage{zero}", micro_model, recipe=recipe(processes=count, zero_stage=zero, packed=zero == 3)
        )
    traces = [{"prompt": "What is 1 plus 2?", "response": "\\boxed{3}"}] * 40
    pq.write_table(pa.Table.from_pylist(traces), work / "traces.parquet")
    jobs["warm start"] = Job.of_training(
        work / "start", micro_model, kind="warm_start", stage=None, traces=str(work / "traces.parquet"),
        recipe=recipe(micro_model, processes=count, zero_stage=3),
    )  # fmt: skip
    limited = recipe(processes=count, zero_stage=2)
    limited["training"]["stages"][0]["max_pass_rate"] = 0.9
    jobs["pass rates"] = Job.of_training(work / "rates", micro_model, kind="pass_rates", recipe=limited)
    jobs["preflight"] = preflight(work / "preflight", micro_model)
    evaluation_spec["training"]["hardware"]["processes"] = count
    evaluation = Job(work / "evaluation", **evaluation_spec)
    plan = load_plan(read_spec(evaluation.file))
    with SampledGenerations(evaluation.file, plan) as generations:
        run(count, work, *jobs.values(), evaluation)
        assert sum(map(len, generations.in_order())) == generations.total
    for name, job in jobs.items():
        job.check(count)
        assert name == "preflight" or job.finished(), name
    assert len(evaluation.events()) <= count and not evaluation.refused()


def test_collectives_of_two_groups_in_another_order_are_told(tmp_path):
    first, second = ["barrier", [0, 1]], ["all_reduce", [0, 1, 2]]
    for rank, events in enumerate(([first, second], [second, first], [second])):
        (tmp_path / f"{rank}.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    assert disagreement(tmp_path).startswith("ranks 0 and 1: their common collective 0 is ['barrier'")
    (tmp_path / "1.jsonl").write_text((tmp_path / "0.jsonl").read_text())
    assert disagreement(tmp_path) == ""
