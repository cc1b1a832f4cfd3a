"""The base of all recipe sections, also of an engine's or a domain's own settings."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

from ratchet.verifiers.errors import nearest

T = TypeVar("T")
ONLY_WHERE = "only says where or how fast work is done"
Where = Annotated[T, ONLY_WHERE]
"""Marks a field that is part of no artifact's key, because it cannot change the result: `timeout_s: Where[float] =
300.0`. A field that changes rounding is not one."""


class Section(BaseModel):
    """Frozen; refuses unknown keys, infinities and NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and cls.model_config.get("extra") == "forbid":
            for key in value.keys() - cls.model_fields.keys():
                hint = nearest(str(key), cls.model_fields, 0.4) or f" Valid here: {', '.join(cls.model_fields)}."
                raise PydanticCustomError("unknown_key", "unknown key.{hint}", {"key": str(key), "hint": hint})
        return value
