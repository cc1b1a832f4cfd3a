"""Waiting for what another process or thread does, with one patience for all tests: a busy machine is no failure."""

import time
from collections.abc import Callable

PATIENCE_S = 600.0
"""Twenty times what the longest wait takes on a quiet machine. A hang is over then, with the test's own message."""


def happens(condition: Callable[[], object]) -> bool:
    """Whether it becomes true while there is patience."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
