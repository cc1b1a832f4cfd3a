"""Evaluate a model: a worker process samples and grades; scores come from the stored generations."""

import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ratchet.data_curation.base.draft import Draft
from ratchet.data_curation.base.openai_engine import check_endpoint
from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.base.prompts import with_templates
from ratchet.data_curation.settings.teacher import Endpoint
from ratchet.evaluation import VERSION
from ratchet.evaluation.benchmarks import load_problems
from ratchet.evaluation.spec import SEED, EvaluationSpec, ModelSpec
from ratchet.infra.inference.engine import ENGINES
from ratchet.infra.recipe.evaluation import CATALOG, Benchmark, Evaluation, benchmark_name
from ratchet.infra.recipe.load import refuse_secrets
from ratchet.infra.recipe.questions import disagreeing
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.recipe.recipe_warnings import recipe_warnings
from ratchet.infra.recipe.training import Stage
from ratchet.infra.store.artifacts import Artifact
from ratchet.infra.store.lineage import stages_up_to
from ratchet.infra.store.manifest import EvaluationManifest, EvaluationResult
from ratchet.tasks import lengths
from ratchet.tasks.contamination import contaminated_items, contamination
from ratchet.tasks.curation import CURATED, benchmark_problems
from ratchet.tasks.inputs import GENERATED, given_checkpoint, given_files
from ratchet.tasks.run_context import RunContext
from ratchet.tasks.step import MODELS, Step, StepOutput, judged_math, log_output, record_isolation, run_step
from ratchet.tasks.traces import OWN_TRACES
from ratchet.tasks.training import check_machines, check_trainable_model
from ratchet.tasks.worker import MetricsFollower, run_worker
from ratchet.verifiers.domains import code_of, domain_of
from ratchet.verifiers.errors import RatchetError, nearest


def _log(output: StepOutput) -> None:
    """Scores, also on the run's page, against the steps of training; what they were measured on."""
    run, tracking, manifest = output.run, output.tracking, EvaluationManifest.of(output.artifact)
    for page in (output.child, run.root):
        tracking.event("tags", page, tags={"ratchet.score": output.artifact.summary})
    if manifest.warnings:
        tracking.event("tags", output.child, tags={"ratchet.warnings": "\n".join(manifest.warnings)[:5000]})
    trained = sum(stage.manifest.counts["steps"] for stage in stages_up_to(output.inputs[0], run.made_from))
    tracking.metrics(run.root, manifest.metrics, trained)
    scored: dict[str, Any] = {}
    if not output.cached and output.inputs[0].kind in MODELS:
        benchmarks = [facts["name"] for facts in manifest.parameters["benchmarks"]]
        asked = [read for read in output.inputs if read.kind == "problems"]
        scored = {"model": output.inputs[0], "datasets": dict(zip(benchmarks, asked, strict=True))}
    log_output(output, scored=scored)


EVALUATE = Step("evaluate", VERSION, "evaluation", resumable=True, log=_log)

Subject = Artifact | Endpoint
"""A checkpoint or a model directory, or a model behind an endpoint."""


Chosen = tuple[Benchmark, Artifact]
"""A benchmark of the recipe and its problems."""


def chosen_benchmarks(run: RunContext) -> list[Chosen]:
    """The recipe's benchmarks with their problems. Raises RatchetError if there is none."""
    benchmarks = run.recipe.evaluation.benchmarks
    if not benchmarks:
        raise RatchetError("evaluation.benchmarks is empty: name at least one benchmark in the recipe.")
    return [(b, _problems(run, b, run.recipe.curation_of(b.domain).columns)) for b in benchmarks]


def _problems(run: RunContext, benchmark: Benchmark, columns: Mapping[str, str]) -> Artifact:
    name, path = benchmark.name, benchmark.path
    if path is None:
        raise RatchetError(f"evaluation.benchmarks: {name} has no path: give its file.")
    files = given_files(run, [path])
    here = path.startswith(GENERATED) or Path(path).expanduser().exists()  # then the data set is named after the file
    if len(files) > 1 and here:
        raise RatchetError(f"{path} matches {len(files)} files, but a benchmark is one file. Name one of them.")
    return benchmark_problems(run, benchmark.domain, files, columns, "" if here else name, benchmark.advanced.window)


def select_benchmarks(recipe: Recipe, names: Sequence[str], samples: int | None) -> Recipe:
    """The recipe with only these benchmarks, its own or the catalog's, and this many responses per question. If
    benchmarks are named, parts that may refer to others are omitted: stages, and the gate."""
    chosen = {benchmark.name: benchmark for benchmark in recipe.evaluation.benchmarks}
    wanted = [benchmark_name(name) for name in names]
    for name in wanted:
        if name not in chosen and name not in CATALOG:
            raise RatchetError(
                f"There is no benchmark {name!r}.{nearest(name, [*chosen, *CATALOG])} The recipe has "
                f"{', '.join(chosen) or 'none'}; "
                f"the catalog has {', '.join(CATALOG)}."
            )
    if wanted:
        chosen = {name: chosen.get(name) or Benchmark.model_validate({"name": name}) for name in wanted}
        training = recipe.training.model_copy(update={"stages": ()})
        recipe = _updated(recipe, after=()).model_copy(update={"training": training, "gate": None, "approve": ()})
    if samples is not None:
        chosen = {name: benchmark.model_copy(update={"samples": samples}) for name, benchmark in chosen.items()}
    if wanted or samples is not None:  # only k that are defined
        for name, benchmark in chosen.items():
            possible = recipe.evaluation.pass_at_of(benchmark)
            if possible != (benchmark.pass_at or recipe.evaluation.pass_at):
                chosen[name] = benchmark.model_copy(update={"pass_at": possible})
    return _updated(recipe, benchmarks=tuple(chosen.values()))


def require_defined(evaluation: Evaluation) -> None:
    """Raises RatchetError that names each benchmark with a k of pass@k, of a `pass_at` that was given, above its number
    of responses."""
    given = evaluation.pass_at if "pass_at" in evaluation.model_fields_set else ()
    undefined = [
        f"{benchmark.name} has {benchmark.samples} responses per question, for {', '.join(beyond)}"
        for benchmark in evaluation.benchmarks
        if (beyond := [f"pass@{k}" for k in benchmark.pass_at or given if k > benchmark.samples])
    ]
    if undefined:
        raise RatchetError(f"{'; '.join(undefined)}: undefined. Raise the benchmark's samples, or set its pass_at.")


def check_evaluation(run: RunContext) -> None:
    """Check the evaluations before hours of curation and training: warn of scores that may not be trusted, and raise
    RatchetError for faults that would end them: a k of pass@k above the number of responses, or a question that no
    response can be graded for."""
    recipe = run.recipe
    if not recipe.evaluation.after:
        return
    for words in () if run.planning else recipe_warnings(recipe):
        run.reporter.warning(words)
    require_defined(recipe.evaluation)
    for benchmark, problems in chosen_benchmarks(run):
        if problems.finished:  # not in a plan
            load_problems(benchmark, problems.kept)


def given_model(run: RunContext, model: str) -> Subject:
    """The model with this name: a checkpoint by its reference, a Hugging Face model by its directory or its name on the
    Hub, or `URL#NAME` of an OpenAI-compatible endpoint, whose key is in OPENAI_API_KEY."""
    if re.match(r"https?://", model):
        base_url, separator, name = model.partition("#")
        if not separator or not name:
            raise RatchetError(f"{model} has no model name: write URL#NAME, e.g. {model.rstrip('#')}#my-model.")
        refuse_secrets(base_url, "--model", "the address")
        return Endpoint(model=name, base_url=base_url)
    artifact = given_checkpoint(run, model)
    if artifact.kind == "model":
        check_trainable_model(run, run.recipe.training, str(artifact.path), trained=False)
    return artifact


def _updated(recipe: Recipe, **evaluation: Any) -> Recipe:
    return recipe.model_copy(update={"evaluation": recipe.evaluation.model_copy(update=evaluation)})


def evaluate_model(
    run: RunContext, subject: Subject, label: str, training: Sequence[Artifact] | None = None
) -> Artifact:
    """Evaluate one model on every benchmark of the recipe: generations, verdicts and scores. Benchmark questions among
    the `training` problems (`contamination`) are flagged; without any the training set is unknown."""
    recipe = run.recipe
    require_defined(recipe.evaluation)
    benchmarks = chosen_benchmarks(run)
    check = (
        contamination(run, [(b.name, b.domain, problems) for b, problems in benchmarks], training) if training else None
    )
    settings = _settings(recipe, label, benchmarks)

    def make(draft: Draft[EvaluationResult]) -> None:
        from ratchet.evaluation.scores import flat  # imports pandas, which planning does not need
        from ratchet.evaluation.tables import estimate, warnings

        spec = EvaluationSpec(
            model=_model(subject),
            label=label,
            prompt=recipe.model.prompt,
            evaluation=recipe.evaluation,
            training=recipe.training,
            verification=recipe.verification,
            problems={b.name: problems.kept for b, problems in benchmarks},
            set_aside={b.name: _set_aside(problems) for b, problems in benchmarks},
            contaminated=contaminated_items(check) if check else None,
            store_dir=run.settings.home / "generations",
            work_dir=draft.path,
        )
        if any(domain_of(b.domain).runs_programs for b, _ in benchmarks):
            record_isolation(draft, recipe.verification, recipe.training.reward_servers)
        follow = EvaluationFollower(run, draft.tracking_id, draft.path / "progress.jsonl")
        sampled = isinstance(subject, Artifact)
        run_worker(
            run, "ratchet.evaluation.main", spec, draft, f"evaluate-{label}", follow, once=True, here=not sampled,
            forkable=sampled and recipe.training.engine.kind == "transformers",
        )  # fmt: skip
        (draft.path / "progress.jsonl").unlink(missing_ok=True)  # times are not part of the content
        scores = json.loads((draft.path / "scores.json").read_text())
        every = {f"{name}/{key}": v for name, s in scores["benchmarks"].items() for key, v in flat(s).items()}
        draft.result.metrics = {name: value for name, value in every.items() if value is not None}
        draft.result.headline = "   ".join(
            f"{name} pass@1 {estimate(s['pass_at']['1'])}" for name, s in scores["benchmarks"].items()
        )
        draft.result.shown = ["scores.json"]
        draft.result.warnings = [
            f"{name}: {words}" for name, s in scores["benchmarks"].items() for words in warnings(s)
        ]
        for words in draft.result.warnings:
            run.reporter.warning(words)

    inputs = [subject] if isinstance(subject, Artifact) else []
    inputs += [*(problems for _, problems in benchmarks), *([check] if check else [])]
    parameters = settings
    if isinstance(subject, Endpoint):
        parameters["endpoint"] = {"base_url": subject.base_url, "model": subject.model}
    engine = [ENGINES.path(recipe.training.engine.kind)] if isinstance(subject, Artifact) else []
    whole = [problems for _, problems in benchmarks]  # including the rejected rows
    return run_step(
        run, EVALUATE, label, parameters=parameters, inputs=inputs, make=make, whole=whole,
        check=lambda: _check(run, subject, benchmarks),
        code=[*code_of(b.domain for b, _ in benchmarks), *engine],
    )  # fmt: skip


def _check(run: RunContext, subject: Subject, benchmarks: Sequence[Chosen]) -> None:
    """Raises RatchetError if the engine or the endpoint is not available, or a prompt does not fit. An endpoint with
    stored answers is not checked: these may suffice, and the evaluation waits for it."""
    if isinstance(subject, Artifact):
        check_machines(run.settings, run.recipe.training)
        lengths.check_evaluation_length(run, subject, benchmarks)
        return
    generations = run.settings.home / "generations"
    stored = (json.loads(file.read_text()) for file in generations.glob("*/settings.json"))
    if not any(facts.get("model") == _identity(subject) for facts in stored):
        check_endpoint(subject.base_url, os.environ.get(subject.api_key_env))


def _identity(endpoint: Endpoint) -> str:
    return f"{endpoint.base_url}#{endpoint.model}"


def _settings(recipe: Recipe, label: str, benchmarks: Sequence[Chosen]) -> dict[str, Any]:
    """The settings that decide the scores, for the artifact's key."""
    evaluation = recipe.evaluation
    return {
        "label": label,
        "benchmarks": [b for b, _ in benchmarks],
        "prompt": with_templates(recipe.model.prompt, [b.domain for b, _ in benchmarks]),
        "sampling": {
            "temperature": evaluation.temperature, "top_p": evaluation.top_p, "max_tokens": evaluation.max_tokens
        },
        "seed": SEED,
        "pass_at": list(evaluation.pass_at),
        "dtype": recipe.training.hardware.dtype,
        "rollout_batch": recipe.training.hardware.rollout_batch,
        "engine": recipe.training.engine,
        **judged_math(recipe.verification, [b.domain for b, _ in benchmarks]),
    }  # fmt: skip


def _set_aside(problems: Artifact) -> dict[str, int]:
    """Rows of the benchmark's file that are no question of it, by reason; not those outside its window."""
    asked = from_table(pq.read_table(problems.kept))
    different = disagreeing(asked)
    conflicts = Counter(different[problem.problem_id] for problem in asked if problem.problem_id in different)
    repeats = len(asked) - conflicts.total() - len({p.problem_id for p in asked} - different.keys())
    rows = pq.read_table(problems.rejected, columns=["rule", "evidence"]).to_pylist()
    evidence = [json.loads(row["evidence"]) for row in rows if row["rule"] != "outside_window"]
    reasons = Counter(f"{e.get('field', 'row')}: {e.get('reason', 'of another domain')}" for e in evidence)
    return {**reasons, **conflicts, **({"row: repeats another": repeats} if repeats else {})}


def _model(subject: Subject) -> ModelSpec:
    if isinstance(subject, Endpoint):
        return ModelSpec(identity=_identity(subject), endpoint=subject)
    directory = subject.model_directory
    return ModelSpec(identity=subject.content(), directory=directory)


def training_of(run: RunContext, subject: Subject) -> list[Artifact] | None:
    """The curated problems and own traces in the lineage of a checkpoint; None for other models."""
    if isinstance(subject, Endpoint) or subject.kind != "checkpoint":
        return None
    behind = [a for a in run.store.ancestors([subject]) if a.kind in ("problems", "traces") and a.finished]
    return [each for each in behind if each.manifest.step in (CURATED.name, OWN_TRACES.name)]


def validation_problems(run: RunContext, stage: Stage) -> dict[str, Artifact]:
    """The validation problems of a stage, by benchmark."""
    validated = run.recipe.validation_benchmarks(stage)
    return {b.name: problems for b, problems in chosen_benchmarks(run) if b in validated} if validated else {}


class EvaluationFollower(MetricsFollower):
    """A follower of an evaluation, which shows the number of responses, and why it waits."""

    def _record(self, record: dict[str, Any]) -> None:
        if "note" in record:
            self.run.reporter.note(record["note"])  # at once: it may be the last for hours
        else:
            self.run.reporter.progress(record["done"], record["total"], {})
