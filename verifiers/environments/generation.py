"""Read an environment's data sets as raw rows, once, in a child process, because loading one runs its code.

    train.jsonl, test.jsonl     environment, arguments, messages (system prompt and question), row (the other columns)
    made.json                   versions, counts of rows, what was left out and why, what functions raised

The test rows are the environment's own evaluation set, else part of its training set, chosen by a hash of the question,
the same for every seed. No training row has the question of a test row.
"""

import hashlib
import importlib.metadata
import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ratchet.verifiers.environments.library import check_library, loader_of
from ratchet.verifiers.environments.scoring import LoadedEnvironment, Message, responses_of
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import run_child

VERSION = 1
"""Raise it when the same environment and seed would now give other files."""
REPORT = "made.json"
PROBED = 20
"""Rows on which the reward functions are tried first."""

Asked = tuple[list[Message], dict[str, Any]]


def make_rows(
    directory: Path, seed: int, environment: str, arguments: Mapping[str, Any] | None = None,
    train: int | None = None, test: int = 50,
) -> str:  # fmt: skip
    """At most `train` training rows (None: all) and `test` held-out ones. Returns what was left out, or "". Raises
    RatchetError if the environment cannot be loaded, or cannot be scored from one response to one prompt."""
    order = {"environment": environment, "arguments": arguments or {}, "seed": seed, "train": train, "test": test}
    check_library()
    run_child(__name__, order | {"directory": str(directory)})
    report = json.loads((directory / REPORT).read_text())
    short = [split for split in ("train", "test") if report[split] < (order[split] or 0)]
    few = [f"{report[split]} {split} rows of {order[split]}" for split in short]
    return "; ".join(few + [f"{number} left out: {reason}" for reason, number in report["left_out"].items()])


def check(environment: str, arguments: Mapping[str, Any] | None = None, **_: Any) -> None:
    """Raises RatchetError if the environment cannot be used. Loads it in a child process."""
    check_library()
    run_child(__name__, {"environment": environment, "arguments": arguments or {}})


CHECK = check
"""Called with the settings by a plan, before anything is made."""

# Everything below runs in the child.


def make(order: Mapping[str, Any]) -> None:
    """Make the rows of an environment, or only try it if the order has no `directory`."""
    loaded = LoadedEnvironment(order["environment"], order["arguments"])
    left_out: Counter[str] = Counter()
    usable = {split: _usable(loaded.rows(split), left_out) for split in ("train", "test")}
    raised = probe(loaded, usable["train"] or usable["test"])
    if "directory" not in order:
        return
    of = {"environment": order["environment"], "arguments": order["arguments"]}
    report: dict[str, Any] = {}
    for split, rows in split_rows(usable, order, left_out).items():
        with open(Path(order["directory"]) / f"{split}.jsonl", "w") as file:
            for messages, row in rows:
                file.write(json.dumps(of | {"messages": messages, "row": row}, ensure_ascii=False) + "\n")
        report[split] = len(rows)
    report |= {"left_out": left_out, "raised": raised, "versions": _versions(order["environment"])}
    (Path(order["directory"]) / REPORT).write_text(json.dumps(report, indent=1))


def _usable(rows: Iterable[Asked], left_out: Counter[str]) -> list[Asked]:
    """Rows that JSON can hold, each question once."""
    usable: dict[str, Asked] = {}
    for messages, row in rows:
        messages = [m if isinstance(m, dict) else m.model_dump(exclude_none=True) for m in messages]
        try:
            messages, row = json.loads(json.dumps([messages, row], allow_nan=False))
        except (TypeError, ValueError) as error:
            left_out[f"JSON cannot hold the row ({error})"] += 1
            continue
        if [message.get("role") for message in messages] not in (["user"], ["system", "user"]):
            left_out["more than a system prompt and one question"] += 1
        elif not all(isinstance(message.get("content"), str) for message in messages):
            left_out["a question that is not text alone"] += 1
        elif (question := _folded(messages)) in usable:
            left_out["its question is in the set twice"] += 1
        else:
            usable[question] = messages, row
    return list(usable.values())


def split_rows(
    usable: Mapping[str, list[Asked]], order: Mapping[str, Any], left_out: Counter[str]
) -> dict[str, list[Asked]]:
    """The training and held-out rows, at most as many as the order asks for; none has the other's question."""
    train = usable["train"]
    by_hash = sorted(usable["test"] or train, key=lambda row: hashlib.sha256(_folded(row[0]).encode()).hexdigest())
    test = by_hash[: order["test"]]
    held_out = {_folded(messages) for messages, _ in test}
    kept = [row for row in train if _folded(row[0]) not in held_out]
    if usable["test"] and len(kept) < len(train):
        left_out["a training row that asks what a test row asks"] += len(train) - len(kept)
    random.Random(order["seed"]).shuffle(kept)
    return {"train": kept[: order["train"]], "test": test}


def probe(loaded: LoadedEnvironment, rows: list[Asked]) -> dict[str, str]:
    """The last exception of each reward function that raised one. Raises RatchetError for a function that raises for
    every response, since it needs more than a single response has, and for one whose values cannot be used."""
    if not rows:
        raise RatchetError("the environment has no row that can be asked.")
    fine: set[str] = set()
    raised: dict[str, str] = {}
    loaded.warm_up()
    for messages, row in rows[:PROBED]:
        for response in (*responses_of(row), "No."):
            loaded.score(messages, row, response)
            for name, _, value in loaded.values(messages, row, response):
                if isinstance(value, Exception):
                    raised[name] = f"{type(value).__name__}: {value}"
                else:
                    fine.add(name)
    for name in raised.keys() - fine:
        raise RatchetError(
            f"The environment's reward function {name} raises for every response: {raised[name]}. Responses are scored "
            "alone, without tools, a sandbox, a judge model or the state of a longer rollout "
            "(docs/howto/environments.md)."
        )
    return raised


def _folded(messages: list[Message]) -> str:
    return " ".join(messages[-1]["content"].split())


def _versions(environment: str) -> dict[str, str]:
    package = loader_of(environment).partition(":")[0].partition(".")[0]
    of = importlib.metadata.packages_distributions()
    return {name: importlib.metadata.version(name) for name in sorted({"verifiers", *of.get(package, ())})}


def main() -> None:
    try:
        make(json.load(sys.stdin))
    except (RatchetError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
