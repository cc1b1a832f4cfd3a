"""Math curation, as AceReason-Nemotron section 3.1 describes it."""

from ratchet.data_curation.domains import CurationPlan
from ratchet.data_curation.rules import math_rules

MATH = CurationPlan(
    rules=math_rules.RULES,
    # A majority of the teacher's answers must confirm the reference; what it solves in few tokens teaches little.
    teacher_steps=("teacher_attempts", "majority_vote", "length"),
)
