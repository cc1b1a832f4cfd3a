"""Train one stage from plain Python, without a recipe, a run, Prefect or MLflow."""

import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.base.files import write_atomically
from ratchet.data_curation.base.journal import Tail
from ratchet.data_curation.base.prompts import PromptFormat
from ratchet.infra.launching.fork_server import ForkServer
from ratchet.infra.launching.group import ProcessGroup
from ratchet.infra.launching.launcher import Local
from ratchet.infra.launching.run_group import run_group
from ratchet.infra.recipe.model import Model
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.recipe.training import Stage, Training
from ratchet.training.curriculum import check_prompts
from ratchet.training.specification import TrainingSpec
from ratchet.verifiers.errors import RatchetError

Follow = Callable[[dict[str, Any]], object]


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
    check_prompts(stage, {domain: table.num_rows for domain, table in problems.items()})
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
    processes, rates = settings.hardware.processes, None
    spec = TrainingSpec.of(
        recipe, kind="stage", stage=stage.name, model_dir=str(model), problems=files, work_dir=work,
        reference_model=stage.advanced.reference_model,
    )  # fmt: skip
    with closing(ForkServer()) as fork_server:
        if stage.max_pass_rate is not None:
            measure = spec.model_copy(update={"kind": "pass_rates", "work_dir": work / "pass_rates"})
            rates = _run(measure, processes, follow, fork_server) / "pass_rates.jsonl"
        return _run(spec.model_copy(update={"pass_rates": rates}), processes, follow, fork_server) / "model"


def _run(spec: TrainingSpec, processes: int, follow: Follow, fork_server: ForkServer) -> Path:
    """Run the processes of a specification to their end; returns its directory."""
    work = spec.work_dir
    file, metrics = work / "spec.json", Tail(work / "metrics.jsonl")
    if file.is_file() and TrainingSpec.read(file) != spec:
        raise RatchetError(f"{work} belongs to a stage with other settings: give another directory.")
    work.mkdir(exist_ok=True)
    write_atomically(file, spec.model_dump_json(indent=1))

    def follow_metrics() -> None:
        for record in metrics.read():
            follow(record)

    argv = (sys.executable, "-P", "-m", "ratchet.training.launch", str(file))
    group = ProcessGroup(argv, 1, processes, work, work / "log", forkable=True)
    result = run_group(group, Local("", fork_server), follow_metrics, print)
    if not result.finished:
        raise RatchetError(result.reason if result.state == "failed" else f"The trainer {result.reason}")
    return work
