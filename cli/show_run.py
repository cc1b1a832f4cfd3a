"""`ratchet show RUN`: how far a run is, and its time and cost so far beside what the plan says."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from ratchet.cli.terminal import columns, console, print_unwrapped
from ratchet.data_curation.base.files import is_locked
from ratchet.data_curation.base.journal import read_lines
from ratchet.flows.curate import curated_problems
from ratchet.infra.recipe.load import validate_recipe
from ratchet.infra.settings import Settings
from ratchet.infra.tracking.run_record import RunRecord
from ratchet.tasks.plan import Plan
from ratchet.tasks.progress import duration
from ratchet.verifiers.errors import RatchetError

TIMES = ("so_far", "left", "planned")
STATES = {"FINISHED": "finished after", "FAILED": "failed after", "KILLED": "stopped after"}


@dataclass
class Part:
    """A step of the run, or the run itself, as the journal has it so far."""

    title: str
    began: float
    cached: bool
    ended: float = 0.0
    status: str = "KILLED"
    first: int = 0
    """Training steps: the first that this run has made, and the last."""
    last: int = 0

    def seconds(self, now: float) -> float:
        return 0.0 if self.cached else (self.ended or now) - self.began


@dataclass(frozen=True)
class Row:
    name: str
    steps: str
    so_far: float = 0.0
    """Seconds, here and below."""
    left: float | None = None
    planned: float | None = None

    def cells(self, plan: Plan) -> list[str]:
        times = [self.so_far, self.left, self.planned]
        costs = [plan.cost((seconds or 0) / 3600) for seconds in (self.so_far, self.planned)]
        spent = [f"{cost:,.2f}" for cost in costs if cost is not None]
        return [self.name, self.steps, *(duration(seconds) if seconds else "" for seconds in times), *spent]


@dataclass(frozen=True)
class RunState:
    status: str
    seconds: float
    unfinished: list[str]
    """Titles of the steps that have not ended."""
    rows: list[Row]
    plan: Plan | None


def run_facts(settings: Settings, record: RunRecord, price: float | None) -> dict[str, Any]:
    """The output of `show_run` as data."""
    state = _state(settings, record, price)
    about = {"run": record.run_id, "name": record.name, "state": state.status, "seconds": state.seconds}
    return {**about, "unfinished": state.unfinished, "stages": [asdict(row) for row in state.rows]}


def _state(settings: Settings, record: RunRecord, price: float | None) -> RunState:
    journal = settings.journals / f"{record.run_id}.jsonl"
    parts, now = _read(journal)
    run = parts.pop(record.run_id)
    words, rows, plan = STATES[run.status], list[Row](), None
    if is_locked(journal):
        words, now = "running for", time.time()
    if record.recipe and record.tags.get("ratchet.flow") in ("pipeline", "train"):
        try:
            recipe = validate_recipe(dict(record.recipe), record.run_id)
            plan = Plan(recipe, settings, price=price, curated=curated_problems(recipe, settings))
        except RatchetError as error:  # of an older Ratchet, which took other values
            console.print(Text(f"No plan of this run: {error}", style="dim"), soft_wrap=True)
        else:
            rows = list(_rows(list(parts.values()), plan, now))
            rows.append(Row("total", "", *(sum(getattr(row, name) or 0 for row in rows) for name in TIMES)))
    return RunState(words, run.seconds(now), [part.title for part in parts.values() if not part.ended], rows, plan)


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


def _rows(parts: Sequence[Part], plan: Plan, now: float) -> Iterator[Row]:
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
            steps = "cached" if trained.cached else f"{trained.last:,}/{stage.steps:,}"
        if trained and trained.last and not trained.ended:
            left = (stage.steps - trained.last) * trained.seconds(now) / (trained.last - trained.first + 1)
        yield Row(stage.name, steps, so_far, left, planned.get(stage.name))
    asked = [part for part in parts if part.title.startswith("evaluate ")]
    done = f"{sum(part.ended > 0 for part in asked)}/{plan.evaluations}"
    yield Row("evaluations", done, sum(part.seconds(now) for part in asked), None, planned.get("evaluations"))


def _read(journal: Path) -> tuple[dict[str, Part], float]:
    """The parts of a run by the journal's ids, in their order; and the time of its last event."""
    parts, now = dict[str, Part](), 0.0
    for _, event in read_lines(journal):
        now = event["time"]
        match event["event"]:
            case "start":
                parts[event["run"]] = Part(event["name"], now, event["cached"])
            case "metrics" if event["step"]:
                part = parts[event["run"]]
                part.first, part.last = part.first or event["step"], event["step"]
            case "end":
                parts[event["run"]].ended, parts[event["run"]].status = now, event["status"]
    return parts, now
