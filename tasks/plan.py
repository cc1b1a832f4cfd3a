"""What a recipe takes of time, money and memory, and its first bottleneck when it grows."""

from functools import cached_property
from pathlib import Path
from typing import Any

from ratchet.infra.recipe import Recipe
from ratchet.infra.recipe.training import Stage
from ratchet.infra.settings import Settings
from ratchet.infra.store.artifacts import ArtifactStore
from ratchet.training.estimate import Estimate, Shape, estimate, pressures, scaled
from ratchet.training.machine import local_machine, machine_of, measured_file, parse_machine, with_measured

GROWTH = [("as it is", 1), *((what, factor) for what in ("prompts", "GPUs", "length") for factor in (10, 100))]


class Plan:
    """Of one stage or all, on a machine (`16x8xH100`; by default what the recipe asks for). `mean` is the mean response
    length as a fraction of the maximum, `price` that of a GPU-hour, `start` a checkpoint instead of the recipe's
    model."""

    def __init__(
        self, recipe: Recipe, settings: Settings, machine: str = "", mean: float = 0.5, price: float | None = None,
        stage: str = "", start: str = "",
    ) -> None:  # fmt: skip
        named = parse_machine(machine) if machine else machine_of(recipe.training.hardware)
        self.assumed = not machine and named != local_machine()
        self.machine = with_measured(named, measured_file(settings.home, recipe.name))
        self.measured = self.machine is not named
        self.recipe, self.training, self.mean, self.price = recipe, recipe.training, mean, price
        self.sharing = recipe.training.hardware.ranks if self.machine.is_cpu else 1
        """Ranks that share one memory."""
        self._settings, self._stage, self._start = settings, stage, start

    @cached_property
    def shape(self) -> Shape:
        return model_shape(self.recipe, self._start, self._settings)

    @cached_property
    def stages(self) -> list[tuple[Stage, Estimate]]:
        chosen = [stage for stage in self.training.stages if self._stage in ("", stage.name)]
        return [(stage, estimate(self.shape, stage, self.training, self.machine, self.mean)) for stage in chosen]

    def summary(self) -> dict[str, Any]:
        """Seconds, bytes, hours and tokens."""
        stages = []
        for stage, needs in self.stages:
            hours = needs.step_seconds * stage.steps / 3600
            memory = {"sampling": needs.sampling, "updating": needs.updating, "of": self.machine.memory}
            stages.append(
                {
                    "stage": stage.name, "steps": stage.steps, "step_seconds": needs.step_seconds,
                    "seconds": needs.seconds, "hours": hours, "cost": self._cost(hours), "memory": memory,
                    "cache_tokens": needs.engine.room, "longest_tokens": needs.longest,
                    "empty_decode_slots": needs.sampled.empty, "judge_load": needs.judging,
                    "checkpoint_bytes": needs.checkpoint_bytes, "restart_seconds": needs.restart_seconds,
                }
            )  # fmt: skip
        hours = sum(stage["hours"] for stage in stages)
        return {
            "recipe": self.recipe.name, "machine": str(self.machine), "machine_assumed": self.assumed,
            "gpus": self.machine.count,
            "parameters": self.shape.parameters, "rates_measured": self.measured, "mean_response": self.mean,
            "stages": stages, "hours": hours, "cost": self._cost(hours),
        }  # fmt: skip

    def _cost(self, hours: float) -> float | None:
        return None if self.price is None else hours * self.price * self.machine.count

    def growth(self) -> list[dict[str, Any]]:
        """The longest stage as it is and larger, with each limit's share."""
        longest = max(self.stages, key=lambda each: each[0].steps * each[1].step_seconds)[0]
        rows = []
        for what, factor in GROWTH:
            if what == "GPUs" and self.machine.is_cpu:
                continue
            stage, machine = (longest, self.machine) if factor == 1 else scaled(longest, self.machine, what, factor)
            needs = estimate(self.shape, stage, self.training, machine, self.mean)
            over = pressures(needs, machine, self.sharing)
            first = max(over, key=over.__getitem__)
            rows.append(
                {
                    "stage": stage.name, "what": what, "times": factor, "step_seconds": needs.step_seconds,
                    "first_bottleneck": first, "holds": over[first] <= 1,
                    "of_limit": {name: round(value, 3) for name, value in over.items()},
                }
            )  # fmt: skip
        return rows


def model_shape(recipe: Recipe, start: str, settings: Settings) -> Shape:
    """The shape of the model to `start` from, otherwise the recipe's. Raises RatchetError if it cannot be read."""
    path = recipe.model.path
    if start:
        directory = Path(start).expanduser()
        path = str(directory if directory.is_dir() else ArtifactStore(settings.artifacts).open(start).path / "model")
    if path is None:
        grown = recipe.model.grow
        return Shape(
            grown.vocabulary, grown.hidden_size, grown.layers, grown.attention_heads, grown.key_value_heads,
            grown.head_dim, grown.intermediate_size, tied=False,
        )  # fmt: skip
    from ratchet.infra.inference.models import read_config  # torch

    return Shape.of(read_config(path).to_dict())
