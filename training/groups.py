"""Groups: one prompt's judged rollouts with rewards and advantages, also as JSON for a checkpoint's state."""

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np

from ratchet.infra.recipe.training import Stage
from ratchet.training.advantages import ADVANTAGES, GroupRewards
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.reward import reward_of


@dataclass(frozen=True)
class Rollout:
    """One judged response: token ids int32 [prompt], [response]; the engine's log-probabilities float32 [response].
    `version` is of the weights that sampled it (`Policy.version`). With bounded staleness it is the step of the round
    that sampled the last token, and `spans` has (step, tokens) for each round that sampled some, in order."""

    problem_id: str
    domain: str
    sample: int
    prompt: np.ndarray
    response: np.ndarray
    logprobs: np.ndarray
    truncated: bool
    outcome: Outcome
    fraction: float
    detail: str
    version: int = 0
    decided_by: str = ""
    """The verifier's tier or reason (`Verdict.decided_by`)."""
    spans: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class GroupAdvantages:
    """Advantages of one prompt's samples, 0.0 for invalid ones. `zero_variance`: all valid samples have the same
    reward, without penalties for length. `metrics`: of the batch in which the advantages were computed."""

    values: tuple[float, ...] = ()
    zero_variance: bool = True
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Group:
    """One prompt's rollouts. `valid`: rollouts that count. `old_logprobs` [rollout][token]: the trainer's when the
    group was sampled, if it was carried over to a later step."""

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
    def pass_rate(self) -> float | None:
        """The share of rollouts that passed; None if a verdict is missing."""
        outcomes = [r.outcome for r in self.rollouts]
        return None if Outcome.INFRA_ERROR in outcomes else outcomes.count(Outcome.PASSED) / len(outcomes)

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


def reward(rollout: Rollout, stage: Stage) -> float:
    """The verdict's reward, less what the stage's truncation policy subtracts for a response that did not end, or
    nearly did not. Raises RatchetError as `verdict_reward` does."""
    given = verdict_reward(rollout, stage)
    if stage.truncation == "soft_overlong":
        given += soft_overlong(len(rollout.response), stage.max_response_tokens, stage.advanced.overlong_buffer_tokens)
    return given - stage.unfinished_penalty if rollout.truncated else given


def verdict_reward(rollout: Rollout, stage: Stage) -> float:
    """The verdict's reward, 0 if it was not judged. Raises RatchetError if the verdict's fraction is not a number."""
    earned = reward_of(rollout.domain, rollout.outcome, rollout.fraction, stage.advanced.graded) or 0.0
    if not math.isfinite(earned):
        raise RatchetError(
            f"problem {rollout.problem_id}, response {rollout.sample}: the verifier of {rollout.domain} gave the "
            f"reward {earned} (outcome: {rollout.outcome.value}; decided by: {rollout.decided_by or 'unsaid'}). A "
            "reward is a finite number; where there is none, the outcome is infra_error. Correct the verifier, and run "
            "the same command again to continue from the last checkpoint."
        )
    return earned


def soft_overlong(length: int, limit: int, buffer: int) -> float:
    """The length penalty of a response of `length` tokens: 0 up to `limit - buffer`, falling to -1 at `limit` (DAPO, Yu
    et al. 2025, arXiv 2503.14476, equation 13)."""
    return -max(0, length - (limit - buffer)) / buffer


def group(rollouts: Sequence[Rollout], stage: Stage) -> list[Group]:
    """Group the rollouts of each problem, which follow one another, with rewards and advantages."""
    return with_advantages(rewarded(rollouts, stage), stage)


def rewarded(rollouts: Sequence[Rollout], stage: Stage) -> list[Group]:
    """Group the rollouts of each problem, which follow one another, with rewards and without advantages."""

    def valid(rollout: Rollout) -> bool:
        masked = rollout.truncated and stage.truncation == "mask"
        return rollout.outcome is not Outcome.INFRA_ERROR and not masked

    by_problem = (tuple(each) for _, each in groupby(rollouts, key=lambda rollout: rollout.problem_id))
    return [Group(own, tuple(reward(r, stage) for r in own), tuple(map(valid, own))) for own in by_problem]


def with_advantages(groups: Sequence[Group], stage: Stage) -> list[Group]:
    """The groups with advantages, computed over each domain's groups as one batch. Raises RatchetError if the stage's
    advantage does not return one number per reward."""
    advantage = ADVANTAGES.get(stage.advantage)
    done = list(groups)
    for domain in dict.fromkeys(members.domain for members in groups):
        places = [i for i, members in enumerate(groups) if members.domain == domain]
        rewards = [groups[i].valid_rewards() for i in places]
        outputs = advantage(rewards, stage)
        if [len(values) for values in outputs.values] != [len(each.rewards) for each in rewards]:
            raise RatchetError(f"the advantage {stage.advantage} must return one number for each reward")
        for i, values, each in zip(places, outputs.values, rewards, strict=True):
            if not all(map(math.isfinite, values)):
                raise RatchetError(
                    f"stage {stage.name}: the advantage {stage.advantage} made {[*map(float, values)]} of the rewards "
                    f"{[*each.rewards]} of problem {groups[i].problem_id}: it must return finite numbers."
                )
        metrics = dict(outputs.metrics)
        for i, values in zip(places, outputs.values, strict=True):
            rest = iter(values)
            placed = tuple(float(next(rest)) if ok else 0.0 for ok in groups[i].valid)
            is_uniform = _has_one_reward(groups[i], stage)
            done[i] = replace(groups[i], advantages=GroupAdvantages(placed, is_uniform, metrics))
    return done


def _has_one_reward(members: Group, stage: Stage) -> bool:
    """True if all valid responses have the same reward before length penalties: of those that dynamic sampling
    replaces, none differs in what is right (DAPO, equation 11)."""
    earned = [verdict_reward(r, stage) for r, ok in zip(members.rollouts, members.valid, strict=True) if ok]
    return GroupRewards(tuple(earned), (0,) * len(earned)).nothing_to_compare


def by_domain(groups: Sequence[Group]) -> dict[str, list[Group]]:
    """The groups of each domain, in order."""
    parts: dict[str, list[Group]] = {}
    for members in groups:
        parts.setdefault(members.domain, []).append(members)
    return parts


ARRAYS = {"prompt": np.int32, "response": np.int32, "logprobs": np.float32}
"""Fields of a rollout that are written as their bytes, in a tenth of the time and half of the room of digits."""


def rollout_to_json(rollout: Rollout) -> dict[str, Any]:
    return asdict(rollout) | {name: _encoded(getattr(rollout, name)) for name in ARRAYS}


def rollout_from_json(plain: dict[str, Any]) -> Rollout:
    arrays = {name: _decoded(plain[name], kind) for name, kind in ARRAYS.items()}
    spans = tuple((version, tokens) for version, tokens in plain["spans"])
    return Rollout(**{**plain, **arrays, "outcome": Outcome(plain["outcome"]), "spans": spans})


def group_to_json(members: Group) -> dict[str, Any]:
    old = members.old_logprobs
    return {
        "rollouts": [rollout_to_json(rollout) for rollout in members.rollouts],
        "rewards": members.rewards, "valid": members.valid, "advantages": asdict(members.advantages),
        "old_logprobs": None if old is None else [_encoded(each) for each in old],
    }  # fmt: skip


def group_from_json(plain: dict[str, Any]) -> Group:
    advantages, old = plain["advantages"], plain["old_logprobs"]
    return Group(
        rollouts=tuple(rollout_from_json(rollout) for rollout in plain["rollouts"]),
        rewards=tuple(plain["rewards"]),
        valid=tuple(plain["valid"]),
        advantages=GroupAdvantages(**advantages | {"values": tuple(advantages["values"])}),
        old_logprobs=None if old is None else tuple(_decoded(each, np.float32) for each in old),
    )


def _encoded(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode()


def _decoded(text: str, kind: type) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), kind)
