"""`ratchet plan`: what a recipe takes of time, money and memory, and its first bottleneck when it grows."""

import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from ratchet.cli.options import AsJson, Home, Overrides
from ratchet.cli.options import Recipe as RecipeName
from ratchet.cli.terminal import columns, console, print_whole
from ratchet.infra.recipe import Recipe, load_recipe
from ratchet.infra.settings import Settings, load_settings
from ratchet.tasks.progress import duration
from ratchet.verifiers.errors import RatchetError

if TYPE_CHECKING:
    from ratchet.infra.recipe.training import Stage
    from ratchet.training.estimate import Estimate, Shape

GIB = 2**30
GROWTH = [("as it is", 1), *((what, factor) for what in ("prompts", "GPUs", "length") for factor in (10, 100))]


def plan(
    recipe: RecipeName = "tiny",
    machine: Annotated[
        str, typer.Option("--machine", metavar="MxNxGPU", help="E.g. 16x8xH100; by default what the recipe asks for.")
    ] = "",
    price: Annotated[float | None, typer.Option("--price", min=0, help="Price per GPU-hour.")] = None,
    mean: Annotated[
        float, typer.Option("--mean", min=0.01, max=1, help="Mean response length as a fraction of the maximum.")
    ] = 0.5,
    as_json: AsJson = False,
    set_: Overrides = None,
    home: Home = None,
) -> None:
    """Time, cost and memory of each stage, from a simulation of its step, and the first bottleneck at 10 and 100 times
    the prompts, GPUs or response length.

    Uses what `ratchet preflight` has measured on such machines, otherwise published rates: docs/scaling.md.

    Example: `ratchet plan acereason-14b --machine 16x8xH100 --price 2.5`
    """
    settings, resolved = load_settings(home), load_recipe(recipe, set_ or ())
    if not resolved.training.stages:
        raise RatchetError(f"The recipe {resolved.name} has no stages to plan.")
    planned = Plan(resolved, settings, machine, mean, price)
    if as_json:
        console.file.write(json.dumps({**planned.summary(), "growth": planned.growth()}, indent=1) + "\n")
        return
    planned.show()
    planned.show_details()


def show_short(recipe: Recipe, only: str, start: str, machine: str, settings: Settings) -> bool:
    """A plan's first table, for `--dry-run`; False if there is nothing to show."""
    if only not in ("", *(stage.name for stage in recipe.training.stages)) or not recipe.training.stages:
        return False  # the run reports that
    planned = Plan(recipe, settings, machine, only=only, start=start)
    try:
        planned.show()
    except (RatchetError, OSError, ValueError) as error:
        console.print(f"Memory and time are not estimated: {error}\n", markup=False, soft_wrap=True)
        return False
    return True


class Plan:
    def __init__(
        self, recipe: Recipe, settings: Settings, machine: str, mean: float = 0.5, price: float | None = None,
        only: str = "", start: str = "",
    ) -> None:  # fmt: skip
        from ratchet.training.machine import local_machine, machine_of, measured_file, parse_machine, with_measured

        given = parse_machine(machine) if machine else machine_of(recipe.training.hardware)
        self.assumed = not machine and given != local_machine()
        self.machine = with_measured(given, measured_file(settings.home, recipe.name))
        self.measured = self.machine is not given
        self.recipe, self.training, self.mean, self.price, self._only = recipe, recipe.training, mean, price, only
        self.sharing = recipe.training.hardware.ranks if self.machine.is_cpu else 1
        """Ranks that share one memory."""
        self._model = lambda: model_shape(recipe, start, settings)

    @cached_property
    def shape(self) -> "Shape":
        return self._model()

    @cached_property
    def stages(self) -> "list[tuple[Stage, Estimate]]":
        from ratchet.training.estimate import estimate

        chosen = [stage for stage in self.training.stages if self._only in ("", stage.name)]
        return [(stage, estimate(self.shape, stage, self.training, self.machine, self.mean)) for stage in chosen]

    def summary(self) -> dict[str, Any]:
        """Seconds, bytes, hours and tokens."""
        stages = []
        for stage, found in self.stages:
            hours = found.step_seconds * stage.steps / 3600
            memory = {"sampling": found.sampling, "updating": found.updating, "of": self.machine.memory}
            stages.append(
                {
                    "stage": stage.name, "steps": stage.steps, "step_seconds": found.step_seconds,
                    "seconds": found.seconds, "hours": hours, "cost": self._cost(hours), "memory": memory,
                    "cache_tokens": found.engine.room, "longest_tokens": found.longest,
                    "empty_decode_slots": found.sampled.empty, "judge_load": found.judging,
                    "checkpoint_bytes": found.checkpoint_bytes, "restart_seconds": found.restart_seconds,
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

    def show(self) -> None:
        found, hardware = self.summary(), self.training.hardware
        console.print(
            f"{self.shape.parameters:,} parameters on {self.machine}, ZeRO {hardware.sharding}, {hardware.dtype}"
        )
        if self.assumed:
            console.print(
                f"[dim]A GPU for each of the {hardware.machines} x {hardware.processes} ranks of training.hardware is "
                "assumed; --machine 2x8xA100, for example, plans for others.[/]",
                soft_wrap=True,
            )
        phases = list(found["stages"][0]["seconds"])
        priced = ["cost"] if self.price is not None else []
        table = columns("stage", "memory", "of", "a step", *phases, "steps", "the stage", *priced)
        for row, (_, estimate) in zip(found["stages"], self.stages, strict=True):
            peak, have = estimate.peak * self.sharing, self.machine.memory
            memory = Text(f"{peak / GIB:.3g} GiB", style="green" if peak < 0.9 * have else "bold red")
            seconds = [duration(each) for each in (row["step_seconds"], *row["seconds"].values())]
            totals = (f"{row['steps']:,}", *self._totals(row))
            table.add_row(row["stage"], memory, f"{have / GIB:.3g} GiB", *seconds, *totals)
        if len(self.stages) > 1:
            table.add_row("total", *[""] * (len(phases) + 4), *self._totals(found), style="bold")
        print_whole(table)
        for stage, estimate in self.stages:
            engine = estimate.engine
            if engine.room < estimate.longest:
                console.print(
                    f"{stage.name}: a response may need {estimate.longest:,} tokens of cache, and the engine "
                    f"{self.training.engine.kind} has room for {engine.room:,.0f}: {engine.more_room}",
                    style="bold red", soft_wrap=True,
                )  # fmt: skip
        rates = "measured by `ratchet preflight`" if self.measured else "published (docs/scaling.md)"
        console.print(
            f"[dim]Rates are {rates}; the mean response is assumed to be {self.mean:g} of the longest. Start-up, "
            "validation, pass rates and evaluations are not counted, nor the few GB of the framework.[/]\n",
            soft_wrap=True,
        )

    def _totals(self, row: dict[str, Any]) -> list[str]:
        cost = row["cost"]
        shown = [] if cost is None else [f"{cost:,.0f}" if cost >= 100 else f"{cost:,.2f}"]
        return [duration(3600 * row["hours"]), *shown]

    def show_details(self) -> None:
        """What fills the memory, and what happens to the longest stage as it grows."""
        table = columns("GiB", "while sampling", "while updating", "KV cache tokens", "longest", "checkpoint load")
        for stage, found in self.stages:
            largest = (sorted(held.items(), key=lambda item: -item[1])[:4] for held in (found.sampling, found.updating))
            parts = [", ".join(f"{name} {size * self.sharing / GIB:.2g}" for name, size in held) for held in largest]
            room = (f"{found.engine.room:,.0f}", f"{found.longest:,}", duration(found.restart_seconds))
            table.add_row(stage.name, *parts, *room)
        print_whole(table)
        console.print()
        rows = self.growth()
        table = columns(rows[0]["stage"], "a step", "first bottleneck", "also over")
        for row in rows:
            pressures = sorted(row["of_limit"].items(), key=lambda item: -item[1])
            over = [f"{name}, {value:.2g} x its limit" for name, value in pressures if value > 1]
            nearest = Text(f"none; closest: {pressures[0][0]} at {pressures[0][1]:.2g} of its limit")
            name = row["what"] if row["times"] == 1 else f"{row['times']} x {row['what']}"
            first = Text(over[0], style="bold red") if over else nearest
            table.add_row(name, duration(row["step_seconds"]), first, "; ".join(over[1:]))
        print_whole(table)

    def growth(self) -> list[dict[str, Any]]:
        """The longest stage as it is and larger, with each limit's share."""
        from ratchet.training.estimate import estimate, pressures, scaled

        longest = max(self.stages, key=lambda each: each[0].steps * each[1].step_seconds)[0]
        rows = []
        for what, factor in GROWTH:
            if what == "GPUs" and self.machine.is_cpu:
                continue
            stage, machine = (longest, self.machine) if factor == 1 else scaled(longest, self.machine, what, factor)
            found = estimate(self.shape, stage, self.training, machine, self.mean)
            over = pressures(found, machine, self.sharing)
            first = max(over, key=over.__getitem__)
            rows.append(
                {
                    "stage": stage.name, "what": what, "times": factor, "step_seconds": found.step_seconds,
                    "first_bottleneck": first, "holds": over[first] <= 1,
                    "of_limit": {name: round(value, 3) for name, value in over.items()},
                }
            )  # fmt: skip
        return rows


def model_shape(recipe: Recipe, start: str, settings: Settings) -> "Shape":
    """The shape of the model to `start` from, otherwise the recipe's. Raises RatchetError if it cannot be read."""
    from ratchet.training.estimate import Shape

    path = recipe.model.path
    if start:
        from ratchet.infra.store.artifacts import ArtifactStore  # pyarrow

        directory = Path(start).expanduser()
        path = str(directory if directory.is_dir() else ArtifactStore(settings.artifacts).open(start).path / "model")
    if path is None:
        grown = recipe.model.grow
        return Shape(
            grown.vocabulary, grown.hidden_size, grown.layers, grown.attention_heads, grown.key_value_heads,
            grown.head_dim, grown.intermediate_size, tied=False,
        )  # fmt: skip
    from ratchet.infra.inference.models import read_config

    return Shape.of(read_config(path).to_dict())
