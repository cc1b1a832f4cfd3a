"""What a stage may choose: functions of (inputs, settings)."""

from __future__ import annotations

import inspect
from typing import Any


def takes_two(value: Any) -> bool:
    """Whether this is a function, or an object called like one, that two arguments are enough for."""
    if not callable(value) or inspect.isclass(value):
        return False
    try:
        inspect.signature(value).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True
