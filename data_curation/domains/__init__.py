"""How the problems of each domain are curated: one file a domain, which its class names as `curation`."""

from __future__ import annotations

from dataclasses import dataclass

from ratchet.data_curation.rules import Rule
from ratchet.data_curation.rules.answers import no_answer
from ratchet.data_curation.rules.brevity import too_brief
from ratchet.data_curation.rules.language import non_english
from ratchet.infra.registry import Registry
from ratchet.verifiers.domain import domain_of


@dataclass(frozen=True)
class CurationPlan:
    """Which rules and steps a domain's problems go through, in order."""

    rules: tuple[Rule, ...]
    steps: tuple[str, ...] = ("normalise", "rules", "decontaminate", "deduplicate")
    teacher_steps: tuple[str, ...] = ("teacher_attempts", "difficulty")
    """What follows where the recipe has a teacher."""
    ngram: int = 9
    """Tokens that a problem may share with a benchmark item before decontamination looks closer."""


PLAIN = CurationPlan(rules=(too_brief, non_english, no_answer))
"""Of a domain that names no other."""

PLANS: Registry[CurationPlan] = Registry("curation plan", {}, lambda value: isinstance(value, CurationPlan))


def plan_of(domain: str) -> CurationPlan:
    return PLANS.get(domain_of(domain).curation)
