"""Simulate the sampling of one step, response by response: slots that empty, tails that wait, responses that span
updates. Times are those of `DecodingCosts`, with the rates of `machine.py`; docs/evidence/plan.md compares them with
published ones.
"""

import heapq
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist, fmean

from ratchet.infra.recipe.training import Stage

SPREAD = 0.78
"""Standard deviation of the logarithm of a response's length: DeepSeek-R1-Distill-Qwen-7B on math, from the mean and
truncated share in AReaL's log (docs/howto/sizing.md)."""
BETWEEN = 0.5
"""Assumed share of the variance of a response's length that comes from its prompt; it decides the gain of tail
batching."""
QUANTILES = 1024
ENGINES = 16
"""Most engines that are simulated; the others are alike."""


@lru_cache(64)
def response_lengths(count: int, longest: int, mean: float) -> tuple[int, ...]:
    """Tokens of `count` responses: a lognormal truncated at `longest`, with mean `mean` x `longest`. They are quantiles
    in an order that a fixed seed gives, so nothing is random."""
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
class DecodingCosts:
    """Seconds that an engine spends: per iteration, on reading the weights, on reading a cached token, on the
    arithmetic of one response, on reading a token of a prompt, and on exchanging one response's activations between its
    GPUs."""

    fixed: float
    weights: float
    cached: float
    row: float
    prompt: float
    exchanged: float = 0.0

    def iteration(self, rows: int, cached: float) -> float:
        return self.fixed + rows * self.exchanged + max(self.weights + cached * self.cached, rows * self.row)


@dataclass(frozen=True)
class Sampled:
    """The result of a simulation: seconds until the last engine finishes; the share of the decode slots' time without a
    response."""

    seconds: float
    empty: float


Part = tuple[int, int, float]
"""A part of a response: tokens to decode, tokens before them, and the number of those to be read first: a prompt is
read once for all responses to it."""


@dataclass(frozen=True)
class Engines:
    """Engines of one kind: their number, the decode slots of each, and the tokens and responses of a prompt."""

    count: int
    decoder: DecodingCosts
    slots: int
    prompt: int
    rollouts: int

    def batch(self, lengths: Sequence[int]) -> Sampled:
        """Simulate all of these responses from their first token to their last."""
        read = self.prompt / self.rollouts
        return sample(tuple((length, self.prompt, read) for length in lengths), self.count, self.decoder, self.slots)

    def tail_batched(self, stage: Stage, mean: float) -> Sampled:
        """Simulate an average step of tail batching: short steps, and one of long groups after each 1 /
        `tail_batching`."""
        beyond, rollouts, wanted = stage.advanced.tail_batching, stage.most_rollouts, stage.prompts_per_batch
        prompts = math.ceil(wanted * (1 + beyond))
        groups = sorted(_groups(prompts, rollouts, stage.longest_response, mean), key=max)
        cap = max(groups[wanted - 1])
        short = self.batch([min(cap, length) for members in groups for length in members])
        longest = [length for members in groups[wanted:] for length in members]
        count = wanted * rollouts
        long = self.batch((longest * math.ceil(count / len(longest)))[:count])
        seconds = (short.seconds + beyond * long.seconds) / (1 + beyond)
        empty = (short.seconds * short.empty + beyond * long.seconds * long.empty) / (1 + beyond) / seconds
        return Sampled(seconds, empty)

    def spanning(self, lengths: Sequence[int], longest: int, rounds: int) -> Sampled:
        """Simulate a step in which every unfinished response is decoded by at most 1/`rounds` of the longest: those
        that a step needs begin, those of the `rounds` - 1 steps before continue. A cache computed with old weights is
        dropped, so a response's earlier tokens are read again."""
        stretch = math.ceil(longest / rounds)
        parts = []
        for done in range(0, longest, stretch):
            read = self.prompt + done if done else self.prompt / self.rollouts
            parts += [(min(length - done, stretch), self.prompt + done, read) for length in lengths if length > done]
        random.Random(1).shuffle(parts)  # engines get their share of each
        return sample(tuple(parts), self.count, self.decoder, self.slots)


def _groups(prompts: int, rollouts: int, longest: int, mean: float) -> list[list[int]]:
    """Lengths of the responses to each prompt: `BETWEEN` of their variance is the prompt's."""
    lengths = sorted(response_lengths(prompts * rollouts, longest, mean))
    normal = random.Random(0).gauss
    of_prompt = [each for each in (normal() for _ in range(prompts)) for _ in range(rollouts)]
    keys = [BETWEEN**0.5 * each + (1 - BETWEEN) ** 0.5 * normal() for each in of_prompt]
    ranked = sorted(range(len(keys)), key=keys.__getitem__)
    length_of = dict(zip(ranked, lengths, strict=True))
    return [[length_of[i * rollouts + j] for j in range(rollouts)] for i in range(prompts)]


@lru_cache(256)
def sample(parts: tuple[Part, ...], engines: int, decoder: DecodingCosts, slots: int) -> Sampled:
    """Simulate all engines to their end, each with an even share of the parts and `slots` decode slots. A part starts
    when another ends."""
    shares = [parts[first::engines] for first in range(min(engines, len(parts), ENGINES))]
    if len(shares) < engines:
        shares[0] = (max(parts), *shares[0][1:])  # the longest one is among those simulated
    runs = [_drain(share, decoder, slots) for share in shares]
    seconds = max(seconds for seconds, _ in runs)
    offered = seconds * sum(min(slots, len(share)) for share in shares)
    return Sampled(seconds, 1 - sum(busy for _, busy in runs) / offered)


def _drain(parts: Sequence[Part], decoder: DecodingCosts, slots: int) -> tuple[float, float]:
    """Seconds, and seconds x responses being decoded."""
    waiting = list(reversed(parts))
    live: list[tuple[int, int]] = []  # (last iteration, tokens in the cache by then)
    seconds = busy = 0.0
    tick = cached = 0
    while waiting or live:
        for tokens, before, read in (waiting.pop() for _ in range(min(len(waiting), slots - len(live)))):
            heapq.heappush(live, (tick + tokens, before + tokens))
            cached += before
            seconds += read * decoder.prompt
        rows, ticks = len(live), live[0][0] - tick
        spent = ticks * decoder.iteration(rows, cached + rows * ticks / 2)
        seconds, busy = seconds + spent, busy + spent * rows
        tick, cached = tick + ticks, cached + rows * ticks
        while live and live[0][0] <= tick:
            cached -= heapq.heappop(live)[1]
    return seconds, busy
