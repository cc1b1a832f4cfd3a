"""Ratchet from Python: `from ratchet.api import …` (docs/python.md). Each name is imported with its first use.

`ratchet` itself is a namespace that two distributions share, so it has no names of its own.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ratchet.data_curation import decontaminate as decontaminate
    from ratchet.data_curation import deduplicate as deduplicate
    from ratchet.data_curation import filter_by_rules as filter_by_rules
    from ratchet.data_curation import read_problems as read_problems
    from ratchet.evaluation.home import open_home as open_home
    from ratchet.evaluation.score_responses import score_responses as score_responses
    from ratchet.infra.recipe.load import load_recipe as load_recipe
    from ratchet.training.stage import train_stage as train_stage
    from ratchet.verifiers import verify as verify
    from ratchet.verifiers import verify_all as verify_all

_PLACES = {
    "deduplicate": "data_curation", "decontaminate": "data_curation", "filter_by_rules": "data_curation",
    "load_recipe": "infra.recipe.load", "open_home": "evaluation.home", "read_problems": "data_curation",
    "score_responses": "evaluation.score_responses", "train_stage": "training.stage", "verify": "verifiers",
    "verify_all": "verifiers",
}  # fmt: skip
__all__ = [*_PLACES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"ratchet.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES])
