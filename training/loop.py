"""Train one stage of reinforcement learning, written as the algorithm."""

import time
from collections.abc import Mapping, Sequence
from itertools import chain
from statistics import fmean
from typing import Any

from ratchet.data_curation.base.protocol import Sampling
from ratchet.infra.recipe.evaluation import Evaluation
from ratchet.infra.recipe.training import Stage, Training
from ratchet.training import ranks
from ratchet.training.alarms import Alarms
from ratchet.training.checkpoint import Checkpoints, Stopped
from ratchet.training.curriculum import Curriculum
from ratchet.training.learner import Learner
from ratchet.training.metrics import Metrics, Utilization, samples_to_read, step_record
from ratchet.training.rollout import RolloutWorker, require_verdicts
from ratchet.training.rollout_source import RolloutSource
from ratchet.training.step_logs import StageLogs
from ratchet.verifiers.problem import Problem

SAMPLES_EVERY = 20
"""Steps between samples of rollouts for people: enough to follow a stage, and few enough to read."""
KEPT = "kept/"
"""Prefix of the validation scores for what a stage keeps."""


def train(
    training: Training, curriculum: Curriculum, source: RolloutSource, learner: Learner, validation: "Validation",
    alarms: Alarms, checkpoints: Checkpoints, journals: StageLogs, tokenizer: Any,
) -> None:  # fmt: skip
    """Run the stage from the curriculum's state to its end. Collective. The last step always has a checkpoint. Raises
    Stopped after a checkpoint if the stage was asked to end."""
    utilization = Utilization()
    journals.decisions.take(curriculum.decisions)
    if curriculum.interventions.start_due:
        start = validation.run(curriculum.stage)
        curriculum.interventions.record_start(start["validation"], kept_scores(start))
        # `result: best` returns to it where no later validation is better.
        journals.sync()
        checkpoints.save(0, states(curriculum, learner, source, alarms), start["validation"])
    while not curriculum.finished:
        clock = Clock()
        batch = curriculum.draw()
        learner.stage = batch.stage
        collected = source.collect(batch)
        sampled = source.report(collected)
        clock.lap("rollout_seconds")

        with journals.keep_bad_batch(batch.step + 1, collected.groups):
            learned = learner.learn(collected.groups, batch.temperature)
        step = curriculum.advance()
        clock.lap("update_seconds")

        validated, score, is_best = Metrics(), None, False
        if curriculum.validation_due:
            source.settle()
            validated = validation.run(batch.stage)
            score = validated["validation"]
            is_best = curriculum.interventions.record_validation(score, kept_scores(validated))
            clock.lap("validation_seconds")

        interventions = curriculum.intervene(score, sampled | learned)
        for reset in (each.reset for each in interventions if each.reset):  # one at most
            learner.reset(optimizer=reset != "reference")

        reports = [curriculum.report(batch), sampled, learned, validated]
        reports += [checkpoints.report(), journals.rollouts.report(), utilization.report()]
        record = step_record(reports, clock.seconds(), interventions, alarms)
        journals.metrics.write(record)
        journals.decisions.take(curriculum.decisions)
        if step % SAMPLES_EVERY == 0 or curriculum.finished:
            journals.samples.take(samples_to_read(collected.sampled, step, tokenizer))

        if curriculum.finished:
            source.settle()
            collected.unlearned += source.leftover()
        journals.rollouts.write(step, batch.stage.name, collected.groups, collected.unlearned, tokenizer)

        stop = checkpoints.stop_asked() and not curriculum.finished
        if is_best or stop or curriculum.finished or step % training.checkpoint_every == 0:
            source.settle()
            journals.sync()
            forgot = curriculum.interventions.below_floor
            checkpoints.save(step, states(curriculum, learner, source, alarms), None if forgot else score)
        if stop:
            raise Stopped(step)


def stateful(curriculum: Curriculum, learner: Learner, source: RolloutSource, alarms: Alarms) -> dict[str, Any]:
    """The parts of a checkpoint's state besides the policy, by name."""
    return {"curriculum": curriculum, "learner": learner, "batches": source, "alarms": alarms}


def states(curriculum: Curriculum, learner: Learner, source: RolloutSource, alarms: Alarms) -> dict[str, Any]:
    """The parts of a checkpoint's state as JSON, by name."""
    return {name: part.state_dict() for name, part in stateful(curriculum, learner, source, alarms).items()}


class Validation:
    """Mean rewards on held-out problems by benchmark; they are asked, sampled and read as in the evaluation (ProRL,
    appendix E), with the same seeds each time, so that scores compare. Each benchmark has its worker
    (`RolloutWorker.asking`)."""

    def __init__(
        self, seed: int, workers: Mapping[str, RolloutWorker], problems: Mapping[str, Sequence[Problem]],
        evaluation: Evaluation, max_infra_errors: float,
    ) -> None:  # fmt: skip
        self._seed, self._workers, self._problems, self._evaluation = seed, workers, problems, evaluation
        self._max_infra_errors = max_infra_errors

    def run(self, stage: Stage) -> Metrics:
        """Measure the stage's `validation` score: by the stage's weights, the mean reward without length penalties,
        which is the pass rate unless the domain is graded; `validation/pass_at_N` for N > 1 responses is the share of
        problems that at least one of them solves. With several benchmarks each has its own scores too. Collective.
        Raises RatchetError if too many verdicts were infrastructure errors."""
        settings, samples = self._evaluation, stage.advanced.validation_rollouts
        sampling = Sampling(settings.temperature, settings.top_p, max_tokens=stage.max_response_tokens)
        seed_parts = (self._seed, stage.name, "validation")
        rates, solved, weights = dict[str, float](), dict[str, float](), dict[str, float]()
        for name, problems in self._problems.items():
            mine = list(self._workers[name].scores(problems, samples, sampling, seed_parts, stage.advanced.graded))
            by_id = dict(chain.from_iterable(ranks.gather(mine)))
            scores = [by_id[problem.problem_id] for problem in problems]
            verdicts = [(passed, judged, samples) for passed, judged, _ in scores]
            require_verdicts(verdicts, self._max_infra_errors, f"validation on {name}")
            scores = [each for each in scores if each[1]] or [(0, 1, 0.0)]  # none with max_infra_errors: 1
            rates[name] = fmean(reward / judged for _, judged, reward in scores)
            solved[name] = fmean(passed > 0 for passed, _, _ in scores)
            unnamed = 0.0 if stage.validation or self._domain(name) not in stage.domains else 1.0
            weights[name] = stage.validation.get(name, unnamed)  # what is only kept has none
        if not any(weights.values()):  # unless nothing is of the stage's domains, as after a change of its mix
            weights = dict.fromkeys(weights, 1.0)
        at_n = _blended(weights, solved, f"/pass_at_{samples}") if samples > 1 else {}
        return _blended(weights, rates, "") | at_n | self._kept(stage, rates)

    def _kept(self, stage: Stage, rates: Mapping[str, float]) -> Metrics:
        """`kept/NAME` for each name in `keep`: a benchmark's score, or the mean of a domain's benchmarks."""
        scores = Metrics()
        for name in stage.keep:
            own = [rate for benchmark, rate in rates.items() if name in (benchmark, self._domain(benchmark))]
            scores[f"{KEPT}{name}"] = sum(own) / len(own)
        return scores

    def _domain(self, benchmark: str) -> str:
        return self._problems[benchmark][0].domain


def kept_scores(validated: Metrics) -> dict[str, float]:
    """The scores of what the stage keeps, by name."""
    return {name.removeprefix(KEPT): score for name, score in validated.items() if name.startswith(KEPT)}


def _blended(weights: Mapping[str, float], scores: Mapping[str, float], suffix: str) -> Metrics:
    """The mean by these weights, and with several benchmarks each one's score."""
    mean = sum(weights[name] * score for name, score in scores.items()) / sum(weights.values())
    each = {f"validation/{name}{suffix}": score for name, score in scores.items() if len(scores) > 1}
    return {f"validation{suffix}": mean} | each


class Clock:
    """A clock for the seconds of a step, by phase."""

    def __init__(self) -> None:
        self._started = self._last = time.perf_counter()
        self._laps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        """End the phase of this name."""
        now = time.perf_counter()
        self._laps[name], self._last = now - self._last, now

    def seconds(self) -> Metrics:
        return {**self._laps, "seconds": time.perf_counter() - self._started}
