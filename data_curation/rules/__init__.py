"""Rules that drop problems whose answers cannot be verified, or that are incomplete, with evidence.

They match words and structure, never bare substrings: "improve" asks for no proof, `P(A)` is no option, and a list of
conditions is no list of questions. `rule_filter.py` applies them.
"""

from collections.abc import Callable

from ratchet.data_curation.rules.evidence import Evidence
from ratchet.data_curation.settings.curation import Rules
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.registry import Registry, takes_two

Rule = Callable[[Problem, Rules], Evidence | None]
"""A rule: evidence against a problem, or None; the function's name is the rule's."""
OTHER_RULES: Registry[Rule] = Registry("rule", {}, takes_two, group="ratchet.curation_rules")
"""Rules of installed packages by name, and any other rule by import path."""
