"""Update the policy from a batch of groups: micro-batches, the stage's loss, optimizer steps and their metrics."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Literal

import numpy as np
import torch

from ratchet.infra.recipe.stage import SequenceImportance, Stage
from ratchet.training import ranks
from ratchet.training.groups import Group
from ratchet.training.losses import LOSSES
from ratchet.training.losses.loss import LossInputs, LossOutputs, misshaped, part_of_step
from ratchet.training.losses.terms import (
    adapted_entropy_coefficient,
    importance_weights,
    kl,
    mismatch,
    sequence_weights,
)
from ratchet.training.metrics import Metrics, advantage_scales
from ratchet.training.packing import MicroBatch, Sample
from ratchet.training.policy import Policy, TokenLoss
from ratchet.verifiers.errors import RatchetError

ENTROPY_STEP = 1e-4
"""Change per step of the entropy's adaptive weight: hundreds of steps to its largest value."""
MAX_ENTROPY_WEIGHT = 5e-3
"""Largest adaptive weight, so that the reward stays the larger part of the loss."""

DECAYS: Mapping[str, Callable[[float], float]] = {
    "constant": lambda progress: 1.0,
    "linear": lambda progress: 1.0 - progress,
    "cosine": lambda progress: (1.0 + math.cos(math.pi * progress)) / 2,
}
"""Share of the learning rate by `lr_scheduler_type`, at a progress from 0 to 1 of the steps after warm-up."""
TOKEN_METRICS = {
    "trained_tokens", "entropy", "mismatch_kl", "importance_weight", "importance_clipped", "masked_responses", "kl",
}  # fmt: skip
"""Metrics of every token, which a loss must not define."""


class Learner:
    """A learner that updates the policy from batches of one stage. All ranks call a *collective* method together."""

    def __init__(self, policy: Policy, stage: Stage) -> None:
        self._policy, self._domains = policy, stage.domains if len(stage.domains) > 1 else ()
        self.stage = stage
        """The stage with its current settings."""
        self._policy_loss = LOSSES.get(stage.loss)
        self._updates = 0  # optimizer steps since the stage's start, including skipped ones
        self._reset_at = 0  # those of them before the last reset, after which warm-up starts again
        self._entropy = stage.advanced.entropy_bonus  # the coefficient in use
        self._adapted = 0.0  # the coefficient while the entropy is below its target
        self._watch = _TokenWatch(self._domains)
        self._early: list[Group] = []  # the current batch's groups that came before `learn`
        self._waiting: list[Group] = []  # those of them whose gradient is not accumulated yet
        self._undivided: Literal["token", "response"] | None = None  # divisor of the accumulated gradient

    def learn_early(self, groups: Sequence[Group], temperature: float) -> None:
        """Accumulate the gradient of finished groups while others of the batch are sampled, as soon as every rank has a
        micro-batch to compute. `learn` later gets all groups, divides by their tokens or responses, and changes the
        weights. Strictly on-policy only. Collective, with the same groups on every rank."""
        self._check_on_policy(groups)
        self._early += groups
        self._waiting += groups
        samples = self._samples(self._waiting)
        if sum(map(len, samples)) >= self._policy.ranks * self._policy.hardware.micro_batch_tokens:
            self._policy.accumulate(self._policy.micro_batches(samples), self._loss(None, temperature), temperature)
            self._waiting = []

    def learn(self, groups: Sequence[Group], temperature: float) -> Metrics:
        """Make the stage's updates from one batch, the same groups on every rank. Collective.

        With one update the ratio is one, and rollouts of other weights are refused, unless the stage allows stale ones:
        importance weights then correct for the weights that sampled each token. With more updates, the batch is divided
        into as many parts by prompt, and the trainer's log-probabilities are computed before the first update. Raises
        RatchetError if the policy has diverged, or is not what the engine sampled from.
        """
        updates = self.stage.updates_per_batch
        parts = [groups[part::updates] for part in range(updates)]
        if updates == 1 and not self.stage.advanced.max_staleness:
            self._check_on_policy(groups)
        early = self._early_share(groups)
        self._measure(groups, temperature)
        work = [self._micro_batches(self._waiting if early else part) for part in parts]
        if updates > 1:
            work = [
                [replace(b, old_logprobs=_old(b, self._policy.score(b, temperature)[0])) for b in batches]
                for batches in work
            ]
        norms, first_rate = [], self.learning_rate(self._updates)
        for part, batches in zip(parts, work, strict=True):
            self._updates += 1
            if not batches and self._undivided is None:  # on every rank: nothing to learn from this part
                continue
            counts = {"token": sum(g.tokens for g in part), "response": sum(sum(g.valid) for g in part)}
            self._policy.accumulate(batches, self._loss(None if early else counts, temperature), temperature)
            divisor = counts[self._undivided] if self._undivided else 1.0
            norms.append(self._policy.step(self.learning_rate(self._updates - 1), divisor))
            if not math.isfinite(norms[-1]) or norms[-1] < 0:  # over all ranks and tokens; DeepSpeed reports -1
                raise RatchetError(
                    f"stage {self.stage.name}: the gradient is not finite, so the policy has diverged. The last "
                    "checkpoint is from before. Lower the stage's learning_rate or "
                    "training.advanced.optimizer.max_gradient_norm; bad_batch.json beside the metrics has the batch."
                )
        metrics = self._watch.metrics() | early
        self._watch, self._early, self._waiting, self._undivided = _TokenWatch(self._domains), [], [], None
        self._check_mismatch(metrics.get("mismatch_kl", 0.0))
        if self.stage.advanced.entropy_target is not None:
            metrics["entropy_coefficient"] = self._entropy
            self._adapt_entropy(metrics.get("entropy"), self.stage.advanced.entropy_target)
        return {
            **metrics, **advantage_scales(groups, self._domains), "learning_rate": first_rate,
            "grad_norm": sum(norms) / len(norms) if norms else 0.0, "skipped_updates": float(updates - len(norms)),
        }  # fmt: skip

    def old_logprobs(self, groups: Sequence[Group], temperature: float) -> list[Group]:
        """The groups with the current policy's log-probabilities, to be learned from later. Collective."""
        samples = [Sample(i, r.prompt, r.response) for i, r in enumerate(r for g in groups for r in g.rollouts)]
        logprobs: dict[int, np.ndarray] = {}
        for batch in self._policy.micro_batches(samples) if samples else ():
            scores = self._policy.score(batch, temperature)[0].cpu().numpy()
            logprobs |= dict(zip(batch.indices, np.split(scores, np.cumsum(batch.lengths)[:-1]), strict=True))
        logprobs = {i: own for rank in ranks.gather(logprobs) for i, own in rank.items()}
        numbers = iter(range(len(samples)))
        return [replace(g, old_logprobs=tuple(logprobs[next(numbers)] for _ in g.rollouts)) for g in groups]

    def reset(self, optimizer: bool = True) -> None:
        """Reset the reference and, unless `optimizer` is False, optimizer and warm-up. Collective."""
        self._policy.reset(optimizer)
        self._reset_at = self._updates if optimizer else self._reset_at

    def learning_rate(self, update: int) -> float:
        """The learning rate of the stage's optimizer step `update`, which counts from 0: linear warm-up over
        `warmup_steps`, after a reset too, then by `lr_scheduler_type`, as transformers' schedules of these names."""
        stage, warmup = self.stage, self.stage.warmup_steps
        warm = min(1.0, (update - self._reset_at + 1) / warmup) if warmup else 1.0
        progress = max(0, update - warmup) / max(1, stage.updates - warmup)
        return stage.learning_rate * warm * DECAYS[stage.lr_scheduler_type](progress)

    def state_dict(self) -> dict[str, Any]:
        updates = {"updates": self._updates, "reset_at": self._reset_at}
        return {**updates, "entropy": self._entropy, "adapted": self._adapted}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._updates, self._reset_at = state["updates"], state.get("reset_at", 0)
        self._entropy, self._adapted = state["entropy"], state["adapted"]

    def _check_on_policy(self, groups: Sequence[Group]) -> None:
        versions = {r.version for g in groups for r in g.rollouts}
        if versions - {self._policy.version}:
            raise RatchetError(
                f"stage {self.stage.name} is strictly on-policy (updates_per_batch: 1), but its rollouts were sampled "
                f"with weights {sorted(versions)}, and the trainer has {self._policy.version}"
            )

    def _early_share(self, groups: Sequence[Group]) -> Metrics:
        """The share of the batch's tokens whose gradient was accumulated before the last response ended. Raises
        RatchetError if that was another batch."""
        if not self._early:
            return {}
        then, now = (sorted((g.problem_id, g.advantages.values) for g in each) for each in (self._early, groups))
        if then != now:
            raise RatchetError(
                f"stage {self.stage.name}: the groups learned from during sampling are not those of the batch, or "
                f"their advantages ({self.stage.advantage}) changed when the batch was complete"
            )
        left, all_tokens = (sum(map(len, self._samples(each))) for each in (self._waiting, self._early))
        return {"learned_early": 1 - left / all_tokens if all_tokens else 0.0}

    def _samples(self, groups: Sequence[Group], learned: bool = True) -> list[Sample]:
        """The samples to learn from, the same on all ranks; or the other valid ones. Without KL term and entropy bonus
        those of advantage zero have no gradient and are left out, but count in the denominator."""
        all_valid = bool(self.stage.kl_coefficient or self._entropy)
        samples = []
        for members in groups:
            old = members.old_logprobs or (None,) * len(members.rollouts)
            each = zip(members.rollouts, members.advantages.values, members.valid, old, strict=True)
            for r, advantage, valid, before in each:
                if valid and bool(advantage or all_valid) == learned:
                    samples.append(Sample(len(samples), r.prompt, r.response, advantage, r.logprobs, before, r.domain))
        return samples

    def _measure(self, groups: Sequence[Group], temperature: float) -> None:
        """Metrics of the tokens without a gradient, by a forward pass over about one micro-batch of them per rank:
        every n-th response, whose tokens stand for those of n. Collective."""
        # As a difference to -log p, which is known for all of them, the estimate would err twice as much (tiny's
        # rollouts): a token's H + log p varies more than its H.
        samples = self._samples(groups, learned=False)
        budget = self._policy.ranks * self._policy.hardware.micro_batch_tokens
        measured = samples[:: math.ceil(sum(map(len, samples)) / budget) or 1]
        all_tokens, tokens = (sum(len(s.response) for s in each) for each in (samples, measured))
        for batch in self._policy.micro_batches(measured) if measured else ():
            now, entropies = self._policy.score(batch, temperature)
            self._watch.observe(now, _old(batch, now), entropies, batch, all_tokens / tokens)

    def _micro_batches(self, groups: Sequence[Group]) -> list[MicroBatch]:
        samples = self._samples(groups)
        return self._policy.micro_batches(samples) if samples else []

    def _loss(self, counts: Mapping[str, int] | None, temperature: float) -> TokenLoss:
        """The stage's loss with its additional terms. `counts`: valid tokens and responses of the optimizer step; None:
        not known yet, so the sum is not divided."""
        stage, policy, watch = self.stage, self._policy, self._watch

        def loss(batch: MicroBatch, logprobs: torch.Tensor, entropies: torch.Tensor) -> torch.Tensor:
            now = logprobs.detach()
            old = now if batch.old_logprobs is None else batch.old_logprobs
            reference = None
            if stage.kl_coefficient and policy.reference is not None:
                reference = policy.reference.score(batch, temperature)
            inputs = LossInputs(
                logprobs=logprobs, old_logprobs=old, sampled_logprobs=batch.sampled_logprobs,
                reference_logprobs=reference, advantages=batch.weights, mask=batch.mask, lengths=batch.lengths,
            )  # fmt: skip
            outputs = self._policy_loss(inputs, stage)
            self._check_outputs(outputs, inputs)
            values = outputs.values
            taught = batch.mask * (batch.weights != 0)  # with a bonus and without, the same tokens are averaged
            for name, metric in outputs.metrics.items():
                watch.add(name, metric, taught)
            if stage.importance_cap is not None:
                log_ratios = old - batch.sampled_logprobs
                means = inputs.sequence_mean(log_ratios)
                if outputs.ratio == "response":
                    log_ratios = means
                if isinstance(stage.importance_cap, SequenceImportance):
                    cap = stage.importance_cap
                    log_ratios = means if cap.tokens is None else log_ratios
                    weights, masked = sequence_weights(log_ratios, means, cap)
                    watch.add("masked_responses", masked, taught / inputs.sequence_lengths())
                else:
                    weights = importance_weights(log_ratios, stage.importance_cap)
                values = values * weights
                watch.add("importance_weight", weights, taught)
                watch.add("importance_clipped", (weights != log_ratios.exp()).float(), taught)
            if reference is not None:
                divergence = kl(logprobs, reference, stage.advanced.kl_estimator)
                values = values + stage.kl_coefficient * divergence
                watch.add("kl", divergence.detach(), batch.mask)
            if self._entropy:
                values = values - self._entropy * entropies
            watch.observe(now, old, entropies.detach(), batch)
            if counts is None:
                self._undivided = outputs.per
            total = counts[outputs.per] if counts else 1
            return part_of_step(values, batch.mask, total * outputs.divisor, policy.ranks)

        return loss

    def _check_outputs(self, outputs: LossOutputs, inputs: LossInputs) -> None:
        wrong = misshaped(outputs, inputs)
        if wrong or TOKEN_METRICS & outputs.metrics.keys():
            raise RatchetError(
                f"stage {self.stage.name}: the loss {self.stage.loss} must return one number per token, and no metric "
                f"called {', '.join(sorted(TOKEN_METRICS))}; see {', '.join(wrong) or 'its metrics'}"
            )

    def _check_mismatch(self, mismatch_kl: float) -> None:
        limit = self.stage.advanced.mismatch_limit
        if limit is not None and mismatch_kl > limit:
            cause = "Are the engine's weights and type the trainer's?"
            if self.stage.advanced.max_staleness:
                cause = "The policy moves faster than its samples: lower learning_rate or max_staleness."
            raise RatchetError(
                f"stage {self.stage.name}: sampling engine and trainer differ by {mismatch_kl:.3g} nats per token "
                f"(mismatch_limit: {limit:g}), so the responses are not the policy's. The last checkpoint is from "
                f"before. {cause}"
            )

    def _adapt_entropy(self, entropy: float | None, target: float) -> None:
        if entropy is not None:  # without gradient nothing is measured
            adapted = adapted_entropy_coefficient(self._adapted, entropy, target, ENTROPY_STEP, MAX_ENTROPY_WEIGHT)
            self._adapted = adapted
            self._entropy = self._adapted if entropy < target else 0.0


def _old(batch: MicroBatch, now: torch.Tensor) -> torch.Tensor:
    """The log-probabilities before the batch's first update; `now` at tokens where none are known."""
    return now if batch.old_logprobs is None else batch.old_logprobs.where(~batch.old_logprobs.isnan(), now)


class _TokenWatch:
    """Sums over the tokens of one batch, all updates and ranks."""

    def __init__(self, domains: Sequence[str]) -> None:
        self._domains = domains
        self._sums: dict[str, tuple[float, float]] = {}  # of values, of their tokens
        self._trained = defaultdict(float, trained_tokens=0.0)  # tokens with a gradient
        self._largest = {"mismatch_largest": 0.0, "ratio_deviation": 0.0}

    def add(self, name: str, values: torch.Tensor, mask: torch.Tensor) -> None:
        total, tokens = self._sums.get(name, (0.0, 0.0))
        self._sums[name] = total + float((values * mask).sum()), tokens + float(mask.sum())

    def observe(
        self, now: torch.Tensor, old: torch.Tensor, entropies: torch.Tensor, batch: MicroBatch,
        stands_for: float | None = None,
    ) -> None:  # fmt: skip
        """Measure valid tokens: their entropy, and the trainer before the first update against the sampling engine, and
        against the trainer now. `stands_for`: tokens without a gradient that each of these stands for; None: these
        have one."""
        weight = 1.0 if stands_for is None else stands_for
        parts = {"": batch.mask}
        for domain in self._domains:
            own = torch.as_tensor(np.repeat([each == domain for each in batch.domains], batch.lengths))
            parts[f"{domain}/"] = batch.mask * own.to(batch.mask.device)
        for prefix, mask in parts.items():
            self.add(f"{prefix}entropy", entropies, weight * mask)
            self._trained[f"{prefix}trained_tokens"] += (stands_for is None) * float(mask.sum())
        difference = (old - batch.sampled_logprobs).double() * batch.mask
        self.add("mismatch_kl", mismatch(difference, torch.zeros_like(difference)), weight * batch.mask)
        ratio = ((now - old).exp() - 1) * batch.mask
        for name, values in (("mismatch_largest", difference), ("ratio_deviation", ratio)):
            self._largest[name] = max(self._largest[name], float(values.abs().max()))

    def metrics(self) -> Metrics:
        """Means over all ranks' tokens, if any, and the largest differences. Collective."""
        sums, largest, trained = zip(*ranks.gather((self._sums, self._largest, self._trained)), strict=True)
        means: Metrics = {}
        for name in dict.fromkeys(chain.from_iterable(sums)):
            total, tokens = map(sum, zip(*(each.get(name, (0.0, 0.0)) for each in sums), strict=True))
            means |= {name: total / tokens} if tokens else {}
        counts = {name: sum(each[name] for each in trained) for name in dict.fromkeys(chain.from_iterable(trained))}
        return means | {name: max(each[name] for each in largest) for name in self._largest} | counts
