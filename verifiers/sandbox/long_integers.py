"""Integers of any length in a problem's text, which its author wrote: Python itself stops at 4,300 digits."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_changing = threading.Lock()
_inside, _before = 0, 0


@contextmanager
def long_integers() -> Iterator[None]:
    """Read and write integers of any length, in all threads. Not for a program's output: reading takes quadratic
    time."""
    global _inside, _before
    with _changing:
        if not _inside:
            _before = sys.get_int_max_str_digits()
            sys.set_int_max_str_digits(0)
        _inside += 1
    try:
        yield
    finally:
        with _changing:
            _inside -= 1
            if not _inside:
                sys.set_int_max_str_digits(_before)
