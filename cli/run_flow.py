"""Run or plan one flow for a command."""

import importlib
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from ratchet.cli import stopped
from ratchet.cli.terminal import console, hint, output, print_json, say, spinner
from ratchet.infra.settings import Settings, load_settings
from ratchet.verifiers.errors import RatchetError, Waiting

if TYPE_CHECKING:
    from ratchet.data_curation.settings.curation import Steps
    from ratchet.infra.recipe import Recipe
    from ratchet.tasks.run_context import PlannedStep


def load_with_overrides(
    recipe: str, set_: Sequence[str] | None, seed: int | None = None, *further: str
) -> "tuple[Recipe, list[str]]":
    """Load the recipe with the overrides of a command; returns both."""
    from ratchet.infra.recipe import load_recipe

    overrides = [*(set_ or ()), *([f"seed={seed}"] if seed is not None else []), *further]
    return load_recipe(recipe, overrides), overrides


def run_flow(
    name: str,
    recipe: "Recipe",
    arguments: tuple[Any, ...],
    dry_run: bool,
    home: Path | None,
    overrides: Sequence[str] = (),
    steps: "Steps | None" = None,
    title: str = "",
    decision: tuple[bool, str] = (False, ""),
) -> None:
    """Run or plan the flow `name`, or some of its `steps`, under this name or `title`. `decision` approves the results
    at which it waits, or is the reason to reject them."""
    settings = load_settings(home)
    from ratchet.cli.inspection import result_facts, show_result, show_steps, step_facts
    from ratchet.cli.live import reporting
    from ratchet.cli.prefect_server import prefect_server, server_address, without_heartbeats
    from ratchet.data_curation.settings.curation import Steps
    from ratchet.flows.runs import ON_CPU
    from ratchet.infra.recipe.recipe_warnings import recipe_warnings
    from ratchet.tasks.run_context import findings

    with ExitStack() as stack:
        with spinner("planning: reading the recipe's files and the model…"):  # seconds: torch and Prefect load
            flow = getattr(importlib.import_module(f"ratchet.flows.{name}"), name).named(title or name)
            steps = steps or Steps()
            plan, faults = flow.plan(recipe, arguments, settings, steps)  # finds mistakes before the first step
        trained = any(step.output.kind == "checkpoint" for step in plan)
        training = ""
        if dry_run and trained and recipe.training.stages:
            training, too_large = _training(recipe, settings, plan)
            faults = [*faults, *too_large]
        if dry_run and output.json:
            facts = {"steps": step_facts(plan), "faults": faults, "findings": list(findings(plan))}
            print_json({"recipe": recipe.name, "on_cpu": recipe.cpu_overrides, **facts})
        elif dry_run:
            show_steps(plan)
            if recipe.cpu_overrides and any(step.output.kind in ("checkpoint", "evaluation") for step in plan):
                hint(ON_CPU.format(", ".join(recipe.cpu_overrides)))
            for warning in recipe_warnings(recipe) if trained else ():
                console.print(f"[yellow]![/] {escape(warning)}", soft_wrap=True)
            for line in findings(plan):
                warning = line.removeprefix("! ")
                if warning == line:
                    hint(line)
                else:
                    console.print(f"[yellow]![/] {escape(warning)}", soft_wrap=True)
            if training:
                hint(training)
        if faults:
            raise RatchetError("\n".join(faults))
        if dry_run:
            return
        if any(decision) and not _decided(plan, settings, *decision):
            return
        # A run whose steps are all cached starts no server; one that is up shows it.
        prefect = server_address(settings) is not None or not all(step.done for step in plan)
        suspended: tuple[type[BaseException], ...] = ()
        if prefect:
            with spinner("starting Prefect's server…"):
                stack.enter_context(prefect_server(settings))
            stack.enter_context(without_heartbeats())
            from prefect.exceptions import Pause

            suspended = (Pause,)
        reporter = stack.enter_context(reporting())
        stopped.watch(reporter)
        try:
            run, result = flow.start(
                recipe, arguments, settings, reporter, steps=steps, overrides=overrides, prefect=prefect
            )
        except suspended as waiting:
            raise Waiting(str(waiting)) from None
    if output.json:
        print_json(result_facts(run, result))
    else:
        show_result(run, result)


def _training(recipe: "Recipe", settings: Settings, plan: "Sequence[PlannedStep]") -> tuple[str, list[str]]:
    """Time and memory of the training in a line, if it would run on this machine; and why it cannot."""
    from ratchet.tasks.curation import curated_files
    from ratchet.tasks.plan import Plan
    from ratchet.tasks.progress import duration
    from ratchet.verifiers.processes import GIB

    made = {(step.output.kind, step.output.name) for step in plan if not step.cached}
    stages = tuple(stage for stage in recipe.training.stages if ("checkpoint", stage.name) in made)
    if not stages:
        return "", []
    evaluated = any(kind == "evaluation" for kind, _ in made)
    update = {
        "training": recipe.training.model_copy(update={"stages": stages}),
        "evaluation": recipe.evaluation if evaluated else recipe.evaluation.model_copy(update={"after": ()}),
    }
    try:
        planned = Plan(recipe.model_copy(update=update), settings, curated=curated_files(plan))
        if planned.assumed:
            return "Time, cost and memory of the stages: `ratchet plan RECIPE`", []
        peak = max(needs.peak for _, needs in planned.stages) * planned.sharing / GIB
    except RatchetError:  # the model cannot be read yet, of which the plan's steps say more
        return "", []
    hours = duration(3600 * planned.hours)
    without = ", without the warm start," if ("checkpoint", "start") in made and recipe.training.warm_start else ""
    line = f"Training{without} and evaluation: about {hours} and {peak:.2g} GiB on {planned.machine}; "
    line += "more by `ratchet plan RECIPE`"
    return line, [*filter(None, [planned.too_large])]


def _decided(plan: "Sequence[PlannedStep]", settings: Settings, approve: bool, reject: str) -> bool:
    """Record the decision; True if the run continues in this process."""
    from ratchet.cli.prefect_server import resumed
    from ratchet.tasks.approval import decide

    if approve and reject:
        raise RatchetError("Give --approve or --reject, not both.")
    if approve and not any(step.approval for step in plan):  # decided already: the command is given again
        console.print("Nothing waits for approval.")
        return True
    approval = decide(plan, settings, approve, reject)
    say(f"{approval}: {', '.join(approval.artifacts)}")
    if approve and approval.flow_run and resumed(approval.flow_run, settings):
        console.print("Prefect resumes the run.")
        return False
    return approve
