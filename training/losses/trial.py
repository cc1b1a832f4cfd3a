"""A loss and an advantage of one's own, called once while a run is planned: a mistake costs no training."""

import traceback

import torch

from ratchet.infra.recipe.training import Stage
from ratchet.training.advantages import ADVANTAGES, GroupRewards
from ratchet.training.losses import LOSSES
from ratchet.training.losses.loss import LossInputs, LossOutputs, misshaped
from ratchet.verifiers.errors import RatchetError

LENGTHS = (2, 3)
"""Response tokens of the two responses that are tried."""


def try_loss(stage: Stage) -> None:
    """Raises RatchetError if the stage's loss fails on two responses, or returns anything but one number per token."""
    logprobs = torch.full((sum(LENGTHS),), -1.0, requires_grad=True)
    old, advantages = logprobs.detach(), torch.tensor([1.0, 1.0, -1.0, -1.0, -1.0])
    reference = old if stage.kl_coefficient else None
    inputs = LossInputs(logprobs, old, old, reference, advantages, torch.ones_like(old), LENGTHS)
    loss = LOSSES.get(stage.loss)
    try:
        outputs = loss(inputs, stage)
    except Exception as error:
        raise _failed(f"the loss {stage.loss}", error) from error
    if not isinstance(outputs, LossOutputs) or not isinstance(outputs.values, torch.Tensor):
        kind = type(outputs.values if isinstance(outputs, LossOutputs) else outputs).__name__
        raise RatchetError(f"the loss {stage.loss} must return LossOutputs with a tensor of values, not a {kind}")
    if wrong := misshaped(outputs, inputs):
        raise RatchetError(f"the loss {stage.loss} must return one number per token; see {', '.join(wrong)}")


def try_advantage(stage: Stage) -> None:
    """Raises RatchetError if the stage's advantage fails on two groups."""
    advantage = ADVANTAGES.get(stage.advantage)
    try:
        advantage([GroupRewards((1.0, 0.0), LENGTHS), GroupRewards((1.0, 1.0), LENGTHS)], stage)
    except Exception as error:
        raise _failed(f"the advantage {stage.advantage}", error) from error


def _failed(what: str, error: Exception) -> RatchetError:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return RatchetError(f"{what} fails: {type(error).__name__}: {error} ({place.filename}, line {place.lineno})")
