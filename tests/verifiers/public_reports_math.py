r"""Inputs of public bug reports on math verifiers, and what Ratchet and others say of them today.

    python -m tests.verifiers.public_reports_math [--peers PYTHON] [--verl DIRECTORY] [--trl DIRECTORY] [--all]

Rows are those of public_reports_math.jsonl: a reference, an answer or a response, the right verdict, and the
report that has them. Peers run in another process of the interpreter PYTHON, which has math-verify and, for prime_math,
pylatexenc: math-verify itself, `math_dapo` and `prime_math` of verl and `accuracy_reward` of TRL, the last three from
checkouts that stay where they are. Each is given the answer as its own prompt asks for it: on a line `Answer: ...`
(math_dapo), or in a box. prime_math evaluates answers with `eval`: give it none that you did not read.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ratchet.verifiers.math.equivalence import verify_math

FILE = Path(__file__).with_suffix(".jsonl")
PEERS = Path(__file__).with_name("public_reports_math_peers.py")


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def ours(row: dict[str, Any]) -> bool:
    response, question = row.get("response", f"\\boxed{{{row.get('answer', '')}}}"), row.get("question", "")
    return verify_math(response, row["reference"], question=question).passed


def peers(python: str, verl: str, trl: str) -> list[dict[str, bool]]:
    """The verdicts of the others, row by row."""
    given, command = FILE.read_text(encoding="utf-8"), [python, str(PEERS), verl, trl]
    ran = subprocess.run(command, input=given, capture_output=True, text=True, timeout=1800, check=False)
    if ran.returncode:
        sys.exit(f"the peers' process failed:\n{ran.stderr[-2000:]}")
    return [json.loads(line) for line in ran.stdout.splitlines()]


def summary(all_rows: list[dict[str, Any]], verdicts: list[dict[str, bool]]) -> Iterator[str]:
    """One line for each verifier: how many verdicts are right, what is accepted or rejected wrongly, and how many agree
    with what the reports themselves ask for."""
    count = sum(row["right"] for row in all_rows)
    inputs = f"{len(all_rows)} inputs, {count} of them right"
    yield f"| {inputs} | decided rightly | accepted wrongly | rejected wrongly | as reported |"
    yield "|---|--:|--:|--:|--:|"
    for name in verdicts[0]:
        got = [verdict[name] for verdict in verdicts]
        pairs = [(row["right"], verdict) for row, verdict in zip(all_rows, got, strict=True)]
        accepted, rejected = pairs.count((False, True)), pairs.count((True, False))
        reported = sum(row.get("reported", row["right"]) == verdict for row, verdict in zip(all_rows, got, strict=True))
        yield f"| {name} | {len(pairs) - accepted - rejected} | {accepted} | {rejected} | {reported} |"


def table(all_rows: list[dict[str, Any]], verdicts: list[dict[str, bool]]) -> Iterator[str]:
    """Every input with its verdicts; a wrong one is bold."""
    names = list(verdicts[0])
    yield f"| reference | answer | is | {' | '.join(names)} | report |"
    yield f"|---|---|---|{'---|' * len(names)}---|"
    words = {True: "right", False: "wrong"}
    for row, verdict in zip(all_rows, verdicts, strict=True):
        marks = ["**" * (verdict[name] != row["right"]) for name in names]
        shown = [f"{mark}{words[verdict[name]]}{mark}" for mark, name in zip(marks, names, strict=True)]
        texts = [_code(row["reference"]), _code(row["answer"] if "answer" in row else row["response"])]
        note = f" ({row['note']})" if "note" in row else ""
        repository = row["source"].removeprefix("https://github.com/").split("/blob/")[0]
        link = f"[{repository}]({row['source']})"
        yield f"| {' | '.join([*texts, words[row['right']] + note, *shown, link])} |"


def _code(text: str) -> str:
    return f"`{' '.join(text.split())}`".replace("|", "\\|")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=sys.executable, help="interpreter that has math-verify; default: this one")
    parser.add_argument("--verl", default="", help="checkout of verl")
    parser.add_argument("--trl", default="", help="checkout of TRL")
    parser.add_argument("--all", action="store_true", help="print every input, not only those on which ours is wrong")
    options = parser.parse_args()
    all_rows = rows()
    others = peers(options.peers, options.verl, options.trl)
    verdicts = [{"ratchet": ours(row), **other} for row, other in zip(all_rows, others, strict=True)]
    print("\n".join(summary(all_rows, verdicts)) + "\n")
    chosen = [i for i, row in enumerate(all_rows) if options.all or verdicts[i]["ratchet"] != row["right"]]
    print("\n".join(table([all_rows[i] for i in chosen], [verdicts[i] for i in chosen])))


if __name__ == "__main__":
    main()
