"""When the measurement for `max_pass_rate` has seen enough of a prompt.

All `pass_rate_rollouts` responses would decide by passed / judged > `max_pass_rate`. Responses are sampled in rounds,
and a prompt is left out of the next one as soon as the rest would hardly change what the responses so far say: the
probability of the other decision is at most `pass_rate_error`. The rest is predicted with a pass rate from its
posterior under Jeffreys' prior, Beta(1/2, 1/2): passes among m further responses after s of n are beta-binomial,

    P(k) = C(m, k) B(s + k + 1/2, n - s + m - k + 1/2) / B(s + 1/2, n - s + 1/2).

With an error of 0 a prompt is left out only when the rest cannot change the decision.
"""

import math
from functools import lru_cache

PRIOR = 0.5
SINGLES = 8
"""Rounds of one response each; later ones, in which few prompts are left, have two."""


def rounds(responses: int) -> list[int]:
    """Responses to a prompt after each round."""
    return [*range(1, min(SINGLES, responses)), *range(SINGLES, responses, 2), responses]


@lru_cache(100_000)
def settled(passed: int, judged: int, left: int, limit: float, error: float) -> bool:
    """The decision of all responses, `left` of them still to come, is most probably that of those judged so far."""
    if not judged:
        return not left
    need = _need(judged + left, limit)
    chance = sum(_chance(k, left, passed, judged) for k in range(max(0, need - passed), left + 1))
    return (1 - chance if passed / judged > limit else chance) <= error + 1e-12


def _need(responses: int, limit: float) -> int:
    """Passes of so many responses above which a prompt is dropped."""
    return next(passes for passes in range(responses + 2) if passes > responses or passes / responses > limit)


def _chance(passes: int, of: int, passed: int, judged: int) -> float:
    won, lost = passed + PRIOR, judged - passed + PRIOR
    log = _log_beta(won + passes, lost + of - passes) - _log_beta(won, lost)
    return math.comb(of, passes) * math.exp(log)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
