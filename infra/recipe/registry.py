"""The part of a recipe that says when a trained model is the best one so far."""

from pydantic import Field

from ratchet.infra.section import Section


class Gate(Section):
    """What the last checkpoint has to reach before the alias `best` moves to it."""

    benchmark: str
    """A benchmark of the recipe; its pass@1 decides."""
    at_least: float = Field(default=0.0, ge=0, le=1)
    gain: float = Field(default=0.0, ge=-1, le=1)
    """More than this above the best so far, on the same questions."""
    sure: bool = False
    """The gain's whole 95 % interval has to be above `gain`, not only its estimate."""
    most_lost: float | None = Field(default=None, ge=0, le=1)
    """What pass@1 may fall by on any other benchmark, against the best so far."""


class Registry(Section):
    """The registered model that has the recipe's name: the last checkpoint of each run is a version of it, and the
    newest has the alias `candidate`."""

    gate: Gate | None = None
    """Without one, no checkpoint is ever called `best`."""
