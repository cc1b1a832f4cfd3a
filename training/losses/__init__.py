"""Policy losses, chosen by a stage's `loss`: a name from here, or your own import path (docs/reference/losses.md).

A loss is a function `(inputs: LossInputs, settings: Stage) -> LossOutputs` (`losses/loss.py`). Each is one small file
with its equation and its source.
"""

from typing import TYPE_CHECKING

from ratchet.verifiers.registry import Registry, takes_two

if TYPE_CHECKING:  # imports torch, which a plan avoids
    from ratchet.training.losses.loss import Loss

LOSSES: "Registry[Loss]" = Registry(
    "loss",
    {
        "grpo": "ratchet.training.losses.grpo:loss",
        "dr_grpo": "ratchet.training.losses.dr_grpo:loss",
        "gspo": "ratchet.training.losses.gspo:loss",
        "cispo": "ratchet.training.losses.cispo:loss",
    },
    is_member=takes_two,
    group="ratchet.losses",
)
