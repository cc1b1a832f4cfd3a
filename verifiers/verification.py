"""The functions that most callers need: judge one response or many, and compare two answers."""

from collections.abc import Iterable

from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.outcome import Verdict
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.local_pool import VerifierPool
from ratchet.verifiers.submission import STATED, JudgeSettings


def verify(problem: Problem, response: str, settings: JudgeSettings = STATED) -> Verdict:
    """Judge one finished response.

    Math may state its answer without a box ("The answer is 42."). Rewards count only a box, as `JudgeSettings()` does.

    A problem that cannot be judged gets a verdict with the reason. Each call for a program starts a sandbox, in about a
    third of a second: for many use `verify_all`, or a `VerifierPool` that stays open. Raises RatchetError for a domain
    that does not exist, and on a machine that cannot confine code.
    """
    [verdict] = verify_all([(problem, response)], workers=1, settings=settings)
    return verdict


def verify_all(
    pairs: Iterable[tuple[Problem, str]], workers: int | None = None, settings: JudgeSettings = STATED
) -> list[Verdict]:
    """Judge many finished responses with `workers` (default: one per core). Returns their verdicts in order. Raises
    RatchetError for a domain that does not exist."""
    with VerifierPool(workers, settings) as pool:
        return pool.verify(pair for pair in pairs if domain_of(pair[0].domain))


def equivalent(reference: str, answer: str) -> bool:
    """True if a response with `answer` in its box is right where the reference is `reference`. Both are bare, without a
    box; LaTeX or plain text.

    Not symmetric: `74-28-29` is no answer where the reference is 17, and 17 is one where the reference is `74-28-29`.
    """
    from ratchet.verifiers.math.equivalence import verify_answer

    return verify_answer(answer, reference).passed
