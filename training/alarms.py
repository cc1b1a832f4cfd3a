"""Warnings about a step's metrics, with advice."""

import math
from collections.abc import Mapping
from statistics import fmean, variance
from typing import Any

LOW_ENTROPY = 0.02
"""Entropy in nats per token below which little is explored."""
MAX_FAILED = 0.5
"""Share of prompts that every response fails, above which low entropy is a collapse and not a solved task."""
MAX_TRUNCATED = 0.5
"""Share of truncated responses above which a step warns."""
MAX_EXPRESSIONS = 0.5
"""Share of passes that only evaluation shows to equal their reference, and of answers left unevaluated, above which a
step warns."""
MAX_MISMATCH = 0.01
"""Divergence between sampling engine and trainer, in nats per token, above which a step warns."""
MAX_MASKED = 0.5
"""Share of responses masked by their importance ratio, above which a step learns from a minority."""
MAX_DRIFT = 0.05
"""The same divergence if the engine may have weights of earlier steps, in nats per token."""
OVER_STEPS = 10
"""Steps that a mean of `all_failed_groups` is taken over."""
MAX_RISE = 0.1
"""Rise of that mean above the least of the stage, which must itself be at most this, beyond `RISE_ERRORS` standard
errors."""
RISE_ERRORS = 3.0


class Alarms:
    """The warnings about a stage's steps, which are checked in their order.

    A policy locks onto a wrong answer when every response to a prompt gives it: such a group has no gradient, and what
    other prompts teach may spread the error. So the share of prompts that every response fails is watched: its mean
    over the last `OVER_STEPS` steps is compared with the least such mean of the stage.
    """

    def __init__(self) -> None:
        self._last: dict[str, list[float]] = {}  # by domain ("" for all): shares of the last steps
        self._least: dict[str, list[float]] = {}  # those of the steps with the least mean
        self._active: dict[str, float] = {}

    def check(self, metrics: Mapping[str, float]) -> dict[str, str]:
        """Warnings about the next step, by name. Metrics kept by domain give warnings by domain, `<domain>/<name>`."""
        warnings = alarms(metrics)
        for prefix in [f"{domain}/" for domain in _domains(metrics)] or [""]:
            if rise := self._rise(prefix, metrics):
                about = f"{prefix[:-1]}: " if prefix else ""
                warnings[f"{prefix}all_failed_groups"] = about + rise
        return warnings

    def _rise(self, prefix: str, metrics: Mapping[str, float]) -> str:
        active = metrics.get(f"{prefix}active_prompts", 0.0)
        if self._active.get(prefix, active) != active:  # a difficulty filter or an intervention changed the prompts
            self._last.pop(prefix)
            self._least.pop(prefix, None)
        self._active[prefix] = active
        last = self._last[prefix] = [*self._last.get(prefix, []), metrics[f"{prefix}all_failed_groups"]][-OVER_STEPS:]
        if len(last) < OVER_STEPS:
            return ""
        least = self._least.setdefault(prefix, last)
        if fmean(last) <= fmean(least):
            self._least[prefix] = last
        rise = fmean(last) - fmean(least)
        error = math.sqrt((variance(last) + variance(least)) / OVER_STEPS)
        if fmean(least) > MAX_RISE or rise <= max(MAX_RISE, RISE_ERRORS * error):
            return ""
        return (
            f"{fmean(last):.0%} of the prompts are failed by every response, and {fmean(least):.0%} were before (means "
            f"over {OVER_STEPS} steps): the policy locks onto wrong answers, which have no gradient. Go back to an "
            "earlier checkpoint with a lower learning_rate, or more prompts_per_batch of this domain"
        )

    def state_dict(self) -> dict[str, Any]:
        return {"last": self._last, "least": self._least, "active": self._active}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._last, self._least, self._active = (dict(state[name]) for name in ("last", "least", "active"))


def _domains(metrics: Mapping[str, float]) -> list[str]:
    return [name.removesuffix("/pass_rate") for name in metrics if name.endswith("/pass_rate")]


def alarms(metrics: Mapping[str, float]) -> dict[str, str]:
    """Warnings about one step, by name, from its metrics alone."""
    domains = _domains(metrics)
    warnings = {} if domains else _sampling(metrics)
    for domain in domains:
        own = {name.removeprefix(f"{domain}/"): v for name, v in metrics.items() if name.startswith(f"{domain}/")}
        of_domain = _sampling({**own, "sampling_rounds": metrics.get("sampling_rounds", 0.0)})
        warnings |= {f"{domain}/{name}": f"{domain}: {words}" for name, words in of_domain.items()}
    mismatch = metrics.get("mismatch_kl", 0.0)
    if "staleness" in metrics and mismatch > MAX_DRIFT:
        warnings["drift"] = (
            f"the policy has moved by {mismatch:.3g} nats per token in the {metrics['staleness']:.1f} batches since "
            "its responses were sampled: lower learning_rate or max_staleness"
        )
    if "staleness" not in metrics and mismatch > MAX_MISMATCH:
        warnings["mismatch"] = (
            f"sampling engine and trainer differ by {mismatch:.3g} nats per token: does the engine have the trainer's "
            "weights? If the cause is precision, set importance_cap"
        )
    if metrics.get("masked_responses", 0.0) > MAX_MASKED:
        warnings["masked_responses"] = (
            f"importance_cap masks {metrics['masked_responses']:.0%} of the responses with an advantage: widen its "
            "band, or find out why engine and trainer differ (mismatch_kl)"
        )
    if metrics.get("short_batch"):
        warnings["short_batch"] = (
            f"batches are {metrics['short_batch']:.0f} prompts short, because the stage's filters leave "
            f"{metrics['active_prompts']:.0f} prompts: raise max_pass_rate or difficulty_filter's limits, let it try "
            "prompts again (skip_epochs), or lower prompts_per_batch"
        )
    if metrics["skipped_updates"] and not metrics.get("trained_tokens"):  # otherwise other updates learned
        warnings["nothing_to_learn"] = "no group has different rewards, so there is nothing to learn from"
    return warnings


def _sampling(metrics: Mapping[str, float]) -> dict[str, str]:
    warnings = {}
    if metrics["pass_rate"] == 0:
        warnings["no_reward"] = (
            "no response passed: is the verifier right, and are the prompts within the model's reach?"
        )
    if metrics["truncated"] > MAX_TRUNCATED:
        warnings["truncation"] = (
            f"{metrics['truncated']:.0%} of the responses were truncated: raise max_response_tokens, or see that they "
            "become shorter (truncation: soft_overlong)"
        )
    if metrics.get("entropy", math.inf) < LOW_ENTROPY and metrics["all_failed_groups"] > MAX_FAILED:
        warnings["entropy"] = (
            f"the entropy is {metrics['entropy']:.3f} nats per token while {metrics['all_failed_groups']:.0%} of the "
            "prompts are failed by every response: it has collapsed. Raise clip_high or temperature, or set "
            "entropy_target"
        )
    rewritten, unevaluated = metrics.get("rewritten", 0.0), metrics.get("unevaluated", 0.0)
    if max(rewritten, unevaluated) > MAX_EXPRESSIONS:
        warnings["expressions"] = (
            f"{rewritten:.0%} of the passes are equal to their reference only when evaluated, and "
            f"{unevaluated:.0%} of the responses leave arithmetic to do: does the policy answer with "
            "expressions instead of computing? Read samples.jsonl"
        )
    if metrics["infra_errors"]:
        warnings["infra_errors"] = (
            f"{metrics['infra_errors']:.0f} verdicts were infrastructure errors and were left out: see `ratchet doctor`"
        )
    if metrics.get("missing_prompts"):
        warnings["missing_prompts"] = (
            f"after {metrics['sampling_rounds']:.0f} rounds of sampling the batch is {metrics['missing_prompts']:.0f} "
            "prompts short: all rollouts of the other prompts had the same reward. Drop easy prompts, or raise "
            "dynamic_sampling_rounds"
        )
    return warnings
