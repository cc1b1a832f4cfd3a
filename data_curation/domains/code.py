"""Code curation, as AceReason-Nemotron section 3.2 describes it."""

from ratchet.data_curation.domains import CurationPlan
from ratchet.data_curation.rules import code_rules

CODE = CurationPlan(
    rules=code_rules.RULES,
    steps=("normalise", "rules", "decontaminate", "deduplicate", "validate_tests"),
    ngram=14,  # statements share more boilerplate than those of math
)
