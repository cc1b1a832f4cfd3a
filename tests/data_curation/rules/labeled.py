"""How well each rule filter does on its labeled corpus.

A row of the corpus has `domain`, `rule`, `takes` (what a person says), `text`, the columns that the rule reads, `note`
(why), and `half`: 1 was written before anyone had read the rule, 2 after.

    python -m tests.data_curation.rules.labeled            # precision and recall of every rule
    python -m tests.data_curation.rules.labeled --wrong    # and the examples that a rule gets wrong
    python -m tests.data_curation.rules.labeled --speed FILE DOMAIN    # rows of a file per CPU second
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratchet.data_curation.domains import plan_of
from ratchet.data_curation.read import read_problems
from ratchet.data_curation.rule_filter import filter_by_rules
from ratchet.data_curation.settings.curation import Rules
from ratchet.verifiers.problem import Problem

CORPUS = Path(__file__).with_name("corpus")
COLUMNS = ("answer", "entry_point", "starter_code", "golden_solutions")


@dataclass(frozen=True)
class Score:
    domain: str
    rule: str
    right: int
    wrong: int
    missed: int
    left: int

    @property
    def precision(self) -> float:
        return self.right / max(self.right + self.wrong, 1)

    @property
    def recall(self) -> float:
        return self.right / max(self.right + self.missed, 1)


def rows() -> Iterator[dict[str, Any]]:
    for file in sorted(CORPUS.glob("*.jsonl")):
        yield from map(json.loads, file.read_text().splitlines())


def evidence(row: dict[str, Any]) -> dict[str, Any] | None:
    """What the rule of this corpus row says of it, alone, whatever other rules would say."""
    rule = next(rule for rule in plan_of(row["domain"]).rules if rule.__name__ == row["rule"])
    metadata = json.dumps(row["metadata"]) if row.get("metadata") else None
    columns = {name: row[name] for name in COLUMNS if row.get(name) is not None}
    return rule(Problem("id", row["domain"], row["text"], metadata=metadata, **columns), Rules())


def scores(labeled: Iterator[dict[str, Any]]) -> list[Score]:
    counts: dict[tuple[str, str], dict[tuple[bool, bool], int]] = defaultdict(lambda: defaultdict(int))
    for row in labeled:
        counts[row["domain"], row["rule"]][row["takes"], evidence(row) is not None] += 1
    return [
        Score(*rule, right=n[True, True], wrong=n[False, True], missed=n[True, False], left=n[False, False])
        for rule, n in counts.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", type=int, choices=(1, 2), help="only the examples written before (1) or after (2)")
    parser.add_argument("--wrong", action="store_true", help="show the examples that are got wrong")
    parser.add_argument(
        "--speed", nargs=2, metavar=("FILE", "DOMAIN"), help="only measure rows of a file per CPU second"
    )
    arguments = parser.parse_args()
    if arguments.speed:
        problems = read_problems(arguments.speed[0], arguments.speed[1]).kept
        filter_by_rules(problems)  # loads what detects languages
        began = time.process_time()
        filter_by_rules(problems)
        print(f"{len(problems) / (time.process_time() - began):,.0f} rows per CPU second")
        return
    labeled = [row for row in rows() if arguments.half in (None, row["half"])]
    print(
        "| domain | rule | examples | precision | recall | wrongly taken | missed |\n|---|---|---:|---:|---:|---:|---:|"
    )
    for s in scores(iter(labeled)):
        examples = s.right + s.wrong + s.missed + s.left
        print(f"| {s.domain} | {s.rule} | {examples} | {s.precision:.3f} | {s.recall:.3f} | {s.wrong} | {s.missed} |")
    if arguments.wrong:
        for row in labeled:
            if (evidence(row) is not None) != row["takes"]:
                print(
                    f"\n{row['domain']} {row['rule']}: {'missed' if row['takes'] else 'wrongly taken'} ({row['note']})"
                )
                print(f"  {row['text']}\n  answer: {row.get('answer')}")


if __name__ == "__main__":
    main()
