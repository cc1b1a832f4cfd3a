"""Warm start and stages: each runs as one process group under torch's launcher, never inside the flow's process."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.artifacts import Artifact, Draft, write_atomically
from infra.errors import RatchetError
from infra.process_group import process_group
from infra.recipe.model import Recipe, Stage
from tasks.pipeline_run import PipelineRun, active_run
from tasks.step import Step, record_isolation, run_step

WARM_START = Step("warm_start", 1, "checkpoint", resumable=True)
STAGE = Step("train", 3, "checkpoint", resumable=True)
POLL_S = 0.2
STATUS = "status.json"


def warm_start(recipe: Recipe, traces: Artifact | None) -> Artifact:
    """The first checkpoint: the recipe's model, trained on teacher traces when the recipe says so."""
    start = recipe.training.warm_start
    spec = _spec(recipe, kind="warm_start", traces=str(traces.kept) if traces else None)
    parameters = {
        "seed": recipe.seed,
        "model": recipe.model.model_dump(mode="json"),
        "warm_start": start.model_dump(mode="json", exclude={"checkpoint_every"}) if start else None,
        "hardware": recipe.training.hardware.model_dump(mode="json"),
    }
    inputs = [traces] if traces else []
    return run_step(WARM_START, "start", parameters=parameters, inputs=inputs, make=_train(spec), title="warm start")


def train_stage(
    recipe: Recipe, stage: Stage, start: Artifact, problems: Mapping[str, Artifact], validation: Mapping[str, Artifact]
) -> Artifact:
    """One stage of the curriculum: from checkpoint to checkpoint."""
    validation = validation if stage.plateau_evaluations else {}
    spec = _spec(
        recipe,
        kind="stage",
        stage=stage.name,
        model_dir=str(start.path / "model"),
        problems={domain: str(artifact.kept) for domain, artifact in problems.items()},
        validation={domain: str(artifact.kept) for domain, artifact in validation.items()},
    )
    parameters = {
        "seed": recipe.seed,
        "prompt": recipe.model.prompt.model_dump(mode="json"),
        "stage": stage.model_dump(mode="json"),
        "optimizer": recipe.training.optimizer.model_dump(mode="json"),
        "hardware": recipe.training.hardware.model_dump(mode="json"),
        "max_infra_errors": recipe.training.max_infra_errors,
    }
    inputs = [start, *problems.values(), *validation.values()]
    return run_step(STAGE, stage.name, parameters=parameters, inputs=inputs, make=_train(spec))


def _spec(recipe: Recipe, **facts: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"stage": None, "model_dir": None, "problems": {}, "traces": None, "validation": {}}
    return {**empty, "recipe": recipe.model_dump(mode="json"), **facts}


def _train(spec: dict[str, Any]) -> Any:
    def make(draft: Draft) -> None:
        run = active_run()
        processes = run.recipe.training.hardware.processes
        argv = [run.settings.python, "-m", "training.launch", str(processes)]
        name = spec["stage"] or spec["kind"]
        if "code" in {**spec["problems"], **spec["validation"]}:
            record_isolation(draft, run.recipe)
        follow = MetricsFollower(run, draft.path / "metrics.jsonl")
        run_worker(argv, {**spec, "work_dir": str(draft.path)}, draft, name, processes, follow)
        shutil.rmtree(draft.path / "checkpoints", ignore_errors=True)  # the model stays, the way there does not
        last = follow.last
        draft.extra["metrics"] = {key: value for key, value in last.items() if isinstance(value, int | float)}
        draft.extra["headline"] = headline(last)
        draft.counts["steps"] = int(last.get("step", 0))
        draft.extra["shown"] = ["metrics.jsonl"]

    return make


def run_worker(
    argv: list[str], spec: dict[str, Any], draft: Draft, name: str, processes: int, follow: MetricsFollower
) -> None:
    """Run a worker process group to its end, following its metrics. Raises RatchetError with its own message."""
    run = active_run()
    status_file = draft.path / STATUS
    status_file.unlink(missing_ok=True)
    spec_file = draft.path / "spec.json"
    write_atomically(spec_file, json.dumps(spec, indent=1, ensure_ascii=False))
    log = run.settings.logs / f"{run.tracking.run_id if run.tracking else 'plan'}-{name}.log"
    environment = worker_environment(processes)
    with process_group([*argv, str(spec_file)], log, environment) as process:
        while process.poll() is None:
            follow.poll()
            time.sleep(POLL_S)
    follow.poll()
    status = json.loads(status_file.read_text()) if status_file.is_file() else {}
    if status.get("state") == "failed":
        raise RatchetError(f"{name}: {status['message']}")
    if process.returncode or status.get("state") != "finished":
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
        raise RatchetError(
            f"{name} ended with code {process.returncode} before it was finished. The end of {log}:\n{tail}\n"
            "Run the same command again to continue from the last checkpoint."
        )


def worker_environment(processes: int) -> dict[str, str]:
    """The environment of trainers and evaluators: cores divided among them, and no threads that spin while waiting."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = str(max(1, cores // processes))
    root = str(Path(__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    quiet = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "TOKENIZERS_PARALLELISM": "false"}
    return {**os.environ, **quiet, "OMP_NUM_THREADS": threads, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


class MetricsFollower:
    """Reads a worker's `metrics.jsonl` as it grows: to the terminal, and into the tracking journal."""

    def __init__(self, run: PipelineRun, path: Path) -> None:
        self.run = run
        self.path = path
        self.child = run.current_child
        self.offset = 0
        self.last: dict[str, Any] = {}

    def poll(self) -> None:
        if not self.path.is_file():
            return
        if self.path.stat().st_size < self.offset:  # a resumed stage cut the file back to its checkpoint
            self.offset = 0
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            lines = file.read().split(b"\n")
        for line in lines[:-1]:
            self.offset += len(line) + 1
            self._record(json.loads(line))

    def _record(self, record: dict[str, Any]) -> None:
        self.last = record
        facts = {k: v for k, v in record.items() if isinstance(v, int | float) and k not in ("step", "steps", "time")}
        if self.run.tracking:
            self.run.tracking.metrics(self.child, facts, step=record["step"], at=record.get("time"))
        self.run.watcher.progress(record["step"], record.get("steps"), facts)


def headline(last: Mapping[str, Any]) -> str:
    shown = {
        "loss": "loss {:.3f}",
        "pass_rate": "pass rate {:.2f}",
        "response_tokens": "{:.0f} tokens",
        "truncated": "{:.1%} truncated",
    }
    parts = [text.format(last[name]) for name, text in shown.items() if name in last]
    return f"{last.get('step', 0)} steps, " + ", ".join(parts)
