"""How many concurrent calls an endpoint can serve, found by trying, like TCP's window."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

START = 8


class Slots:
    """Calls that may be open: additive increase, multiplicative decrease (Chiu and Jain 1989).

    The limit starts at `START` and grows by one with each accepted call (doubling per round trip) until the endpoint
    first pushes back, then by one per round; a push back halves it, once for all calls open at that time. It stays
    between 1 and `most`. Not safe across threads.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.limit = float(min(START, most))
        self.open = 0
        self._pushed_back_at: float | None = None

    @property
    def free(self) -> bool:
        return self.open < int(self.limit)

    @contextmanager
    def held(self) -> Iterator[float]:
        """Takes a slot; yields the call's start time for `pushed_back`."""
        self.open += 1
        try:
            yield time.monotonic()
        finally:
            self.open -= 1

    def accepted(self) -> None:
        self.limit = min(self.most, self.limit + (1.0 if self._pushed_back_at is None else 1.0 / self.limit))

    def pushed_back(self, began: float) -> bool:
        """A call that started at `began` was rejected for now; False if the call is older than the last halving."""
        if self._pushed_back_at is not None and began <= self._pushed_back_at:
            return False
        self.limit = max(1.0, min(self.limit, self.open + 1) / 2)  # + 1: the refused call has left its slot
        self._pushed_back_at = time.monotonic()
        return True
