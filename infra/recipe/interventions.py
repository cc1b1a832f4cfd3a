"""What a stage does to itself while it runs: when something is seen in its numbers, do this."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from ratchet.infra.section import Section


def _largest_first(mix: dict[str, float]) -> dict[str, float]:
    # The order means something, and a mapping's is easily lost, so it is a function of what the mapping says.
    return dict(sorted(mix.items(), key=lambda item: (-item[1], item[0])))


Mix = Annotated[
    dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]], Field(min_length=1), AfterValidator(_largest_first)
]
"""Shares of each batch's prompts, by domain, largest first."""


class When(Section):
    """Exactly one of these, seen after a step. What counts validations or steps starts over after each intervention."""

    at_step: int | None = Field(default=None, ge=1)
    every_steps: int | None = Field(default=None, ge=1)
    plateau: int | None = Field(default=None, ge=1)
    """So many validations in a row without a new best. `do: stop` counts on through other interventions."""
    validation_drop: float | None = Field(default=None, gt=0)
    """Validation is this much below its best."""
    truncated_above: float | None = Field(default=None, ge=0, lt=1)
    """Share of the responses of the last `over_steps` steps that were truncated."""
    entropy_below: float | None = Field(default=None, gt=0)
    """Nats per token, over the last `over_steps` steps."""
    over_steps: int = Field(default=10, ge=1)

    @property
    def trigger(self) -> tuple[str, float]:
        """The one that is given, and its limit."""
        [(name, limit)] = self._given()
        return name, limit

    def _given(self) -> list[tuple[str, float]]:
        return [(name, value) for name, value in self if name != "over_steps" and value is not None]

    @model_validator(mode="after")
    def _exactly_one(self) -> "When":
        if len(self._given()) != 1:
            names = [name for name in When.model_fields if name != "over_steps"]
            raise ValueError(f"give exactly one of {', '.join(names)}")
        averaged = self.trigger[0] in ("truncated_above", "entropy_below")
        if not averaged and self.over_steps != When.model_fields["over_steps"].default:
            raise ValueError("over_steps belongs to truncated_above and entropy_below")
        return self


class Change(Section):
    """What an intervention does, all of it at once; from the next step on."""

    reset: bool | Literal["reference"] = False
    """ProRL's hard reset: the reference becomes the policy, the optimizer forgets, warm-up starts over. With
    `reference` the optimizer goes on with what it has (ProRL v2)."""
    stop: bool = False
    """The stage ends here."""
    mix: Mix | None = None
    """The stage's new mix: give all of its domains, the added one and those that stay."""
    max_response_tokens: int | None = Field(default=None, ge=1)
    unfinished_penalty: float | None = Field(default=None, ge=0)
    rollouts: int | None = Field(default=None, ge=2)

    @property
    def settings(self) -> dict[str, Any]:
        """The fields of the stage that get a new value."""
        return {name: value for name, value in self if name not in ("reset", "stop") and value is not None}

    @model_validator(mode="before")
    @classmethod
    def _word(cls, value: Any) -> Any:
        if isinstance(value, str) and value not in ("reset", "stop"):
            raise ValueError(f"say reset, stop, or what changes ({', '.join(Change.model_fields)})")
        return {value: True} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _does_something(self) -> "Change":
        if not (self.reset or self.stop or self.settings):
            raise ValueError(f"say what to do: {', '.join(Change.model_fields)}")
        return self


class Intervention(Section):
    """`{when: {plateau: 4}, do: reset}`; `do` is `reset`, `stop`, or several of `Change`'s fields."""

    when: When
    do: Change
