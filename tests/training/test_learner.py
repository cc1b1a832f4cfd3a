import numpy as np
import pytest
import torch

from infra.errors import RatchetError
from infra.recipe.model import Hardware, Optimizer, Stage
from training.groups import group
from training.learner import Learner
from training.policy import Policy
from training.rollout import Rollout
from verifiers.outcome import Outcome


def stage(**settings) -> Stage:
    return Stage(
        **{"name": "s", "domain": "math", "max_response_tokens": 16, "steps": 5, "learning_rate": 1e-3, **settings}
    )


def rollout(problem: int, sample: int, outcome: Outcome, truncated: bool = False, fraction: float = 0.0, domain="math"):
    random = np.random.default_rng(100 * problem + sample)
    response = random.integers(3, 300, random.integers(2, 9)).astype(np.int32)
    return Rollout(
        f"p{problem}", domain, sample, np.arange(3, 8, dtype=np.int32), response, np.zeros(len(response), np.float32),
        truncated, outcome, fraction, "",
    )  # fmt: skip


PASSED, FAILED, INFRA = Outcome.PASSED, Outcome.FAILED, Outcome.INFRA_ERROR


def learnt(micro_model: str, rollouts: list[Rollout], **settings):
    policy = Policy(micro_model, Hardware(), Optimizer())
    metrics = Learner(policy, stage(**settings)).learn(group(rollouts, stage(**settings)), 1.0)
    return metrics, [weight.detach().clone() for weight in policy.model.parameters()]


def mixed(problem: int) -> list[Rollout]:
    return [rollout(problem, sample, PASSED if sample == problem % 3 else FAILED) for sample in range(3)]


def equal(weights, others) -> bool:
    return all(torch.equal(a, b) for a, b in zip(weights, others, strict=True))


@pytest.mark.parametrize(
    ("extra", "settings"),
    [
        (rollout(1, 9, INFRA), {}),
        (rollout(1, 9, Outcome.UNPARSEABLE, truncated=True), {"truncation": "mask"}),
    ],
)
def test_a_masked_sample_is_a_removed_sample(alone, micro_model, extra, settings):
    without = mixed(0) + mixed(1)
    _, weights = learnt(micro_model, without, **settings)
    _, masked = learnt(micro_model, [*without, extra], **settings)
    assert equal(weights, masked)
    _, counted = learnt(micro_model, [*without, rollout(1, 9, FAILED)], **settings)
    assert not equal(weights, counted)


def test_a_truncated_sample_with_zero_reward_is_learnt_from(alone, micro_model):
    cut = rollout(1, 9, Outcome.UNPARSEABLE, truncated=True)
    _, weights = learnt(micro_model, mixed(0) + mixed(1))
    _, others = learnt(micro_model, [*mixed(0), *mixed(1), cut])
    assert not equal(weights, others)


def test_groups_without_variance_move_nothing(alone, micro_model):
    start = [weight.detach().clone() for weight in Policy(micro_model, Hardware(), Optimizer()).model.parameters()]
    same = [rollout(0, s, PASSED) for s in range(3)] + [rollout(1, s, FAILED) for s in range(3)]
    metrics, weights = learnt(micro_model, same)
    assert equal(start, weights)
    assert metrics["skipped_updates"] == 1 and metrics["trained_tokens"] == 0


def test_tokens_of_groups_without_variance_count_in_the_denominator(alone, micro_model):
    metrics, _ = learnt(micro_model, mixed(0))
    diluted, _ = learnt(micro_model, mixed(0) + [rollout(1, s, PASSED) for s in range(3)])
    tokens = [sum(len(rollout(problem, s, PASSED).response) for s in range(3)) for problem in (0, 1)]
    assert diluted["grad_norm"] == pytest.approx(metrics["grad_norm"] * tokens[0] / sum(tokens), rel=1e-4)
    assert diluted["trained_tokens"] == metrics["trained_tokens"] == tokens[0]


def test_several_updates_deal_the_batch_by_prompt_and_clip_against_the_old_policy(alone, micro_model):
    rollouts = [r for problem in range(4) for r in mixed(problem)]
    once, one = learnt(micro_model, rollouts)
    twice, two = learnt(micro_model, rollouts, updates_per_batch=2)
    assert once["clip_fraction"] == 0 and not equal(one, two)
    tight, _ = learnt(micro_model, rollouts, updates_per_batch=2, clip_low=1e-6, clip_high=1e-6)
    assert tight["clip_fraction"] > twice["clip_fraction"]


def test_warm_up_counts_optimizer_steps(alone, micro_model):
    learner = Learner(Policy(micro_model, Hardware(), Optimizer()), stage(warmup_steps=4))
    assert [learner.learning_rate(update) for update in range(6)] == pytest.approx(
        [0.25e-3, 0.5e-3, 0.75e-3, *[1e-3] * 3]
    )


def test_a_policy_that_is_not_finite_is_reported(alone, micro_model):
    policy = Policy(micro_model, Hardware(), Optimizer())
    with torch.no_grad():
        policy.model.lm_head.weight.fill_(float("nan"))
    with pytest.raises(RatchetError, match="diverged"):
        Learner(policy, stage()).learn(group(mixed(0), stage()), 1.0)


def test_mismatch_is_measured_against_what_the_engine_reported(alone, micro_model):
    policy = Policy(micro_model, Hardware(), Optimizer())
    metrics = Learner(policy, stage()).learn(group(mixed(0), stage()), 1.0)
    # The rollouts claim probability one for every token; a random model gives each about one in 320.
    assert metrics["mismatch_largest"] > 3
    assert metrics["mismatch_kl"] > 1
    assert 4 < metrics["entropy"] < np.log(320)


def test_code_rewards():
    rollouts = [rollout(0, 0, FAILED, fraction=0.5, domain="code"), rollout(0, 1, PASSED, fraction=1.0, domain="code")]
    assert group(rollouts, stage())[0].rewards == (0.0, 1.0)
    assert group(rollouts, stage(code_reward="fraction"))[0].rewards == (0.5, 1.0)
