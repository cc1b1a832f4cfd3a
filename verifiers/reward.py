"""The reward of a judged response: one rule for training, adapters and reward servers."""

import os
from collections.abc import Collection

from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.outcome import Outcome

GRADED = "RATCHET_GRADED"
"""The environment variable with graded domains for adapters and reward servers, separated by commas."""


def reward_of(domain: str, outcome: Outcome, fraction: float, graded: Collection[str] = ()) -> float | None:
    """The reward: 1 for a passed response and else 0, or the verdict's fraction where the domain is graded; None if it
    was not judged."""
    if outcome is Outcome.INFRA_ERROR:
        return None
    return fraction if is_graded(domain, graded) else float(outcome is Outcome.PASSED)


def is_graded(domain: str, graded: Collection[str] = ()) -> bool:
    """True if the domain's reward is the verdict's fraction: it is one of `graded`, or always is."""
    return domain in graded or domain_of(domain).reward == "graded"


def graded_domains(names: str | None = None) -> frozenset[str]:
    """The domains in a comma-separated list, by default that of RATCHET_GRADED. Raises RatchetError for an unknown
    one."""
    listed = os.environ.get(GRADED, "") if names is None else names
    graded = frozenset(name.strip() for name in listed.split(",") if name.strip())
    for name in graded:
        domain_of(name)
    return graded
