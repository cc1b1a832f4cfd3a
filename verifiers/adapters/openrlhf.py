"""OpenRLHF: `--reward.remote_url` with this file's path, or with a reward server's `/v1/openrlhf`."""

from collections.abc import Sequence
from typing import Any

from ratchet.verifiers.adapters.rewards import rewards
from ratchet.verifiers.serving.openrlhf import reply
from ratchet.verifiers.serving.rows import after_prompt


def reward_func(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[str], **_: Any) -> dict[str, Any]:
    """Reward responses whose labels are the rows' `ratchet_problem`. Raises RatchetError where the judge failed:
    OpenRLHF logs it, and stops because a response has no reward."""
    return reply(rewards().certain(labels, after_prompt(queries, prompts)))


if __name__ == "__main__":
    print(__file__)
