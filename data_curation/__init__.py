"""Curation: from files to problems worth training on. Each step takes a table and gives the kept and the rejected rows.

from ratchet.data_curation import deduplicate, decontaminate, filter_by_rules, read_problems
rows, malformed = read_problems("train.jsonl", domain="math", columns={"prompt": "question", "answer": "target"})
kept, rejected = filter_by_rules(rows)
"""

from ratchet.data_curation.decontamination.problems import decontaminate
from ratchet.data_curation.deduplication.copies import deduplicate
from ratchet.data_curation.read import read_problems
from ratchet.data_curation.rule_filter import filter_by_rules
from ratchet.data_curation.split import Split
from ratchet.infra.recipe.curation import Decontamination, Deduplication, Rules

__all__ = [
    "Decontamination", "Deduplication", "Rules", "Split",
    "decontaminate", "deduplicate", "filter_by_rules", "read_problems",
]  # fmt: skip
