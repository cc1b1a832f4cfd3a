"""Groups: one prompt's judged rollouts with rewards and advantages; metrics and samples of a batch of groups."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from statistics import fmean
from typing import Any

import numpy as np

from ratchet.infra.recipe.training import Stage
from ratchet.training.advantages import ADVANTAGES
from ratchet.training.advantages.advantage import GroupRewards
from ratchet.training.rewards import reward
from ratchet.training.rollout import Rollout
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.outcome import Outcome

Metrics = dict[str, float]


@dataclass(frozen=True)
class GroupAdvantages:
    """Advantages of one prompt's samples, 0.0 for invalid ones. `zero_variance`: all valid samples have the same
    reward. `metrics`: of the batch in which the advantages were computed."""

    values: tuple[float, ...] = ()
    zero_variance: bool = True
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Group:
    """`valid`: which rollouts count. `old_logprobs` [rollout][token]: the trainer's when the group was sampled, if it
    was carried over to a later step."""

    rollouts: tuple[Rollout, ...]
    rewards: tuple[float, ...]
    valid: tuple[bool, ...]
    advantages: GroupAdvantages = GroupAdvantages()
    old_logprobs: tuple[np.ndarray, ...] | None = None

    @property
    def problem_id(self) -> str:
        return self.rollouts[0].problem_id

    @property
    def domain(self) -> str:
        return self.rollouts[0].domain

    @property
    def all_passed(self) -> bool:
        return all(r.outcome is Outcome.PASSED for r in self.rollouts)

    @property
    def all_failed(self) -> bool:
        judged = [r.outcome for r in self.rollouts if r.outcome is not Outcome.INFRA_ERROR]
        return bool(judged) and Outcome.PASSED not in judged

    @property
    def tokens(self) -> int:
        return sum(len(r.response) for r, ok in zip(self.rollouts, self.valid, strict=True) if ok)

    def valid_rewards(self) -> GroupRewards:
        counted = [(r, len(o.response)) for r, o, ok in zip(self.rewards, self.rollouts, self.valid, strict=True) if ok]
        return GroupRewards(tuple(r for r, _ in counted), tuple(n for _, n in counted))


def group(rollouts: Sequence[Rollout], stage: Stage) -> list[Group]:
    def valid(rollout: Rollout) -> bool:
        masked = rollout.truncated and stage.truncation == "mask"
        return rollout.outcome is not Outcome.INFRA_ERROR and not masked

    by_problem = (tuple(each) for _, each in groupby(rollouts, key=lambda rollout: rollout.problem_id))
    groups = [Group(own, tuple(reward(r, stage) for r in own), tuple(map(valid, own))) for own in by_problem]
    return with_advantages(groups, stage)


def with_advantages(groups: Sequence[Group], stage: Stage) -> list[Group]:
    """The groups with advantages, computed over each domain's groups as one batch. Raises RatchetError if the stage's
    advantage does not return one number per reward."""
    advantage = ADVANTAGES.get(stage.advantage)
    done = list(groups)
    for domain in dict.fromkeys(members.domain for members in groups):
        places = [i for i, members in enumerate(groups) if members.domain == domain]
        given = [groups[i].valid_rewards() for i in places]
        outputs = advantage(given, stage)
        if [len(values) for values in outputs.values] != [len(each.rewards) for each in given]:
            raise RatchetError(f"the advantage {stage.advantage} must return one number for each reward")
        metrics = dict(outputs.metrics)
        for i, values, each in zip(places, outputs.values, given, strict=True):
            rest = iter(values)
            placed = tuple(float(next(rest)) if ok else 0.0 for ok in groups[i].valid)
            done[i] = replace(groups[i], advantages=GroupAdvantages(placed, each.nothing_to_compare, metrics))
    return done


def by_domain(groups: Sequence[Group]) -> dict[str, list[Group]]:
    found: dict[str, list[Group]] = {}
    for members in groups:
        found.setdefault(members.domain, []).append(members)
    return found


def describe(groups: Sequence[Group], stage: Stage) -> Metrics:
    """Metrics of the sampled groups; with several domains also of each, as `<domain>/<name>`."""
    parts = by_domain(groups) if len(stage.domains) > 1 else {}
    each = {f"{domain}/{name}": v for domain, part in parts.items() for name, v in _describe(part).items()}
    return {**_describe(groups), **each}


def _describe(groups: Sequence[Group]) -> Metrics:
    """`reward` is over valid rollouts; infra errors count neither there nor in `pass_rate`. `rewritten`: share of the
    passes whose answer is not in the reference's form and had to be evaluated to see that it is equal; `unevaluated`:
    share of the responses that leave arithmetic to do."""
    rollouts = [r for g in groups for r in g.rollouts]
    rewards = [r for g in groups for r, ok in zip(g.rewards, g.valid, strict=True) if ok]
    judged = [r.outcome is Outcome.PASSED for r in rollouts if r.outcome is not Outcome.INFRA_ERROR]
    lengths = [len(r.response) for r in rollouts]
    own: dict[str, list[float]] = {}
    for members in groups:
        for name, value in members.advantages.metrics.items():
            own.setdefault(name, []).append(value)
    facts = {name: fmean(values) for name, values in own.items()} | {
        "reward": fmean(rewards) if rewards else 0.0,
        "pass_rate": fmean(judged) if judged else 0.0,
        "response_tokens": fmean(lengths),
        "truncated": fmean(r.truncated for r in rollouts),
        "zero_variance_groups": fmean(g.advantages.zero_variance for g in groups),
        "all_passed_groups": fmean(g.all_passed for g in groups),
        "all_failed_groups": fmean(g.all_failed for g in groups),
    }
    facts |= {f"response_tokens_p{p}": float(np.percentile(lengths, p)) for p in (10, 50, 90, 99)}
    passed = [r.decided_by == "numeric" for r in rollouts if r.outcome is Outcome.PASSED]
    facts["rewritten"] = fmean(passed) if passed else 0.0
    facts["unevaluated"] = fmean(r.decided_by == "unevaluated" for r in rollouts)
    outcomes = Counter(r.outcome for r in rollouts)
    facts |= {f"outcome_{outcome.value}": outcomes[outcome] / len(rollouts) for outcome in Outcome}
    return {**facts, "infra_errors": float(outcomes[Outcome.INFRA_ERROR])}


def advantage_scales(groups: Sequence[Group], domains: Sequence[str]) -> Metrics:
    """Mean absolute advantage of valid rollouts, of all and as `<domain>/…`."""
    sizes: dict[str, list[float]] = {"advantage_scale": []}
    for members in groups:
        own = [abs(a) for a, ok in zip(members.advantages.values, members.valid, strict=True) if ok]
        for name in ("", f"{members.domain}/")[: 2 if members.domain in domains else 1]:
            sizes.setdefault(f"{name}advantage_scale", []).extend(own)
    return {name: fmean(values) for name, values in sizes.items() if values}


def samples(groups: Sequence[Group], step: int, tokenizer: Any) -> list[dict[str, Any]]:
    """Three rollouts of each domain to read: the best, the worst, and a truncated one, if any."""
    shown = [(kind, *place) for part in by_domain(groups).values() for kind, place in _shown(part).items()]
    return [{"step": step, "shown": kind, **_row(members, i, tokenizer)} for kind, members, i in shown]


def _shown(groups: Sequence[Group]) -> dict[str, tuple[Group, int]]:
    scored = [(g, i) for g in groups for i in range(len(g.rollouts)) if g.valid[i]]

    def score(place: tuple[Group, int]) -> tuple[float, float]:
        return place[0].rewards[place[1]], place[0].advantages.values[place[1]]

    shown = {"best": max(scored, key=score), "worst": min(scored, key=score)} if scored else {}
    truncated = [(g, i) for g in groups for i, r in enumerate(g.rollouts) if r.truncated]
    return shown | ({"truncated": truncated[0]} if truncated else {})


def _row(members: Group, i: int, tokenizer: Any) -> dict[str, Any]:
    rollout = members.rollouts[i]
    return {
        "domain": rollout.domain,
        "problem_id": rollout.problem_id,
        "outcome": rollout.outcome.value,
        "reward": members.rewards[i],
        "advantage": members.advantages.values[i],
        "tokens": len(rollout.response),
        "prompt": tokenizer.decode(rollout.prompt),
        "response": tokenizer.decode(rollout.response),
    }


def to_json(members: Group) -> dict[str, Any]:
    """A group as JSON, without loss: decimal digits restore every float32."""
    plain = asdict(members)
    for rollout in plain["rollouts"]:
        rollout.update({name: rollout[name].tolist() for name in ("prompt", "response", "logprobs")})
    plain["old_logprobs"] = [old.tolist() for old in members.old_logprobs or ()]
    return plain


def from_json(plain: dict[str, Any]) -> Group:
    def rollout(fields: dict[str, Any]) -> Rollout:
        kinds = {"prompt": np.int32, "response": np.int32, "logprobs": np.float32}
        arrays = {name: np.array(fields[name], kind) for name, kind in kinds.items()}
        return Rollout(**{**fields, **arrays, "outcome": Outcome(fields["outcome"])})

    return Group(
        rollouts=tuple(map(rollout, plain["rollouts"])),
        rewards=tuple(plain["rewards"]),
        valid=tuple(plain["valid"]),
        advantages=GroupAdvantages(**plain["advantages"] | {"values": tuple(plain["advantages"]["values"])}),
        old_logprobs=tuple(np.array(old, np.float32) for old in plain["old_logprobs"]) or None,
    )
