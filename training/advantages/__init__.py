"""Advantages, chosen by a stage's `advantage`: a name from here, or the import path of your own (docs/training.md).

An advantage is a function `(groups: Sequence[GroupRewards], settings: Stage) -> AdvantageOutputs`
(`advantages/advantage.py`). Each is one small file with its equation and its source.
"""

from typing import TYPE_CHECKING

from ratchet.verifiers.registry import Registry, takes_two

if TYPE_CHECKING:
    from ratchet.training.advantages.advantage import Advantage

ADVANTAGES: "Registry[Advantage]" = Registry(
    "advantage",
    {
        "grpo": "ratchet.training.advantages.grpo:advantages",
        "dr_grpo": "ratchet.training.advantages.dr_grpo:advantages",
        "rloo": "ratchet.training.advantages.rloo:advantages",
        "reinforce_pp": "ratchet.training.advantages.reinforce_pp:advantages",
        "reinforce_pp_baseline": "ratchet.training.advantages.reinforce_pp:baseline_advantages",
    },
    is_member=takes_two,
)
OF_ONE_GROUP = ("grpo", "dr_grpo", "rloo")
"""Advantages that do not depend on other groups of the batch."""
