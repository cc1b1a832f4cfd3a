"""Run the warm start and the stages, each as a process group under torch's launcher, never inside the flow's
process."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

import pyarrow.parquet as pq

from ratchet.data_curation.base.draft import Draft, StepResult
from ratchet.data_curation.base.journal import read_lines
from ratchet.data_curation.base.prompts import with_templates
from ratchet.data_curation.base.slow_calls import say_if_slow
from ratchet.infra.inference import unused_libraries_hidden
from ratchet.infra.inference.engine import ENGINES
from ratchet.infra.keys import in_key
from ratchet.infra.launching.launcher import launcher_of
from ratchet.infra.recipe.evaluation import Benchmark, Evaluation
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.recipe.training import Stage, Training
from ratchet.infra.settings import Settings
from ratchet.infra.store.artifacts import Artifact
from ratchet.infra.store.manifest import CheckpointManifest, CheckpointResult
from ratchet.tasks import lengths
from ratchet.tasks.curriculum_curve import draw_again
from ratchet.tasks.inputs import is_local_model, local_model
from ratchet.tasks.more_steps import ShorterStage, find_shorter
from ratchet.tasks.progress import in_words
from ratchet.tasks.run_context import RunContext
from ratchet.tasks.step import Step, StepOutput, judged_math, log_files, log_output, record_isolation, run_step
from ratchet.tasks.worker import MetricsFollower, StageFollower, run_worker
from ratchet.training.advantages import ADVANTAGES
from ratchet.training.checkpoint_files import CHECKPOINTS, checkpoint_steps, keep_newest
from ratchet.training.curriculum import check_prompts
from ratchet.training.interventions import BEST, RULE, AppliedIntervention
from ratchet.training.losses import LOSSES
from ratchet.training.rollout_log import FOLDER, newest_files
from ratchet.training.specification import TrainingSpec
from ratchet.verifiers.domains import code_of, domain_of
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.math.answer_patterns import BOXED
from ratchet.verifiers.serving.local_pool import open_pool

if TYPE_CHECKING:  # imports torch, which a plan avoids
    from ratchet.training.losses.trial import LossTrial


def _log_checkpoint(output: StepOutput) -> None:
    """Log the metrics of a cached checkpoint; a new one has its whole curve already."""
    if output.cached:
        log_output(output)
    else:
        log_files(output, output.child)


def _log_stage(output: StepOutput) -> None:
    """Log a cached stage's part of the curve, its rollouts, and what interventions changed."""
    manifest, tracking = CheckpointManifest.of(output.artifact), output.tracking
    if output.cached:
        draw_again(output.run, output.artifact)
    if "samples.jsonl" in manifest.files:
        tracking.event("table", output.child, path=str(output.artifact.path / "samples.jsonl"))
    for file in newest_files(output.artifact.path):
        tracking.event("file", output.child, path=str(file), folder=FOLDER)
    if taken := [AppliedIntervention.of(line) for line in manifest.interventions]:
        words = "; ".join(f"after step {each.step}: {each.summary}" for each in taken)
        tracking.event("tags", output.child, tags={"ratchet.interventions": words})
    _log_checkpoint(output)


WARM_START = Step("warm_start", 5, "checkpoint", resumable=True, log=_log_checkpoint)
STAGE = Step("train", 20, "checkpoint", resumable=True, log=_log_stage)
PASS_RATES = Step("pass_rates", 17, "pass_rates", resumable=True)
HEADLINE = ("loss", "pass_rate", "response_tokens", "truncated")


def warm_start(run: RunContext, traces: Artifact | None) -> Artifact:
    """Make the first checkpoint: the recipe's model, trained on traces if the recipe has a warm start."""
    recipe = run.recipe
    start, hardware = recipe.training.warm_start, recipe.training.hardware
    spec = TrainingSpec.of(recipe, kind="warm_start", traces=traces and traces.kept, work_dir=Path())
    parameters = {"seed": recipe.seed, "model": recipe.model, "warm_start": start, "hardware": hardware}
    parameters |= _lora(recipe.training)
    if start:  # it has its own weight decay
        decay = {"weight_decay": start.weight_decay}
        parameters["optimizer"] = recipe.training.advanced.optimizer.model_copy(update=decay)
    if recipe.model.path is None and start is None:
        raise RatchetError(
            f"The recipe {recipe.name} has no model to train: set model.path to a model, or training.warm_start to "
            "create one; or train with --model."
        )
    inputs = [traces] if traces else []
    if recipe.model.path and Path(recipe.model.path).is_dir():  # identified by its content, not its place
        parameters["model"] = recipe.model.model_copy(update={"path": None})
        inputs.append(run.store.directory(Path(recipe.model.path), "model"))

    def check() -> None:
        launcher_of(run.settings).check(hardware.machines)
        if recipe.model.path:
            check_trainable_model(run, recipe.training, recipe.model.path)

    return run_step(
        run, WARM_START, "start", parameters=parameters, inputs=inputs, make=partial(_train, run, spec),
        title="warm start" if start else "first checkpoint", check=check,
    )  # fmt: skip


def _lora(training: Training) -> dict[str, Any]:
    return {"lora": lora} if (lora := training.advanced.lora) else {}


def _base(run: RunContext) -> dict[str, Any]:
    """The model whose adapter a stage continues, for its key: from another one it merges the adapter and starts one."""
    path = run.recipe.model.path
    if not (run.recipe.training.advanced.lora and path):
        return {}
    return {"base": run.store.directory(Path(path), "model").content() if Path(path).is_dir() else path}


def check_trainable_model(run: RunContext, training: Training, path: str, trained: bool = True) -> None:
    """Raises RatchetError for a faulty model, or one that would be computed as another model. Called while the run is
    planned, before any work."""
    if not run.planning:
        return
    with unused_libraries_hidden():
        from ratchet.infra.inference import models  # torch and transformers: seconds
        from ratchet.infra.inference.twin import is_plain

        models.check_model(path)
        if run.recipe.model.prompt.around:
            models.check_prompt(path, run.recipe.model.prompt)
        config = models.read_config(path)
        if trained:
            models.check_saving(path, models.read_generation_config(path))
        if is_plain(config):
            return
        from ratchet.training.model_support import check_support  # DeepSpeed: seconds

        check_support(path, config, trained, training.hardware.packed, training.engine.kind == "transformers")


def check_prompt_counts(stages: Sequence[Stage], problems: Mapping[str, Artifact]) -> None:
    """Raises RatchetError if curation kept too few problems of a domain for a stage's batches."""
    for stage in stages:
        kept = {domain: problems[domain].kept for domain in stage.domains}
        counts = {domain: pq.read_metadata(file).num_rows for domain, file in kept.items() if file.is_file()}
        check_prompts(stage, counts, "`ratchet show ROW` gives the reason for each row that curation dropped.")


def check_loss_and_advantage(stage: Stage) -> list[str]:
    """The import paths of the stage's loss and advantage. Raises RatchetError if one is unknown, or if one of the
    user's own fails when it is tried."""
    try:  # shipped ones are not imported here, because that imports torch
        loss_trial(stage)
        if stage.advantage not in ADVANTAGES.shipped:
            ADVANTAGES.get(stage.advantage)
            from ratchet.training.losses.trial import try_advantage

            try_advantage(stage)
        elif stage.loss_settings and stage.loss in LOSSES.shipped:
            raise RatchetError(
                f"loss_settings are for a loss or advantage of your own; {stage.loss} and {stage.advantage} read none"
            )
    except RatchetError as error:
        raise RatchetError(f"The stage {stage.name}: {error}") from error
    return [LOSSES.path(stage.loss), ADVANTAGES.path(stage.advantage)]


def loss_trial(stage: Stage) -> "LossTrial | None":
    """The value and gradient of the stage's loss on made-up responses; None for a shipped one. Raises RatchetError for
    a loss that cannot train."""
    if stage.loss in LOSSES.shipped:
        return None
    LOSSES.get(stage.loss)
    from ratchet.training.losses.trial import try_loss

    return try_loss(stage)


def stage_checkpoint(
    run: RunContext, stage: Stage, start: Artifact, problems: Mapping[str, Artifact], validation: Mapping[str, Artifact]
) -> Artifact:
    """Train one stage from the checkpoint `start`, and return its checkpoint."""
    recipe = run.recipe
    engine, validated = recipe.training.engine, [b.domain for b in recipe.evaluation.benchmarks if b.name in validation]
    code = [*check_loss_and_advantage(stage), ENGINES.path(engine.kind), *code_of([*stage.domains, *validated])]
    problems = {domain: problems[domain] for domain in stage.domains}
    spec = _stage_spec(recipe, "stage", stage, start, problems)
    facts: dict[str, Any] = {"validation": {name: artifact.kept for name, artifact in validation.items()}}
    inputs = [start, *problems.values(), *validation.values()]
    if stage.max_pass_rate is not None:
        measured = _pass_rates(run, stage, start, problems)
        facts["pass_rates"] = measured.path / "pass_rates.jsonl"
        inputs.append(measured)
    teacher, decisive = stage.advanced.reference_model, stage
    if teacher and is_local_model(teacher):  # identified by its content, not its place
        reference = local_model(run.store, teacher, f"The stage {stage.name}: advanced.reference_model")
        facts["reference_model"], decisive = str(reference.model_directory), stage.with_details(reference_model=None)
        inputs.append(reference)
    elif teacher:
        facts["reference_model"] = teacher
    spec = spec.model_copy(update=facts)
    parameters = {
        **_sampled_with(recipe, [*stage.domains, *validated]),
        "stage": decisive,
        "optimizer": recipe.training.advanced.optimizer,
        "max_infra_errors": recipe.training.advanced.max_infra_errors,
        **_validated(recipe.evaluation, validation),
        **_started(stage),
        **_base(run),
    }

    def check() -> None:
        check_machines(run.settings, recipe.training)
        lengths.check_stage_length(run, recipe.model, stage, start)
        if "reference_model" in facts:
            check_trainable_model(run, recipe.training, facts["reference_model"], trained=False)

    def shorter() -> ShorterStage | None:
        again = STAGE.name in run.steps.refresh
        return None if again else find_shorter(run.store, STAGE, stage, parameters, inputs, code)

    def findings() -> Iterator[str]:
        if found := shorter():
            yield found.note
        yield from _loss_findings(stage)

    return run_step(
        run, STAGE, stage.name, parameters=parameters, inputs=inputs, code=code, check=check, trial=findings,
        make=partial(_train, run, spec, start=start, shorter=shorter),
    )  # fmt: skip


def _loss_findings(stage: Stage) -> Iterator[str]:
    """Lines of a dry run about a loss and an advantage of the user's own."""
    if trial := loss_trial(stage):
        yield trial.summary
        if trial.warning:
            yield f"! {trial.warning}"
    if stage.loss_settings:
        from ratchet.training.losses.trial import unread_settings

        if warning := unread_settings(stage):
            yield f"! {warning}"


def _sampled_with(recipe: Recipe, domains: Sequence[str]) -> dict[str, Any]:
    """Settings that decide what is sampled for problems of these domains, and its rewards, for the keys of steps."""
    training = recipe.training
    return {
        "seed": recipe.seed, "prompt": with_templates(recipe.model.prompt, domains), "hardware": training.hardware,
        "engine": training.engine, **_lora(training), **judged_math(recipe.verification, domains),
    }  # fmt: skip


def _selection(benchmark: Benchmark) -> tuple[Any, ...]:
    """The settings by which a benchmark's questions are chosen."""
    hardest = benchmark.advanced.max_difficulty
    return (benchmark.advanced.part, benchmark.limit, *([] if hardest is None else [hardest]))


def _validated(evaluation: Evaluation, names: Collection[str]) -> dict[str, Any]:
    """Settings that decide a validation score, for the key of a stage that validates."""
    if not names:
        return {}
    sampling = [evaluation.temperature, evaluation.top_p]
    chosen = {b.name: _selection(b) for b in evaluation.benchmarks if b.name in names}
    parts = {name: settings for name, settings in chosen.items() if any(settings)}
    asked = {b.name: _asked(b) for b in evaluation.benchmarks if b.name in names and _asked(b)}
    own = {"validation_questions": parts, "validation_asked": asked}
    return {"validation_sampling": sampling, **{name: settings for name, settings in own.items() if settings}}


def _asked(benchmark: Benchmark) -> dict[str, Any]:
    """The settings of a benchmark's own by which its questions are asked and its answers read."""
    pattern = benchmark.advanced.answer_pattern
    return {**benchmark.prompt, **({} if pattern == BOXED else {"answer_pattern": pattern})}


def _started(stage: Stage) -> dict[str, Any]:
    """That the score of a stage's start decides its plateaus or its result, for its key. Floors always come from it."""
    decides = stage.has_plateau or not stage.keep
    return {"start": "validated"} if stage.validates_start and decides else {}


def check_machines(settings: Settings, training: Training) -> None:
    """Raises RatchetError if the machines, the engine or the reward servers of `training` are not available."""
    launcher_of(settings).check(training.hardware.machines)
    training.engine.check(settings.python)
    if training.reward_servers and (fault := _silence_of(training.reward_servers)):
        raise RatchetError(fault)


@cache
def _silence_of(reward_servers: tuple[str, ...]) -> str:
    """The reason why no reward server can be used; asked once for all stages."""
    try:
        with say_if_slow(f"Waiting for the reward servers {', '.join(reward_servers)} …"):
            open_pool(reward_servers).close()
    except RatchetError as error:
        return str(error)
    return ""


def _pass_rates(run: RunContext, stage: Stage, start: Artifact, problems: Mapping[str, Artifact]) -> Artifact:
    """Measure how often the starting policy solves each prompt that the stage may train on."""
    recipe, spec = run.recipe, _stage_spec(run.recipe, "pass_rates", stage, start, problems)
    measured = {
        "name", "max_response_tokens", "temperature", "max_difficulty", "max_pass_rate", "pass_rate_rollouts",
        "pass_rate_error", "graded", "total_time_limit_s",
    }  # fmt: skip
    parameters = {
        **_sampled_with(recipe, stage.domains),
        "stage": {name: value for name, value in in_key(stage).items() if name in measured},
        "domains": sorted(stage.domains),
        **_base(run),
    }
    if stage.longest_response > stage.max_response_tokens:  # prompts must leave room for it
        parameters["longest_response"] = stage.longest_response
    return run_step(
        run, PASS_RATES, stage.name, parameters=parameters, inputs=[start, *problems.values()],
        make=partial(_measure, run, spec), title=f"pass rates {stage.name}",
        check=lambda: check_machines(run.settings, recipe.training),
        code=[ENGINES.path(recipe.training.engine.kind), *code_of(stage.domains)],
    )  # fmt: skip


def _stage_spec(
    recipe: Recipe, kind: Literal["stage", "pass_rates"], stage: Stage, start: Artifact,
    problems: Mapping[str, Artifact],
) -> TrainingSpec:  # fmt: skip
    files = {name: part.kept for name, part in problems.items()}
    return TrainingSpec.of(
        recipe, kind=kind, stage=stage.name, model_dir=str(start.model_directory), problems=files, work_dir=Path()
    )


def _train(
    run: RunContext, spec: TrainingSpec, draft: Draft[CheckpointResult], start: Artifact | None = None,
    shorter: Callable[[], ShorterStage | None] = lambda: None,
) -> None:  # fmt: skip
    """Fill a draft with a checkpoint: a warm start, or a stage that begins from `start`, or that goes on where a
    `shorter` one ended."""
    file = draft.path / "metrics.jsonl"
    if not _last_step(draft.path) and (found := shorter()):
        run.reporter.note(found.note)
        if found.kept:
            found.copy_to(draft.path)
    elif note := resume_note(draft.path):
        run.reporter.note(note)
    follow: MetricsFollower = MetricsFollower(run, draft.tracking_id, file)
    if start:
        follow = StageFollower(run, draft.tracking_id, file, start)
    _run_spec(run, spec, draft, follow)
    last, result = follow.last, draft.result
    result.metrics = {key: value for key, value in last.items() if isinstance(value, int | float)}
    steps = int(last.get("step", 0))
    draft.counts["steps"] = steps
    decisions = [line for _, line in read_lines(draft.path / "decisions.jsonl")] if start else []
    kept = ""
    for best in (line["evidence"]["step"] for line in decisions if line["rule"] == BEST):
        result.metrics["best_step"] = best
        kept = f"weights of step {best}" if best != steps else ""
    made = f"{steps} step{'s' * (steps != 1)}"
    result.headline = ", ".join(filter(None, [made, kept, in_words(last, HEADLINE)]))
    if interventions := [line for line in decisions if line["rule"] == RULE]:
        result.interventions = interventions
    files = ("metrics.jsonl", "decisions.jsonl", "samples.jsonl")
    result.shown = [name for name in files if (draft.path / name).is_file()]


def resume_note(draft: Path) -> str:
    """The step that an interrupted training continues from, or that of one with other settings, which it does not
    continue; "" if there is neither."""
    if step := _last_step(draft):
        return f"continues from step {step}"
    name = draft.name.rpartition("-")[0]
    others = [other for other in draft.parent.glob(f"{name}-*") if other.name.rpartition("-")[0] == name]
    if step := max(map(_last_step, others), default=0):
        return f"starts at step 1: one that was interrupted after step {step} has other settings, code or inputs"
    return ""


def _last_step(draft: Path) -> int:
    """The step of the newest checkpoint in a draft; 0 without one."""
    return max(checkpoint_steps(draft / CHECKPOINTS), default=0)


def _measure(run: RunContext, spec: TrainingSpec, draft: Draft[StepResult]) -> None:
    """Fill a draft with the pass rates of a stage's prompts."""
    follow = MetricsFollower(run, draft.tracking_id, draft.path / "checkpoints/0-pass_rates.jsonl")
    _run_spec(run, spec, draft, follow)
    lines = [json.loads(line) for line in (draft.path / "pass_rates.jsonl").read_text().splitlines()]
    rates = [passed / judged for line in lines for passed, judged in line["counts"].values() if judged]
    count = draft.counts["problems"] = sum(len(line["counts"]) for line in lines)
    draft.result.metrics = {"pass_rate": fmean(rates)} if rates else {}
    draft.result.headline = f"{count:,} problems, mean pass rate {fmean(rates):.2f}" if rates else "nothing judged"


def _run_spec(run: RunContext, spec: TrainingSpec, draft: Draft[Any], follow: MetricsFollower) -> None:
    """Run the process group of `spec`, whose `work_dir` is the draft."""
    training = spec.training
    name = "-".join([spec.kind, *(stage.name for stage in training.stages)])
    if any(domain_of(domain).runs_programs for domain in spec.problems):
        record_isolation(draft, spec.verification, training.reward_servers)
    run_worker(
        run, "ratchet.training.launch", spec.model_copy(update={"work_dir": draft.path}), draft, name, follow,
        forkable=True,
    )  # fmt: skip
    keep_newest(draft.path / CHECKPOINTS, training.keep_checkpoints if spec.kind == "stage" else 0)
