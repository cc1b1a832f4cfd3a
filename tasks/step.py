"""The only place where a step meets Prefect, the artifact store and the lineage.

A task declares its inputs, its parameters and how to make its output. This module adds the key, the cache, the Prefect
task run, the draft and its lock, the MLflow child run with its data sets and models, and the terminal.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ratchet.data_curation.base.draft import DatasetResult, Draft
from ratchet.data_curation.base.problem_table import PROBLEM_SCHEMA
from ratchet.data_curation.split import REJECTED_SCHEMA, Split, merged
from ratchet.infra.keys import decisive, flat
from ratchet.infra.recipe.recipe import Verification
from ratchet.infra.store.artifacts import FILE_KIND, Artifact, Parameters, artifact_key
from ratchet.infra.store.own_code import own_code
from ratchet.infra.tracking.events import Tracking
from ratchet.tasks.run_context import PlannedStep, RunContext
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.sandbox.server import require_isolation

CONTEXTS = {"checkpoint": "training", "evaluation": "evaluation"}
"""MLflow's context of a data set, by the kind of artifact made from it; otherwise `input`."""
MODELS = ("checkpoint", "model")
RAW_KINDS = ("raw", FILE_KIND)


@dataclass(frozen=True)
class StepOutput:
    """A step's finished output, for the function that logs it."""

    run: RunContext
    tracking: Tracking
    child: str
    """The step's own page."""
    artifact: Artifact
    inputs: Sequence[Artifact]
    cached: bool


@dataclass(frozen=True)
class Step:
    """A kind of work. Raise `version` when the same inputs and parameters give another output."""

    name: str
    version: int
    kind: str
    """The kind of the step's output: `raw`, `problems`, `attempts`, `traces`, `checkpoint`, `evaluation`, `report`."""
    resumable: bool = False
    """True if the next run continues in the draft of a killed one."""
    log: Callable[[StepOutput], None] | None = None
    """A function that logs an output of this kind; by default `log_output`."""


def run_step(
    run: RunContext,
    step: Step,
    name: str,
    *,
    parameters: Parameters,
    inputs: Sequence[Artifact],
    make: Callable[[Draft[Any]], None],
    title: str = "",
    estimate: Callable[[], str] | None = None,
    check: Callable[[], None] | None = None,
    trial: Callable[[], Iterable[str]] | None = None,
    whole: Sequence[Artifact] = (),
    code: Iterable[str] = (),
) -> Artifact:
    """Find or make the artifact of this step, called `name` in the store and `title` in the display.

    `make` fills the draft. `estimate` describes its cost in a plan. `check` is called before a run's first step, and
    raises RatchetError for a missing requirement; `trial` is that of a `PlannedStep`. `whole` are the inputs of which
    it reads more than `artifacts.READ`; `code` are the import paths of domains, losses, engines and the like that it
    runs, including the user's own.
    """
    inputs, own = tuple(inputs), own_code(code)
    key = artifact_key(step.name, step.version, name, parameters, inputs, whole, own)
    target = run.store.locate(step.kind, name, key)
    title = title or f"{step.name} {name}"
    if target.key in run.inputs:
        return target
    chosen = run.chooses(step.name, title, inputs)
    cached = target.path.exists() and step.name not in run.steps.refresh
    same_as = run.store.earlier_same(target) if run.planning and cached else None
    planned = PlannedStep(
        title, target, inputs, cached, name=step.name, left_out=not chosen, same_as=same_as,
        estimate=estimate, check=check, trial=trial,
    )  # fmt: skip
    run.plan.append(planned)
    if run.planning or not chosen:
        return target

    def execute(*_read: Artifact) -> Artifact:  # Prefect draws the arrows from its arguments
        return _find_or_make(run, step, planned, parameters, make, whole, own)

    if run.in_prefect:
        from prefect import task
        from prefect.cache_policies import NO_CACHE

        # The store alone decides whether the step runs: no second cache.
        execute = task(name=title, task_run_name=title, cache_policy=NO_CACHE, persist_result=False)(execute)
    return execute(*inputs)


def _find_or_make(
    run: RunContext, step: Step, planned: PlannedStep, parameters: Parameters, make: Callable[[Draft[Any]], None],
    whole: Sequence[Artifact], own: Mapping[str, str],
) -> Artifact:  # fmt: skip
    tracking, target, inputs = run.tracking, planned.output, planned.inputs
    assert tracking is not None
    started_at = time.time()
    existing = run.store.find(target.kind, target.name, target.key)
    cached = existing is not None and step.name not in run.steps.refresh
    if not cached:
        run.reporter.step_started(planned.title)
    child = tracking.start_run(
        planned.title, parent=run.root, tags={"ratchet.step": step.name},
        parameters={**flat(decisive(parameters)), **own},
        output=target, cached=cached, inputs=inputs,
        behind=tuple(run.store.ancestors(inputs, run.inputs)) if step.kind in ("evaluation", "report") else (),
    )  # fmt: skip
    run.children[target.key] = child
    try:
        for artifact in inputs:
            _log_data(tracking, child, artifact, context := CONTEXTS.get(step.kind, "input"))
            # The run itself has what it was given, trained on and evaluated with.
            if artifact.kind in RAW_KINDS or (step.kind in CONTEXTS and artifact not in run.trained):
                _log_data(tracking, run.root, artifact, context)
        if not cached:
            _warn_of_newer(run, step, target)
            for artifact in inputs:
                run.store.check_content(artifact, artifact in whole)
            with run.store.draft(target, resumable=step.resumable, wait=run.reporter.note) as draft:
                # Another run in this home may have made it since it was looked for.
                cached = existing is None and run.store.find(target.kind, target.name, target.key) is not None
                if cached:
                    draft.path.rmdir()
                else:
                    draft.tracking_id = child
                    make(draft)
                    for artifact in inputs:
                        run.store.check_unchanged(artifact)
                    run.store.finish(
                        target, draft, step=step.name, step_version=step.version, parameters=parameters,
                        inputs=inputs, started_at=started_at, whole=whole, code=own,
                    )  # fmt: skip
        _log_data(tracking, child, target, "output")
        if isolation := target.manifest.isolation:
            tracking.event("tags", child, tags={"ratchet.isolation": isolation})
        (step.log or log_output)(StepOutput(run, tracking, child, target, inputs, cached))
        summary = target.summary
        if same := run.store.earlier_same(target):
            tracking.event("tags", child, tags={"ratchet.same_content_as": same.ref})
            summary = ", ".join(filter(None, [summary, f"same content as {same.ref}"]))
    except BaseException as error:
        tracking.event("end", child, status="FAILED" if isinstance(error, Exception) else "KILLED")
        raise
    tracking.event("end", child, status="FINISHED", output=target.facts, cached=cached)
    if cached:
        run.reporter.step_cached(planned.title, summary)
    else:
        run.reporter.step_finished(planned.title, summary, time.time() - started_at)
    return target


def _warn_of_newer(run: RunContext, step: Step, target: Artifact) -> None:
    """A home that a newer Ratchet has written to has results that this one does not find."""
    for other in run.store.all(f"{target.kind}/{target.name}-*"):
        version = other.manifest.step_version
        if other.manifest.step == step.name and version > step.version:
            run.reporter.warning(
                f"{other.ref} is of a newer Ratchet (version {version} of the step {step.name}, here {step.version}) "
                "and is not used. Update Ratchet to continue from it."
            )
            return


def not_done(run: RunContext, step: str, domain: str, reason: str) -> None:
    """Record that a step of the recipe cannot run: it is shown in the plan, the terminal and the lineage."""
    title, never = f"{step} {domain}", run.store.locate("problems", domain, "0" * 64)
    run.plan.append(PlannedStep(title, never, (), False, reason, name=step))
    if run.tracking is None or run.steps.only:
        return
    run.reporter.not_done(title, reason)
    child = run.tracking.start_run(f"{title} (not done)", parent=run.root, tags={"ratchet.not_done": reason})
    run.tracking.event("end", child, status="FINISHED")


def write_splits(draft: Draft[DatasetResult], splits: Iterable[Split], max_rejected: float) -> None:
    """Store both sides of a curation step batch by batch. Raises RatchetError when the share of rejected rows exceeds
    `max_rejected`."""
    summary: dict[str, Any] = {}
    examples: dict[str, dict[str, Any]] = {}
    with draft.dataset_writer(PROBLEM_SCHEMA, REJECTED_SCHEMA) as write:
        for split in splits:
            write(split.kept, split.rejected)
            summary = merged([summary, split.summary])
            for rule in {name for name, count in split.summary["dropped"].items() if count} - examples.keys():
                examples[rule] = next(row for row in split.rejected.to_pylist() if row["rule"] == rule)
    rows_in, rows_out, dropped = summary["rows_in"], summary["rows_out"], summary["dropped"]
    if rows_in and (rows_in - rows_out) / rows_in > max_rejected:
        worst = max(dropped, key=lambda rule: dropped[rule])
        example = examples[worst]
        raise RatchetError(
            f"{example['step']} would reject {rows_in - rows_out} of {rows_in} rows, more than the recipe allows "
            f"(max_rejected {max_rejected:.0%}). Most of them by rule {worst!r} ({dropped[worst]} rows), "
            f"e.g. row {example['source_id']} of {example['source']}: {str(example['evidence'])[:200]}. "
            "Look at the input, or raise max_rejected."
        )
    draft.result.summary = summary | (draft.result.summary or {})
    counts = {"rows_in": rows_in, "rows_kept": rows_out, "rows_rejected": rows_in - rows_out}
    draft.result.metrics |= counts


def record_isolation(
    draft: Draft[Any], verification: Verification, reward_servers: Sequence[str], here: bool = False
) -> None:
    """Record how this machine confines the programs that the step judges; with reward servers, only if the step also
    runs programs `here`. Raises RatchetError when the isolation is less than `verification` demands."""
    if here or not reward_servers:
        draft.result.isolation = str(require_isolation(verification.minimum_isolation))


def judged_math(verification: Verification, domains: Iterable[str]) -> dict[str, str]:
    """The part of `verification.math` in the keys of steps that judge responses."""
    concerned = any(domain_of(domain).compares_math for domain in domains)
    return {"verified": "either"} if concerned and verification.math == "either" else {}


def _log_data(tracking: Tracking, child: str, artifact: Artifact, context: str) -> None:
    """Log an input or the `output` of a step as a data set or a model."""
    if artifact.kind in MODELS:
        role = "output" if context == "output" else "input"
        parameters = flat(artifact.manifest.parameters) if artifact.kind == "checkpoint" else {}
        tracking.event("model", child, role=role, model=artifact.facts, parameters=parameters)
    elif artifact.kind in ("problems", "attempts", "traces", "raw", FILE_KIND):
        facts = artifact.facts | _table_facts(artifact)
        tracking.event("dataset", child, context=context, dataset=facts)


def log_output(output: StepOutput, pages: Sequence[str] = (), scored: Mapping[str, Any] = {}) -> None:
    """Log the metrics of an output and the files that it shows, on these pages (default: the step's own). `scored` are
    the model and data sets that metrics describe."""
    for page in pages or (output.child,):
        output.tracking.metrics(page, output.artifact.manifest.metrics, **scored)
        log_files(output, page)


def log_files(output: StepOutput, page: str) -> None:
    """Show the manifest of an output, and the files that it names, on this page."""
    for shown in ["manifest.json", *output.artifact.manifest.shown]:
        folder = str(Path(shown).parent).lstrip(".")
        output.tracking.event("file", page, path=str(output.artifact.path / shown), folder=folder)


def _table_facts(artifact: Artifact) -> dict[str, Any]:
    table = artifact.path if artifact.path.is_file() else artifact.kept
    if table.suffix != ".parquet" or not table.is_file():
        return {"rows": None, "columns": {}}
    schema = pq.read_schema(table)
    kinds = {"string": "string", "large_string": "string", "int32": "integer", "int64": "long", "double": "double"}
    columns = {name: kinds.get(str(kind), "string") for name, kind in zip(schema.names, schema.types, strict=True)}
    return {"rows": pq.read_metadata(table).num_rows, "columns": columns}
