"""Try a loss or an advantage of the user's own while a run is planned, so that a mistake costs no training."""

from collections import UserDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from ratchet.infra.recipe.training import Stage
from ratchet.training.advantages import ADVANTAGES, GroupRewards
from ratchet.training.losses import LOSSES
from ratchet.training.losses.loss import LossInputs, LossOutputs, misshaped, part_of_step
from ratchet.verifiers.errors import RatchetError, with_place

T = TypeVar("T")
LENGTHS = (2, 3)
"""Response tokens of the two made-up responses."""
LOGPROBS = (-0.3, -1.2, -0.7, -2.1, -0.5)
"""Made-up log-probabilities of their tokens, in nats."""
MOVED = (0.0, 0.25, -0.25)
"""Nats by which an update may have moved them, in the trial without advantages."""


@dataclass(frozen=True)
class LossTrial:
    """A loss on two made-up responses before the first update, with advantages 1 and -1."""

    stage: Stage
    value: float
    gradient_norm: float
    """Norm of the loss's gradient by the log-probabilities."""
    without_advantages: float
    """The largest gradient norm when all advantages are 0, before and after an update."""

    @property
    def summary(self) -> str:
        return (
            f"The stage {self.stage.name}: on two made-up responses with advantages 1 and -1 the loss "
            f"{self.stage.loss} is {self.value:.4g}, its gradient norm {self.gradient_norm:.4g}"
        )

    @property
    def warning(self) -> str:
        """The consequence of a gradient without advantages, if the stage does not compute such tokens; otherwise ""."""
        details = self.stage.advanced
        computed = self.stage.kl_coefficient or details.entropy_bonus or details.entropy_target is not None
        if not self.without_advantages or computed:
            return ""
        return (
            f"The stage {self.stage.name}: where all advantages are 0, the loss {self.stage.loss} has a gradient "
            f"(norm {self.without_advantages:.4g}), and such tokens are not computed without a KL term or an entropy "
            "bonus. Is it a KL term? Give kl_coefficient instead."
        )


class _ReadSettings(UserDict[str, Any]):
    """Settings that know which of them were never read."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self.unread = set(settings)

    def __getitem__(self, key: str) -> Any:  # also for get(), items() and `**settings`
        self.unread.discard(key)
        return super().__getitem__(key)


def unread_settings(stage: Stage) -> str:
    """A warning about `loss_settings` that neither the stage's loss nor its advantage reads when they are tried, such
    as a misspelled one; "" if all are read. Raises the errors of the trials."""
    settings = _ReadSettings(stage.loss_settings)
    recorded = stage.model_copy(update={"loss_settings": settings})
    if stage.loss not in LOSSES.shipped:
        try_loss(recorded)
    if stage.advantage not in ADVANTAGES.shipped:
        try_advantage(recorded)
    if not settings.unread:
        return ""
    names = ", ".join(sorted(settings.unread))
    return f"The stage {stage.name}: loss_settings has {names}, which was not read when the loss was tried. Misspelled?"


def try_loss(stage: Stage) -> LossTrial:
    """Evaluate the stage's loss and its gradient. Raises RatchetError if the loss fails, returns anything but one
    number per token, does not depend on the log-probabilities, or is not finite, even if all advantages are 0."""
    value, gradient_norm = _evaluated(stage, (1.0, -1.0))
    if not gradient_norm:
        raise RatchetError(
            f"the loss {stage.loss} has no gradient with respect to inputs.logprobs, so nothing would be learned: "
            "compute its values from them, without detach() or item()"
        )
    without = max(_evaluated(stage, (0.0, 0.0), moved)[1] for moved in MOVED)
    return LossTrial(stage, value, gradient_norm, without)


def _evaluated(stage: Stage, advantages: tuple[float, float], moved: float = 0.0) -> tuple[float, float]:
    """The loss, and the norm of its gradient by the log-probabilities; 0 if it does not depend on them. Those have
    `moved` since the tokens were sampled."""
    old = torch.tensor(LOGPROBS)
    logprobs = (old + moved).requires_grad_()
    weights = torch.tensor(advantages).repeat_interleave(torch.tensor(LENGTHS))
    reference = old - 0.1 if stage.kl_coefficient else None
    inputs = LossInputs(logprobs, old, old.clone(), reference, weights, torch.ones_like(old), LENGTHS)
    name, loss = f"the loss {stage.loss}", LOSSES.get(stage.loss)
    outputs = _attempt(name, lambda: loss(inputs, stage))
    if not isinstance(outputs, LossOutputs) or not isinstance(outputs.values, torch.Tensor):
        kind = type(outputs.values if isinstance(outputs, LossOutputs) else outputs).__name__
        raise RatchetError(f"{name} must return LossOutputs with a tensor of values, not a {kind}")
    if wrong := misshaped(outputs, inputs):
        raise RatchetError(f"{name} must return one number per token; see {', '.join(wrong)}")
    total = {"token": sum(LENGTHS), "response": len(LENGTHS)}[outputs.per]
    denominator = torch.as_tensor(total * outputs.divisor)  # a number divided by zero would be an exception
    summed = part_of_step(outputs.values, inputs.mask, denominator, 1)
    gradient = torch.zeros(())
    if summed.requires_grad:
        (found,) = _attempt(name, lambda: torch.autograd.grad(summed, logprobs, allow_unused=True))
        gradient = gradient if found is None else found
    where = "advantages 1 and -1" if any(advantages) else "all advantages 0, as where every response is right,"
    for what, number in (("it", summed), ("its gradient", gradient)):
        if not number.isfinite().all():
            numbers = number.detach().reshape(-1).tolist()
            raise RatchetError(f"{name} is not finite: with {where} {what} is {', '.join(f'{n:.4g}' for n in numbers)}")
    return summed.item(), float(gradient.norm())


def try_advantage(stage: Stage) -> None:
    """Try the stage's advantage. Raises RatchetError if it fails on two groups."""
    advantage = ADVANTAGES.get(stage.advantage)
    groups = [GroupRewards((1.0, 0.0), LENGTHS), GroupRewards((1.0, 1.0), LENGTHS)]
    _attempt(f"the advantage {stage.advantage}", lambda: advantage(groups, stage))


def _attempt(what: str, call: Callable[[], T]) -> T:
    try:
        return call()
    except Exception as error:  # any error of the user's code
        raise RatchetError(f"{what} fails: {with_place(error)}") from error
