"""Advantages against their equations, in float64 with numpy, and what must be true of all of them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.training.advantages import ADVANTAGES, AdvantageOutputs, GroupRewards
from ratchet.training.groups import group, group_from_json, group_to_json, with_advantages
from ratchet.verifiers.errors import RatchetError
from tests.training.batch import FAILED, INFRA, PASSED, rollout, stage

BATCH = st.lists(
    st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.25, 0.7, 1.0]), st.integers(1, 50)), max_size=9),
    min_size=1, max_size=6,
)  # fmt: skip


def computed(name: str, groups: list[GroupRewards]) -> list[list[float]]:
    return [list(values) for values in ADVANTAGES.get(name)(groups, stage()).values]


def of(rewards: list[float], lengths: list[int] | None = None) -> GroupRewards:
    return GroupRewards(tuple(rewards), tuple(lengths or [1] * len(rewards)))


def reference(name: str, groups: list[GroupRewards]) -> list[np.ndarray]:
    """From the equations; what they leave open (no deviation, a group of one) is zero."""
    rewards = [np.array(each.rewards) for each in groups]
    centered = [r - r.mean() if len(r) > 1 else np.zeros(len(r)) for r in rewards]
    if name == "grpo":
        return [c / (r.std() + 1e-6) if len(r) > 1 else c for c, r in zip(centered, rewards, strict=True)]
    if name == "dr_grpo":
        return centered
    if name == "none":
        return [np.zeros(len(r)) for r in rewards]
    if name == "rloo":
        others = [[np.delete(r, i).mean() for i in range(len(r))] if len(r) > 1 else r for r in rewards]
        return [r - np.array(other) for r, other in zip(rewards, others, strict=True)]
    every = np.concatenate(
        [
            np.repeat(r, each.lengths)
            for r, each in zip(centered if "baseline" in name else rewards, groups, strict=True)
        ]
    )
    if not len(every) or every.std() < 1e-9:
        return [np.zeros(len(r)) for r in rewards]
    normalized = centered if "baseline" in name else rewards
    return [(r - every.mean()) / every.std() for r in normalized]


@pytest.mark.parametrize("name", ADVANTAGES.shipped)
@given(BATCH)
def test_against_the_equation(name, batch):
    groups = [of([r for r, _ in each], [n for _, n in each]) for each in batch]
    for found, wanted in zip(computed(name, groups), reference(name, groups), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ADVANTAGES.shipped)
@pytest.mark.parametrize("reward", [0.1, 0.7, 1 / 3, 1.0, 0.0])
def test_equal_rewards_give_exactly_zero(name, reward):
    groups = [of([reward] * 16), of([reward] * 16)]
    assert all(g.nothing_to_compare for g in groups)
    assert computed(name, groups) == [[0.0] * 16] * 2


def test_a_batch_tells_what_a_group_cannot():
    """A prompt that every response solves teaches where it is compared with the batch."""
    solved, failed = [of([1.0] * 2), of([0.0] * 2)], [of([1.0] * 2), of([0.0] * 2)]
    assert computed("reinforce_pp", solved) == [[1.0, 1.0], [-1.0, -1.0]]
    assert computed("reinforce_pp_baseline", failed) == computed("grpo", failed) == [[0.0, 0.0], [0.0, 0.0]]


def outcomes(problem: int, *found, domain: str = "math") -> list:
    return [rollout(problem, i, outcome, domain=domain) for i, outcome in enumerate(found)]


@pytest.mark.parametrize("name", ADVANTAGES.shipped)
def test_a_sample_that_is_not_valid_is_as_if_it_were_not_there(name):
    rollouts = [*outcomes(0, PASSED, INFRA, FAILED, PASSED, FAILED), *outcomes(1, FAILED, FAILED, PASSED)]
    kept = [r for r in rollouts if r.outcome is not INFRA]
    masked, removed = (group(each, stage(advantage=name, kl_coefficient=1.0)) for each in (rollouts, kept))
    assert masked[0].advantages.values[1] == 0.0
    values = [a for g in masked for a, ok in zip(g.advantages.values, g.valid, strict=True) if ok]
    assert values == [a for g in removed for a in g.advantages.values]


def test_groups_know_what_is_equal_and_what_was_measured():
    one, other = group([*outcomes(0, PASSED, FAILED, FAILED, FAILED), *outcomes(1, PASSED, INFRA)], stage())
    assert not one.advantages.zero_variance and other.advantages.zero_variance
    assert one.advantages.metrics == {"group_std": pytest.approx((3 / 16) ** 0.5 / 2)}
    assert group_from_json(group_to_json(one)).advantages == one.advantages


def test_a_group_that_differs_by_its_lengths_alone_has_nothing_to_compare():
    """Dynamic sampling replaces it, as one that has no penalties (DAPO, equation 11)."""
    failed = [replace(r, truncated=r.sample == 3) for r in outcomes(0, *[FAILED] * 4)]
    [members] = group(failed, stage(unfinished_penalty=0.5))
    assert members.rewards == (0.0, 0.0, 0.0, -0.5) and members.advantages.zero_variance


def test_the_domains_of_a_batch_are_not_compared():
    rollouts = [*outcomes(0, PASSED, FAILED), *outcomes(1, PASSED, PASSED, domain="code")]
    settings = stage(advantage="reinforce_pp")
    math, code = group(rollouts, settings)
    assert math.advantages.values == (1.0, -1.0) and code.advantages.values == (0.0, 0.0)
    assert with_advantages([code, math], settings) == [code, math]


def too_few(groups, settings) -> AdvantageOutputs:
    return AdvantageOutputs([[1.0] for _ in groups])


def test_an_advantage_must_return_a_number_for_each_reward():
    with pytest.raises(RatchetError, match="too_few must return one number for each reward"):
        group(outcomes(0, PASSED, FAILED), stage(advantage=f"{__name__}:too_few"))


def not_finite(groups, settings) -> AdvantageOutputs:
    return AdvantageOutputs([[1.0, float("inf")] for _ in groups])


def test_what_is_no_number_is_named_with_its_problem_and_its_maker():
    """In the loss it would make the gradient NaN, and the message would blame the learning rate."""
    nan = replace(rollout(0, 1, FAILED), fraction=float("nan"), decided_by="my_judge")
    with pytest.raises(
        RatchetError, match=r"problem p0, response 1: the verifier of math gave the reward nan .*my_judge"
    ):
        group([rollout(0, 0, PASSED), nan], stage(graded=["math"]))
    assert group([rollout(0, 0, PASSED), nan], stage())[0].rewards == (1.0, 0.0)  # the fraction is not the reward
    with pytest.raises(RatchetError, match=r"not_finite made \[1.0, inf\] of the rewards \[1.0, 0.0\] of problem"):
        group(outcomes(0, PASSED, FAILED), stage(advantage=f"{__name__}:not_finite"))
