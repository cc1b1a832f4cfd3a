"""Take a stage's interventions: those that are due after a step, and the stage's settings after them.

Their history is in the curriculum's state and so in every checkpoint: an interrupted stage takes the same ones.

A stage with `keep` or `result: best` validates once before its first step. That gives each domain and benchmark in
`keep` its floor, and `below_floor` is due when a later validation finds one below it; and a score to be better than.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import reduce
from statistics import fmean
from typing import Any, Literal

from ratchet.infra.recipe.interventions import Intervention
from ratchet.infra.recipe.training import Stage

RULE = "intervention"
"""The rule of interventions' lines in decisions.jsonl."""
BEST = "best"
"""The rule of the line in `decisions.jsonl` that says which step's weights `result: best` has kept."""
OVER_STEPS = 10
"""Steps that `truncated_above` averages over, to smooth single batches."""
WATCHED = {"truncated_above": "truncated"}
"""The metric that a trigger watches."""


@dataclass(frozen=True)
class AppliedIntervention:
    """An intervention taken after `step`. `number` is its place in the stage's list, from 0; `cause` its trigger with
    the limit, and the values seen; `changed` the (before, after) of each setting."""

    step: int
    number: int
    reset: bool | Literal["reference"]
    stop: bool
    cause: dict[str, float]
    changed: dict[str, tuple[Any, Any]]

    @property
    def decision(self) -> dict[str, Any]:
        return {"step": self.step, "rule": RULE, **asdict(self)}

    @classmethod
    def of(cls, decision: Mapping[str, Any]) -> "AppliedIntervention":
        return cls(**{name: decision[name] for name in cls.__dataclass_fields__})

    @property
    def title(self) -> str:
        """The intervention's effect in a few words."""
        done = ["reset of the reference" if self.reset == "reference" else "reset"] if self.reset else []
        done += ["stop"] if self.stop else []
        return ", ".join([*done, *(f"{name} {_in_words(after)}" for name, (_, after) in self.changed.items())])

    @property
    def reason(self) -> str:
        return ", ".join(f"{name} {value:.4g}" for name, value in self.cause.items())

    @property
    def summary(self) -> str:
        return f"{self.title} ({self.reason})"


def _in_words(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name} {share:g}" for name, share in value.items())
    return f"{value:g}"


@dataclass
class Tally:
    """A tally of validation scores: the best, the number after it, and the number in a row with something below its
    floor."""

    best: float | None = None
    without_best: int = 0
    below_floor: int = 0

    def add(self, score: float, below_floor: bool = False) -> bool:
        """Count a score; True if it is a new best."""
        better = not below_floor and (self.best is None or score > self.best)
        self.best, self.without_best = (score, 0) if better else (self.best, self.without_best + 1)
        self.below_floor = self.below_floor + 1 if below_floor else 0
        return better


@dataclass
class InterventionState:
    """The history of a stage's interventions, which every checkpoint holds."""

    taken: list[tuple[int, int]] = field(default_factory=list)  # (step, number)
    whole: Tally = field(default_factory=Tally)  # since the stage's start
    since: Tally = field(default_factory=Tally)  # since the last intervention
    recent: dict[str, list[float]] = field(default_factory=dict)  # last values of watched metrics since then
    floors: dict[str, float] = field(default_factory=dict)  # of what the stage keeps, from before its first step
    kept: dict[str, float] = field(default_factory=dict)  # its last scores


class Interventions:
    """The interventions of one stage: those taken, and those that are due."""

    def __init__(self, stage: Stage) -> None:
        self._first = stage
        self.state = InterventionState()

    @property
    def stage(self) -> Stage:
        changes = (self._first.interventions[number].do for _, number in self.state.taken)
        return reduce(Stage.after, changes, self._first)

    @property
    def stopped(self) -> bool:
        return any(self._first.interventions[number].do.stop for _, number in self.state.taken)

    @property
    def resets(self) -> int:
        return len({step for step, number in self.state.taken if self._first.interventions[number].do.reset})

    @property
    def start_due(self) -> bool:
        """True if the stage's start has to be validated, and was not yet."""
        return self._first.validates_start and self.state.whole.best is None

    def record_start(self, score: float, kept: Mapping[str, float] = {}) -> None:
        """Note the scores of the stage's start: the best so far, and the floors of what the stage keeps."""
        self.state.floors = {name: own - self._first.keep[name] for name, own in kept.items()}
        self.record_validation(score, kept)

    def record_validation(self, score: float, kept: Mapping[str, float] = {}) -> bool:
        """Note a validation score and the scores of what the stage keeps; True if it is the best of the stage."""
        self.state.kept = dict(kept)
        below = bool(self.below_floor)
        self.state.since.add(score, below)
        return self.state.whole.add(score, below)

    @property
    def below_floor(self) -> dict[str, float]:
        """Names that the last validation found below their floors, with their scores."""
        return {name: score for name, score in self.state.kept.items() if score < self.state.floors[name]}

    def take(self, step: int, score: float | None, metrics: Mapping[str, float]) -> list[AppliedIntervention]:
        """Take the interventions that are due after this step, with its validation score, if any, and metrics, and that
        change anything. Then the stage has their settings, and scores and metrics are counted from zero."""
        self._watch(metrics)
        causes = {number: self._cause(each, step, score) for number, each in enumerate(self._first.interventions)}
        due = {number: cause for number, cause in causes.items() if cause is not None}
        last = [number for number in due if self._first.interventions[number].do.stop][:1]
        done: list[AppliedIntervention] = []
        for number in last or due:  # nothing follows a stop
            do = self._first.interventions[number].do
            reset, now = not any(intervention.reset for intervention in done) and do.reset, self.stage
            changed = {name: (was, new) for name, new in do.settings.items() if (was := getattr(now, name)) != new}
            if reset or do.stop or changed:
                self.state.taken.append((step, number))
                done.append(AppliedIntervention(step, number, reset, do.stop, due[number], changed))
        if done:
            self.state.since, self.state.recent = Tally(score), {}
        return done

    def _watch(self, metrics: Mapping[str, float]) -> None:
        rules = [each.when for each in self._first.interventions if each.when.trigger[0] in WATCHED]
        for name in WATCHED.values():
            if rules and name in metrics:
                values = self.state.recent.setdefault(name, [])
                values.append(metrics[name])
                del values[:-OVER_STEPS]

    def _cause(self, each: Intervention, step: int, score: float | None) -> dict[str, float] | None:
        """The trigger with its limit and the values seen, if it is due."""
        trigger, limit = each.when.trigger
        tally = self.state.whole if each.do.stop else self.state.since
        match trigger:
            case "at_step":
                return {trigger: limit} if step == limit else None
            case "every_steps":
                return {trigger: limit} if step % limit == 0 else None
            case "plateau":
                if score is None or tally.best is None or tally.without_best < limit:
                    return None
                return {trigger: limit, "validation": score, "best": tally.best}
            case "below_floor":
                if score is None or tally.below_floor < limit:
                    return None
                floors = {f"floor of {name}": self.state.floors[name] for name in self.below_floor}
                return {trigger: limit, **self.below_floor, **floors}
        metric = WATCHED[trigger]
        values = self.state.recent.get(metric, [])
        if len(values) < OVER_STEPS:
            return None
        mean = fmean(values)
        return {trigger: limit, metric: mean, "over_steps": OVER_STEPS} if mean > limit else None

    def state_dict(self) -> dict[str, Any]:
        return asdict(self.state)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        history = [(step, number) for step, number in state["taken"]]
        tallies = {name: Tally(**state[name]) for name in ("whole", "since")}
        self.state = InterventionState(**{**state, "taken": history, **tallies})
