"""NeMo RL: the environment `ratchet`, for `python -m ratchet.verifiers.adapters.nemo_rl SCRIPT --config ...`, with the
options of `Rewards` as `env.ratchet`."""

import functools
import importlib
from collections.abc import Sequence
from typing import Any

from ratchet.verifiers.adapters.rewards import Rewards, run_script
from ratchet.verifiers.serving.rows import without_end

MODULE = "ratchet.verifiers.adapters.nemo_rl"


def register() -> None:
    """Make `ratchet` an environment of NeMo RL, run by the interpreter of this process."""
    registry = importlib.import_module("nemo_rl.distributed.ray_actor_environment_registry")
    executables = importlib.import_module("nemo_rl.distributed.virtual_cluster").PY_EXECUTABLES
    registry.ACTOR_ENVIRONMENT_REGISTRY[f"{MODULE}.RatchetEnvironment"] = executables.SYSTEM
    importlib.import_module("nemo_rl.environments.utils").register_env("ratchet", f"{MODULE}.RatchetEnvironment")


def __getattr__(name: str) -> Any:
    if name != "RatchetEnvironment":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module("ray").remote(max_concurrency=64)(environment())


@functools.cache
def environment() -> type:
    """The environment's class; NeMo RL is imported here."""
    interfaces, torch = importlib.import_module("nemo_rl.environments.interfaces"), importlib.import_module("torch")

    class RatchetEnvironment(interfaces.EnvironmentInterface):
        def __init__(self, config: dict[str, Any]) -> None:
            self._rewards = Rewards(**config)

        def step(
            self, message_log_batch: Sequence[Sequence[dict[str, Any]]], metadata: Sequence[dict[str, Any]]
        ) -> Any:
            """Rewards of the last messages. Raises RatchetError where the judge failed."""
            responses = [without_end(str(messages[-1]["content"])) for messages in message_log_batch]
            earned = self._rewards.certain([facts["ground_truth"] for facts in metadata], responses)
            observations = [{"role": "environment", "content": f"reward {reward:g}"} for reward in earned]
            rewards = torch.tensor(earned, dtype=torch.float32)
            ends, stops = torch.ones_like(rewards), [None] * len(earned)
            return interfaces.EnvironmentReturn(observations, metadata, stops, rewards, ends, None)

        def global_post_process_and_metrics(self, batch: Any) -> tuple[Any, dict[str, float]]:
            """The environment's metrics; a response that did not end counts as wrong, as in NeMo RL's own
            environments."""
            return batch, {"accuracy": (batch["rewards"] * batch["is_end"]).mean().item()}

    return RatchetEnvironment


if __name__ == "__main__":
    register()
    run_script()
