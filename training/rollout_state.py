"""Rollouts and groups as JSON for a checkpoint's state, without loss."""

import base64
from dataclasses import asdict
from typing import Any

import numpy as np

from ratchet.training.groups import Group, GroupAdvantages, Rollout
from ratchet.verifiers.outcome import Outcome

ARRAYS = {"prompt": np.int32, "response": np.int32, "logprobs": np.float32}
"""Fields of a rollout that are written as their bytes: a tenth of the time and half of the room of digits."""


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
