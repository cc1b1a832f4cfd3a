"""`verification.math: either`: what math-verify accepts is right too, asked in a confined process."""

import importlib.util
import os

import pytest

from ratchet.flows.curate import curate
from ratchet.flows.runs import plan_run
from ratchet.infra.recipe import load_recipe
from ratchet.infra.recipe.recipe import Verification
from ratchet.infra.settings import load_settings
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.math import second_verifier
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.client import RemoteVerifierPool
from ratchet.verifiers.serving.local_pool import VerifierPool, open_pool
from ratchet.verifiers.submission import JudgeSettings
from tests.flows.commands import MINI
from tests.verifiers.conftest import TOKEN

needs_math_verify = pytest.mark.skipif(
    importlib.util.find_spec("math_verify") is None,
    reason="math-verify is not installed (ratchet-verifiers[math-verify])",
)
ONLY_MATH_VERIFY = [("204", "m+n=204")]
NEITHER = [("204", "m+n=205"), ("5", "6"), ("\\sqrt{2}", "\\sqrt{3}"), ("5", "the answer")]
HOSTILE = [
    "10^{10^{10^{10}}}", "9^{9^{9}}!", "\\int_0^{10^9} \\lfloor x \\rfloor dx", "(" * 900, "\\frac" * 400,
    "x^" * 500 + "2",
    "__import__('os').system('touch forged')", "\\sum_{n=1}^{10^8} \\frac{1}{n}", "\\text{" * 300 + "}" * 300, "\x00",
]  # fmt: skip


def verdicts(pool, pairs, domain="math"):
    programs = [(Problem(str(n), domain, "", answer=reference), answer) for n, (reference, answer) in enumerate(pairs)]
    return pool.run_programs(programs)


@needs_math_verify
def test_either_of_two_accepts():
    both, ours = [*ONLY_MATH_VERIFY, *NEITHER], [("1/2", "0.5"), ("x+1", "1+x")]
    settings = Verification(math="either").settings()
    with VerifierPool(1) as strict, open_pool(workers=1, settings=settings) as either:
        assert [v.passed for v in verdicts(strict, both)] == [False] * len(both)
        found = verdicts(either, both)
        assert [v.passed for v in found] == [True] * len(ONLY_MATH_VERIFY) + [False] * len(NEITHER)
        assert {v.decided_by for v in found[: len(ONLY_MATH_VERIFY)]} == {"math_verify"}
        assert found[0].extracted == "m+n=204" and "m+n=204 is not 204" in found[0].detail
        refused = verdicts(strict, NEITHER)
        assert found[len(ONLY_MATH_VERIFY) :] == refused, "where neither accepts, our verdict stands"
        assert "math_verify" not in {v.decided_by for v in verdicts(either, ours)}
        (science,) = verdicts(either, [("204", "m+n=204")], "science")
        assert science.decided_by == "math_verify", "an expression of science is compared as math"
        either.submit("cut", Problem("p", "math", "", answer="204"), "so \\boxed{m+n=204}", finished=False)
        either.submit("none", Problem("p", "math", "", answer="204"), "m+n=204")
        outcomes = {ticket: verdict.outcome for ticket, verdict in either.results()}
        assert outcomes == {"cut": Outcome.FAILED, "none": Outcome.UNPARSEABLE}


@needs_math_verify
@pytest.mark.slow
def test_hostile_answers_pass_nothing_and_are_nobodys_fault(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with VerifierPool(2, JudgeSettings(either=True)) as pool:
        found = verdicts(pool, [("5", answer) for answer in HOSTILE])
    assert {v.outcome for v in found} <= {Outcome.FAILED, Outcome.UNPARSEABLE} and os.listdir(tmp_path) == []


@needs_math_verify
def test_a_reward_server_is_told(serve):
    with RemoteVerifierPool([serve().url], TOKEN, JudgeSettings(either=True)) as pool:
        assert verdicts(pool, ONLY_MATH_VERIFY[:1])[0].decided_by == "math_verify"


def test_a_missing_library_is_told_before_any_work(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(second_verifier.importlib.util, "find_spec", lambda n: None if n == "math_verify" else find(n))
    recipe = load_recipe(MINI, ["verification.math=either"])
    with pytest.raises(RatchetError, match=r"pip install './verifiers\[math-verify\]' in a checkout"):
        with plan_run(recipe, load_settings(tmp_path)):
            pass


@needs_math_verify
def test_it_is_in_the_keys_of_what_judges_math_and_of_nothing_else(tmp_path):
    def keys(domain: str, *overrides: str) -> dict[str, str]:
        recipe = load_recipe(MINI, overrides)
        with plan_run(recipe, load_settings(tmp_path)) as run:
            curate(run, domain)
        return {step.title: step.output.key for step in run.plan}

    for domain, changed in (("math", {"majority vote math", "length math", "curated math"}), ("code", set())):
        strict, either = keys(domain), keys(domain, "verification.math=either")
        assert {title for title in strict if strict[title] != either[title]} == changed
    assert keys("math") == keys("math", "verification.minimum_isolation=A")
