"""Simulated sampling of one step: responses of typical lengths in an engine's decode slots, iteration by iteration.

Nothing is random: lengths are the quantiles of a distribution, in an order that a fixed seed gives.
"""

import heapq
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist, fmean

SPREAD = 0.78
"""Standard deviation of the logarithm of a response's length: DeepSeek-R1-Distill-Qwen-7B on math, from the mean and
truncated share in AReaL's log (docs/scaling.md)."""
QUANTILES = 1024
ENGINES = 16
"""Engines simulated at most; the others are alike."""


@lru_cache(16)
def response_lengths(count: int, longest: int, mean: float) -> tuple[int, ...]:
    """Tokens of `count` responses: a lognormal truncated at `longest`, then with mean `mean` x `longest`."""
    number = min(count, QUANTILES)
    shape = [math.exp(SPREAD * NormalDist().inv_cdf((i + 0.5) / number)) for i in range(number)]
    low, high = 0.0, 1e4 * longest
    for _ in range(40):
        median = (low + high) / 2
        reached = fmean(min(longest, median * each) for each in shape) / longest
        low, high = (median, high) if reached < mean else (low, median)
    lengths = [max(1, round(min(longest, low * shape[i * number // count]))) for i in range(count)]
    random.Random(0).shuffle(lengths)
    return tuple(lengths)


@dataclass(frozen=True)
class Decoder:
    """Seconds that an engine spends: per iteration, on reading the weights, on reading a cached token, on the
    arithmetic of one response, and on reading a prompt token."""

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
    """Until the last engine finishes."""
    empty: float
    """Share of the decode slots' time without a response: the tail, and waiting for it."""


@lru_cache(64)
def sample(lengths: tuple[int, ...], prompt: int, engines: int, decoder: Decoder, slots: int) -> Sampled:
    """All engines to their end, each with an even share of the responses and `slots` decode slots. A response starts
    when another ends."""
    shares = [lengths[first::engines] for first in range(min(engines, len(lengths), ENGINES))]
    if len(shares) < engines:
        shares[0] = (max(lengths), *shares[0][1:])  # the longest one is among those simulated
    runs = [_drain(share, prompt, decoder, slots) for share in shares]
    seconds = max(seconds for seconds, _ in runs)
    offered = seconds * sum(min(slots, len(share)) for share in shares)
    return Sampled(seconds, 1 - sum(busy for _, busy in runs) / offered)


def _drain(lengths: Sequence[int], prompt: int, decoder: Decoder, slots: int) -> tuple[float, float]:
    """Seconds, and seconds x responses being decoded."""
    waiting = list(reversed(lengths))
    live: list[tuple[int, int]] = []  # (last iteration, length)
    seconds = busy = 0.0
    tick = cached = 0
    while waiting or live:
        for length in (waiting.pop() for _ in range(min(len(waiting), slots - len(live)))):
            heapq.heappush(live, (tick + length, length))
            cached += prompt
            seconds += prompt * decoder.prompt
        rows, ticks = len(live), live[0][0] - tick
        spent = ticks * decoder.iteration(rows, cached + rows * ticks / 2)
        seconds, busy = seconds + spent, busy + spent * rows
        tick, cached = tick + ticks, cached + rows * ticks
        while live and live[0][0] <= tick:
            cached -= prompt + heapq.heappop(live)[1]
    return seconds, busy
