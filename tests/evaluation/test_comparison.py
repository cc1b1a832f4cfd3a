import math

import numpy as np
import pytest
from scipy import stats

from ratchet.evaluation.comparison import paired_difference, question_changes, setting_differences, zero_of_n_limit
from ratchet.evaluation.pass_at_k import pass_at_every_k


def test_paired_difference_by_hand():
    before = {"a": (0, 4), "b": (2, 4), "c": (4, 4), "d": (1, 4), "only-before": (4, 4), "ungraded": (0, 0)}
    after = {"a": (2, 4), "b": (4, 4), "c": (4, 4), "d": (0, 4), "only-after": (4, 4), "ungraded": (4, 4)}
    paired = paired_difference(before, after)
    differences = [0.5, 0.5, 0, -0.25]
    assert paired.questions == 4
    assert paired.difference == pytest.approx(np.mean(differences))
    assert paired.standard_error == pytest.approx(np.std(differences, ddof=1) / 2)
    changes = question_changes(before, after)
    assert list(changes.index[changes.newly_solved]) == ["a"]
    assert list(changes.index[changes.newly_lost]) == ["d"]
    t = abs(np.mean(differences)) / math.hypot(np.std(differences, ddof=1) / 2, 1 / 4)
    assert paired.p_value == pytest.approx(2 * stats.t.sf(t, 3))
    in_pairs = paired_difference(before, after, clusters={"a": 1, "b": 1, "c": 2, "d": 2})
    assert in_pairs.standard_error == pytest.approx(math.sqrt(2 * 2 * 0.625**2) / 4)  # sums of deviations: ± 0.625


def test_no_question_changed_is_not_known_to_be_no_change():
    same = {str(i): (2, 4) for i in range(30)}
    paired = paired_difference(same, same)
    assert paired.difference == 0 and paired.low == -paired.high and paired.p_value == 1
    assert 0.08 < paired.upper_limit < 0.2


def test_nothing_in_common_is_undefined():
    paired = paired_difference({"a": (1, 1)}, {"b": (1, 1)})
    assert paired.questions == 0 and math.isnan(paired.difference) and math.isnan(paired.p_value)


def test_paired_pass_at_k_leaves_out_what_has_fewer_responses():
    before, after = {"a": (1, 4), "b": (0, 4), "c": (1, 2)}, {"a": (3, 8), "b": (2, 8), "c": (2, 2)}
    paired = paired_difference(before, after, k=4)
    gains = [pass_at_every_k(8, 3)[3] - pass_at_every_k(4, 1)[3], pass_at_every_k(8, 2)[3]]
    assert paired.questions == 2 and paired.difference == pytest.approx(np.mean(gains))


def test_a_cluster_is_one_piece_of_evidence():
    before = {f"{c}{i}": (0, 4) for c in "abcdefgh" for i in range(4)}
    after = {q: (1, 4) for q in before}
    clusters = {q: q[0] for q in before}
    # Each gained a quarter, none more: the error is that of one more changed question, or cluster.
    assert paired_difference(before, after).p_value == pytest.approx(2 * stats.t.sf(0.25 * 32, 31))
    assert paired_difference(before, after, clusters=clusters).p_value == pytest.approx(2 * stats.t.sf(0.25 * 8, 7))


def test_changes_are_corrected_for_how_many_questions_were_looked_at():
    generator = np.random.default_rng(0)
    before, unchanged = (
        {str(i): (int(c), 64) for i, c in enumerate(generator.binomial(64, 0.5, 300))} for _ in range(2)
    )
    assert (question_changes(before, unchanged).q_value < 0.05).sum() <= 1
    changed = {**unchanged, **{str(i): (64, 64) for i in range(10)}, **{str(i): (0, 64) for i in range(10, 20)}}
    found = set(question_changes(before, changed).query("q_value < 0.05").index)
    assert found >= {str(i) for i in range(20)} and len(found) <= 23
    one = question_changes({"a": (0, 8)}, {"a": (8, 8)})
    assert one.q_value["a"] == pytest.approx(stats.fisher_exact([[0, 8], [8, 0]])[1])


def test_nothing_in_64_tries_still_allows_a_solve_rate_of_four_percent():
    assert zero_of_n_limit(64) == pytest.approx(0.0457, abs=1e-4)
    assert (1 - zero_of_n_limit(16)) ** 16 == pytest.approx(0.05)


def test_different_settings_are_named():
    def scores(temperature=0.6, content_hash="h", prompt="{prompt}", math="strict", code="", **version):
        own = {"my_lab.logic": code} if code else {}
        benchmark = {"content_hash": content_hash, "questions": 30, "prompt": {"math": prompt},
                     "verification": {"math": math, "own_code": own}}  # fmt: skip
        sampling = {"temperature": temperature, "top_p": 0.95, "max_tokens": 32768}
        settings = {"sampling": sampling, **({"step_version": 22} | version)}
        return {"settings": settings, "benchmarks": {"aime24": benchmark}}

    assert setting_differences(scores(), scores()) == []
    found = setting_differences(scores(), scores(1.0, "other", "Q: {prompt}"))
    assert len(found) == 3 and "sampling.temperature: 0.6 and 1.0" in found[0]
    assert "content" in found[1] and "prompt.math" in found[2]

    assert setting_differences(scores(), scores(math="either")) == ["aime24: verification.math: 'strict' and 'either'"]
    (found,) = setting_differences(scores(code="abc"), scores(code="def"))
    assert found == "aime24: verification.own_code.my_lab.logic: 'abc' and 'def'"
    (found,) = setting_differences(scores(step_version=21), scores())
    assert "which judges: 21 and 22 (evaluate again what is of an older version" in found
    before = scores()  # as earlier versions wrote them
    del before["settings"]["step_version"], before["benchmarks"]["aime24"]["verification"]
    for pair, words in (((before, scores()), "unknown and 22"), ((before, before), "unknown and unknown")):
        (found,) = setting_differences(*pair)
        assert words in found
