"""Dr. GRPO's advantage: by how much a response is better than its group."""

from collections.abc import Sequence

from ratchet.infra.recipe.training import Stage
from ratchet.training.advantages.advantage import AdvantageOutputs, GroupRewards


def advantages(groups: Sequence[GroupRewards], settings: Stage) -> AdvantageOutputs:
    """A_i = r_i - mean r over the group (Liu et al. 2025, arXiv 2503.20783, section 3.2).

    Dividing by the deviation would give more weight to prompts that nearly all or no responses solve. Use with the loss
    `dr_grpo`.
    """
    return AdvantageOutputs([group.centered() for group in groups])
