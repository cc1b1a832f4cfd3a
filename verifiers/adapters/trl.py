"""TRL: `reward_funcs=[ratchet_reward]`, or `reward_function(...)` with options."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ratchet.verifiers.adapters.rewards import rewards
from ratchet.verifiers.errors import RatchetError


def ratchet_reward(
    prompts: Sequence[Any], completions: Sequence[Any], ratchet_problem: Sequence[str] | None = None,
    log_metric: Callable[[str, float], None] | None = None, ratchet_options: Sequence[tuple[str, Any]] = (),
    **columns: Any,
) -> list[float | None]:  # fmt: skip
    """The reward of each completion, a chat or plain text, by its row's `ratchet_problem`; None, which TRL leaves out,
    where the judge failed."""
    if ratchet_problem is None:
        raise RatchetError(
            "No column ratchet_problem: `ratchet export problems --format trl` or `export_problems` adds it."
        )
    earned = rewards(**dict(ratchet_options))(ratchet_problem, [_text(completion) for completion in completions])
    if log_metric:
        log_metric("ratchet/infra_errors", float(earned.count(None)))
    return earned


def reward_function(**options: Any) -> Callable[..., list[float | None]]:
    """A reward function like `ratchet_reward`, with options of `Rewards` instead of the environment's. Raises
    RatchetError for a wrong one."""
    rewards(**options)  # what is wrong with an option is said here, not in the first step
    function = functools.partial(ratchet_reward, ratchet_options=tuple(options.items()))
    return functools.update_wrapper(function, ratchet_reward)  # TRL logs it by its name


def _text(completion: Any) -> str:
    """Plain text, or the last message of a chat, whose content may be a list of parts."""
    content = completion if isinstance(completion, str) else completion[-1].get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text") or "" for part in content)
