"""One stage of training from plain Python, without a recipe, a run, Prefect or MLflow."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.base.files import write_atomically
from ratchet.data_curation.base.journal import Tail
from ratchet.data_curation.base.prompts import PromptFormat
from ratchet.infra.launching.group import STATUS, ProcessGroup
from ratchet.infra.launching.launcher import Local
from ratchet.infra.launching.resident import Resident
from ratchet.infra.recipe.model import Model
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.recipe.training import Stage, Training
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import last_lines

POLL_S = 0.2
Follow = Callable[[dict[str, Any]], object]


def specification(
    recipe: Recipe, kind: str, stage: Stage | None = None, model_dir: str | Path | None = None,
    problems: Mapping[str, Path] = {}, **facts: Any,
) -> dict[str, Any]:  # fmt: skip
    """What `training.main` reads, except for `work_dir`."""
    return {
        "kind": kind, "recipe": recipe.model_dump(mode="json"), "stage": stage and stage.name,
        "model_dir": model_dir and str(model_dir), "problems": {name: str(path) for name, path in problems.items()},
        "traces": None, "pass_rates": None, "validation": {}, **facts,
    }  # fmt: skip


def train_stage(
    stage: Stage, model: str | Path, problems: Mapping[str, pa.Table], work: str | Path,
    training: Training = Training(), prompt: PromptFormat = PromptFormat(), seed: int = 0,
    follow: Follow = lambda record: None,
) -> Path:  # fmt: skip
    """Train one stage to its end in processes of its own, on this machine; returns the directory of the trained model.

    `model` is a Hub name or a directory; `problems` are curated tables by domain. `work` receives the checkpoints, the
    trained model and `metrics.jsonl`, each record of which is also given to `follow`. After a kill, the same call
    continues from the last checkpoint. Raises RatchetError with the trainer's message, or if `work` belongs to a call
    with other arguments.
    """
    work = Path(work).resolve()
    settings = Training.model_validate(training.model_dump() | {"stages": (stage.model_dump(),)})
    recipe = Recipe(name="stage", seed=seed, model=Model(path=str(model), prompt=prompt), training=settings)
    files = {domain: work / f"{domain}.parquet" for domain in problems}
    work.mkdir(parents=True, exist_ok=True)
    for domain, table in problems.items():
        pq.write_table(table, draft := files[domain].with_suffix(".draft"))
        if files[domain].is_file() and not pq.read_table(draft).equals(pq.read_table(files[domain])):
            raise RatchetError(f"{work} belongs to a stage with other problems of {domain}: give another directory.")
        draft.replace(files[domain])
    rates = None
    if stage.max_pass_rate is not None:
        measure = specification(recipe, "pass_rates", stage, model, files)
        rates = _run(measure, work / "pass_rates", settings.hardware.processes, follow) / "pass_rates.jsonl"
    spec = specification(recipe, "stage", stage, model, files, pass_rates=rates and str(rates))
    return _run(spec, work, settings.hardware.processes, follow) / "model"


def _run(spec: dict[str, Any], work: Path, processes: int, follow: Follow) -> Path:
    """Run the processes of a specification to their end; returns `work`."""
    file, log, metrics = work / "spec.json", work / "log", Tail(work / "metrics.jsonl")
    text = json.dumps(spec | {"work_dir": str(work)}, indent=1)
    if file.is_file() and file.read_text() != text:
        raise RatchetError(f"{work} belongs to a stage with other settings: give another directory.")
    work.mkdir(exist_ok=True)
    write_atomically(file, text)
    argv = (sys.executable, "-P", "-m", "ratchet.training.launch", str(file))
    with Local("", Resident()).launch(ProcessGroup(argv, 1, processes, work, log), print) as running:
        while running.poll() is None:
            time.sleep(POLL_S)
            for record in metrics.read():
                follow(record)
    for record in metrics.read():
        follow(record)
    status = json.loads((work / STATUS).read_text()) if (work / STATUS).is_file() else {}
    if status.get("state") != "finished":
        ending = f"the trainer ended early; the end of {log}:\n{last_lines(log, 15)}"
        raise RatchetError(status.get("message") or ending)
    return work
