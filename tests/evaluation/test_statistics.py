import math

import numpy as np
import pytest
from scipy import stats

from benchmarks import coverage
from ratchet.evaluation.statistics import (
    gain_limit,
    paired_interval,
    share_interval,
    standard_error_across_clusters,
    standard_error_at_fixed_questions,
    student_interval,
)


def across_questions(scores):
    return standard_error_across_clusters(scores, range(len(scores)))


def test_errors_by_hand():
    assert across_questions([0, 1]) == pytest.approx(0.5)  # sd = sqrt(1/2), / sqrt(2)
    # p = 2/5 and 4/5, n - 1 = 4
    expected = math.sqrt((2 / 5 * 3 / 5 + 4 / 5 * 1 / 5) / 4) / 2
    assert standard_error_at_fixed_questions([2, 4], [5, 5]) == pytest.approx(expected)
    assert math.isnan(across_questions([0.5]))
    assert math.isnan(standard_error_at_fixed_questions([1], [1]))


def test_the_two_errors_answer_two_questions():
    """Questions differ a lot, samples hardly: another draw of questions moves the score, another sampling does not."""
    passed, graded = [0, 16] * 20, [16] * 40
    assert standard_error_at_fixed_questions(passed, graded) == 0
    assert across_questions(np.array(passed) / 16) == pytest.approx(0.5 * math.sqrt(40 / 39) / 40**0.5)


def test_fixed_question_error_is_the_spread_of_repeated_evaluations():
    generator = np.random.default_rng(0)
    p = generator.beta(0.5, 0.5, size=30)
    repeated = generator.binomial(8, p, size=(4000, 30))
    spread = (repeated / 8).mean(axis=1).std()
    claimed = np.sqrt(np.mean([standard_error_at_fixed_questions(row, [8] * 30) ** 2 for row in repeated[:500]]))
    assert claimed == pytest.approx(spread, rel=0.05)
    runs = generator.random((64, 500, 30)) < p
    by_run = np.sqrt(np.mean([across_questions(runs[:, i].mean(axis=1)) ** 2 for i in range(500)]))
    assert by_run == pytest.approx(math.sqrt((p * (1 - p)).sum() / 64) / 30, rel=0.05)


@pytest.mark.parametrize(
    ("world", "questions", "k", "clustered"),
    [("even", 30, 1, False), ("like AIME", 30, 16, False), ("hard", 64, 4, False), ("nearly all solved", 64, 1, False),
     ("like AIME", 64, 1, True), ("even", 500, 4, True)],
)  # fmt: skip
def test_intervals_cover_the_true_score_as_often_as_they_say(world, questions, k, clustered):
    assert 0.93 <= coverage.of_scores(world, questions, k, clustered, sets=1500).coverage <= 0.97


@pytest.mark.parametrize(
    ("world", "change", "questions", "k", "clustered"),
    [("even", "better", 30, 1, False), ("hard", "some new", 64, 4, False), ("hard", "better", 64, 4, False),
     ("near the ceiling", "some new", 64, 1, False), ("hard", "better", 500, 1, True)],
)  # fmt: skip
def test_paired_intervals_cover_the_true_difference(world, change, questions, k, clustered):
    found = coverage.of_differences(world, change, questions, k, clustered, sets=1500)
    assert 0.925 <= found.coverage <= 0.975 and found.given > 0.6  # and three binomial errors of 0.6 %


@pytest.mark.parametrize("change", coverage.CHANGES)
@pytest.mark.parametrize(("world", "k"), [("near the ceiling", 4), ("near the ceiling", 16), ("nearly all solved", 4)])
def test_there_is_no_paired_interval_where_too_few_questions_can_change(world, k, change):
    assert coverage.of_differences(world, change, 64, k, sets=300).given < 0.02


def test_the_reason_for_no_interval_says_how_little_changed():
    low, high, why = paired_interval([0.0] * 60 + [1.0, 1.0, 1.0, -0.5], range(64))
    assert math.isnan(low) and math.isnan(high)
    assert why == "too little change (3.5 in total, in 4 of 64 questions)"
    assert paired_interval([0.0] * 30, range(30))[2].startswith("too little change (0.0 in total, in 0 of 30")
    assert "of 4 clusters" in paired_interval([1.0, 0.0] * 4, [0, 0, 1, 1, 2, 2, 3, 3])[2]
    gains = np.linspace(-0.2, 0.6, 40)
    low, high, why = paired_interval(gains, range(40))
    assert why == "" and (low, high) == pytest.approx(stats.t.interval(0.95, 39, gains.mean(), stats.sem(gains)))


@pytest.mark.parametrize(("won", "questions"), [(0.05, 30), (0.05, 100), (0.01, 100)])
def test_a_gain_is_rarely_above_its_limit_however_few_questions_show_it(won, questions):
    assert coverage.above_the_limit(won, questions) <= 0.025


def test_a_gains_limit_by_hand():
    t = stats.t.ppf(0.975, 29)
    one_side = t**2 / (30 + t**2)  # Wilson's upper limit of a share of which 30 questions show nothing
    assert gain_limit(np.zeros(30), range(30)) == pytest.approx(one_side)
    # Lost everywhere: none won, at most; and of the lost share, 1, Wilson's lower limit. The limits add by squares.
    assert gain_limit(-np.ones(30), range(30)) == pytest.approx(-1 + math.hypot(one_side, one_side))
    assert gain_limit(np.ones(30), range(30)) == 1.0
    t = stats.t.ppf(0.975, 2)  # three clusters count as three
    assert gain_limit(np.zeros(30), [i % 3 for i in range(30)]) == pytest.approx(t**2 / (3 + t**2))
    assert math.isnan(gain_limit([0.5], ["alone"]))


def test_share_interval_is_wilsons_for_single_responses():
    scores = np.array([1.0] * 3 + [0.0] * 97)
    low, high = share_interval(0.03, across_questions(scores), 100)
    wilson = stats.binomtest(3, 100).proportion_ci(method="wilson")
    assert (low, high) == pytest.approx((wilson.low, wilson.high), abs=0.002)  # Student's quantile is a little larger


def test_all_wrong_is_not_known_to_be_zero():
    low, high = share_interval(0.0, 0.0, 30)
    assert low == 0 and 0.08 < high < 0.15  # the rule of three says 0.1
    assert share_interval(1.0, 0.0, 30) == pytest.approx((1 - high, 1))
    assert share_interval(0.0001, 1e-5, 30) == pytest.approx((low, high), abs=1e-3)  # nor is hardly any right
    assert all(map(math.isnan, share_interval(1.0, math.nan, 1)))


def test_clustered_error_by_hand_and_in_the_two_limits():
    scores, clusters = [1, 0, 1, 1, 0, 0], list("aabbcc")
    # sums of deviations from 1/2: 0, 1, -1; sqrt(3/2 * 2) / 6
    assert standard_error_across_clusters(scores, clusters) == pytest.approx(math.sqrt(3) / 6)
    alone = standard_error_across_clusters(scores, range(6))
    assert alone == pytest.approx(across_questions(scores))
    copies = standard_error_across_clusters(np.repeat(scores, 4), np.repeat(range(6), 4))
    assert copies == pytest.approx(alone)  # asking everything four times teaches nothing
    assert math.isnan(standard_error_across_clusters(scores, ["one"] * 6))


def test_student_interval_is_scipys():
    low, high = student_interval(0.4, 0.1, 30, level=0.9)
    assert (low, high) == pytest.approx(stats.t.interval(0.9, 29, loc=0.4, scale=0.1))
