"""Ratchet from Python: `from ratchet.api import …` (docs/howto/python.md).

`ratchet` itself is a namespace that three distributions share, so it has no names of its own.
"""

from ratchet.data_curation import decontaminate, deduplicate, filter_by_rules, read_problems
from ratchet.evaluation.home import open_home
from ratchet.evaluation.score_responses import score_responses
from ratchet.infra.recipe import load_recipe
from ratchet.training.stage import train_stage
from ratchet.verifiers import verify, verify_all

__all__ = [
    "decontaminate", "deduplicate", "filter_by_rules", "load_recipe", "open_home", "read_problems", "score_responses",
    "train_stage", "verify", "verify_all",
]  # fmt: skip
