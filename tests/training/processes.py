"""Processes of training that tests start, or look at from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pyarrow.parquet as pq

from ratchet.data_curation.base.problem_table import to_table
from ratchet.infra.recipe.recipe import Recipe
from ratchet.training.rollout_log import rollout_files
from tests.training.conftest import sums
from tests.waiting import happens

GROUP = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
"""What says that a process is one of a group: the fixture `alone` sets it, and no other process may inherit it."""


def of_no_group() -> dict[str, str]:
    """The environment of a process that joins a group of its own."""
    return {name: value for name, value in os.environ.items() if name not in GROUP}


ROOT = Path(__file__).parents[2]
STEPS = 8
ENVIRONMENT = of_no_group() | {
    "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE",
    "TORCHINDUCTOR_CACHE_DIR": f"{gettempdir()}/torchinductor",  # else below the work directory
}  # fmt: skip
RECIPE = Recipe.model_validate(
    {
        "name": "micro",
        "model": {"prompt": {"math": "{prompt}", "code": "{prompt}"}},
        "training": {
            "checkpoint_every": 2,
            "hardware": {"processes": 2, "micro_batch_tokens": 200, "rollout_batch": 16},
            "stages": [
                {
                    "name": "math-12", "mix": {"math": 0.75, "code": 0.25}, "max_response_tokens": 12,
                    "steps": STEPS, "rollouts": 8, "prompts_per_batch": 4, "learning_rate": 1e-3,
                    "max_difficulty": 6, "advanced": {"difficulty_filter": {"easy": 1.0}},
                }
            ],
        },
    }
)  # fmt: skip


def specification(work: Path, model: Path, **changes) -> dict[str, Any]:
    """A stage, with the files that it reads."""
    (work / "tmp").mkdir(parents=True, exist_ok=True)
    code = [replace(p, problem_id=f"code-{p.problem_id}", domain="code", difficulty=None) for p in sums(3)]
    for domain, problems in (("math", sums(40)), ("code", code)):
        pq.write_table(to_table(problems), work / f"{domain}.parquet")
    return {
        "kind": "stage", "recipe": RECIPE.model_dump(mode="json"), "stage": "math-12", "model_dir": str(model),
        "problems": {domain: str(work / f"{domain}.parquet") for domain in ("math", "code")},
        "traces": None, "validation": {}, "pass_rates": None, "work_dir": str(work / "work"), **changes,
    }  # fmt: skip


def start(work: Path, model: Path, before: tuple = (), after: tuple = (), **changes) -> subprocess.Popen:
    """A stage as a process of this test's; `before` and `after` what launches it."""
    spec = specification(work, model, **changes)
    (work / "spec.json").write_text(json.dumps(spec))
    command = [*before, sys.executable, "-m", "ratchet.training.launch", str(work / "spec.json"), *after]
    with open(work / "log", "a") as log:
        return subprocess.Popen(command, env={**ENVIRONMENT, "TMPDIR": str(work / "tmp")}, stdout=log, stderr=log)


def finish(work: Path, model: Path, **changes) -> None:
    assert start(work, model, **changes).wait() == 0, (work / "log").read_text()


def kill_when(seen: Callable[[], bool], work: Path, model: Path, **changes) -> None:
    """Start the stage, and kill its launcher alone once `seen()`: all others must follow."""
    launcher = start(work, model, **changes)
    while launcher.poll() is None and not seen():
        time.sleep(0.0005)
    launcher.send_signal(signal.SIGKILL)
    launcher.wait()
    assert happens(lambda: not alive(work) and not sampling(work))
    status = work / "work" / "status.json"  # a rank may have had the time to say that it lost another
    assert not status.is_file() or json.loads(status.read_text())["state"] != "finished", "it had ended already"


def done(work: Path) -> int:
    """Steps whose metrics are written."""
    path = work / "work" / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def metrics(work: Path) -> list[dict]:
    path = work / "work" / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def timeless_part(line: dict) -> dict:
    measured = {"time", "seconds", "tokens_per_second", "memory_gb", "cpu_percent", "gpu_percent"}
    measured |= {"weight_version"}  # counted from the start of the process
    return {k: v for k, v in line.items() if k not in measured and not k.endswith("_seconds")}


def weights(work: Path) -> bytes:
    return (work / "work" / "model" / "model.safetensors").read_bytes()


def rollouts(work: Path) -> dict[str, bytes]:
    """Each step's file; together they have every sampled token once."""
    files = [file for _, file in rollout_files(work / "work")]
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    assert len({(row["step"], row["problem_id"], row["sample"]) for row in rows}) == len(rows)
    assert sum(row["tokens"] for row in rows) == sum(line["sampled_tokens"] for line in metrics(work))
    return {file.name: file.read_bytes() for file in files}


def alive(work: Path) -> list[int]:
    """Processes whose command line names this work directory."""
    return running(lambda process: str(work / "spec.json").encode() in (process / "cmdline").read_bytes())


def sampling(work: Path) -> list[int]:
    """The sampling processes of a stage whose temporary files are in this work directory."""

    def samples(process: Path) -> bool:
        own = f"TMPDIR={work / 'tmp'}".encode() in (process / "environ").read_bytes().split(b"\0")
        return own and b"ratchet.infra.inference.sampling_process" in (process / "cmdline").read_bytes()

    return running(samples)


def running(matches: Callable[[Path], bool]) -> list[int]:
    """Processes whose directory in /proc matches."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if matches(process):
                found.append(int(process.name))
        except OSError:  # it ended while we looked
            continue
    return found
