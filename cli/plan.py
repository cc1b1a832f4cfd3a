"""`ratchet plan`: what a recipe takes of time, money and memory, and its first bottleneck when it grows."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from ratchet.cli.terminal import columns, console, print_whole
from ratchet.infra.errors import RatchetError
from ratchet.infra.recipe import Recipe, load_recipe
from ratchet.infra.recipe.training import Stage
from ratchet.infra.settings import Settings, load_settings
from ratchet.tasks.progress import duration

if TYPE_CHECKING:
    from ratchet.training.estimate import Estimate, Shape
    from ratchet.training.machine import Machine

GROWTH = [(what, factor) for what in ("prompts", "GPUs", "length") for factor in (10, 100)]


def plan(
    recipe: Annotated[str, typer.Argument(help="A recipe file, or a shipped recipe by name.")] = "tiny",
    machine: Annotated[
        str, typer.Option("--machine", metavar="MxNxGPU", help="E.g. 16x8xH100; by default this machine.")
    ] = "",
    price: Annotated[float | None, typer.Option("--price", min=0, help="Price per GPU-hour.")] = None,
    mean: Annotated[
        float, typer.Option("--mean", min=0.01, max=1, help="Mean response length as a fraction of the maximum.")
    ] = 0.5,
    as_json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override one field; repeatable.")
    ] = None,
    home: Annotated[str | None, typer.Option("--home", help="Where everything is kept (default: ./.ratchet).")] = None,
) -> None:
    """Time, cost and memory of each stage, from a simulation of its step, and the first bottleneck at 10 and 100 times
    the prompts, GPUs or response length.

    With what `ratchet preflight` has measured on such machines, or else with published rates: docs/scaling.md.

    Example: `ratchet plan acereason-14b --machine 16x8xH100 --price 2.5`
    """
    settings, resolved = load_settings(home), load_recipe(recipe, set_ or ())
    if not resolved.training.stages:
        raise RatchetError(f"The recipe {resolved.name} has no stages to plan.")
    planned = Plan(resolved, settings, _machine(machine), mean, price)
    if as_json:
        console.file.write(json.dumps(planned.data(), indent=1) + "\n")
        return
    planned.show()
    planned.show_memory()
    planned.show_growth()


def show_short(recipe: Recipe, only: str, start: str, machine: str, settings: Settings) -> bool:
    """The times of a plan, for `--dry-run`; False where nothing can be said."""
    if not recipe.training.stages or only not in ("", *(stage.name for stage in recipe.training.stages)):
        return False  # as the run will say
    given = _machine(machine)
    try:
        Plan(recipe, settings, given, only=only, start=start).show()
    except (RatchetError, OSError, ValueError) as error:
        console.print(f"Memory and time are not estimated: {error}\n", markup=False, soft_wrap=True)
        return False
    return True


class Plan:
    """The estimates of a recipe's stages on one machine."""

    def __init__(
        self, recipe: Recipe, settings: Settings, given: "Machine", mean: float = 0.5, price: float | None = None,
        only: str = "", start: str = "",
    ) -> None:  # fmt: skip
        from ratchet.training.estimate import estimate
        from ratchet.training.machine import measured_file, with_measured

        self.machine = with_measured(given, measured_file(settings.home, recipe.name))
        self.measured = self.machine is not given
        self.recipe, self.training, self.mean, self.price = recipe, recipe.training, mean, price
        self.shape = model_shape(recipe, start, settings)
        self.stages = [
            (stage, estimate(self.shape, stage, self.training, self.machine, mean))
            for stage in recipe.training.stages
            if only in ("", stage.name)
        ]
        self.together = recipe.training.hardware.ranks if self.machine.is_cpu else 1
        """Ranks that share one memory."""

        self.hours = sum(map(self.hours_of, self.stages))

    def hours_of(self, planned: "tuple[Stage, Estimate]") -> float:
        return planned[1].step_seconds * planned[0].steps / 3600

    def cost(self, hours: float) -> float | None:
        return None if self.price is None else hours * self.price * self.machine.count

    def show(self) -> None:
        hardware, growing = self.training.hardware, self.machine
        console.print(
            f"{self.shape.parameters:,} parameters on {growing}, ZeRO {hardware.zero_stage}, {hardware.dtype}"
        )
        phases = list(dict.fromkeys(name for _, found in self.stages for name in found.seconds))
        table = columns("stage", "memory", "of", "a step", *phases, "steps", "the stage")
        if self.price is not None:
            table.add_column("cost", justify="right")
        for stage, found in self.stages:
            peak, have = found.peak * self.together, growing.memory
            held = Text(gib(peak), style="green" if peak < 0.9 * have else "bold red")
            row: list[Any] = [stage.name, held, gib(have), duration(found.step_seconds)]
            row += [duration(found.seconds[name]) for name in phases]
            row += [f"{stage.steps:,}", duration(3600 * self.hours_of((stage, found)))]
            table.add_row(*row, *self._cost_cell(self.hours_of((stage, found))))
        if len(self.stages) > 1:
            blank = [""] * (len(phases) + 4)
            table.add_row("total", *blank, duration(3600 * self.hours), *self._cost_cell(self.hours), style="bold")
        print_whole(table)
        for stage, found in self.stages:
            if found.engine.room < found.longest:
                console.print(
                    f"{stage.name}: a response may need {found.longest:,} tokens of cache, and the engine "
                    f"{self.training.engine.kind} has room for {found.engine.room:,.0f}: {found.engine.more_room}",
                    style="bold red", soft_wrap=True,
                )  # fmt: skip
        rates = "measured by `ratchet preflight`" if self.measured else "published (docs/scaling.md)"
        console.print(
            f"[dim]Rates are {rates}; responses are taken to be {self.mean:g} of the longest on average. Starting, "
            "validation, pass rates and evaluations are not counted, nor some GB of the framework's.[/]\n",
            soft_wrap=True,
        )

    def _cost_cell(self, hours: float) -> list[str]:
        cost = self.cost(hours)
        return [] if cost is None else [f"{cost:,.0f}" if cost >= 100 else f"{cost:,.2f}"]

    def show_memory(self) -> None:
        table = columns(
            "GiB", "while sampling", "while updating", "tokens in the KV cache", "longest", "checkpoint load"
        )
        for stage, found in self.stages:
            phases = [self._parts(held) for held in (found.sampling, found.updating)]
            table.add_row(
                stage.name, *phases, f"{found.engine.room:,.0f}", f"{found.longest:,}", duration(found.restart_seconds)
            )
        print_whole(table)
        console.print()

    def _parts(self, held: dict[str, float]) -> str:
        largest = sorted(held, key=held.__getitem__, reverse=True)[:4]
        return ", ".join(f"{name} {held[name] * self.together / 2**30:.2g}" for name in largest)

    def growth(self) -> list[dict[str, Any]]:
        """What the stage that takes most time becomes, and how far each limit is passed."""
        from ratchet.training.estimate import estimate, pressures, scaled

        longest = max(self.stages, key=self.hours_of)[0]
        rows = []
        for what, factor in [("as it is", 1), *GROWTH]:
            stage, machine = (longest, self.machine) if factor == 1 else scaled(longest, self.machine, what, factor)
            if machine.is_cpu and what == "GPUs":
                continue
            found = estimate(self.shape, stage, self.training, machine, self.mean)
            over = pressures(found, machine, self.together)
            first = max(over, key=over.__getitem__)
            rows.append(
                {
                    "stage": stage.name, "what": what, "times": factor, "step_seconds": found.step_seconds,
                    "first_bottleneck": first, "holds": over[first] <= 1,
                    "of_limit": {name: round(value, 3) for name, value in over.items()},
                }
            )  # fmt: skip
        return rows

    def show_growth(self) -> None:
        rows = self.growth()
        table = columns(rows[0]["stage"], "a step", "first bottleneck", "also over")
        for row in rows:
            over = sorted(row["of_limit"].items(), key=lambda item: -item[1])
            said = [f"{name}, {value:.2g} x its limit" for name, value in over if value > 1]
            nearest = Text(f"none; closest: {over[0][0]} at {over[0][1]:.2g} of its limit")
            first = Text(said[0], style="bold red") if said else nearest
            what = row["what"] if row["times"] == 1 else f"{row['times']} x {row['what']}"
            table.add_row(what, duration(row["step_seconds"]), first, "; ".join(said[1:]))
        print_whole(table)

    def data(self) -> dict[str, Any]:
        """All of it; seconds, bytes and hours."""
        stages = [
            {
                "stage": stage.name, "steps": stage.steps, "step_seconds": found.step_seconds, "seconds": found.seconds,
                "hours": self.hours_of((stage, found)), "cost": self.cost(self.hours_of((stage, found))),
                "memory": {"sampling": found.sampling, "updating": found.updating, "of": self.machine.memory},
                "cache_tokens": found.engine.room, "longest_tokens": found.longest,
                "empty_decode_slots": found.sampled.empty, "evictions_per_response": found.sampled.evicted,
                "judge_load": found.judging, "checkpoint_bytes": found.checkpoint_bytes,
                "restart_seconds": found.restart_seconds,
            }
            for stage, found in self.stages
        ]  # fmt: skip
        return {
            "recipe": self.recipe.name, "machine": str(self.machine), "gpus": self.machine.count,
            "parameters": self.shape.parameters, "rates_measured": self.measured, "mean_response": self.mean,
            "stages": stages, "hours": self.hours, "cost": self.cost(self.hours), "growth": self.growth(),
        }  # fmt: skip


def _machine(told: str) -> "Machine":
    from ratchet.training.machine import found_machine, told_machine

    return told_machine(told) if told else found_machine()


def gib(size: float) -> str:
    return f"{size / 2**30:.3g} GiB"


def model_shape(recipe: Recipe, start: str, settings: Settings) -> "Shape":
    """Of the recipe's model, or of the one to `start` from. Raises RatchetError where that cannot be read."""
    from ratchet.training.estimate import Shape

    path = recipe.model.path
    if start:
        from ratchet.infra.artifacts import ArtifactStore  # pyarrow

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
