"""Compare two evaluations of the same questions: paired differences, changed questions, and differing settings."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from ratchet.evaluation.pass_at_k import NAN, pass_at_k_table
from ratchet.evaluation.statistics import (
    gain_limit,
    paired_interval,
    paired_p_value,
    standard_error_across_clusters,
)
from ratchet.infra.keys import flat

SIGNIFICANT = 0.05  # false discovery rate at which a single question counts as changed
Counts = Mapping[str, Sequence[int]]  # question to (passed, graded)


@dataclass(frozen=True)
class PairedDifference:
    """The difference of pass@k `after` minus `before` on the same questions."""

    questions: int
    difference: float
    standard_error: float
    low: float
    high: float
    p_value: float
    upper_limit: float
    """One-sided upper limit at 97.5 %, valid also where few questions changed (`statistics.gain_limit`)."""

    @property
    def improved(self) -> bool | None:
        """True for a gain and False for a loss; None if the difference is not significant at 5 %."""
        return self.difference > 0 if self.p_value < 0.05 else None


def paired_difference(
    before: Counts, after: Counts, k: int = 1, clusters: Mapping[str, Hashable] | None = None
) -> PairedDifference:
    """Compare pass@k question by question, on the questions with at least k graded responses on both sides.

    The standard error is that of the mean of d_i = after_i - before_i across questions (or across `clusters`, by
    question). Pairing makes it small: the difficulty of a question is common to both sides and cancels. Interval
    and p-value are of one test (`statistics.paired_p_value`): p is below 0.05 exactly where the interval excludes 0.
    """
    common = [q for q in before if q in after and min(before[q][1], after[q][1]) >= k]
    if not common:
        return PairedDifference(0, NAN, NAN, NAN, NAN, NAN, NAN)
    sides = [np.array([counts[q] for q in common]) for counts in (before, after)]
    first, last = (pass_at_k_table(side[:, 1], side[:, 0])[:, k - 1] for side in sides)
    differences = last - first
    names = [clusters.get(q, (q,)) if clusters else q for q in common]
    mean, error = float(differences.mean()), standard_error_across_clusters(differences, names)
    low, high = paired_interval(differences, names)
    p_value = paired_p_value(differences, names)
    return PairedDifference(len(common), mean, error, low, high, p_value, gain_limit(differences, names))


def question_changes(before: Counts, after: Counts) -> pd.DataFrame:
    """A row for every question graded on both sides, in the order of `before`: `passed` of `graded`, then
    `passed_after` of `graded_after`.

    `newly_solved`: no correct response before, at least one after. With 0 of n correct the solve rate may still be up
    to `zero_of_n_limit(n)`. `newly_lost`: the reverse. `q_value`: Fisher's exact test, two-sided, corrected over all
    questions (Benjamini-Hochberg): the false discovery rate at this threshold.
    """
    from scipy.stats import false_discovery_control, fisher_exact

    sides = (pd.DataFrame([*counts.values()], [*counts], ["passed", "graded"], int) for counts in (before, after))
    changes = next(sides).join(next(sides), how="inner", rsuffix="_after").query("graded > 0 and graded_after > 0")

    @cache
    def p_value(passed: int, graded: int, passed_after: int, graded_after: int) -> float:
        table = [[passed, graded - passed], [passed_after, graded_after - passed_after]]
        p = float(fisher_exact(table)[1])  # type: ignore[arg-type]
        return min(p, 1.0)  # rounding errors

    p_values = [p_value(*row) for row in changes.itertuples(index=False)]
    return changes.assign(
        newly_solved=(changes.passed == 0) & (changes.passed_after > 0),
        newly_lost=(changes.passed > 0) & (changes.passed_after == 0),
        q_value=false_discovery_control(p_values) if p_values else [],
    )


def zero_of_n_limit(n: int) -> float:
    """The upper limit, at 95 %, of the solve rate after n failures and no success: 4.6 % for n = 64."""
    return 1 - (1 - 0.95) ** (1 / n) if n else NAN


def setting_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """A line for each setting that differs, and so may explain a difference between the scores.

    `before` and `after` are whole `scores.json`. Seeds and numbers of samples may differ: pass@k is unbiased at any n.
    Verdicts of another version of the step are another measurement; those that do not say theirs may be.
    """
    differences = []
    versions = [each["settings"].get("step_version") for each in (before, after)]
    if None in versions or versions[0] != versions[1]:
        one, other = ("unknown" if version is None else version for version in versions)
        differences.append(
            f"the version of the step evaluate, which judges: {one} and {other} (evaluate again what is of an older "
            "version, or of an earlier Ratchet and says none: its responses are stored, and only judged again)"
        )
    for name in sorted((before["settings"].keys() | after["settings"].keys()) - {"step_version"}):
        differences += _differing(name, before["settings"].get(name), after["settings"].get(name))
    for name in (name for name in before["benchmarks"] if name in after["benchmarks"]):
        one, other = before["benchmarks"][name], after["benchmarks"][name]
        if one["content_hash"] != other["content_hash"]:
            differences.append(
                f"{name}: the benchmark's content ({one['questions']} and {other['questions']} questions)"
            )
        differences += _differing(f"{name}: prompt", one["prompt"], other["prompt"])
        differences += _differing(
            f"{name}: answer_pattern", *(each.get("answer_pattern", "boxed") for each in (one, other))
        )
        if "verification" in one and "verification" in other:  # else the version is unknown, which is said once
            differences += _differing(f"{name}: verification", one["verification"], other["verification"])
    return differences


def _differing(name: str, one: Any, other: Any) -> list[str]:
    one, other = flat(one, name), flat(other, name)
    pairs = {key: (one.get(key), other.get(key)) for key in sorted(one.keys() | other.keys())}
    shown = {key: ["unknown" if v is None else repr(v) for v in pair] for key, pair in pairs.items()}
    return [f"{key}: {' and '.join(shown[key])}" for key, (before, after) in pairs.items() if before != after]
