"""The sequential test of `max_pass_rate`, against its own definition, exactly and by simulation."""

from random import Random

import pytest

from ratchet.training.pass_rates import expected, rounds, settled, share_sampled

RESPONSES = 16


@pytest.mark.parametrize("limit", [0.5, 0.75, 0.875, 0.9])
def test_without_an_error_it_stops_only_where_nothing_can_change(limit):
    for judged in range(1, RESPONSES + 1):
        for passed in range(judged + 1):
            left = RESPONSES - judged
            possible = {(passed + k) / RESPONSES > limit for k in range(left + 1)}
            assert settled(passed, judged, left, limit, 0.0) == (possible == {passed / judged > limit})
    assert not settled(0, 0, 3, limit, 0.5) and settled(0, 0, 0, limit, 0.0)  # no verdict yet; none to come


def simulated(rate: float, limit: float, error: float, random: Random) -> tuple[int, bool]:
    """Responses sampled to one prompt, and whether all of them would have decided otherwise."""
    passes = [random.random() < rate for _ in range(RESPONSES)]
    sampled = next(n for n in rounds(RESPONSES) if settled(sum(passes[:n]), n, RESPONSES - n, limit, error))
    return sampled, (sum(passes[:sampled]) / sampled > limit) != (sum(passes) / RESPONSES > limit)


@pytest.mark.parametrize("rate", [0.1, 0.6, 0.8, 0.9, 0.97])
def test_the_exact_cost_and_error_are_those_of_simulated_prompts(rate):
    random, count = Random(f"{rate}"), 4000
    found = [simulated(rate, 0.75, 0.075, random) for _ in range(count)]
    sampled, changed = expected(rate, RESPONSES, 0.75, 0.075)
    assert abs(sum(n for n, _ in found) / count - sampled) < 5 * RESPONSES / 2 / count**0.5
    assert abs(sum(c for _, c in found) / count - changed) < 5 * 0.5 / count**0.5


@pytest.mark.parametrize("limit", [0.5, 0.75, 0.9])
def test_a_third_of_the_responses_decides_the_same_with_the_stated_error(limit):
    """Over prompts as a stage finds them, many never and many always solved: Beta(0.3, 0.3), and evenly spread."""
    random = Random(0)
    for rates in ([random.betavariate(0.3, 0.3) for _ in range(300)], [(i + 0.5) / 100 for i in range(100)]):
        sampled, changed = share_sampled(rates, RESPONSES, limit, 0.075)
        assert sampled < 1 / 3 and changed < 0.09
    exact, unchanged = share_sampled(rates, RESPONSES, limit, 0.0)
    assert unchanged == pytest.approx(0, abs=1e-12) and sampled < exact < 0.9


def test_no_prompt_gets_more_than_all_responses_and_rounds_end_there():
    for responses in range(1, 30):
        until = rounds(responses)
        assert until == sorted(set(until)) and until[-1] == responses
    assert expected(0.5, 1, 0.5, 0.0) == (1.0, 0.0)
