"""How well curation did on this world, against what is known of each raw row, which curation never sees.

The convention:

* A dirty row names the rule it should fall to (`expected`) and all that may take it (`acceptable`: a copy of a
  benchmark item can be found by its n-grams or as a whole). `step:*` accepts any rule of the step.
* **Recall** of a rule: of the rows that expect it, the share rejected by an acceptable rule. A row rejected only by
  chance, by a rule it does not name, counts as missed.
* **Precision** of a rule: of the rows it rejected, the share that name it as acceptable.
* Duplicates are scored by cluster, an original and its copies, because which of them stays is curation's choice: of
  a cluster with n copies, up to n rejected members are right (and, for recall, n are due), whichever they are.
* Rules that are choices and not claims about a row (`BY_DESIGN`: no majority, too short, never solved, ...) may take
  any row. They have no precision; a row that they reject and another rule should have, is that rule's miss.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

BY_DESIGN = (
    "majority_vote:no_majority", "majority_vote:tie", "majority_vote:no_answer", "majority_vote:no_attempt",
    "majority_vote:undecided", "difficulty:*", "length:*",
)  # fmt: skip


@dataclass(frozen=True)
class RuleScore:
    """One rule over the whole chain. `precision` is None where the rule rejected nothing or is by design, `recall`
    where no row expects it."""

    rule: str  # "step:rule"
    expected: int  # rows that should fall to it
    precision: float | None
    recall: float | None


def score_rules(truth: pa.Table, rejected: pa.Table, kept: pa.Table) -> list[RuleScore]:
    """Precision and recall of each rule that rejected or was expected to reject a row, in order of first use.

    `truth` has `TRUTH_SCHEMA`; `rejected` holds the rejects of all steps and `kept` what the last one let through, and
    together they must account for every raw row once: raises ValueError otherwise.
    """
    facts = {row["row"]: row for row in truth.to_pylist()}
    taken_by = {
        int(source_id): f"{step}:{rule}"
        for source_id, step, rule in zip(*(rejected[c].to_pylist() for c in ("source_id", "step", "rule")), strict=True)
    }
    stayed = {int(source_id) for source_id in kept["source_id"].to_pylist()}
    if len(taken_by) != len(rejected) or taken_by.keys() & stayed or taken_by.keys() | stayed != facts.keys():
        raise ValueError(
            f"{len(rejected)} rejected and {len(kept)} kept rows do not account for {len(facts)} raw rows once each"
        )

    clusters: dict[int, list[int]] = defaultdict(list)  # original -> copies
    for row, fact in facts.items():
        if fact["partner"] is not None:
            clusters[fact["partner"]].append(row)
    cluster_of = {member: original for original, copies in clusters.items() for member in (original, *copies)}

    expected: Counter[str] = Counter()
    found: Counter[str] = Counter()
    rejections = Counter(taken_by.values())
    right: Counter[str] = Counter()
    for row, fact in facts.items():
        if fact["partner"] is not None:
            continue
        if fact["expected"]:
            expected[fact["expected"]] += 1
            found[fact["expected"]] += accepts(fact["acceptable"], taken_by.get(row))
        if row in taken_by and row not in cluster_of:
            right[taken_by[row]] += accepts(fact["acceptable"], taken_by[row])
    for original, copies in clusters.items():
        fact = facts[copies[0]]
        taken = [taken_by.get(member) for member in (original, *copies)]
        due = [rule for rule in taken if accepts(fact["acceptable"], rule)][: len(copies)]
        expected[fact["expected"]] += len(copies)
        found[fact["expected"]] += len(due)
        right.update(rule for rule in due if rule)

    names = dict.fromkeys([*rejections, *sorted(expected)])
    return [
        RuleScore(
            rule, expected[rule],
            None if not rejections[rule] or accepts(BY_DESIGN, rule) else right[rule] / rejections[rule],
            found[rule] / expected[rule] if expected[rule] else None,
        )
        for rule in names
    ]  # fmt: skip


def accepts(acceptable: Iterable[str], rule: str | None) -> bool:
    """Whether `rule` ("step:rule", or None for a row that was kept) is one of `acceptable`."""
    return rule is not None and any(name in (rule, f"{rule.split(':')[0]}:*") for name in acceptable)
