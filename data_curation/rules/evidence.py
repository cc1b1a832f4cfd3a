"""The evidence of rules, and the rules about the reference."""

import json
import re
from typing import Any

from ratchet.data_curation.settings.curation import Rules
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.problem import Problem

Evidence = dict[str, Any]


def seen(match: re.Match[str], **more: Any) -> Evidence:
    """Evidence with the matched text and its characters `span` of the prompt, which `filter_by_rules` converts to
    bytes."""
    return {"text": match[0], "span": list(match.span())} | more


def declared(problem: Problem, field: str, *values: str) -> Evidence | None:
    """Evidence from a field of the row's metadata if it has one of these values."""
    if not problem.metadata or field not in problem.metadata:
        return None
    value = json.loads(problem.metadata).get(field)
    return {"field": field, "value": value} if str(value).lower() in values else None


def unverifiable(problem: Problem, limits: Rules) -> Evidence | None:
    """The verifier rejects the reference itself."""
    fault = domain_of(problem.domain).reference_fault(problem)
    return {"fault": fault, "answer": problem.answer} if fault else None


def no_answer(problem: Problem, limits: Rules) -> Evidence | None:
    """No response can be judged: the domain gives the reason."""
    fault = domain_of(problem.domain).fault(problem)
    return {"fault": fault} if fault else None
