"""How much work something does: counted, or compared with itself, so that a slow or busy machine changes nothing.

What takes a tenth of a second here takes two elsewhere.
"""

import sys
import time
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")
PARTS = 16
_TRIES = 5
_TOO_LITTLE_S = 0.001
"""Added to both sides of a comparison, so that two calls that do next to nothing are alike."""


def within(most: int, work: Callable[..., T], *arguments: object) -> T:
    """What `work` returns; fails at the call of a function, Python's or C's, after the first `most`: the same one on
    every machine."""
    count = 0

    def seen(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")
        if count > most:
            sys.setprofile(None)
            pytest.fail(f"it calls more than {most} functions")

    sys.setprofile(seen)
    try:
        return work(*arguments)
    finally:
        sys.setprofile(None)


def grows_linearly(work: Callable[[str], object], text: str) -> bool:
    """Whether `work` on a text costs about as much as on its `PARTS` parts one by one; if it were quadratic, `PARTS`
    times as much. For work inside C, such as a regular expression's, which has no calls to count.

    Both sides are CPU time of this thread and do equally much, and only the best of some tries decides: another process
    can disturb one of them, never all. A third of quadratic growth is far from both.
    """
    size = len(text) // PARTS
    # Each part ends as the text does: without an end to look for, blank lines cost nothing.
    parts = [text[start : start + size] + text[-1:] for start in range(0, size * PARTS, size)]
    return any(_ratio(work, text, parts) < PARTS / 3 for _ in range(_TRIES))


def _ratio(work: Callable[[str], object], text: str, parts: list[str]) -> float:
    begin = time.thread_time()
    for part in parts:
        work(part)
    middle = time.thread_time()
    work(text)
    return (time.thread_time() - middle + _TOO_LITTLE_S) / (middle - begin + _TOO_LITTLE_S)
