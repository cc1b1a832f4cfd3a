"""How many calls an endpoint bears at the same time: found by trying, as TCP finds its window."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

START = 8


class Slots:
    """Calls that may be open: additive increase, multiplicative decrease (Chiu and Jain 1989).

    The limit starts at `START`, grows by one with each accepted call (doubling in a round trip) until the endpoint
    first pushes back, from then on by one in a round, and is halved when it pushes back, once for all the calls that
    were open then. It stays between 1 and `most`. For one event loop; nothing here is safe across threads.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.limit = float(min(START, most))
        self.open = 0
        self._pushed_back_at: float | None = None
        self._changed = asyncio.Event()

    async def acquire(self) -> None:
        while self.open >= int(self.limit):
            self._changed.clear()
            await self._changed.wait()
        self.open += 1

    @contextmanager
    def held(self) -> Iterator[float]:
        """Gives an acquired slot back at the end; yields the time the call began, which `pushed_back` wants."""
        try:
            yield time.monotonic()
        finally:
            self.open -= 1
            self._changed.set()

    def accepted(self) -> None:
        self.limit = min(self.most, self.limit + (1.0 if self._pushed_back_at is None else 1.0 / self.limit))
        self._changed.set()

    def pushed_back(self, began: float) -> None:
        """A call that began at `began` was refused for now. One that began before the last halving says nothing new."""
        if self._pushed_back_at is None or began > self._pushed_back_at:
            self.limit = max(1.0, min(self.limit, self.open + 1) / 2)  # + 1: the refused call has left its slot
            self._pushed_back_at = time.monotonic()
