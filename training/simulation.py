"""One step's responses through the decode batches of an engine, iteration by iteration, as lengths and caches allow.

Nothing here is random: lengths are the quantiles of a distribution, dealt in an order that a seed fixes.
"""

import heapq
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist, fmean

SPREAD = 0.78
"""Of the logarithm of a response's length: that of DeepSeek-R1-Distill-Qwen-7B on math, from the mean and the truncated
share that AReaL's log has (docs/scaling.md)."""
QUANTILES = 1024
ENGINES, ROUNDS = 16, 6
"""Simulated at the most, the others are like them; and so many fillings of an engine's slots twice, those beyond go on
as the second half did."""
GROWTH = 128
"""Tokens that a response must have room to grow by, or another is not begun."""


@lru_cache(16)
def response_lengths(count: int, longest: int, mean: float) -> tuple[int, ...]:
    """Tokens of `count` responses: a lognormal truncated at `longest`, whose mean after that is `mean` x `longest`."""
    normal = NormalDist()
    number = min(count, QUANTILES)
    shape = [math.exp(SPREAD * normal.inv_cdf((i + 0.5) / number)) for i in range(number)]
    low, high = 0.0, 1e4 * longest
    for _ in range(40):
        median = (low + high) / 2
        reached = fmean(min(longest, median * each) for each in shape) / longest
        low, high = (median, high) if reached < mean else (low, median)
    lengths = [max(1, round(min(longest, low * each))) for each in shape]
    dealt = [lengths[i * number // count] for i in range(count)]
    random.Random(0).shuffle(dealt)
    return tuple(dealt)


@dataclass(frozen=True)
class Decoder:
    """Seconds of an engine: for an iteration whatever is in it, for reading the weights, for a token in the cache, and
    for the arithmetic of a response; and for a token that is read as a prompt."""

    fixed: float
    weights: float
    cached: float
    row: float
    prompt: float

    def iteration(self, rows: int, cached: float) -> float:
        return self.fixed + max(self.weights + cached * self.cached, rows * self.row)


@dataclass(frozen=True)
class Sampled:
    seconds: float
    """Until the last engine has ended."""
    empty: float
    """The share of the decode slots' time in which they had no response: the tail, and who waits for it."""
    evicted: float
    """Responses begun again because the cache was full, for each response."""


@lru_cache(64)
def sample(
    lengths: tuple[int, ...], prompt: int, engines: int, decoder: Decoder, slots: int, room: float, continuous: bool
) -> Sampled:
    """All engines to their end, each with an even share. `slots` responses at the most are decoded together, as long as
    the cache has `room` for their tokens; where it has not, the latest is put back and its tokens are read again."""
    shares = [lengths[first::engines] for first in range(min(engines, len(lengths), ENGINES))]
    if len(shares) < engines:
        shares[0] = (max(lengths), *shares[0][1:])  # the longest is among those that are looked at

    def drained(share: Sequence[int]) -> tuple[float, ...]:
        most = ROUNDS * slots
        if len(share) <= 2 * most:
            return _drain(share, prompt, decoder, slots, room, continuous)
        half, whole = (_drain(share[: n * most], prompt, decoder, slots, room, continuous) for n in (1, 2))
        return tuple(w + (w - h) * (len(share) / most - 2) for h, w in zip(half, whole, strict=True))

    found = [drained(share) for share in shares]
    seconds = max(each[0] for each in found)
    offered = seconds * sum(min(slots, len(share)) for share in shares)
    busy, evicted = (sum(each[i] for each in found) for i in (1, 2))
    return Sampled(seconds, 1 - busy / offered, evicted / sum(map(len, shares)))


def _drain(
    lengths: Sequence[int], prompt: int, decoder: Decoder, slots: int, room: float, continuous: bool
) -> tuple[float, float, int]:
    """Seconds, seconds x responses being decoded, and evictions."""
    waiting = [(length, 0) for length in reversed(lengths)]  # tokens it will have, tokens it has; next one last
    live: list[tuple[int, int, int]] = []  # the iteration it ends with, its number, its length
    newest: list[int] = []  # numbers, latest last; some have ended
    alive: dict[int, tuple[int, int]] = {}
    seconds = busy = 0.0
    tick, cached, number, evicted = 0, 0, 0, 0
    while waiting or alive:
        if continuous or not alive:
            while waiting and len(alive) < slots:
                length, done = waiting[-1]
                if alive and cached + prompt + done + GROWTH * (len(alive) + 1) > room:
                    break
                waiting.pop()
                number += 1
                alive[number] = (tick + length - done, length)
                heapq.heappush(live, (tick + length - done, number, length))
                newest.append(number)
                cached += prompt + done
                seconds += (prompt + done) * decoder.prompt
        while live[0][1] not in alive:
            heapq.heappop(live)
        rows, end = len(alive), live[0][0]
        ticks = end - tick
        if rows > 1:
            ticks = min(ticks, max(1, int((room - cached) // rows)))
        spent = ticks * decoder.iteration(rows, cached + rows * ticks / 2)
        seconds, busy = seconds + spent, busy + spent * rows
        tick, cached = tick + ticks, cached + rows * ticks
        while live and live[0][0] <= tick:
            _, ended, length = heapq.heappop(live)
            if alive.pop(ended, None):
                cached -= prompt + length
        while cached + len(alive) > room and len(alive) > 1:
            latest = newest.pop()
            if (found := alive.pop(latest, None)) is not None:
                left, evicted = found[0] - tick, evicted + 1
                waiting.append((found[1], found[1] - left))
                cached -= prompt + found[1] - left
    return seconds, busy, evicted
