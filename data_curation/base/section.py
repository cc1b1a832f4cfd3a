"""The base of all recipe sections, including an engine's or a domain's own settings."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

from ratchet.verifiers.errors import nearest

T = TypeVar("T")
NOT_IN_KEY = "only says where or how fast work is done"
NotInKey = Annotated[T, NOT_IN_KEY]
"""A mark of fields that are part of no artifact's key, because they cannot change the result: `timeout_s:
NotInKey[float] = 300.0`. A field that changes rounding must not have it."""


class Section(BaseModel):
    """A frozen part of a recipe that refuses unknown keys, infinities and NaN. Its rarely used fields are in the
    section `advanced`."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)
    renamed: ClassVar[Mapping[str, str]] = {}
    """The error for each old name of a field."""

    @classmethod
    def advanced_fields(cls) -> Mapping[str, Any]:
        kind = cls.model_fields["advanced"].annotation if "advanced" in cls.model_fields else None
        return kind.model_fields if isinstance(kind, type) and issubclass(kind, BaseModel) else {}

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and cls.model_config.get("extra") == "forbid":
            for key in value.keys() - cls.model_fields.keys():
                if key in cls.renamed:
                    raise ValueError(cls.renamed[key])
                if key in (advanced := cls.advanced_fields()):
                    hint = f" It belongs in the section `advanced`: `advanced: {{{key}: …}}`."
                else:
                    hint = nearest(str(key), [*cls.model_fields, *advanced], 0.4)
                    hint = hint or f" Valid here: {', '.join(cls.model_fields)}."
                raise PydanticCustomError("unknown_key", "unknown key.{hint}", {"key": str(key), "hint": hint})
        return value
