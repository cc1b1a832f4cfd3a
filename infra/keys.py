"""The part of a recipe's settings in an artifact's key: fields that decide the result and differ from their default.
A new field with a default therefore changes no key. Neither does a changed default, which must raise the version of
every step that reads it: tests/tasks/test_step_defaults.py checks that.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from ratchet.data_curation.base.section import NOT_IN_KEY


def in_key(value: Any) -> Any:
    """Settings as JSON for a key: sections, and mappings and sequences of them."""
    return _json(value, with_defaults=False)


def decisive(value: Any) -> Any:
    """Settings as JSON, including defaults, for a manifest."""
    return _json(value, with_defaults=True)


def _json(value: Any, with_defaults: bool) -> Any:
    if isinstance(value, BaseModel):
        settings = {name: (field, getattr(value, name)) for name, field in type(value).model_fields.items()}
        held = {
            name: inner
            for name, (field, inner) in settings.items()
            if not not_in_key(field) and (with_defaults or not _is_default(field, inner))
        }
        advanced = _json(held.pop("advanced", {}), with_defaults)  # in a key, a field may become an advanced one
        return _json(held | (value.model_extra or {}), with_defaults) | advanced
    if isinstance(value, Mapping):
        return {str(name): _json(inner, with_defaults) for name, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_json(inner, with_defaults) for inner in value]
    return to_jsonable_python(value)


def _is_default(field: FieldInfo, value: Any) -> bool:
    # A Literal of one value tells sections apart that have only defaults.
    if field.is_required() or (get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1):
        return False
    default = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, BaseModel) and type(value) is not type(default):
        return False
    return in_key(value) == in_key(default)


def not_in_key(field: FieldInfo) -> bool:
    return NOT_IN_KEY in field.metadata


def flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """The leaves of JSON under dotted names, `stages.0.steps`; a list of plain values is one leaf."""
    if isinstance(value, Mapping):
        inner = list(value.items())
    elif isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
        inner = list(enumerate(value))
    else:
        return {prefix: value}
    leaves: dict[str, Any] = {}
    for name, item in inner:
        leaves |= flat(item, f"{prefix}.{name}" if prefix else str(name))
    return leaves
