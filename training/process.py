"""What one rank does from the specification to the finished model: put the parts together and run them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import transformers

from infra.errors import RatchetError
from infra.problems import Problem, from_table
from infra.recipe.model import Recipe, Stage
from training import growth, loop, ranks, warm_start
from training.checkpoint import Checkpoints, replace_directory
from training.curriculum import Curriculum
from training.journal import Journal
from training.learner import Learner
from training.policy import Policy
from training.rollout import RolloutWorker
from training.sampler import open_sampler
from verifiers.pool import open_pool


def run(spec: dict[str, Any], work: Path) -> int:
    """Run a warm start or a stage; the number of steps it took. Raises RatchetError."""
    _quiet()
    ranks.join()
    if ranks.rank() == 0:
        work.mkdir(parents=True, exist_ok=True)
        (work / "status.json").unlink(missing_ok=True)
    ranks.barrier()
    recipe = Recipe.model_validate(spec["recipe"])
    policy, steps = _warm_start(recipe, spec, work) if spec["kind"] == "warm_start" else _stage(recipe, spec, work)
    draft = work / ".model"
    policy.save_model(draft)
    if ranks.rank() == 0:
        replace_directory(draft, work / "model")
    ranks.leave()
    return steps


def _warm_start(recipe: Recipe, spec: dict[str, Any], work: Path) -> tuple[Policy, int]:
    settings, training = recipe.training.warm_start, recipe.training
    if settings is None:
        if recipe.model.path is None:
            raise RatchetError("model.path is not set and training.warm_start is off: there is no model to train")
        return Policy(recipe.model.path, training.hardware, training.optimizer), 0
    traces = warm_start.read_traces(Path(spec["traces"]))
    path = recipe.model.path or str(_grown(recipe, traces, work))
    optimizer = training.optimizer.model_copy(update={"weight_decay": settings.weight_decay})
    policy = Policy(path, training.hardware, optimizer)
    checkpoints = Checkpoints(work / "checkpoints", policy)
    restored = checkpoints.restore()
    done = restored.step if restored else 0
    samples = warm_start.encode(traces, policy.tokenizer, recipe.model.prompt)
    metrics = Journal(work / "metrics.jsonl", done, policy.rank)
    steps = warm_start.train(settings, recipe.seed, samples, policy, checkpoints, metrics, done)
    return policy, steps


def _grown(recipe: Recipe, traces: list[dict[str, str]], work: Path) -> Path:
    """The model grown from nothing, made once and kept, so that a resumed run starts from the same one."""
    grown, draft = work / "grown", work / ".grown"
    if ranks.rank() == 0 and not grown.is_dir():
        texts = warm_start.tokenizer_texts(traces, recipe.seed)
        growth.grow(recipe.model.grow, texts, recipe.seed, draft)
        replace_directory(draft, grown)
    ranks.barrier()
    return grown


def _stage(recipe: Recipe, spec: dict[str, Any], work: Path) -> tuple[Policy, int]:
    training = recipe.training
    stage = next(stage for stage in training.stages if stage.name == spec["stage"])
    problems, validation = _problems(spec["problems"]), _problems(spec["validation"])
    if stage.plateau_evaluations is not None and not validation.get(stage.domain):
        raise RatchetError(
            f"stage {stage.name} ends on a plateau of its validation score, but there are no held-out {stage.domain} "
            "problems to validate on: add a benchmark of that domain, or remove plateau_evaluations."
        )
    policy = Policy(spec["model_dir"], training.hardware, training.optimizer)
    checkpoints = Checkpoints(work / "checkpoints", policy)
    with (
        open_sampler(policy, training, spec["model_dir"], work) as sampler,
        open_pool(
            training.reward_servers,
            workers=1,
            fraction=stage.code_reward == "fraction",
            minimum_isolation=recipe.verification.minimum_isolation,
        ) as pool,
    ):
        worker = RolloutWorker(policy, sampler, pool, recipe.model.prompt)
        curriculum = Curriculum(stage, recipe.seed, problems, lambda problem: _fits(problem, stage, worker, policy))
        restored = checkpoints.restore()
        if restored:
            curriculum.load_state_dict(restored.state)
        last_step = restored.step if restored else -1
        loop.train(
            stage=stage,
            seed=recipe.seed,
            curriculum=curriculum,
            worker=worker,
            learner=Learner(policy, stage),
            checkpoints=checkpoints,
            checkpoint_every=training.checkpoint_every,
            metrics=Journal(work / "metrics.jsonl", last_step, policy.rank),
            decisions=Journal(work / "decisions.jsonl", last_step, policy.rank),
            validation=validation,
            max_infra_errors=training.max_infra_errors,
        )
    return policy, curriculum.state.step


def _problems(files: dict[str, str]) -> dict[str, list[Problem]]:
    return {domain: from_table(pq.read_table(path)) for domain, path in files.items()}


def _fits(problem: Problem, stage: Stage, worker: RolloutWorker, policy: Policy) -> bool:
    limits = (getattr(policy.model.config, "max_position_embeddings", None), worker.sampler.positions)
    needed = len(worker.prompt(problem)) + stage.max_response_tokens
    return all(limit is None or needed <= limit for limit in limits)


def _quiet() -> None:
    """Progress bars and banners of libraries would drown what this run has to say."""
    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    transformers.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
