"""`ratchet plan`: a recipe's time, cost and memory, and its first bottleneck when it grows."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from ratchet.cli.options import Home, Overrides, artifact
from ratchet.cli.options import Recipe as RecipeName
from ratchet.cli.terminal import columns, console, errors, hint, output, print_json, print_unwrapped, say, spinner
from ratchet.infra.settings import load_settings
from ratchet.tasks.progress import duration
from ratchet.verifiers.errors import RatchetError, nearest
from ratchet.verifiers.processes import GIB

if TYPE_CHECKING:
    from ratchet.tasks.plan import Plan


def plan(
    recipe: RecipeName = "tiny",
    machine: Annotated[
        str, typer.Option("--machine", metavar="MxNxGPU", help="Such as 16x8xH100 (default: the recipe's hardware).")
    ] = "",
    price: Annotated[float | None, typer.Option("--price", min=0, max=1e9, help="Price per GPU-hour.")] = None,
    mean: Annotated[
        float, typer.Option("--mean", min=0.01, max=1, help="Mean response length as a fraction of the maximum.")
    ] = 0.5,
    stage: Annotated[str, typer.Option("--stage", help="Plan this stage only.")] = "",
    model: Annotated[str, artifact("Plan for this checkpoint or model directory.", "--model")] = "",
    set_: Overrides = None,
    home: Home = None,
) -> None:
    """Estimate time, cost and memory of each stage before it runs.

    Each stage's step is simulated. The first bottleneck is named, now and at 10 and 100 times the prompts, GPUs or
    response length.

    Rates are those that `ratchet preflight RECIPE` has measured on such machines, otherwise published ones
    (docs/howto/sizing.md).

    Example: `ratchet plan acereason-14b --machine 16x8xH100 --price 2.5`

    Example: `ratchet plan acereason-7b --machine 2x8xH100 --set training.engine.tensor_parallel=8`
    """
    from ratchet.flows.runs import ON_CPU
    from ratchet.infra.recipe import load_recipe

    settings, resolved = load_settings(home), load_recipe(recipe, set_ or (), fit=not machine)
    names = [each.name for each in resolved.training.stages]
    if not names:
        raise RatchetError(f"The recipe {resolved.name} has no stages to plan.")
    if stage not in ("", *names):
        raise RatchetError(f"The recipe {resolved.name} has no stage {stage!r}.{nearest(stage, names)}")
    with spinner("planning: reading the model's shape…", errors):  # seconds: torch and transformers load
        from ratchet.flows.curate import curated_problems
        from ratchet.tasks.plan import Plan

        curated = curated_problems(load_recipe(recipe, set_ or ()), settings)
        planned = Plan(resolved, settings, machine, mean, price, stage=stage, start=model, curated=curated)
        summary = planned.summary()
    if output.json:
        print_json({**summary, "growth": planned.growth()})
        return
    if resolved.cpu_overrides:
        hint(ON_CPU.format(", ".join(resolved.cpu_overrides)))
    _show(planned)
    _show_details(planned)


def _show(plan: "Plan") -> None:
    summary, hardware = plan.summary(), plan.training.hardware
    copied = plan.stages[0][1].copied_among
    partition = f"ZeRO {hardware.sharding}" + (
        f" with a copy of the weights on every {copied} GPUs" if copied > 1 else ""
    )
    apart = f" and {plan.gpus - plan.machine.count} that only sample" if plan.gpus > plan.machine.count else ""
    console.print(f"{plan.shape.parameters:,} parameters on {plan.machine}{apart}, {partition}, {hardware.dtype}")
    if plan.assumed:
        console.print(
            f"[dim]A GPU for each of the {hardware.machines} x {hardware.processes} ranks of training.hardware is "
            "assumed; --machine 2x8xA100, for example, plans for others"
            f"{', and --set training.hardware.processes=1 for this CPU' if plan.here.is_cpu else ''}.[/]",
            soft_wrap=True,
        )
    phases = list(summary["stages"][0]["seconds"])
    priced = ["cost"] if plan.price is not None else []
    where = "memory" if plan.machine.is_cpu else "memory of a GPU"
    table = columns("stage", where, "available", "step time", *phases, "steps", "overhead", "stage time", *priced)
    for row, (_, estimate) in zip(summary["stages"], plan.stages, strict=True):
        peak, have = estimate.peak * plan.sharing, plan.machine.memory
        memory = Text(f"{peak / GIB:.3g} GiB", style="green" if peak < 0.9 * have else "bold red")
        seconds = [duration(each) for each in (row["step_seconds"], *row["seconds"].values())]
        overhead = sum(row["overhead"].values())
        totals = (f"{row['steps']:,}", duration(overhead) if overhead else "", *_totals(row))
        table.add_row(row["stage"], memory, f"{have / GIB:.3g} GiB", *seconds, *totals)
    evaluations = summary["evaluations"]
    if evaluations["number"]:
        hours = evaluations["number"] * evaluations["hours_each"]
        row = {"hours": hours, "cost": plan.cost(hours)}
        table.add_row(f"{evaluations['number']} evaluations", *[""] * (len(phases) + 5), *_totals(row))
    if len(plan.stages) > 1 or evaluations["number"]:
        table.add_row("total", *[""] * (len(phases) + 5), *_totals(summary), style="bold")
    print_unwrapped(table)
    _show_gpu_hours(plan, summary)
    for stage, estimate in plan.stages:
        engine = estimate.engine
        if engine.room < estimate.longest:
            console.print(
                f"{stage.name}: a response may need {estimate.longest:,} tokens of cache, and the engine "
                f"{plan.training.engine.kind} has room for {engine.room:,.0f}: {engine.more_room}",
                style="bold red", soft_wrap=True,
            )  # fmt: skip
    largest = max(needs.checkpoint_bytes for _, needs in plan.stages)
    kept = f"{plan.rollout_bytes / 1e9:,.3g} GB of rollouts (training.keep_rollouts)"
    say(f"On disk: {kept}, {largest / 1e9:,.3g} GB for each checkpoint of a running stage.")
    known = "measured now, of this CPU" if plan.machine.is_cpu else "published (docs/howto/sizing.md)"
    rates = "measured by `ratchet preflight RECIPE`" if plan.measured else known
    console.print(
        f"[dim]Rates are {rates}; the mean response is assumed to be {plan.mean:g} of the longest. Overhead is "
        f"start-up, pass rates{_prompts(plan)} and validation. Not counted: {_uncounted(summary)}restarts, a few GB of "
        "framework memory.[/]",
        soft_wrap=True,
    )
    if assumed := summary["unconfirmed"]:
        console.print(
            f"[dim]{len(assumed)} of the rates were never measured on a GPU (docs/evidence/plan.md; --json lists "
            "them).[/]", soft_wrap=True,
        )  # fmt: skip
    console.print()


def _prompts(plan: "Plan") -> str:
    measured = [stage for stage, _ in plan.stages if stage.max_pass_rate is not None]
    return f" (of {max(map(plan.prompts, measured)):,} prompts)" if measured else ""


def _uncounted(summary: dict[str, Any]) -> str:
    names = summary["evaluations"]["not_counted"]
    warm_start = "the warm start, " if summary["without_warm_start"] else ""
    return warm_start + (f"benchmarks of unknown size ({', '.join(names)}), " if names else "")


def _show_gpu_hours(plan: "Plan", summary: dict[str, Any]) -> None:
    """GPU hours and efficiency beside those of fewer machines, and warnings."""
    words = f"{summary['gpu_hours']:,.0f} GPU hours, MFU {summary['efficiency']:.1%}."
    if fewer := summary["on_a_quarter"]:
        share = fewer["gpu_hours"] / summary["gpu_hours"]
        words += (
            f" On {fewer['gpus']} GPUs: {fewer['gpu_hours']:,.0f} GPU hours in {duration(3600 * fewer['hours'])}, so "
            f"{summary['gpus']} GPUs are {share:.0%} as efficient."
        )
    if not plan.machine.is_cpu:
        say(words)
    for words in summary["warnings"]:
        say(f"warning: {words}", style="bold yellow")


def _totals(row: dict[str, Any]) -> list[str]:
    cost = row["cost"]
    shown = [] if cost is None else [f"{cost:,.0f}" if cost >= 100 else f"{cost:,.2f}"]
    return [duration(3600 * row["hours"]), *shown]


def _show_details(plan: "Plan") -> None:
    """Memory by purpose, and the limits of the longest stage as it grows."""
    table = columns("GiB", "while sampling", "while updating", "KV cache tokens", "longest sequence", "checkpoint load")
    for stage, needs in plan.stages:
        largest = (sorted(held.items(), key=lambda item: -item[1])[:4] for held in (needs.sampling, needs.updating))
        parts = [", ".join(f"{name} {size * plan.sharing / GIB:.2g}" for name, size in held) for held in largest]
        room = (f"{needs.engine.room:,.0f}", f"{needs.longest:,}", duration(needs.restart_seconds))
        table.add_row(stage.name, *parts, *room)
    print_unwrapped(table)
    console.print()
    rows = plan.growth()
    table = columns(rows[0]["stage"], "step time", "first bottleneck", "other bottlenecks")
    for row in rows:
        pressures = sorted(row["of_limit"].items(), key=lambda item: -item[1])
        over = [f"{name}, {value:.2g} x its limit" for name, value in pressures if value > 1]
        nearest = Text(f"none; closest: {pressures[0][0]} at {pressures[0][1]:.2g} of its limit")
        name = row["what"] if row["times"] == 1 else f"{row['times']} x {row['what']}"
        first = Text(over[0], style="bold red") if over else nearest
        table.add_row(name, duration(row["step_seconds"]), first, "; ".join(over[1:]))
    print_unwrapped(table)
    hint("The limits are those of docs/howto/sizing.md.")
