"""One batch of judged rollouts to new weights: advantages, micro-batches, updates, and what happened in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import torch

from infra.errors import RatchetError
from infra.recipe.model import Stage
from training import grpo, ranks
from training.policy import MicroBatch, Policy, Sample
from training.rewards import reward
from training.rollout import Rollout
from verifiers.outcome import Outcome

Metrics = dict[str, float]


@dataclass(frozen=True)
class Group:
    """One prompt's rollouts: rewards, which of them count, and their advantages."""

    rollouts: tuple[Rollout, ...]
    rewards: tuple[float, ...]
    valid: tuple[bool, ...]
    advantages: grpo.GroupAdvantages


def group(rollouts: Sequence[Rollout], stage: Stage) -> list[Group]:
    """Rollouts of a batch, adjacent by problem, to groups with rewards and advantages."""
    groups = []
    for _, members in groupby(rollouts, key=lambda rollout: rollout.problem_id):
        members = tuple(members)
        rewards = tuple(reward(r.outcome, r.fraction, r.domain, stage) for r in members)
        valid = tuple(
            r.outcome is not Outcome.INFRA_ERROR and not (r.truncated and stage.truncation == "mask") for r in members
        )
        groups.append(Group(members, rewards, valid, grpo.group_advantages(rewards, valid)))
    return groups


class Learner:
    """Updates the policy from batches of one stage."""

    def __init__(self, policy: Policy, stage: Stage) -> None:
        self._policy, self._stage = policy, stage

    def learning_rate(self, update: int) -> float:
        """Linear warm-up over `warmup_steps` optimizer steps, then constant. `update` counts from 0."""
        warmup = self._stage.warmup_steps
        return self._stage.learning_rate * (min(1.0, (update + 1) / warmup) if warmup else 1.0)

    def learn(self, groups: Sequence[Group], temperature: float, step: int) -> Metrics:
        """The stage's updates from one batch, the same groups on every rank. Collective.

        With one update the policy is the one that sampled, and the ratio is one by construction. With more, the batch
        is dealt into as many parts by prompt, and the trainer's log-probabilities of all of them are taken before the
        first update. Raises RatchetError when the policy has diverged.
        """
        parts = [groups[part :: self._stage.updates_per_batch] for part in range(self._stage.updates_per_batch)]
        work = [(self._micro_batches(part), _token_count(part)) for part in parts]
        if len(parts) > 1:
            work = [([self._with_old(b, temperature) for b in batches], tokens) for batches, tokens in work]
        watch = _TokenWatch()
        norms = []
        for number, (batches, tokens) in enumerate(work):
            if not batches:  # the same on every rank: no group of this part has anything to teach
                continue
            rate = self.learning_rate(step * len(parts) + number)
            loss = self._loss(tokens, watch)
            norms.append(self._policy.update(batches, loss, temperature, rate))
        return {
            **watch.metrics(),
            "grad_norm": sum(norms) / len(norms) if norms else 0.0,
            "learning_rate": self.learning_rate(step * len(parts)),
            "skipped_updates": float(len(parts) - len(norms)),
        }

    def _micro_batches(self, groups: Sequence[Group]) -> list[MicroBatch]:
        """This rank's micro-batches; empty on all ranks when no advantage differs from zero.

        Samples of advantage zero have gradient zero and are not computed; they count in the denominator all the same.
        """
        samples = []
        for members in groups:
            for rollout, advantage in zip(members.rollouts, members.advantages.values, strict=True):
                if advantage:
                    samples.append(Sample(len(samples), rollout.prompt, rollout.response, advantage, rollout.logprobs))
        return self._policy.micro_batches(samples) if samples else []

    def _with_old(self, batch: MicroBatch, temperature: float) -> MicroBatch:
        return replace(batch, old_logprobs=self._policy.score(batch, temperature)[0])

    def _loss(self, tokens: int, watch: _TokenWatch):
        stage, world = self._stage, self._policy.ranks

        def loss(batch: MicroBatch, logprobs: torch.Tensor, entropies: torch.Tensor) -> torch.Tensor:
            if batch.old_logprobs is None:
                if not bool((grpo.on_policy_ratio(logprobs.detach()) == 1).all()):
                    raise RatchetError(
                        f"stage {stage.name}: the policy's log-probabilities are not finite, so it has diverged. "
                        "Lower the stage's learning_rate or training.optimizer.max_gradient_norm."
                    )
                losses = grpo.on_policy_loss(logprobs, batch.weights)
            else:
                clip = (batch.old_logprobs, batch.weights, stage.clip_low, stage.clip_high)
                losses = grpo.clipped_loss(logprobs, *clip)
                watch.add_clipped(grpo.clip_fraction(logprobs.detach(), *clip), batch.mask)
            watch.add(logprobs.detach(), entropies, batch)
            return grpo.token_level(losses, batch.mask, tokens, world)

        return loss


class _TokenWatch:
    """Sums over the tokens that were computed, over all updates and ranks of one batch."""

    def __init__(self) -> None:
        self._sums = dict.fromkeys(("tokens", "entropy", "mismatch_kl", "clip_fraction"), 0.0)
        self._largest = 0.0

    def add(self, logprobs: torch.Tensor, entropies: torch.Tensor, batch: MicroBatch) -> None:
        # k3 of Schulman, "Approximating KL divergence": e^d - d - 1 with d = log π_trainer - log π_engine.
        difference = ((logprobs - batch.sampled_logprobs) * batch.mask).double()
        self._sums["tokens"] += float(batch.mask.sum())
        self._sums["entropy"] += float((entropies * batch.mask).sum())
        self._sums["mismatch_kl"] += float((difference.clamp(max=20).expm1() - difference).sum())
        self._largest = max(self._largest, float(difference.abs().max()))

    def add_clipped(self, clipped: torch.Tensor, mask: torch.Tensor) -> None:
        self._sums["clip_fraction"] += float((clipped * mask).sum())

    def metrics(self) -> Metrics:
        """Means over all ranks' tokens, and the largest difference. Collective."""
        everyone = ranks.gather((self._sums, self._largest))
        total = {name: sum(sums[name] for sums, _ in everyone) for name in self._sums}
        tokens = total.pop("tokens")
        means = {name: value / tokens if tokens else 0.0 for name, value in total.items()}
        return {**means, "mismatch_largest": max(largest for _, largest in everyone), "trained_tokens": tokens}


def _token_count(groups: Sequence[Group]) -> int:
    """N of the token-level loss: response tokens of every valid sample, on all ranks."""
    return sum(
        len(rollout.response)
        for members in groups
        for rollout, valid in zip(members.rollouts, members.valid, strict=True)
        if valid
    )
