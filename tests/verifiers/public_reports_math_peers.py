"""The verdicts of other verifiers, for public_reports_math.py: rows of JSON in, verdicts out.

Runs in an interpreter without Ratchet. The packages of verl and TRL are entered below their `__init__`,
which would load a trainer. Their limits of a few seconds are lifted, so that a busy machine changes no verdict.
"""

import concurrent.futures
import importlib
import json
import logging
import os
import sys
import types
from collections.abc import Callable
from typing import Any

PATIENCE_S = 300
Grade = Callable[[str, str], Any]


def package(name: str, folder: str) -> None:
    module = types.ModuleType(name)
    module.__path__ = [folder]
    sys.modules[name] = module


def module(name: str, **members: Any) -> None:
    """In place of one that imports what no grader needs."""
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(members)


def elsewhere(function: Callable[..., Any], *arguments: Any) -> Any:
    """In a thread, where TRL sets no limit."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *arguments).result()


def graders(verl: str, trl: str) -> dict[str, Grade]:
    from math_verify import parse, verify

    def plain(reference: str, text: str) -> bool:
        gold, answer = (parse(each, parsing_timeout=PATIENCE_S) for each in (f"${reference}$", text))
        return verify(gold, answer, timeout_seconds=PATIENCE_S)

    found: dict[str, Grade] = {"math-verify": plain}
    if verl:
        for name in ("verl", "verl.utils", "verl.utils.reward_score"):
            package(name, f"{verl}/{name.replace('.', '/')}")
        module("verl.utils.py_functional", timeout_limit=lambda *_, **__: lambda function: function)
        dapo = importlib.import_module("verl.utils.reward_score.math_dapo")
        prime = importlib.import_module("verl.utils.reward_score.prime_math")
        found["math_dapo"] = lambda reference, text: dapo.compute_score(text, reference)["acc"]
        found["prime_math"] = lambda reference, text: prime.compute_score(text, reference)[0]
    if trl:
        for name in ("trl", "trl.rewards"):
            package(name, f"{trl}/{name.replace('.', '/')}")
        module("trl.import_utils", is_math_verify_available=lambda: True)
        reward = importlib.import_module("trl.rewards.accuracy_rewards").accuracy_reward
        found["TRL"] = lambda reference, text: elsewhere(reward, [[{"content": text}]], [f"${reference}$"])[0] == 1.0
    return found


def asked(name: str, row: dict[str, Any]) -> str:
    """The response, or the answer as this verifier's prompt asks for it."""
    answer = row.get("answer", "")
    return row.get("response", f"Answer: {answer}" if name == "math_dapo" else f"\\boxed{{{answer}}}")


def main() -> None:
    logging.disable(logging.CRITICAL)
    rows = [json.loads(line) for line in sys.stdin]
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what they print is no verdict
    found = graders(*sys.argv[1:])
    for row in rows:
        verdicts = {}
        for name, grade in found.items():
            try:
                verdicts[name] = bool(grade(row["reference"], asked(name, row)))
            except BaseException:  # TimeoutException of math-verify is no Exception
                verdicts[name] = False
        print(json.dumps(verdicts), file=output, flush=True)


if __name__ == "__main__":
    main()
