"""Curation: from files to problems worth training on. Each step takes a table and gives the kept and the rejected rows.

from ratchet.data_curation import deduplicate, decontaminate, filter_by_rules, read_problems
rows, malformed = read_problems("train.jsonl", domain="math", columns={"prompt": "question", "answer": "target"})
kept, rejected = filter_by_rules(rows)
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ratchet.data_curation.code_tests.validation import validate_tests as validate_tests
    from ratchet.data_curation.decontamination.problems import decontaminate as decontaminate
    from ratchet.data_curation.deduplication.copies import deduplicate as deduplicate
    from ratchet.data_curation.exports import export_problems as export_problems
    from ratchet.data_curation.preview import preview_file as preview_file
    from ratchet.data_curation.read import read_problems as read_problems
    from ratchet.data_curation.rule_filter import filter_by_rules as filter_by_rules
    from ratchet.data_curation.settings.curation import Decontamination as Decontamination
    from ratchet.data_curation.settings.curation import Deduplication as Deduplication
    from ratchet.data_curation.settings.curation import Rules as Rules
    from ratchet.data_curation.settings.curation import TestValidation as TestValidation
    from ratchet.data_curation.settings.teacher import Teacher as Teacher
    from ratchet.data_curation.split import Split as Split
    from ratchet.data_curation.teacher.attempts import collect_attempts as collect_attempts
    from ratchet.data_curation.teacher.difficulty import grade as grade
    from ratchet.data_curation.teacher.majority_vote import vote as vote

_PUBLIC = {
    "Decontamination": "settings.curation", "Deduplication": "settings.curation", "Rules": "settings.curation",
    "Split": "split", "Teacher": "settings.teacher", "TestValidation": "settings.curation",
    "collect_attempts": "teacher.attempts", "decontaminate": "decontamination.problems",
    "deduplicate": "deduplication.copies", "export_problems": "exports", "filter_by_rules": "rule_filter",
    "grade": "teacher.difficulty", "preview_file": "preview", "read_problems": "read",
    "validate_tests": "code_tests.validation", "vote": "teacher.majority_vote",
}  # fmt: skip
"""The promised names, by the module that is imported with their first use."""
__all__ = [*_PUBLIC]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
