"""Integers of any length in the text of a problem, which its author wrote: Python itself stops at 4,300 digits."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_changing = threading.Lock()
_inside, _before = 0, 0


@contextmanager
def long_integers() -> Iterator[None]:
    """Read and write them, in all threads. Not for what a program wrote: reading takes the square of its length."""
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
