import math

import numpy as np
import pytest
from scipy import stats

from ratchet.evaluation.statistics import (
    gain_limit,
    paired_interval,
    paired_p_value,
    share_interval,
    standard_error_across_clusters,
    standard_error_at_fixed_questions,
)
from research import coverage


def across_questions(scores):
    return standard_error_across_clusters(scores, range(len(scores)))


def test_errors_by_hand():
    assert across_questions([0, 1]) == pytest.approx(0.5)  # sd = sqrt(1/2), / sqrt(2)
    # p = 2/5 and 4/5, n - 1 = 4
    expected = math.sqrt((2 / 5 * 3 / 5 + 4 / 5 * 1 / 5) / 4) / 2
    assert standard_error_at_fixed_questions([2, 4], [5, 5]) == pytest.approx(expected)
    assert math.isnan(across_questions([0.5]))
    assert math.isnan(standard_error_at_fixed_questions([1], [1]))


@pytest.mark.parametrize(
    ("world", "questions", "k", "clustered"),
    [("even", 30, 1, False), ("like AIME", 30, 16, False), ("hard", 64, 4, False), ("nearly all solved", 64, 1, False),
     ("like AIME", 64, 1, True), ("even", 500, 4, True)],
)  # fmt: skip
def test_intervals_cover_the_true_score_as_often_as_they_say(world, questions, k, clustered):
    assert 0.93 <= coverage.of_scores(world, questions, k, clustered, sets=1500).coverage <= 0.97


@pytest.mark.parametrize(
    ("world", "change", "questions", "k", "clustered"),
    [
        ("even", "better", 30, 1, False),
        ("hard", "some new", 64, 4, False),
        ("near the ceiling", "nothing", 64, 16, False),
        ("near the ceiling", "some new", 64, 1, False),
        ("hard", "better", 500, 1, True),
    ],
)
def test_paired_intervals_cover_the_true_difference(world, change, questions, k, clustered):
    cell, found = coverage.of_differences(world, change, questions, k, clustered, sets=300)
    assert cell.coverage >= 0.92
    if change == "nothing":
        assert found == pytest.approx(1 - cell.coverage), "a false alarm exactly where the interval is wrong"


@pytest.mark.parametrize("noise", [0.0, 0.07])
@pytest.mark.parametrize("share", [0.02, 0.05, 0.1])
@pytest.mark.parametrize("sizes", [[4] * 16, [4] * 50, [1] * 64, [1, 7, 3, 9, 2, 6] * 5])
def test_limits_and_intervals_hold_where_whole_clusters_change(sizes, share, noise):
    within, below = coverage.of_whole_changes(sizes, share, noise, sets=300)
    assert within >= 0.86 and below >= 0.955  # 90 (docs/reference/evaluation.md) and 97.5 %, less three binomial errors


def test_a_paired_interval_is_of_a_t_test_with_one_more_changed_cluster():
    gains = np.linspace(-0.2, 0.6, 40)
    error = math.hypot(stats.sem(gains), 1 / 40)
    assert paired_interval(gains, range(40)) == pytest.approx(stats.t.interval(0.95, 39, gains.mean(), error))
    assert paired_p_value(gains, range(40)) == pytest.approx(2 * stats.t.sf(gains.mean() / error, 39))
    assert paired_p_value(-gains, range(40)) == paired_p_value(gains, range(40))
    many = np.resize(gains, 4000)  # with many questions it is Student's
    assert paired_interval(many, range(4000)) == pytest.approx(
        stats.t.interval(0.95, 3999, many.mean(), stats.sem(many)), abs=1e-4
    )
    nothing = np.zeros(30)
    assert paired_interval(nothing, range(30)) == pytest.approx(stats.t.interval(0.95, 29, 0, 1 / 30))
    assert paired_p_value(nothing, range(30)) == 1
    in_tens = paired_interval(nothing, [i % 10 for i in range(30)])  # ten clusters count as ten
    assert in_tens[1] == pytest.approx(stats.t.ppf(0.975, 9) / 10)
    assert math.isnan(paired_interval([0.5], ["alone"])[0]) and math.isnan(paired_p_value([0.5], ["alone"]))


@pytest.mark.parametrize(("won", "questions"), [(0.05, 30), (0.05, 100), (0.01, 100)])
def test_a_gain_is_rarely_above_its_limit_however_few_questions_show_it(won, questions):
    assert coverage.above_the_limit(won, questions) <= 0.025


def test_a_gains_limit_by_hand():
    t = stats.t.ppf(0.975, 29)
    assert gain_limit(np.zeros(30), range(30)) == pytest.approx(t**2 / 30)
    assert gain_limit(-np.ones(30), range(30)) == pytest.approx(-1 + t**2 / 30)
    assert gain_limit(np.ones(30), range(30)) == 1.0
    t = stats.t.ppf(0.975, 4)  # five clusters count as five
    assert gain_limit(-np.ones(30), [i % 5 for i in range(30)]) == pytest.approx(-1 + t**2 / 5)
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


@pytest.mark.parametrize("score", [0.1, 0.3, 0.5, 0.7, 1 / 3])
@pytest.mark.parametrize("questions", [3, 6, 10, 30])
def test_equal_scores_count_as_one_trial_each(score, questions):
    error = across_questions([score] * questions)
    assert error == 0, "the mean of equal numbers may differ from them"
    low, high = share_interval(score, error, questions)
    t = stats.t.ppf(0.975, questions - 1)
    for end in (low, high):  # Wilson's: where the error of a share `end` in so many trials is t times the distance
        assert abs(score - end) == pytest.approx(t * (end * (1 - end) / questions) ** 0.5)


def test_clustered_error_by_hand_and_in_the_two_limits():
    scores, clusters = [1, 0, 1, 1, 0, 0], list("aabbcc")
    # sums of deviations from 1/2: 0, 1, -1; sqrt(3/2 * 2) / 6
    assert standard_error_across_clusters(scores, clusters) == pytest.approx(math.sqrt(3) / 6)
    alone = standard_error_across_clusters(scores, range(6))
    assert alone == pytest.approx(across_questions(scores))
    copies = standard_error_across_clusters(np.repeat(scores, 4), np.repeat(range(6), 4))
    assert copies == pytest.approx(alone)  # asking everything four times teaches nothing
    assert math.isnan(standard_error_across_clusters(scores, ["one"] * 6))


def changed(generator: np.random.Generator) -> tuple[np.ndarray, list[int]]:
    """Gains of questions in clusters of some size, of one of many kinds: none, few whole, spread, noise, in steps of
    1/16."""
    questions, size = int(generator.integers(2, 80)), int(generator.integers(1, 5))
    clusters = (np.arange(questions) // size).tolist()
    noise = generator.normal(generator.normal(0, 0.1), generator.choice([0, 0.02, 0.1, 0.4]), questions)
    whole = (generator.random(questions) < generator.choice([0, 0.05, 0.3])) * generator.choice([-1, 1])
    return np.clip(np.round((noise + whole) * 16) / 16, -1, 1), clusters


def test_interval_and_p_value_never_disagree():
    """Each says 5 % of the same test, whatever changed: 3,000 comparisons of all kinds, near 0.05 as well."""
    generator, significant, near = np.random.default_rng(12), 0, 0
    for _ in range(3000):
        gains, clusters = changed(generator)
        (low, high), p = paired_interval(gains, clusters), paired_p_value(gains, clusters)
        assert math.isnan(p) == math.isnan(low) == (len(set(clusters)) < 2)
        assert (p < 0.05) == (low > 0 or high < 0), (gains, low, high, p)
        significant, near = significant + (p < 0.05), near + (0.03 < p < 0.07)
    assert 300 < significant < 2700 and near > 50
