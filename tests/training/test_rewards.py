import time
from dataclasses import replace

import pytest

from ratchet.data_curation.base.protocol import Completion
from ratchet.training.rollout import check_infra_errors, judged
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.problem import Problem
from tests.training.batch import rollout

PROBLEM = Problem("p", "math", "What is 3 plus 4?", answer="7")


@pytest.mark.parametrize(("prefix", "end"), [("", ""), ("<think>", "</think>"), ("<think>", "")])
def test_every_completion_is_judged_once_with_its_prefix_and_truncated_ones_fail(pool, prefix, end):
    answers = [("\\boxed{7}", "stop"), ("\\boxed{8}", "stop"), ("no answer", "stop"), ("\\boxed{7} and so", "length")]
    given = [(PROBLEM, Completion(i, end + text, reason, 5)) for i, (text, reason) in enumerate(answers)]
    found = sorted(judged(pool, prefix, given), key=lambda each: each[1].key)
    assert [completion.key for _, completion, _ in found] == [0, 1, 2, 3]
    outcomes = [verdict.outcome for _, _, verdict in found]
    thought_ends = bool(end) or not prefix
    assert outcomes[:2] == ([Outcome.PASSED, Outcome.FAILED] if thought_ends else [Outcome.UNPARSEABLE] * 2)
    assert Outcome.PASSED not in outcomes[2:]


def test_a_verdict_does_not_wait_for_the_last_response(pool):
    def responses():
        yield PROBLEM, Completion(0, "\\boxed{7}", "stop", 5)
        while pool.queued or pool.running:
            time.sleep(0.01)
        yield PROBLEM, Completion(1, "and so", "length", 5)
        raise AssertionError("the first verdict is there")

    found = judged(pool, "", responses())
    assert {next(found)[1].key, next(found)[1].key} == {0, 1}


def test_too_many_infra_errors_stop_the_run():
    passed, lost = rollout(0, 0, Outcome.PASSED), replace(rollout(0, 1, Outcome.INFRA_ERROR), detail="sandbox gone")
    check_infra_errors([lost, *[passed] * 19], limit=0.05)
    with pytest.raises(RatchetError, match=r"2 of 20 .* sandbox gone"):
        check_infra_errors([lost, lost, *[passed] * 18], limit=0.05)
