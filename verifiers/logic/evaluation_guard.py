"""Restrict scorers that evaluate an answer as Python (`eval`, sympy's `parse_expr`) to data and arithmetic.

A confined process is not enough: injected code would run beside the expected answer, and could write the score itself.
The interpreter reports each piece of code before it runs it; code compiled from text is refused there if it contains a
name that is not part of a formula.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

# Letters, what sympy's parser wraps around them and around numbers, and functions. Not `Integral` or `expand`: sympy
# would solve the puzzle.
_FORMULA = re.compile(
    r"[A-Za-z]|pi|Integer|Float|Rational|Symbol|Function|factorial2?|sqrt|cbrt|exp|log|ln|Abs|sign|floor|ceiling"
    r"|a?(sin|cos|tan|cot|sec|csc)h?"
)
_SYMPY_NAMES = compile("from sympy import *", "<string>", "exec")
"""Code that sympy's parser itself runs before a formula."""
_state = {"installed": False, "on": False}


class RefusedCode(Exception):
    """An answer that would be run is more than a formula."""


@contextmanager
def data_only() -> Iterator[None]:
    """Within the block, running code that was compiled from text raises RefusedCode unless it is data or a formula."""
    if not _state["installed"]:
        sys.addaudithook(_hook)
    _state.update(installed=True, on=True)
    try:
        yield
    finally:
        _state["on"] = False


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "exec" and _state["on"]:
        code = arguments[0]
        # A module's code has its file's name. The flags depend on who compiled it.
        same = all(getattr(code, part) == getattr(_SYMPY_NAMES, part) for part in ("co_code", "co_names", "co_consts"))
        if code.co_filename == "<string>" and not same:
            nested = any(isinstance(constant, CodeType) for constant in code.co_consts)
            names = [name for name in code.co_names if not _FORMULA.fullmatch(name)]
            if nested or names:
                raise RefusedCode(f"an answer is not a formula: {', '.join(names) or 'it defines a function'}")
