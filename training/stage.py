"""One stage of training from plain Python, without a recipe, a run, Prefect or MLflow."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.infra.launching.group import STATUS, ProcessGroup
from ratchet.infra.launching.launcher import Local
from ratchet.infra.launching.resident import Resident
from ratchet.infra.recipe.model import Model, PromptFormat
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.recipe.training import Stage, Training
from ratchet.infra.store.files import write_atomically
from ratchet.infra.store.journal import read_lines
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import last_lines

POLL_S = 0.2


def train_stage(
    stage: Stage, model: str | Path, problems: Mapping[str, pa.Table], work: str | Path,
    training: Training = Training(), prompt: PromptFormat = PromptFormat(), seed: int = 0,
    follow: Callable[[dict[str, Any]], object] = lambda record: None,
) -> Path:  # fmt: skip
    """Train one stage to its end in processes of its own, on this machine; returns the directory of the trained model.

    `model` is a Hub name or a directory; `problems` are curated tables by domain. `work` receives the checkpoints, the
    trained model and `metrics.jsonl`, each record of which is also given to `follow`. After a kill, the same call
    continues from the last checkpoint. Raises RatchetError with the trainer's message.
    """
    work = Path(work).resolve()
    settings = Training.model_validate(training.model_dump() | {"stages": (stage.model_dump(),)})
    recipe = Recipe(name="stage", seed=seed, model=Model(path=str(model), prompt=prompt), training=settings)
    work.mkdir(parents=True, exist_ok=True)
    files = {domain: work / f"{domain}.parquet" for domain in problems}
    for domain, table in problems.items():
        pq.write_table(table, files[domain])
    spec = {
        "kind": "stage", "recipe": recipe.model_dump(mode="json"), "stage": stage.name, "model_dir": str(model),
        "problems": {domain: str(file) for domain, file in files.items()}, "traces": None, "pass_rates": None,
        "validation": {}, "work_dir": str(work),
    }  # fmt: skip
    write_atomically(work / "spec.json", json.dumps(spec, indent=1))
    argv, log = (sys.executable, "-P", "-m", "ratchet.training.launch", str(work / "spec.json")), work / "log"
    group = ProcessGroup(argv, 1, recipe.training.hardware.processes, work, log)
    metrics, place = work / "metrics.jsonl", 0
    with Local("", Resident()).launch(group, print) as running:
        while running.poll() is None:
            time.sleep(POLL_S)
            place = _report(metrics, place, follow)
    _report(metrics, place, follow)
    status = json.loads((work / STATUS).read_text()) if (work / STATUS).is_file() else {}
    if status.get("state") != "finished":
        ending = f"the trainer ended early; the end of {log}:\n{last_lines(log, 15)}"
        raise RatchetError(status.get("message") or ending)
    return work / "model"


def _report(metrics: Path, place: int, follow: Callable[[dict[str, Any]], object]) -> int:
    """Give the records after `place` to `follow`; returns where they end."""
    records = [*read_lines(metrics, place)] if metrics.is_file() else []
    for _, record in records:
        follow(record)
    return records[-1][0] if records else place
