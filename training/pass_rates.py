"""Stopping rule of the measurement for `max_pass_rate`, prompt by prompt.

All `pass_rate_rollouts` responses would decide by passed / judged > `max_pass_rate`. Responses are sampled in rounds,
and a prompt is excluded from the next one as soon as the rest would hardly change the decision so far: the probability
of the other decision is at most `pass_rate_error`. The rest is predicted with a pass rate from its posterior under
Jeffreys' prior, Beta(1/2, 1/2): passes among m further responses after s of n are beta-binomial,

    P(k) = C(m, k) B(s + k + 1/2, n - s + m - k + 1/2) / B(s + 1/2, n - s + 1/2).

With an error of 0 a prompt is excluded only when the rest cannot change the decision.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

PRIOR = 0.5
SINGLES = 8
"""Number of rounds of one response each; later ones, in which few prompts are left, have two."""


def rounds(responses: int) -> list[int]:
    """The number of responses to a prompt after each round."""
    return [*range(1, min(SINGLES, responses)), *range(SINGLES, responses, 2), responses]


@lru_cache(100_000)
def settled(passed: int, judged: int, left: int, limit: float, error: float) -> bool:
    """True if the `left` responses still to come will most probably not change the decision of those judged so far."""
    if not judged:
        return not left
    need = _need(judged + left, limit)
    chance = sum(_chance(k, left, passed, judged) for k in range(max(0, need - passed), left + 1))
    return (1 - chance if passed / judged > limit else chance) <= error + 1e-12


def _need(responses: int, limit: float) -> int:
    """The number of passes of `responses` responses above which a prompt is dropped."""
    return next(passes for passes in range(responses + 2) if passes > responses or passes / responses > limit)


def _chance(passes: int, of: int, passed: int, judged: int) -> float:
    won, lost = passed + PRIOR, judged - passed + PRIOR
    log = _log_beta(won + passes, lost + of - passes) - _log_beta(won, lost)
    return math.comb(of, passes) * math.exp(log)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def expected(rate: float, responses: int, limit: float, error: float) -> tuple[float, float]:
    """The exact mean number of responses that are sampled for a prompt with this pass rate, and the probability that
    the decision differs from that of all `responses`."""
    sampled, changed = 0.0, 0.0
    paths = {0: 1.0}  # passes so far: probability, of the prompts not settled
    done = 0
    for until in rounds(responses):
        for _ in range(until - done):
            further: dict[int, float] = {}
            for passes, chance in paths.items():
                for passed, share in ((passes + 1, rate), (passes, 1 - rate)):
                    further[passed] = further.get(passed, 0.0) + chance * share
            paths = further
        done, left, going = until, responses - until, dict[int, float]()
        for passes, chance in paths.items():
            if left and not settled(passes, done, left, limit, error):
                going[passes] = chance
                continue
            need = _need(responses, limit)
            dropped = math.fsum(_binomial(k, left, rate) for k in range(max(0, need - passes), left + 1))
            sampled += chance * done
            changed += chance * (1 - dropped if passes / done > limit else dropped)
        paths = going
    return sampled, changed


def _binomial(k: int, n: int, rate: float) -> float:
    return math.comb(n, k) * rate**k * (1 - rate) ** (n - k)


def share_sampled(rates: Sequence[float], responses: int, limit: float, error: float) -> tuple[float, float]:
    """The means of `expected` over prompts with these true pass rates, the first as a share of all responses."""
    each = [expected(rate, responses, limit, error) for rate in rates]
    return sum(n for n, _ in each) / responses / len(each), sum(p for _, p in each) / len(each)
