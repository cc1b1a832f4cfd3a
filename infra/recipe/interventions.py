"""Changes of a stage while it runs, triggered by its metrics."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from ratchet.data_curation.base import bounds
from ratchet.data_curation.base.section import Section

Mix = Annotated[
    dict[str, bounds.Weight],
    Field(min_length=1),
    AfterValidator(lambda mix: dict(sorted(mix.items(), key=lambda item: (-item[1], item[0])))),
]
"""Shares of each batch's prompts, by domain, largest first: the order matters, and a mapping's is easily lost."""


class When(Section):
    """Exactly one trigger, checked after each step. Counts and averages restart after each intervention."""

    at_step: bounds.Steps | None = None
    """The step after which it is due, counted from 1."""
    every_steps: bounds.Steps | None = None
    """A number of steps; it is due after each multiple of it."""
    plateau: bounds.Steps | None = None
    """Validations in a row without a new best; for `do: stop` counted over the whole stage."""
    below_floor: bounds.Steps | None = None
    """Validations in a row in which a score that the stage's `keep` names is below its floor; for `do: stop` counted
    over the whole stage."""
    truncated_above: bounds.BelowOne | None = None
    """Share of truncated responses, as the mean over the last ten steps."""

    @property
    def trigger(self) -> tuple[str, float]:
        """The trigger's name and its limit."""
        [(name, limit)] = self._given()
        return name, limit

    def _given(self) -> list[tuple[str, float]]:
        return [(name, value) for name, value in self if value is not None]

    @model_validator(mode="after")
    def _exactly_one(self) -> "When":
        if len(self._given()) != 1:
            raise ValueError(f"give exactly one of {', '.join(When.model_fields)}")
        return self


class Change(Section):
    """The changes of an intervention, all from the next step on."""

    reset: Literal[True, False, "reference"] = False
    """ProRL's hard reset: the reference becomes the policy, optimizer and warm-up restart. `reference` leaves the
    optimizer as it is (ProRL v2)."""
    stop: bounds.Flag = False
    """End the stage."""
    mix: Mix | None = None
    """The stage's new mix, with all of its domains."""
    learning_rate: bounds.LearningRate | None = None
    """The stage's new learning rate."""
    max_response_tokens: bounds.Tokens | None = None
    """The stage's new limit in tokens."""
    unfinished_penalty: bounds.Coefficient | None = None
    """The stage's new penalty for truncated responses."""
    rollouts: bounds.Rollouts | None = None
    """The stage's new number of responses per prompt."""

    @property
    def settings(self) -> dict[str, Any]:
        """The stage's fields with their new values."""
        return {name: value for name, value in self if name not in ("reset", "stop") and value is not None}

    @model_validator(mode="before")
    @classmethod
    def _word(cls, value: Any) -> Any:
        if isinstance(value, str) and value not in ("reset", "stop"):
            raise ValueError(f"give reset, stop, or changes ({', '.join(Change.model_fields)})")
        return {value: True} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _does_something(self) -> "Change":
        if not (self.reset or self.stop or self.settings):
            raise ValueError(f"give something to do: {', '.join(Change.model_fields)}")
        return self


class Intervention(Section):
    """An intervention, such as `{when: {plateau: 4}, do: reset}`; `do` is `reset`, `stop`, or several of `Change`'s
    fields."""

    when: When
    """The trigger."""
    do: Change
    """The changes."""
