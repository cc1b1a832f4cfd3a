"""Judge answers that our verifier rejects by math-verify, a library that compares with computer algebra, if
`verification.math` is `either`. It may not terminate and has its own parsers, so a confined process is forked per
answer.
"""

import importlib.util
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from ratchet.verifiers.domain import Domain, Work
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.problem import Problem

if TYPE_CHECKING:
    from ratchet.verifiers.serving.local_pool import Tools


class MathVerify(Domain):
    """The library math-verify as a domain, for `verifiers.serving.isolated`."""

    name = "math_verify"
    templates = {}

    def load(self) -> None:
        logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns about missing time limits: we have them
        accepts("\\frac{1}{2}", "0.5")  # imports computer algebra, and compiles its expressions

    def score(self, problem: Problem, answer: str) -> float:
        return float(accepts(problem.answer or "", answer))


def accepts(reference: str, answer: str) -> bool:
    """True if math-verify accepts the answer. It accepts nothing that it cannot parse."""
    from math_verify import LatexExtractionConfig, parse, verify

    def read(text: str) -> list:
        return parse(f"\\boxed{{{text}}}", [LatexExtractionConfig()], parsing_timeout=0)

    try:
        return bool(verify(read(reference), read(answer), timeout_seconds=None))
    except Exception:  # caused by the text: must not look like a fault of this machine
        return False


def check_installed() -> None:
    """Raises RatchetError if math-verify is missing, with the command that installs it."""
    if importlib.util.find_spec("math_verify") is None:
        raise RatchetError(
            "`either` (verification.math: either) needs math-verify: pip install './verifiers[math-verify]' in a "
            "checkout of Ratchet, or judge without it (strict)."
        )


def second_opinion(problem: Problem, reference: str, refused: Verdict) -> Work:
    """The work of judging a rejected answer by math-verify. Unless math-verify accepts within its limits of time and
    memory, our verdict stands."""
    bare = Problem(problem.problem_id, problem.domain, "", answer=reference)
    answer = refused.extracted or ""

    def ask(tools: "Tools") -> Verdict:
        check_installed()
        verdict = tools.isolated(MathVerify()).verify(bare, answer)
        if verdict.passed:
            return replace(verdict, decided_by="math_verify", detail=f"math-verify accepts it; {refused.detail}")
        return verdict if verdict.outcome is Outcome.INFRA_ERROR else refused

    return Work(bare, answer, ("math_verify", reference), ask)
