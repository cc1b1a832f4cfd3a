"""Makes a function a flow, which Prefect runs, or a plain call where there is nothing to run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, ParamSpec, TypeVar

from ratchet.data_curation.settings.curation import Steps
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.settings import Settings
from ratchet.tasks.pipeline_run import PlannedStep, missing, outside_prefect, plan_run

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Flow(Generic[P, R]):
    """Prefect is imported when the flow runs: a plan, and a run whose steps are all cached, need neither its server nor
    its two seconds of imports. Called by another flow, it is a Prefect subflow."""

    fn: Callable[P, R]
    name: str

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        return self.fn(*arguments, **named) if outside_prefect() else self.prefect(*arguments, **named)

    @property
    def prefect(self) -> Any:
        from prefect import flow

        return flow(name=self.name, flow_run_name=self.name)(self.fn)

    def named(self, name: str) -> "Flow[P, R]":
        return replace(self, name=name)


def flow(function: Callable[P, R]) -> Flow[P, R]:
    return Flow(function, function.__name__)


def plan_flow(
    flow: Flow[..., Any], recipe: Recipe, arguments: Sequence[Any], settings: Settings, steps: Steps = Steps()
) -> tuple[list[PlannedStep], list[str]]:
    """The steps of a run of this flow, or of those chosen, and its missing requirements."""
    with plan_run(recipe, settings, steps) as run:
        flow.fn(recipe, *arguments)
        return run.plan, missing(run.plan)
