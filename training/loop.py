"""One stage of reinforcement learning, written as the algorithm."""

import json
import time
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from ratchet.infra.inference.protocol import Sampling
from ratchet.infra.recipe.training import Stage, Training
from ratchet.infra.store.files import write_atomically
from ratchet.training import ranks
from ratchet.training.alarms import alarms, memory
from ratchet.training.batches import Batches, Collected
from ratchet.training.checkpoint import Checkpoints, Stopped
from ratchet.training.curriculum import Curriculum
from ratchet.training.groups import describe, samples
from ratchet.training.journal import Journal
from ratchet.training.learner import Learner
from ratchet.training.rollout import RolloutWorker, pass_rate
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import Problem

SAMPLES_EVERY = 20
"""Steps between samples of rollouts to read: enough to follow a stage, and few enough to read."""


class Journals:
    """A stage's journals, continued after `last_step`."""

    def __init__(self, work: Path, last_step: int, rank: int) -> None:
        files = (work / f"{name}.jsonl" for name in ("metrics", "decisions", "samples"))
        self.metrics, self.decisions, self.samples = (Journal(file, last_step, rank) for file in files)
        self.bad_batch = work / "bad_batch.json"

    def sync(self) -> None:
        for journal in (self.metrics, self.decisions, self.samples):
            journal.sync()


def train(
    stage: Stage, seed: int, training: Training, curriculum: Curriculum, worker: RolloutWorker, batches: Batches,
    learner: Learner, checkpoints: Checkpoints, journals: Journals, validation: Mapping[str, Sequence[Problem]],
) -> None:  # fmt: skip
    """Run the stage from the curriculum's state to its end. Collective. The last step always has a checkpoint. Raises
    Stopped after a checkpoint if the stage was asked to end."""
    journals.decisions.take(curriculum.decisions)
    saving_s = 0.0
    while not curriculum.finished:
        clock = Clock()
        batch = curriculum.draw()
        learner.stage = batch.stage
        collected = batches.collect(batch)
        clock.lap("rollout_seconds")

        try:
            learned = learner.learn(collected.groups, batch.temperature)
        except RatchetError:
            if ranks.rank() == 0:
                write_atomically(journals.bad_batch, json.dumps(_rows(collected, curriculum.state.step + 1), indent=1))
            raise
        curriculum.advance()
        clock.lap("update_seconds")

        score, best, rates = None, False, dict[str, float]()
        if curriculum.validation_due:
            rates = validate(batch.stage, seed, worker, validation)
            score = blend(stage, rates)
            best = curriculum.interventions.record_validation(score)
            clock.lap("validation_seconds")
        sampled = describe(collected.sampled, stage)
        taken = curriculum.intervene(score, sampled | learned)
        for reset in (each.reset for each in taken if each.reset):  # one at most
            learner.reset(optimizer=reset != "reference")

        step = curriculum.state.step
        tokens = sum(len(r.response) for g in collected.sampled for r in g.rollouts)
        record: dict[str, Any] = {
            "step": step, "steps": stage.steps, "time": time.time(),
            **sampled, **learned, **worker.sampler.facts,
            "epoch": float(batch.epoch), "active_prompts": float(sum(curriculum.active.values())),
            "temperature": batch.temperature, "max_response_tokens": float(batch.stage.max_response_tokens),
            "resets": float(curriculum.interventions.resets), "sampled_tokens": float(tokens),
        }  # fmt: skip
        if stage.interventions:
            record["interventions"] = float(len(curriculum.interventions.state.taken))
        if stage.dynamic_sampling_rounds:
            record |= {
                "sampling_rounds": float(collected.rounds), "learned_groups": float(len(collected.groups)),
                "carried_groups": float(len(batches.surplus)), "short_batch": float(collected.missing.total()),
            }  # fmt: skip
        if len(stage.domains) > 1:
            record |= {f"{domain}/active_prompts": float(count) for domain, count in curriculum.active.items()}
            if stage.dynamic_sampling_rounds:
                record |= {f"{domain}/short_batch": float(collected.missing[domain]) for domain in stage.domains}
        if score is not None:
            record["validation"] = score
            record |= {f"validation/{name}": rate for name, rate in rates.items()} if len(rates) > 1 else {}
        warnings = alarms(record)
        record |= {
            **memory(), **clock.laps, "seconds": clock.total, "judge_wait_seconds": worker.judge_wait_s,
            "checkpoint_seconds": saving_s, "tokens_per_second": tokens / clock.total,
        }  # fmt: skip
        words = {"alarms": warnings, "intervened": [each.words for each in taken]}
        journals.metrics.write(record | {name: said for name, said in words.items() if said})
        journals.decisions.take(curriculum.decisions)
        if step % SAMPLES_EVERY == 0 or curriculum.finished:
            journals.samples.take(samples(collected.sampled, step, worker.tokenizer))
        stop = checkpoints.stop_asked() and not curriculum.finished
        if best or stop or curriculum.finished or step % training.checkpoint_every == 0:
            saving = time.perf_counter()
            journals.sync()
            state = {part: owner.state_dict() for part, owner in stateful(curriculum, learner, batches).items()}
            checkpoints.save(step, state, score)
            saving_s = time.perf_counter() - saving
        if stop:
            raise Stopped(step)


def stateful(curriculum: Curriculum, learner: Learner, batches: Batches) -> dict[str, Any]:
    """The parts of a checkpoint's state besides the policy, by name."""
    return {"curriculum": curriculum, "learner": learner, "batches": batches}


def validate(
    stage: Stage, seed: int, worker: RolloutWorker, validation: Mapping[str, Sequence[Problem]]
) -> dict[str, float]:
    """Mean pass rate on each benchmark, with the same seeds each time, so that scores compare. Collective."""
    sampling = Sampling(temperature=1.0, max_tokens=stage.max_response_tokens)
    rates = {}
    for name, problems in validation.items():
        rollouts, seeds = stage.advanced.validation_rollouts, (seed, stage.name, "validation")
        mine = worker.pass_counts(problems, rollouts, sampling, seeds)
        counts = dict(chain.from_iterable(ranks.gather(list(mine))))
        rates[name] = sum(pass_rate(*counts[problem.problem_id]) for problem in problems) / len(problems)
    return rates


def blend(stage: Stage, rates: Mapping[str, float]) -> float:
    weights = {name: stage.validation.get(name, 1.0) for name in rates}
    return sum(weights[name] * rate for name, rate in rates.items()) / sum(weights.values())


class Clock:
    def __init__(self) -> None:
        self._started = self._last = time.perf_counter()
        self.laps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name], self._last = now - self._last, now

    @property
    def total(self) -> float:
        return time.perf_counter() - self._started


def _rows(collected: Collected, step: int) -> list[dict[str, Any]]:
    return [
        {
            "step": step, "problem_id": r.problem_id, "sample": r.sample, "prompt_tokens": len(r.prompt),
            "response_tokens": len(r.response), "outcome": r.outcome.value, "reward": reward, "advantage": advantage,
            "least_logprob": float(r.logprobs.min(initial=0.0)),
        }
        for g in collected.groups
        for r, reward, advantage in zip(g.rollouts, g.rewards, g.advantages.values, strict=True)
    ]  # fmt: skip
