"""Find the garbage of a home: everything that no kept run refers to, and that may be deleted."""

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ratchet.data_curation.base.files import is_locked
from ratchet.infra.settings import Settings, own_mlflow
from ratchet.infra.store.artifacts import Artifact, ArtifactStore
from ratchet.infra.store.lineage import Lineage
from ratchet.infra.store.manifest import GateManifest
from ratchet.infra.tracking.events import not_received, read_state
from ratchet.infra.tracking.mirrored import FILES_FOLDER
from ratchet.infra.tracking.run_record import RunRecord, all_runs, get_run
from ratchet.verifiers.errors import RatchetError

DAY_S = 86400
PAGES = ("tensorboard/*-{}", "wandb/*run-*-{}")
"""Folders of one run, named by its id."""


@dataclass(frozen=True)
class Garbage:
    """The parts of a home that may be deleted."""

    runs: Sequence[RunRecord]
    """Runs to delete, with their journals."""
    directories: Sequence[Path]
    """Artifacts that only these runs refer to, and unfinished directories that no kept run can continue."""
    pages: Sequence[Path]
    """Files of these runs in TensorBoard, Weights & Biases and the home's own MLflow."""
    unsent: Sequence[str]
    """One line for each run that is kept because MLflow has not received all of its journal."""


def find_garbage(settings: Settings, names: Sequence[str] = (), older_than_days: float | None = None) -> Garbage:
    """Find the garbage once these runs (as `find_run` takes them) and all runs older than this are forgotten. An
    artifact of no known run is kept, and so are everything that a kept run has made or read, and what the next gate of
    each recipe compares with. Raises RatchetError for a name that matches no run."""
    store = ArtifactStore(settings.artifacts)
    named = {get_run(settings, name).run_id for name in names}
    dropped, kept, unsent = [], [], []
    for run in all_runs(settings):
        journal = settings.journals / f"{run.run_id}.jsonl"
        old = older_than_days is not None and time.time() - journal.stat().st_mtime > older_than_days * DAY_S
        forget = run.run_id in named or old
        if forget and (why := not_received(settings, run.run_id)):
            forget, unsent = False, [*unsent, f"run {run.run_id} {run.name} is kept. {why}"]
        (dropped if forget else kept).append(run)
    referenced = {a.key: a for run in kept for step in run.steps for a in (step.output, *step.inputs)}
    needed = {*referenced, *(artifact.key for artifact in _of_the_best(store))}
    if dropped:
        lineage = Lineage(store)
        needed |= {far.key for artifact in referenced.values() for far in lineage.behind(artifact)}
    orphans = {step.output.path for run in dropped for step in run.steps if step.output.key not in needed}
    resumable = {f"{output.path.parent.name}-{output.path.name}" for output in referenced.values()}
    unfinished = [draft for draft in store.unfinished() if draft.name not in resumable]
    pages = [page for run in dropped for pattern in PAGES for page in settings.home.glob(pattern.format(run.run_id))]
    files = (settings.home / FILES_FOLDER / each for run in dropped for each in _in_own_mlflow(settings, run))
    pages += [folder for folder in files if folder.is_dir()]
    return Garbage(dropped, [*sorted(path for path in orphans if path.is_dir()), *unfinished], pages, unsent)


def _of_the_best(store: ArtifactStore) -> Iterator[Artifact]:
    """The last verdict of each gate that passed, the evaluation it is about, and what that read: without them the next
    model would be the best whatever its score, and this one could not be evaluated again."""
    passed = (verdict for verdict in store.all("gate/*") if GateManifest.of(verdict).passed)
    for verdict in {verdict.name: verdict for verdict in passed}.values():
        evaluation = store.parents(verdict)[0]
        yield from (verdict, evaluation, *(store.parents(evaluation) if evaluation.finished else ()))


def delete(settings: Settings, garbage: Garbage) -> None:
    """Delete the garbage, journals last: after an interruption they still lead to the rest. Raises RatchetError as soon
    as a run is active in the home."""
    _require_quiet(settings)
    for directory in garbage.directories:
        _require_quiet(settings)
        ArtifactStore(settings.artifacts).remove(directory)
        for log in settings.logs.glob(f"{directory.parent.name}-{directory.name}.*"):
            log.unlink()
    for page in garbage.pages:
        _require_quiet(settings)
        shutil.rmtree(page)
    if listed := [each for run in garbage.runs for each in _in_own_mlflow(settings, run)]:
        from mlflow import MlflowClient, MlflowException  # takes seconds

        client = MlflowClient(settings.tracking_uri)
        for each in listed:
            with suppress(MlflowException):  # deleted before
                client.delete_run(each)
    for run in garbage.runs:
        for file in settings.journals.glob(f"{run.run_id}.*"):
            file.unlink()


def _in_own_mlflow(settings: Settings, run: RunRecord) -> list[str]:
    """The ids of a run and its steps in the home's MLflow database; none in that of a server, which others use."""
    is_own = settings.tracking_uri == own_mlflow(settings.home)
    return [*read_state(settings, run.run_id).get("runs", {}).values()] if is_own else []


def _require_quiet(settings: Settings) -> None:
    if active := [journal.stem for journal in sorted(settings.journals.glob("*.jsonl")) if is_locked(journal)]:
        raise RatchetError(f"A run is active in {settings.home}: {', '.join(active)}. Wait, or stop it.")


def size_of(directory: Path) -> int:
    """The total size in bytes."""
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
