"""The reward of a judged response."""

from collections.abc import Sequence

from ratchet.infra.recipe.training import Stage
from ratchet.training.rollout import Rollout
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.outcome import Outcome


def reward(rollout: Rollout, stage: Stage) -> float:
    """1 for a passed response and 0 for any other; in a graded domain the verifier's fraction. The stage's truncation
    policy reduces the reward of a response that did not end, or nearly did not."""
    earned = rollout.fraction if is_graded(rollout.domain, stage) else float(rollout.outcome is Outcome.PASSED)
    if stage.truncation == "soft_overlong":
        earned += soft_overlong(len(rollout.response), stage.max_response_tokens, stage.advanced.overlong_buffer_tokens)
    return earned - stage.unfinished_penalty if rollout.truncated else earned


def is_graded(domain: str, stage: Stage) -> bool:
    return domain in stage.advanced.graded or domain_of(domain).reward == "graded"


def soft_overlong(length: int, limit: int, buffer: int) -> float:
    """The length penalty of a response of `length` tokens: 0 up to `limit - buffer`, falling to -1 at `limit` (DAPO, Yu
    et al. 2025, arXiv 2503.14476, equation 13)."""
    return -max(0, length - (limit - buffer)) / buffer


def check_infra_errors(details: Sequence[str], of: int, limit: float) -> None:
    """Raises RatchetError if too large a share of a batch's verdicts failed on our side. `details`: their messages;
    `of`: the number of verdicts."""
    if len(details) > limit * of:
        shown = "; ".join(sorted(set(filter(None, details)))[:3]) or "no detail"
        raise RatchetError(
            f"{len(details)} of {of} verdicts of this batch failed on our side, more than "
            f"training.advanced.max_infra_errors ({limit:.0%}) allows: {shown}. Run `ratchet doctor` to check the "
            "judge's sandbox; then run the same command again to continue from the last checkpoint."
        )
