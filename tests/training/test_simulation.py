"""One step's sampling against counts by hand."""

from statistics import fmean

import pytest

from ratchet.training.simulation import DecodingCosts, Engines, response_lengths

UNIT = DecodingCosts(fixed=1.0, weights=0.0, cached=0.0, row=0.0, prompt=0.0)
"""A second an iteration."""


def sampled(lengths, engines=1, slots=1):
    return Engines(engines, UNIT, slots, prompt=0, rollouts=1).batch(lengths)


@pytest.mark.parametrize(("count", "mean"), [(16, 0.5), (5000, 0.2), (700, 0.9)])
def test_lengths_have_their_mean_and_their_limit(count, mean):
    lengths = response_lengths(count, 8192, mean)
    assert len(lengths) == count and max(lengths) <= 8192
    assert fmean(lengths) == pytest.approx(mean * 8192, rel=0.03)
    assert lengths == response_lengths(count, 8192, mean)


def test_the_distribution_is_that_of_the_published_log():
    """AReaL's log of a 7B model: mean 7,834 of 16,384 response tokens, 12.4 % truncated."""
    lengths = response_lengths(2048, 16384, 7834 / 16384)
    assert sum(length == 16384 for length in lengths) / 2048 == pytest.approx(0.124, abs=0.01)


def test_an_engine_takes_as_long_as_its_slots_let_it():
    apart = sampled((10, 20, 30, 40), engines=4, slots=1)
    assert apart.seconds == 40 and apart.empty == pytest.approx(1 - 100 / 160)
    together = sampled((10, 20, 30, 40), slots=4)
    assert together.seconds == 40
    refilled = sampled((40, 10, 20, 30), slots=2)
    assert refilled.seconds == 60 and refilled.empty == pytest.approx(1 - 100 / 120)


def test_iterations_are_bound_by_memory_or_by_arithmetic():
    decoder = DecodingCosts(fixed=0.5, weights=2.0, cached=0.01, row=1.0, prompt=0.1)
    assert decoder.iteration(1, 100) == 0.5 + 3.0
    assert decoder.iteration(8, 100) == 0.5 + 8.0
    alone = Engines(1, decoder, 1, prompt=100, rollouts=1).batch((10,))
    assert alone.seconds == pytest.approx(100 * 0.1 + 10 * (0.5 + 2.0) + 0.01 * (100 * 10 + 10 * 10 / 2))


def test_no_step_waits_for_its_longest_response_where_responses_span_steps():
    """Four responses begin in each step, and two of the step before go on."""
    lengths, engines = (10, 20, 30, 40), Engines(1, UNIT, 16, prompt=0, rollouts=1)
    assert engines.spanning(lengths, 40, 2).seconds == 20 and engines.batch(lengths).seconds == 40
    assert engines.spanning(lengths, 40, 1).seconds == 40
    assert engines.spanning(lengths, 40, 4).seconds == 10
    narrow = Engines(1, UNIT, 1, prompt=0, rollouts=1)
    assert narrow.spanning(lengths, 40, 2).seconds == sum(lengths), "as many tokens, however they are cut"


def test_what_a_response_had_is_read_again_with_new_weights():
    reading = DecodingCosts(fixed=0.0, weights=0.0, cached=0.0, row=0.0, prompt=1.0)
    engines = Engines(1, reading, 8, prompt=100, rollouts=4)
    assert engines.batch((40,) * 4).seconds == 100, "a prompt once for all responses to it"
    assert engines.spanning((40,) * 4, 40, 2).seconds == 100 + 4 * (100 + 20)


def test_gpus_of_one_engine_exchange_more_for_more_responses():
    decoder = DecodingCosts(fixed=1.0, weights=2.0, cached=0.0, row=0.0, prompt=0.0, exchanged=0.5)
    assert decoder.iteration(1, 0) == 3.5 and decoder.iteration(8, 0) == 7.0
