import math

import numpy as np
import pytest
from scipy import stats

from evaluation.statistics import (
    bootstrap_over_questions,
    paired_difference,
    sign_flip_p_value,
    standard_error_across_questions,
    standard_error_across_runs,
    standard_error_at_fixed_questions,
    student_interval,
)


def test_errors_by_hand():
    assert standard_error_across_questions([0, 1]) == pytest.approx(0.5)  # sd = sqrt(1/2), / sqrt(2)
    # p = 2/5 and 4/5, n - 1 = 4
    expected = math.sqrt((2 / 5 * 3 / 5 + 4 / 5 * 1 / 5) / 4) / 2
    assert standard_error_at_fixed_questions([2, 4], [5, 5]) == pytest.approx(expected)
    assert math.isnan(standard_error_across_questions([0.5]))
    assert math.isnan(standard_error_at_fixed_questions([1], [1]))


def test_the_two_errors_answer_two_questions():
    """Questions differ a lot, samples hardly: another draw of questions moves the score, another sampling does not."""
    passed, graded = [0, 16] * 20, [16] * 40
    assert standard_error_at_fixed_questions(passed, graded) == 0
    assert standard_error_across_questions(np.array(passed) / 16) == pytest.approx(0.5 * math.sqrt(40 / 39) / 40**0.5)


def test_fixed_question_error_is_the_spread_of_repeated_evaluations():
    generator = np.random.default_rng(0)
    p = generator.beta(0.5, 0.5, size=30)
    repeated = generator.binomial(8, p, size=(4000, 30))
    spread = (repeated / 8).mean(axis=1).std()
    claimed = np.sqrt(np.mean([standard_error_at_fixed_questions(row, [8] * 30) ** 2 for row in repeated[:500]]))
    assert claimed == pytest.approx(spread, rel=0.05)
    runs = generator.random((64, 500, 30)) < p
    by_run = np.sqrt(np.mean([standard_error_across_runs(runs[:, i].mean(axis=1)) ** 2 for i in range(500)]))
    assert by_run == pytest.approx(math.sqrt((p * (1 - p)).sum() / 64) / 30, rel=0.05)


def test_bootstrap_error_is_not_divided_by_the_square_root_of_the_draws():
    scores = (np.random.default_rng(3).random(500) < 0.4).astype(float)
    bootstrap = bootstrap_over_questions(scores, draws=3000)
    assert bootstrap.standard_error == pytest.approx(standard_error_across_questions(scores), rel=0.06)
    assert bootstrap.low < scores.mean() < bootstrap.high
    median = bootstrap_over_questions(scores, statistic=np.median)
    assert {median.low, median.high} <= {0.0, 0.5, 1.0}


def test_intervals_cover_the_true_score_as_often_as_they_say():
    """30 questions drawn from a population with mean 0.5, 8 responses each; 600 repetitions, binomial error 0.9 %."""
    generator = np.random.default_rng(11)
    covered = {"student": 0, "bootstrap": 0}
    for repetition in range(600):
        scores = generator.binomial(8, generator.beta(1, 1, size=30)) / 8
        low, high = student_interval(scores.mean(), standard_error_across_questions(scores), 30)
        covered["student"] += low <= 0.5 <= high
        band = bootstrap_over_questions(scores, draws=400, seed=repetition)
        covered["bootstrap"] += band.low <= 0.5 <= band.high
    assert 0.92 <= covered["student"] / 600 <= 0.98
    assert 0.90 <= covered["bootstrap"] / 600 <= 0.97  # the percentile interval is a little narrow at 30 questions


def test_student_interval_is_scipys():
    low, high = student_interval(0.4, 0.1, 30, level=0.9)
    assert (low, high) == pytest.approx(stats.t.interval(0.9, 29, loc=0.4, scale=0.1))


def test_paired_difference_by_hand():
    before = {"a": (0, 4), "b": (2, 4), "c": (4, 4), "d": (1, 4), "only-before": (4, 4), "ungraded": (0, 0)}
    after = {"a": (2, 4), "b": (4, 4), "c": (4, 4), "d": (0, 4), "only-after": (4, 4), "ungraded": (4, 4)}
    paired = paired_difference(before, after)
    differences = [0.5, 0.5, 0, -0.25]
    assert paired.questions == 4
    assert paired.difference == pytest.approx(np.mean(differences))
    assert paired.standard_error == pytest.approx(np.std(differences, ddof=1) / 2)
    assert paired.newly_solved == ("a",) and paired.newly_lost == ("d",)
    # 8 sign patterns of (.5, .5, .25): |sum| >= .75 in +++ ++- --+ --- : 4 of 8
    assert paired.p_value == pytest.approx(4 / 8)


def test_pairing_is_sharper_than_two_separate_errors():
    generator = np.random.default_rng(2)
    base = generator.integers(0, 13, size=60)
    before = {str(i): (int(b), 16) for i, b in enumerate(base)}
    after = {str(i): (int(b) + 2, 16) for i, b in enumerate(base)}
    paired = paired_difference(before, after)
    assert paired.standard_error == pytest.approx(0, abs=1e-12) and paired.difference == pytest.approx(2 / 16)
    assert paired.p_value < 0.001


def test_nothing_in_common_is_undefined():
    paired = paired_difference({"a": (1, 1)}, {"b": (1, 1)})
    assert paired.questions == 0 and math.isnan(paired.difference) and math.isnan(paired.p_value)


def test_sign_flip_is_exact_for_few_and_random_for_many_questions():
    assert sign_flip_p_value([0, 0, 0]) == 1
    assert sign_flip_p_value([1, 1, 1, 0]) == pytest.approx(2 / 8)
    few = np.random.default_rng(4).normal(0.6, 1, size=14)
    exact = sign_flip_p_value(few)
    scipys = stats.permutation_test((few,), np.sum, permutation_type="samples", n_resamples=np.inf).pvalue
    assert exact == pytest.approx(scipys)
    many = np.r_[few, 1e-12]  # one question more, which changes nothing: random signs must agree with all signs
    assert sign_flip_p_value(many) == pytest.approx(exact, abs=4 * math.sqrt(exact / 10_000))


def test_sign_flip_rejects_a_true_null_at_its_level():
    generator = np.random.default_rng(9)
    rejected = np.mean([sign_flip_p_value(generator.normal(size=10)) <= 0.05 for _ in range(400)])
    assert rejected <= 0.085  # 0.05 + 3 sd
