"""The part of a recipe that others are made of, where an engine's or a domain's own settings can reach it."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict

T = TypeVar("T")
ONLY_WHERE = "only says where or how fast work is done"
Where = Annotated[T, ONLY_WHERE]
"""Marks a field that no artifact's key holds, because the result is the same whatever it says:
`timeout_s: Where[float] = 300.0`. What changes rounding is no such field."""


class Section(BaseModel):
    """Frozen, and refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
