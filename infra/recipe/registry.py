"""When a trained model is the best so far."""

from pydantic import Field

from ratchet.infra.section import Section


class Gate(Section):
    """Requirements on the last checkpoint for the alias `best`."""

    benchmark: str
    """A benchmark of the recipe; its pass@1 decides."""
    at_least: float = Field(default=0.0, ge=0, le=1)
    """Minimum pass@1."""
    gain: float = Field(default=0.0, ge=-1, le=1)
    """pass@1 must exceed the best so far by more than this, on the same questions."""
    sure: bool = False
    """The gain's whole 95 % interval must be above `gain`, not only its estimate."""
    max_loss: float | None = Field(default=None, ge=0, le=1)
    """Maximum loss of pass@1 on any other benchmark, against the best so far."""
