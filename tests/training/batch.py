"""Batches to learn from, and what an update did: the same numbers in every test and on every rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from deepspeed.utils import safe_get_full_optimizer_state

from ratchet.infra.recipe.stage import StageDetails
from ratchet.infra.recipe.training import Hardware, Optimizer, Stage
from ratchet.training.groups import Group, Rollout, group
from ratchet.training.learner import Learner
from ratchet.training.policy import Policy
from ratchet.verifiers.outcome import Outcome

PASSED, FAILED, INFRA = Outcome.PASSED, Outcome.FAILED, Outcome.INFRA_ERROR

EACH_LOSS = (
    {}, {"loss": "dr_grpo", "advantage": "dr_grpo"}, {"loss": "gspo", "kl_coefficient": 0.1},
    {"loss": "cispo", "advantage": "rloo", "entropy_bonus": 0.01},
)  # fmt: skip


def stage(**settings) -> Stage:
    """Without a limit to the mismatch: the log-probabilities of `rollout` are made up. With a learning rate of 0, which
    a recipe cannot have, an update measures and changes nothing."""
    mix = {} if "mix" in settings else {"domain": "math"}
    given = {"name": "s", "max_response_tokens": 16, "steps": 5, "learning_rate": 1e-3, "mismatch_limit": None}
    given |= mix | settings
    advanced = {name: given.pop(name) for name in StageDetails.model_fields if name in given}
    if given["learning_rate"]:
        return Stage(**given, advanced=advanced)
    return Stage(**given | {"learning_rate": 1.0}, advanced=advanced).model_copy(update={"learning_rate": 0.0})


def rollout(
    problem: int, sample: int, outcome: Outcome, truncated: bool = False, fraction: float = 0.0, domain: str = "math",
    version: int = 0,
) -> Rollout:  # fmt: skip
    """One response of random tokens; the engine claims that each had a probability near that of a random model."""
    random = np.random.default_rng(100 * problem + sample)
    prompt = random.integers(3, 300, random.integers(3, 9)).astype(np.int32)
    response = random.integers(3, 300, random.integers(2, 12)).astype(np.int32)
    logprobs = random.normal(-5.8, 0.3, len(response)).astype(np.float32)
    return Rollout(f"p{problem}", domain, sample, prompt, response, logprobs, truncated, outcome, fraction, "", version)


def groups(seed: int, version: int = 0, count: int = 5, **settings) -> list[Group]:
    """Groups of four with one or two right responses, one with an infra error, one where all are right."""
    rollouts = []
    for problem in range(10 * seed, 10 * seed + count):
        for sample in range(4):
            outcome = PASSED if sample <= problem % 2 or problem % 5 == 4 else FAILED
            outcome = INFRA if problem % 5 == 3 and sample == 3 else outcome
            rollouts.append(rollout(problem, sample, outcome, version=version))
    return group(rollouts, stage(**settings))


def learn_in_parts(learns: Learner, batch: list[Group], temperature: float) -> dict[str, float]:
    """The batch's groups one by one as if each had just finished, the last one first."""
    for members in batch[::-1]:
        learns.learn_early([members], temperature)
    return learns.learn(batch, temperature)


def moved(scored: list[Group]) -> list[Group]:
    """Groups with old log-probabilities as if the policy had moved since: some ratios are clipped, some are not."""
    random = np.random.default_rng(0)

    def noisy(old: np.ndarray) -> np.ndarray:
        return (old + random.normal(0, 0.15, len(old))).astype(np.float32)

    return [replace(g, old_logprobs=tuple(map(noisy, g.old_logprobs or ()))) for g in scored]


def learner(model: str, hardware: Hardware | None = None, **settings) -> tuple[Policy, Learner]:
    """A fresh policy that does not clip gradients, and its learner."""
    asked = stage(**settings)
    reference = (asked.advanced.reference_model or model) if asked.kl_coefficient else None
    policy = Policy(model, hardware or Hardware(), Optimizer(max_gradient_norm=1e9), reference)
    return policy, Learner(policy, asked)


def gradient(policy: Policy) -> dict[str, torch.Tensor]:
    """The gradient of the first update, from what AdamW remembers of it: its first moment is (1 - β₁) g. Collective."""
    found = {}
    for name, weight in policy.model.named_parameters():
        if policy.hardware.sharding:
            moment = safe_get_full_optimizer_state(weight, "exp_avg")
        else:
            moment = policy._adam.state[weight]["exp_avg"]
        found[name] = moment.detach().clone() / (1 - Optimizer().betas[0])
    return found


def weights(policy: Policy) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in policy.whole_model().named_parameters()}


def same_bits(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def largest_difference(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    """Over all parameters, relative to the largest entry of the parameter."""
    assert one.keys() == other.keys()
    return max(float((one[n] - other[n]).abs().max() / one[n].abs().max().clamp(min=1e-12)) for n in one)
