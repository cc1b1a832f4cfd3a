"""Turn a function of a run into a flow, which Prefect runs, or a plain call where there is nothing to run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from ratchet.data_curation.settings.curation import Steps
from ratchet.flows.runs import open_run, plan_run
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.settings import Settings
from ratchet.tasks.reporter import ProgressReporter
from ratchet.tasks.run_context import PlannedStep, RunContext, missing
from ratchet.tasks.run_name import run_name
from ratchet.verifiers.errors import RatchetError

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Flow(Generic[P, R]):
    """A function of a run that Prefect may run; called with the run of another flow, it is a subflow of that one.

    Prefect is imported when the flow runs: a plan, and a run whose steps are all cached, need neither its server nor
    its two seconds of imports.
    """

    fn: Callable[Concatenate[RunContext, P], R]
    name: str

    def __call__(self, run: RunContext, *arguments: P.args, **named: P.kwargs) -> R:
        if not run.in_prefect:
            return self.fn(run, *arguments, **named)
        return in_prefect(self.name, run.recipe, lambda: self.fn(run, *arguments, **named))

    def named(self, name: str) -> "Flow[P, R]":
        """The same flow under another name."""
        return replace(self, name=name)

    def plan(
        self, recipe: Recipe, arguments: Sequence[Any], settings: Settings, steps: Steps = Steps()
    ) -> tuple[list[PlannedStep], list[str]]:
        """The steps of a run of this flow, or of those chosen, and its missing requirements."""
        plain: Callable[..., R] = self.fn
        with plan_run(recipe, settings, steps) as run:
            try:
                plain(run, *arguments)
            except RatchetError as error:  # what is wrong with the steps before it is said too
                raise RatchetError("\n".join([*missing(run.plan), str(error)])) from error
            return run.plan, missing(run.plan)

    def start(
        self, recipe: Recipe, arguments: Sequence[Any], settings: Settings, reporter: ProgressReporter, *,
        steps: Steps = Steps(), overrides: Sequence[str] = (), prefect: bool = True, mirrored: bool = True,
        triggered: bool = False,
    ) -> tuple[RunContext, R]:  # fmt: skip
        """Run the flow from its beginning; returns the run and the result. Without `prefect`, flows and steps are plain
        calls. `triggered`: Prefect has already started the flow. The other arguments are those of `open_run`."""
        plain: Callable[..., R] = self.fn
        finished: list[tuple[RunContext, R]] = []

        def work() -> None:
            with open_run(recipe, settings, self.name, reporter, steps, overrides, prefect, mirrored) as run:
                finished.append((run, plain(run, *arguments)))

        if prefect and not triggered:
            in_prefect(self.name, recipe, work)
        else:
            work()
        return finished[0]


def flow(function: Callable[Concatenate[RunContext, P], R]) -> Flow[P, R]:
    """Turn a function of a run into a flow of the same name."""
    return Flow(function, function.__name__)


def in_prefect(name: str, recipe: Recipe, work: Callable[[], R]) -> R:
    """Do `work` as a Prefect flow run with a name such as `tiny-seed0-train`; the outermost gets the full name of the
    run."""
    from prefect import flow

    def started(recipe: Recipe) -> R:
        return work()

    return flow(name=name, flow_run_name=run_name(recipe.name, recipe.seed, name, ()))(started)(recipe)
