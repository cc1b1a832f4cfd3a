"""Evaluation of a checkpoint: sampled and graded by a worker process, stored once, scored from what is stored."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from infra.artifacts import Artifact, Draft
from infra.errors import RatchetError
from infra.recipe.model import Recipe, Stage
from tasks.curation import benchmark_problems
from tasks.pipeline_run import active_run
from tasks.step import Step, record_isolation, run_step
from tasks.training import MetricsFollower, run_worker

EVALUATE = Step("evaluate", 3, "evaluation", resumable=True)


def evaluate_checkpoint(recipe: Recipe, checkpoint: Artifact, label: str) -> Artifact:
    """Generations, verdicts and scores of one checkpoint on every benchmark of the recipe."""
    evaluation = recipe.evaluation
    if not evaluation.benchmarks:
        raise RatchetError("evaluation.benchmarks is empty: name at least one benchmark in the recipe.")
    problems = [benchmark_problems(recipe, b.domain, b.path) for b in evaluation.benchmarks]
    sampling = {"temperature": evaluation.temperature, "top_p": evaluation.top_p, "max_tokens": evaluation.max_tokens}
    benchmarks = [{"name": b.name, "domain": b.domain, "samples": b.samples} for b in evaluation.benchmarks]
    settings = {
        "label": label,
        "prompt": recipe.model.prompt.model_dump(mode="json"),
        "sampling": sampling,
        "seed": evaluation.seed,
        "pass_at": list(evaluation.pass_at),
        "dtype": recipe.training.hardware.dtype,
        "rollout_batch": recipe.training.hardware.rollout_batch,
    }
    processes = recipe.training.hardware.processes

    def make(draft: Draft) -> None:
        run = active_run()
        spec = {
            **settings,
            "model_dir": str(_model_directory(checkpoint)),
            "benchmarks": [{**b, "path": str(a.kept)} for b, a in zip(benchmarks, problems, strict=True)],
            "processes": processes,
            "minimum_isolation": recipe.verification.minimum_isolation,
            "reward_servers": list(recipe.training.reward_servers),
            "work_dir": str(draft.path),
        }
        if any(benchmark["domain"] == "code" for benchmark in benchmarks):
            record_isolation(draft, recipe)
        follow = EvaluationFollower(run, draft.path / "progress.jsonl")
        argv = [run.settings.python, "-m", "evaluation.main"]
        run_worker(argv, spec, draft, f"evaluate-{label}", processes, follow)
        scores = json.loads((draft.path / "scores.json").read_text())
        draft.extra["metrics"] = flat_scores(scores)
        draft.extra["headline"] = "   ".join(_headline(name, s) for name, s in scores["benchmarks"].items())
        draft.extra["shown"] = ["scores.json"]

    parameters = {**settings, "benchmarks": benchmarks}
    return run_step(EVALUATE, label, parameters=parameters, inputs=[checkpoint, *problems], make=make)


def validation_problems(recipe: Recipe, stage: Stage) -> dict[str, Artifact]:
    """The validation blend of a stage that stops on a plateau: the recipe's benchmarks, one a domain."""
    if not stage.plateau_evaluations:
        return {}
    return {b.domain: benchmark_problems(recipe, b.domain, b.path) for b in recipe.evaluation.benchmarks}


def given_model(model: str) -> Artifact:
    """A checkpoint of the store by its reference, or a directory with a Hugging Face model."""
    directory = Path(model).expanduser()
    if (directory / "config.json").is_file():
        names_and_sizes = sorted((f.name, f.stat().st_size, f.stat().st_mtime_ns) for f in directory.iterdir())
        key = hashlib.sha256(repr((str(directory.resolve()), names_and_sizes)).encode()).hexdigest()
        return Artifact("model", directory.name or "model", key, directory.resolve())
    artifact = active_run().store.open(model)
    if artifact.kind != "checkpoint":
        raise RatchetError(f"{artifact.ref} is not a checkpoint. `ratchet show checkpoint` lists them.")
    return artifact


def flat_scores(scores: dict[str, Any]) -> dict[str, float]:
    """`<benchmark>/pass_at_1` and so on, with standard errors, for MLflow's metric table."""
    flat: dict[str, float] = {}
    for name, benchmark in scores["benchmarks"].items():
        for k, estimate in benchmark["pass_at"].items():
            flat[f"{name}/pass_at_{k}"] = estimate["value"]
            flat[f"{name}/pass_at_{k}_standard_error"] = estimate["standard_error"]
        flat[f"{name}/truncation_rate"] = benchmark["truncation_rate"]
        flat[f"{name}/response_tokens"] = benchmark["response_tokens"]["all"]["mean"]
    return {name: value for name, value in flat.items() if value is not None}


def _headline(name: str, benchmark: dict[str, Any]) -> str:
    first = benchmark["pass_at"]["1"]
    return f"{name} pass@1 {first['value']:.3f} ± {first['standard_error']:.3f}"


def _model_directory(checkpoint: Artifact) -> Path:
    return checkpoint.path if checkpoint.kind == "model" else checkpoint.path / "model"


class EvaluationFollower(MetricsFollower):
    """Progress of an evaluation: responses done of all."""

    def _record(self, record: dict[str, Any]) -> None:
        self.last = record
        self.run.watcher.progress(record["done"], record["total"], {})
