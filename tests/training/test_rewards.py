import pytest

from ratchet.infra.errors import RatchetError
from ratchet.infra.inference.protocol import Completion
from ratchet.infra.problems import Problem
from ratchet.training.rewards import check_infra_errors
from ratchet.training.rollout import judged
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.serving.local_pool import VerifierPool

PROBLEM = Problem("p", "math", "What is 3 plus 4?", answer="7")


def test_completions_are_judged_in_the_order_submitted_and_truncated_ones_fail():
    answers = [("\\boxed{7}", "stop"), ("\\boxed{8}", "stop"), ("no answer", "stop"), ("\\boxed{7} and so", "length")]
    with VerifierPool(workers=1) as pool:
        for prefix in ("", "<think>"):
            end = "</think>" if prefix else ""
            given = [(PROBLEM, Completion(i, end + text, reason, 5)) for i, (text, reason) in enumerate(answers)]
            found, _ = judged(pool, prefix, given)
            assert [completion.key for _, completion, _ in found] == [0, 1, 2, 3]
            outcomes = [verdict.outcome for _, _, verdict in found]
            assert outcomes[:2] == [Outcome.PASSED, Outcome.FAILED]
            assert Outcome.PASSED not in outcomes[2:]


def test_the_response_prefix_is_part_of_what_is_judged():
    with VerifierPool(workers=1) as pool:
        given = [(PROBLEM, Completion(0, "I never stop thinking \\boxed{7}", "stop", 5))]
        ((_, _, verdict),), _ = judged(pool, "<think>", given)
        assert verdict.outcome is Outcome.UNPARSEABLE


def test_too_many_infra_errors_stop_the_run():
    check_infra_errors(["sandbox gone"], of=20, limit=0.05)
    with pytest.raises(RatchetError, match=r"2 of 20 .* sandbox gone"):
        check_infra_errors(["sandbox gone", "sandbox gone"], of=20, limit=0.05)
