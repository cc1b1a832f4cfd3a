"""Validation scores: sampled as the evaluation does, with pass@N beside the mean."""

import pytest

from ratchet.data_curation.base.protocol import Sampling
from ratchet.infra.recipe.evaluation import Evaluation
from ratchet.infra.recipe.training import Stage
from ratchet.training.loop import Validation
from ratchet.verifiers.errors import RatchetError
from tests.training.conftest import sums


class Worker:
    """Judged counts of each problem, by its place; what it was asked to sample with."""

    def __init__(self, counts):
        self.counts, self.samplings = counts, []

    def pass_counts(self, problems, samples, sampling, seed_parts):
        self.samplings.append((samples, sampling))
        for problem, count in zip(problems, self.counts, strict=True):
            yield problem.problem_id, count


def stage(rollouts: int, **weights: float) -> Stage:
    settings = {"name": "s", "domain": "math", "steps": 1, "max_response_tokens": 12, "validation": weights}
    return Stage.model_validate(settings | {"advanced": {"validation_rollouts": rollouts}})


def test_it_samples_as_the_evaluation_does_up_to_the_stages_length(alone):
    worker = Worker([(1, 4), (0, 4), (4, 4), (2, 2)])  # two infra errors in the last
    validation = Validation(0, worker, {"held": sums(4)}, Evaluation(temperature=0.6, top_p=0.95), 0.2)
    metrics = validation.run(stage(4))
    assert worker.samplings == [(4, Sampling(0.6, 0.95, max_tokens=12))]
    assert metrics == {"validation": pytest.approx((0.25 + 0 + 1 + 1) / 4), "validation/pass_at_4": 0.75}


def test_several_benchmarks_are_weighted_in_both_scores(alone):
    worker = Worker([(1, 2), (0, 2)])
    metrics = Validation(0, worker, {"a": sums(2), "b": sums(2)}, Evaluation(), 0.2).run(stage(2, a=3, b=1))
    assert metrics["validation"] == metrics["validation/a"] == 0.25
    assert metrics["validation/pass_at_2"] == metrics["validation/b/pass_at_2"] == 0.5


def test_one_response_has_no_pass_at_n(alone):
    metrics = Validation(0, Worker([(1, 1), (0, 1)]), {"a": sums(2)}, Evaluation(), 0.2).run(stage(1))
    assert metrics == {"validation": 0.5}


def test_an_outage_of_the_judge_is_no_failure_of_the_model(alone):
    some = Worker([(1, 2), (1, 2), (2, 2), (1, 2), (0, 0)])
    assert Validation(0, some, {"a": sums(5)}, Evaluation(), 0.2).run(stage(2))["validation"] == 5 / 8
    assert Validation(0, Worker([(0, 0)]), {"a": sums(1)}, Evaluation(), 1.0).run(stage(2))["validation"] == 0
    with pytest.raises(RatchetError, match="4 of 4 verdicts of validation on a were infrastructure errors"):
        Validation(0, Worker([(0, 0)] * 2), {"a": sums(2)}, Evaluation(), 0.2).run(stage(2))
