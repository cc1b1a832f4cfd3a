"""verl: `reward.custom_reward_function.path=pkg://ratchet.verifiers.adapters.verl`, whose `reward_kwargs` are the
options of `Rewards`."""

from collections.abc import Mapping, Sequence
from typing import Any

from ratchet.verifiers.adapters.rewards import rewards
from ratchet.verifiers.errors import RatchetError

_OTHERS = {"rollout_reward_scores", "reward_router_address", "reward_model_tokenizer"}


def compute_score(
    data_source: Any, solution_str: str, ground_truth: Any, extra_info: Mapping[str, Any] | None = None, **options: Any
) -> float:
    """The reward of one response, by `ratchet_problem` of its extra_info. Raises RatchetError where the judge failed:
    verl cannot leave a response out."""
    return compute_scores([data_source], [solution_str], [ground_truth], [extra_info], **options)[0]


def compute_scores(
    data_sources: Sequence[Any], solution_strs: Sequence[str], ground_truths: Sequence[Any],
    extra_infos: Sequence[Mapping[str, Any] | None], **options: Any,
) -> list[float]:  # fmt: skip
    """The rewards of many responses, for the reward manager `batch`: `compute_score` of each."""
    rows = [(extra or {}).get("ratchet_problem") for extra in extra_infos]
    if None in rows:
        raise RatchetError("No ratchet_problem in extra_info: `ratchet export problems --format verl` writes it.")
    own = {name: value for name, value in options.items() if name not in _OTHERS}
    texts: list[Any] = [row if isinstance(row, dict) else str(row) for row in rows]
    return rewards(**own).certain(texts, solution_strs)
