"""How well rules do on published statements that were read and labeled by hand.

`public_labels.jsonl` has, for each rule, the identities (`problem_id`) of the statements that it should take and of
those that it should leave. `half` says what the labels were for: U are of files that no rule was fixed on, B and V were
looked at once; the others were fixed on. The texts are public, and not here: give files that hold them, of any layout
with a column of statements.

    python -m tests.data_curation.rules.public_labels DATA/*.json*
"""

import argparse
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ratchet.data_curation.domains import plan_of
from ratchet.data_curation.readers.columns import RawRow
from ratchet.data_curation.readers.plain_formats import MATH_COLUMNS
from ratchet.data_curation.readers.raw_files import Malformed, read_rows
from ratchet.data_curation.readers.templates import clean_statement
from ratchet.data_curation.rules.patterns import PATTERNS
from ratchet.data_curation.settings.curation import Rules
from ratchet.verifiers.problem import Problem, problem_id

LABELS = Path(__file__).with_suffix(".jsonl")
STATEMENTS = (
    "instruction", "intent", *MATH_COLUMNS["prompt"], "text", "informal_statement", "problem_text",
    "problem_description", "query", "Problem", "Q", "original_text",
)  # fmt: skip


def labels() -> list[dict[str, Any]]:
    return [json.loads(line) for line in LABELS.read_text().splitlines()]


def problems(files: Iterable[Path]) -> Iterator[Problem]:
    """Every statement in the files, as a problem of either domain; one with a drawing in code also without it."""
    for file in files:
        for row in read_rows(file):
            if isinstance(row, Malformed):
                continue
            context = "".join(
                f"{row[n]}{gap}" for n, gap in (("context", "\n\n"), ("Body", " "), ("body", " ")) if row.get(n)
            )
            text = next((row[name] for name in STATEMENTS if isinstance(row.get(name), str)), "")
            try:
                answer = RawRow(row).take_answer(*MATH_COLUMNS["answer"])
            except Malformed:
                answer = None
            for prompt in {
                clean_statement(context + said).text for said in (text, PATTERNS["drawing_code"].whole.sub(" ", text))
            }:
                for domain in ("math", "code"):
                    yield Problem(problem_id(domain, prompt), domain, prompt, answer=answer)


def measured(paths: Iterable[Path]) -> Iterator[tuple[str, str, str, int, int, int, int]]:
    """(domain, rule, half, rightly taken, wrongly taken, missed, rightly left) of the labeled statements found."""
    found = {problem.problem_id: problem for problem in problems(paths)}
    for label in labels():
        rule = next(rule for rule in plan_of(label["domain"]).rules if rule.__name__ == label["rule"])
        counts = [
            sum((rule(found[key], Rules()) is not None) == taken for key in label[side] if key in found)
            for side, taken in (("takes", True), ("leaves", True), ("takes", False), ("leaves", False))
        ]
        yield (label["domain"], label["rule"], label["half"], *counts)  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="+")
    print(
        "| domain | rule | half | taken: right | wrong | left: right | missed | precision | recall |\n|---|---|---|"
        + "---:|" * 6
    )
    for domain, rule, half, right, wrong, missed, left in measured(parser.parse_args().paths):
        precision, recall = right / max(right + wrong, 1), right / max(right + missed, 1)
        print(
            f"| {domain} | {rule} | {half} | {right} | {wrong} | {left} | {missed} | {precision:.3f} | {recall:.3f} |"
        )


if __name__ == "__main__":
    main()
