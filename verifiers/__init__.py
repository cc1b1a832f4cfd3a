"""Verdicts on responses: math, code, logic puzzles, instructions, science, and domains of your own.

    from ratchet.verifiers import Problem, verify
    verify(Problem.of("math", answer="1/2"), "so \\\\boxed{0.5}").passed

Imports hardly anything by itself: the sandbox's fork server loads this package too.
"""

import importlib
import os.path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ratchet.verifiers.domain import Domain as Domain
    from ratchet.verifiers.errors import RatchetError as RatchetError
    from ratchet.verifiers.outcome import Outcome as Outcome
    from ratchet.verifiers.outcome import Verdict as Verdict
    from ratchet.verifiers.problem import CodeTest as CodeTest
    from ratchet.verifiers.problem import Problem as Problem
    from ratchet.verifiers.serving.local_pool import VerifierPool as VerifierPool
    from ratchet.verifiers.serving.local_pool import open_pool as open_pool
    from ratchet.verifiers.submission import JudgeSettings as JudgeSettings
    from ratchet.verifiers.verification import equivalent as equivalent
    from ratchet.verifiers.verification import verify as verify
    from ratchet.verifiers.verification import verify_all as verify_all

_PUBLIC = {
    "CodeTest": "problem", "Domain": "domain", "JudgeSettings": "submission", "Outcome": "outcome",
    "Problem": "problem", "RatchetError": "errors", "Verdict": "outcome", "VerifierPool": "serving.local_pool",
    "equivalent": "verification", "open_pool": "serving.local_pool", "verify": "verification",
    "verify_all": "verification",
}  # fmt: skip
"""The promised names, by the module that is imported with their first use."""
__all__ = [*_PUBLIC]  # pyright: ignore[reportUnsupportedDunderAll]

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
"""The directory of this package: a checkout, or `ratchet` in site-packages."""


def child_source(module: str) -> str:
    """A program for `python -P -c` that runs a module's `main()` without the parent's import system: the children that
    judge run without site-packages or with an empty environment."""
    package = f"p = types.ModuleType('ratchet'); p.__path__ = [{ROOT!r}]; sys.modules['ratchet'] = p"
    return f"import sys, types; {package}; from {module} import main; main()"


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_PUBLIC)
