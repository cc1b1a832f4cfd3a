"""One stage of reinforcement learning, as the algorithm reads."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from statistics import fmean

from infra.inference.protocol import Sampling
from infra.problems import Problem
from infra.recipe.model import Stage
from training.checkpoint import Checkpoints
from training.curriculum import Curriculum
from training.journal import Journal
from training.learner import Group, Learner, Metrics, group
from training.rewards import check_infra_errors
from training.rollout import Rollout, RolloutWorker
from verifiers.outcome import Outcome

VALIDATION_ROLLOUTS = 4


def train(
    stage: Stage, seed: int, curriculum: Curriculum, worker: RolloutWorker, learner: Learner,
    checkpoints: Checkpoints, checkpoint_every: int, metrics: Journal, decisions: Journal,
    validation: Mapping[str, Sequence[Problem]], max_infra_errors: float,
) -> None:  # fmt: skip
    """Run the stage from the curriculum's state to its end. Collective; the last step always has a checkpoint."""
    if curriculum.state.active is None:
        curriculum.start(_pass_rates(stage, seed, curriculum, worker) if curriculum.needs_pass_rates else None)
    decisions.take(curriculum.decisions)

    while not curriculum.finished:
        started = time.perf_counter()
        batch = curriculum.draw()
        sampling = Sampling(temperature=batch.temperature, max_tokens=stage.max_response_tokens)
        rollouts = worker.run(batch.problems, batch.rollouts, sampling, (seed, stage.name, batch.step))
        sampled = time.perf_counter()
        infra_errors = [r.detail for r in rollouts if r.outcome is Outcome.INFRA_ERROR]
        check_infra_errors(infra_errors, len(rollouts), max_infra_errors)

        groups = group(rollouts, stage)
        learnt = learner.learn(groups, batch.temperature, batch.step)
        curriculum.record({g.rollouts[0].problem_id: all_passed(g) for g in groups})

        record = {
            "step": curriculum.state.step, "steps": stage.steps, "time": time.time(),
            **describe(groups, stage.domain), **learnt, **worker.sampler.facts,
            "infra_errors": float(len(infra_errors)), "epoch": float(batch.epoch),
            "active_prompts": float(len(curriculum.state.active or ())), "temperature": batch.temperature,
        }  # fmt: skip
        if curriculum.validation_due:
            score = _validate(stage, seed, worker, validation)
            curriculum.record_validation(score)
            record["validation"] = score
        ended = time.perf_counter()
        tokens = sum(len(r.response) for r in rollouts)
        record |= {
            "seconds": ended - started, "rollout_seconds": sampled - started, "update_seconds": ended - sampled,
            "tokens_per_second": tokens / (ended - started),
        }  # fmt: skip
        metrics.write(record)
        decisions.take(curriculum.decisions)
        if curriculum.finished or curriculum.state.step % checkpoint_every == 0:
            metrics.sync()
            decisions.sync()
            checkpoints.save(curriculum.state.step, curriculum.state_dict())


def all_passed(members: Group) -> bool:
    return all(r.outcome is Outcome.PASSED for r in members.rollouts)


def describe(groups: Sequence[Group], domain: str) -> Metrics:
    """A batch in numbers. `pass_rate` is over the stage's own domain, `reward` over what is learnt from; an infra
    error counts in neither."""
    rollouts = [r for g in groups for r in g.rollouts]
    rewards = [r for g in groups for r, ok in zip(g.rewards, g.valid, strict=True) if ok]
    facts = {
        "reward": fmean(rewards) if rewards else 0.0,
        "pass_rate": _pass_rate([r for r in rollouts if r.domain == domain]),
        "response_tokens": fmean(len(r.response) for r in rollouts),
        "truncated": fmean(r.truncated for r in rollouts),
        "zero_variance_groups": fmean(g.advantages.zero_variance for g in groups),
    }
    replayed = [r for r in rollouts if r.domain != domain]
    return {**facts, "replay_pass_rate": _pass_rate(replayed)} if replayed else facts


def _pass_rate(rollouts: Sequence[Rollout]) -> float:
    judged = [r.outcome is Outcome.PASSED for r in rollouts if r.outcome is not Outcome.INFRA_ERROR]
    return fmean(judged) if judged else 0.0


def _pass_rates(stage: Stage, seed: int, curriculum: Curriculum, worker: RolloutWorker) -> dict[str, float]:
    first = stage.temperature[0] if isinstance(stage.temperature, tuple) else stage.temperature
    sampling = Sampling(temperature=first, max_tokens=stage.max_response_tokens)
    return worker.pass_rates(curriculum.candidates(), stage.pass_rate_rollouts, sampling, (seed, stage.name, "before"))


def _validate(stage: Stage, seed: int, worker: RolloutWorker, validation: Mapping[str, Sequence[Problem]]) -> float:
    """Mean pass rate on the stage's held-out problems; the same samples' seeds each time, so that scores compare."""
    sampling = Sampling(temperature=1.0, max_tokens=stage.max_response_tokens)
    rates = worker.pass_rates(validation[stage.domain], VALIDATION_ROLLOUTS, sampling, (seed, stage.name, "validation"))
    return fmean(rates.values())
