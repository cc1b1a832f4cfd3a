"""Turn a function into a flow, which Prefect runs, or a plain call where there is nothing to run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, ParamSpec, TypeVar

from ratchet.data_curation.settings.curation import Steps
from ratchet.flows.runs import outside_prefect, plan_run
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.settings import Settings
from ratchet.tasks.run_context import PlannedStep, missing
from ratchet.tasks.run_name import run_name

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Flow(Generic[P, R]):
    """Prefect is imported when the flow runs: a plan, and a run whose steps are all cached, need neither its server nor
    its two seconds of imports. Called by another flow, it is a Prefect subflow."""

    fn: Callable[P, R]
    name: str

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        return self.fn(*arguments, **named) if outside_prefect() else self._in_prefect(*arguments, **named)

    def _in_prefect(self, *arguments: P.args, **named: P.kwargs) -> R:
        """Run as a Prefect flow run that is called `tiny-seed0-train`; the outermost gets the whole name of the run."""
        from prefect import flow

        recipe: Any = arguments[0]
        decorate: Any = flow(name=self.name, flow_run_name=run_name(recipe.name, recipe.seed, self.name, ()))
        return decorate(self.fn)(*arguments, **named)

    def named(self, name: str) -> "Flow[P, R]":
        return replace(self, name=name)


def flow(function: Callable[P, R]) -> Flow[P, R]:
    return Flow(function, function.__name__)


def plan_flow(
    flow: Flow[..., Any], recipe: Recipe, arguments: Sequence[Any], settings: Settings, steps: Steps | None = None
) -> tuple[list[PlannedStep], list[str]]:
    """The steps of a run of this flow, or of those chosen, and its missing requirements."""
    with plan_run(recipe, settings, steps) as run:
        flow.fn(recipe, *arguments)
        return run.plan, missing(run.plan)
