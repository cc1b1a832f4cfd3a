"""Curation as a list of steps: objects that keep or reject rows.

A step is a class with its settings as fields, in one file. A domain's plan (`domains/`), a recipe
(`curation.math.steps`) or a Python program lists them:

from ratchet.data_curation.steps import run_steps
from ratchet.data_curation.rule_filter import FilterByRules
splits = run_steps(rows, [FilterByRules(), DropShort(least_words=8)], StepContext(domain="math"))

Packages offer steps under the entry point group `ratchet.curation_steps`; others are named by import path.
"""

from collections.abc import Iterable
from dataclasses import fields, is_dataclass

import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from ratchet.data_curation.base.draft import DatasetResult
from ratchet.data_curation.base.files import HALF_WRITTEN
from ratchet.data_curation.curation_step import CurationStep as CurationStep
from ratchet.data_curation.curation_step import ProblemFilter as ProblemFilter
from ratchet.data_curation.curation_step import Rows, StepContext, accounted
from ratchet.data_curation.domains import plan_of
from ratchet.data_curation.settings.curation import Curation, StepChoice
from ratchet.data_curation.split import Split, joined
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.registry import Registry, concrete

STEPS: Registry[type[CurationStep]] = Registry(
    "curation step",
    {
        "rules": "ratchet.data_curation.rule_filter:FilterByRules",
        "decontaminate": "ratchet.data_curation.decontamination.problems:Decontaminate",
        "deduplicate": "ratchet.data_curation.deduplication.copies:Deduplicate",
        "validate_tests": "ratchet.data_curation.code_tests.validation:ValidateTests",
        "majority_vote": "ratchet.data_curation.teacher.majority_vote:MajorityVote",
        "difficulty": "ratchet.data_curation.teacher.difficulty:GradeDifficulty",
        "length": "ratchet.data_curation.teacher.length_filter:FilterByLength",
    },
    concrete(CurationStep),
    group="ratchet.curation_steps",
)


def steps_of(domain: str, curation: Curation) -> list[CurationStep]:
    """The steps after reading, in order: the recipe's, or those of the domain's plan. Raises RatchetError for an
    unknown one, for wrong settings, and for two of one name."""
    steps = [step_of(each, f"curation.{domain}.steps") for each in curation.steps or plan_of(domain).steps]
    names = [step.name for step in steps]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise RatchetError(f"curation.{domain}.steps: {twice!r} is there twice. Name each step once.")
    return steps


def step_of(chosen: StepChoice | CurationStep, place: str = "steps") -> CurationStep:
    """Make a step from its name or import path, which may have settings: `{my_lab.steps:DropShort: {least_words:
    8}}`."""
    if isinstance(chosen, CurationStep):
        return chosen
    if not isinstance(chosen, str) and len(chosen) != 1:
        raise RatchetError(f"{place}: {', '.join(chosen) or 'an empty entry'}: give each step an entry of its own.")
    name, settings = (chosen, {}) if isinstance(chosen, str) else next(iter(chosen.items()))
    kind = STEPS.get(name)
    if not hasattr(kind, "name"):
        raise RatchetError(f"{place}: the class {kind.__name__} has no `name`, which artifacts and the funnel show.")
    known = [each.name for each in fields(kind)] if is_dataclass(kind) else []
    if unknown := [setting for setting in settings if setting not in known]:
        raise RatchetError(f"{place}: {name} has no setting {unknown[0]!r}; it has {', '.join(known) or 'none'}.")
    try:
        return TypeAdapter(kind).validate_python(settings) if settings else kind()
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise RatchetError(f"{place}: {name}: {'; '.join(faults)}") from error
    except TypeError as error:
        raise RatchetError(f"{place}: {name}: {error}") from error


def run_steps(
    table: pa.Table, steps: Iterable[StepChoice | CurationStep], context: StepContext | None = None
) -> list[Split]:
    """Run steps one after the other; the kept rows of the last split are the result. For programs: a recipe's run also
    stores each step's rows and finds them again. Raises the errors of the steps."""
    context, splits = context or StepContext(), []
    for step in map(step_of, steps):
        context.result = DatasetResult()
        step.check(context)
        rows = Rows(table)
        split = joined(accounted(step, rows, step.run(rows, context)))
        for left in context.folder.glob(f"*{HALF_WRITTEN}") if context.folder else ():
            left.unlink()
        split.summary.update(context.result.summary or {})
        splits.append(split)
        table = split.kept
    return splits
