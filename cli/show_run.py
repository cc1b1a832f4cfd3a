"""`ratchet show RUN`: the progress of a run, and its time and cost so far beside the plan's."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.text import Text

from ratchet.cli.terminal import columns, console, print_unwrapped
from ratchet.data_curation.base.files import is_locked
from ratchet.flows.curate import curated_problems
from ratchet.infra.recipe.load import validate_recipe
from ratchet.infra.settings import Settings
from ratchet.infra.tracking.run_record import RunRecord, RunStep
from ratchet.tasks.plan import Plan
from ratchet.tasks.progress import duration
from ratchet.verifiers.errors import RatchetError

TIMES = ("so_far", "left", "planned")
STATES = {"FINISHED": "finished after", "FAILED": "failed after", "KILLED": "stopped after"}


@dataclass(frozen=True)
class Row:
    """A row of a run's table: a stage or an evaluation."""

    name: str
    steps: str
    so_far: float = 0.0
    """Seconds so far; the next two are seconds, too."""
    left: float | None = None
    planned: float | None = None

    def costs(self, plan: Plan) -> dict[str, float]:
        """Cost so far and planned; empty without a price."""
        costs = {"cost": plan.cost(self.so_far / 3600), "planned_cost": plan.cost((self.planned or 0) / 3600)}
        return {name: cost for name, cost in costs.items() if cost is not None}

    def cells(self, plan: Plan) -> list[str]:
        times = [self.so_far, self.left, self.planned]
        spent = [f"{cost:,.2f}" for cost in self.costs(plan).values()]
        return [self.name, self.steps, *(duration(seconds) if seconds else "" for seconds in times), *spent]


@dataclass(frozen=True)
class RunState:
    """The state of a run beside its plan."""

    status: str
    seconds: float
    unfinished: list[str]
    """Titles of the steps that have not ended, or not well."""
    rows: list[Row]
    plan: Plan | None


@dataclass(frozen=True)
class ListedRun:
    """A run in the list of all."""

    run: str
    name: str
    began: str
    state: str
    seconds: float
    steps: int
    """Steps that have finished."""


def run_row(settings: Settings, record: RunRecord) -> ListedRun:
    """A run's name, state and time."""
    words, now = _words_and_time(settings, record)
    began = time.strftime("%Y-%m-%d %H:%M", time.localtime(record.began))
    finished = sum(step.status == "FINISHED" for step in record.steps)
    return ListedRun(record.run_id, record.name, began, words, now - record.began, finished)


def _words_and_time(settings: Settings, record: RunRecord) -> tuple[str, float]:
    """What to say before the run's time, and that time's end."""
    if is_locked(settings.journals / f"{record.run_id}.jsonl"):
        return "running for", time.time()
    return STATES[record.status], record.last_event


def run_facts(settings: Settings, record: RunRecord, price: float | None) -> dict[str, Any]:
    """The output of `show_run` as data."""
    state = _state(settings, record, price)
    about = {"run": record.run_id, "name": record.name, "state": state.status, "seconds": state.seconds}
    stages = [{**asdict(row), **(row.costs(state.plan) if state.plan else {})} for row in state.rows]
    return {**about, "unfinished": state.unfinished, "stages": stages}


def _state(settings: Settings, record: RunRecord, price: float | None) -> RunState:
    (words, now), rows, plan = _words_and_time(settings, record), list[Row](), None
    if record.recipe and record.tags.get("ratchet.flow") in ("pipeline", "train"):
        try:
            recipe = validate_recipe(dict(record.recipe), record.run_id)
            plan = Plan(recipe, settings, price=price, curated=curated_problems(recipe, settings))
        except RatchetError as error:  # of an older Ratchet, which took other values
            console.print(Text(f"No plan of this run: {error}", style="dim"), soft_wrap=True)
        else:
            rows = list(_rows(record.steps, plan, now))
            rows.append(Row("total", "", *(sum(getattr(row, name) or 0 for row in rows) for name in TIMES)))
    unfinished = [step.title for step in record.steps if step.status != "FINISHED"]
    return RunState(words, now - record.began, unfinished, rows, plan)


def show_run(settings: Settings, record: RunRecord, price: float | None) -> None:
    """Print a run's state and a table of its stages and evaluations; `price` is that of a GPU-hour."""
    state = _state(settings, record, price)
    console.print(Text(f"{record.name} {record.run_id}: {state.status} {duration(state.seconds)}"), soft_wrap=True)
    if state.unfinished:
        console.print(Text(f"unfinished: {', '.join(state.unfinished)}"), soft_wrap=True)
    if state.plan:
        table = columns(
            "", "steps", "so far", "left", "planned", *(["cost", "planned cost"] if price is not None else [])
        )
        for row in state.rows:
            table.add_row(*row.cells(state.plan))
        print_unwrapped(table)


def _rows(parts: Sequence[RunStep], plan: Plan, now: float) -> Iterator[Row]:
    planned = dict[str, float]()
    try:
        planned = {row["stage"]: 3600 * row["hours"] for row in plan.summary()["stages"]}
        planned["evaluations"] = plan.evaluations * plan.evaluation
    except (RatchetError, OSError, ValueError) as error:
        console.print(Text(f"The planned time is not known: {error}", style="dim"), soft_wrap=True)
    for stage in plan.training.stages:
        trained = next((part for part in parts if part.title == f"train {stage.name}"), None)
        so_far = sum(p.seconds(now) for p in parts if p.title in (f"train {stage.name}", f"pass rates {stage.name}"))
        steps, left = f"0/{stage.steps:,}", None
        if trained:
            first, last = trained.training_steps
            steps = "cached" if trained.cached else f"{last:,}/{stage.steps:,}"
            if last and not trained.ended:
                left = (stage.steps - last) * trained.seconds(now) / (last - first + 1)
        yield Row(stage.name, steps, so_far, left, planned.get(stage.name))
    asked = [part for part in parts if part.title.startswith("evaluate ")]
    done = f"{sum(part.status == 'FINISHED' for part in asked)}/{plan.evaluations}"
    yield Row("evaluations", done, sum(part.seconds(now) for part in asked), None, planned.get("evaluations"))
