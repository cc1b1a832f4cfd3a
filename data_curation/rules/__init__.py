"""Rule filters: drop problems whose answers cannot be verified, or that are incomplete, with evidence.

A rule is a function from a problem to evidence or None. Rules match words and structure, never bare substrings:
"improve" asks for no proof, `P(A)` is no option, and a list of conditions is no list of questions.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from ratchet.data_curation.rules.evidence import Evidence, decided
from ratchet.data_curation.split import Rejection, Split, partition
from ratchet.data_curation.tokens import byte_span
from ratchet.infra.recipe.curation import Rules
from ratchet.infra.store.problem_table import from_table
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import Problem

STEP = "rules"
Rule = Callable[[Problem, Rules], Evidence | None]
"""Evidence against a problem, or None; the function's name is the rule's."""


def applied(rules: Sequence[Rule], limits: Rules) -> list[Rule]:
    """The rules that are not switched off. Raises RatchetError for an unknown name under `off`."""
    names = [rule.__name__ for rule in rules]
    if unknown := [name for name in limits.off if name not in names]:
        raise RatchetError(f"rules.off: no rule of this domain is called {unknown[0]!r}; there are {', '.join(names)}.")
    return [rule for rule in rules if rule.__name__ not in limits.off]


def filter_by_rules(table: pa.Table, rules: Sequence[Rule], limits: Rules) -> Split:
    """Reject each row by the first rule that applies. Where a model decided about a row (`exclusions.py`), its decision
    holds; the summary counts those that changed the rule's (`overruled`). Raises RatchetError as `applied` does."""
    rules, overruled = applied(rules, limits), Counter[str]()

    def judge(problem: Problem) -> Rejection | None:
        model, labels = decided(problem.metadata)
        for rule in rules:
            evidence, label = rule(problem, limits), labels.get(rule.__name__)
            if label is not None and label["applies"] != bool(evidence):
                overruled["dropped" if label["applies"] else "kept"] += 1
                evidence = {"text": label["text"], "model": model} if label["applies"] else None
                if evidence and (at := problem.prompt.find(label["text"])) >= 0:
                    evidence["span"] = [at, at + len(label["text"])]
            if evidence:
                if "span" in evidence:  # rules count characters, evidence bytes
                    evidence |= {"span": byte_span(problem.prompt, *evidence["span"])}
                return Rejection(rule.__name__, evidence)
        return None

    verdicts = list(map(judge, from_table(table)))
    counts: dict[str, Any] = {"overruled": dict(overruled)} if overruled else {}
    return partition(STEP, [rule.__name__ for rule in rules], table, verdicts, **counts)
