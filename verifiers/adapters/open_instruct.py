"""open-instruct: the verifier `ratchet`, for `python -m ratchet.verifiers.adapters.open_instruct SCRIPT ...`."""

import functools
import importlib
from typing import Any

from ratchet.verifiers.adapters.rewards import rewards, run_script


def __getattr__(name: str) -> Any:
    if name != "RatchetVerifier":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return verifier()


@functools.cache
def verifier() -> type:
    """The verifier's class, which open-instruct finds among the subclasses of its own; it is imported here."""
    theirs = importlib.import_module("open_instruct.ground_truth_utils")

    class RatchetVerifier(theirs.VerifierFunction):
        def __init__(self, verifier_config: Any = None) -> None:
            super().__init__("ratchet", verifier_config=verifier_config)

        def __call__(
            self, tokens: Any, prediction: str, label: str, query: Any = None, rollout_state: Any = None
        ) -> Any:
            """Reward by a label that is the row's `ratchet_problem`. Raises RatchetError where the judge failed."""
            return theirs.VerificationResult(score=rewards().certain([label], [prediction])[0])

    RatchetVerifier.__qualname__ = "RatchetVerifier"  # unpickled by this name, through `__getattr__`
    return RatchetVerifier


if __name__ == "__main__":
    importlib.import_module("ratchet.verifiers.adapters.open_instruct").verifier()
    run_script()
