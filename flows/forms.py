"""The forms that start flows: recipe fields that are often changed, under short names, and those of each curation step.

Empty fields keep the recipe's value; any other field is an override, written as for `--set`.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import Field, WithJsonSchema, create_model
from pydantic.fields import FieldInfo

from ratchet.data_curation.base import bounds
from ratchet.data_curation.base.section import Section
from ratchet.data_curation.settings import curation
from ratchet.data_curation.settings.teacher import Teacher

C = TypeVar("C", bound="Changes")
ALL_STEPS = "all"
StepOrAll = Annotated[str, WithJsonSchema({"type": "string", "enum": [ALL_STEPS, *curation.CURATION_STEPS]})]


@dataclass(frozen=True)
class At:
    """A mark of a form's field with the recipe field that it sets."""

    path: str


class Changes(Section):
    """A group of changes: each field sets a recipe field, `At`, or is another such group."""

    def overrides(self, **names: str) -> list[str]:
        """The form's changes as overrides for `--set`; `names` fill in the paths."""
        changed = ((path.format(**names), value) for path, value in self._changed())
        return [f"{path}={json.dumps(value, ensure_ascii=False)}" for path, value in changed]

    def _changed(self) -> Iterator[tuple[str, Any]]:
        values = self.model_dump(mode="json", exclude_defaults=True)
        for name, field in type(self).model_fields.items():
            group = getattr(self, name)
            if isinstance(group, Changes):
                yield from group._changed()
            elif name in values:
                yield from ((mark.path, values[name]) for mark in field.metadata if isinstance(mark, At))


def recipe_fields(form: type[Changes]) -> Iterator[tuple[type[Changes], str, str]]:
    """The class, the field and the recipe field of every field of a form and its groups."""
    for name, field in form.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Changes):
            yield from recipe_fields(field.annotation)
        yield from ((form, name, mark.path) for mark in field.metadata if isinstance(mark, At))


def _each_field_of(section: type[Section], path: str) -> Callable[[type[C]], type[C]]:
    """Give a group every field of a section of the recipe, empty; those of its `advanced` too. Type, bounds and
    description are the section's own."""

    def filled(group: type[C]) -> type[C]:
        return create_model(group.__name__, __base__=group, __doc__=group.__doc__, **_fields(section, path))

    return filled


def _fields(section: type[Section], path: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, field in section.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            fields |= _fields(field.annotation, f"{path}.{name}")
        else:
            fields[name] = _emptied(field, At(f"{path}.{name}"))
    return fields


def _emptied(field: FieldInfo, at: At) -> tuple[Any, Any]:
    """An empty default: text and lists are empty as such, other values absent."""
    limits = [mark for mark in field.metadata if not isinstance(mark, str)]
    kind = Annotated[field.annotation, *limits] if limits else field.annotation
    empty = "" if field.annotation is str else () if isinstance(field.default, tuple) and not field.default else None
    return Annotated[kind | None if empty is None else kind, at], Field(empty, description=field.description)


@_each_field_of(curation.Rules, "curation.{domain}.rules")
class RulesChanges(Changes):
    """Empty fields keep the recipe's value."""


@_each_field_of(curation.Decontamination, "curation.{domain}.decontaminate")
class DecontaminationChanges(Changes):
    """Empty fields keep the recipe's value."""


@_each_field_of(curation.Deduplication, "curation.{domain}.deduplicate")
class DeduplicationChanges(Changes):
    """Empty fields keep the recipe's value."""


@_each_field_of(curation.TestValidation, "curation.{domain}.validation")
class ValidationChanges(Changes):
    """Empty fields keep the recipe's value."""


@_each_field_of(Teacher, "curation.{domain}.teacher")
class TeacherChanges(Changes):
    """Empty fields keep the recipe's value."""


@_each_field_of(curation.LengthFilter, "curation.{domain}.length")
class LengthChanges(Changes):
    """Empty fields keep the recipe's value."""


class CurationChanges(Changes):
    """The settings of each step; empty ones keep the recipe's value."""

    inputs: Annotated[tuple[str, ...], At("curation.{domain}.inputs")] = ()
    """Step `normalize`: raw files, directories, or data sets on the Hub."""
    rules: RulesChanges = RulesChanges()
    """Step `rules`."""
    benchmarks: Annotated[tuple[str, ...], At("curation.{domain}.benchmarks")] = ()
    """Step `decontaminate`: held-out files to decontaminate against."""
    decontaminate: DecontaminationChanges = DecontaminationChanges()
    """Step `decontaminate`."""
    deduplicate: DeduplicationChanges = DeduplicationChanges()
    """Step `deduplicate`."""
    validate_tests: ValidationChanges = ValidationChanges()
    """Step `validate_tests`, of code."""
    teacher_attempts: TeacherChanges = TeacherChanges()
    """Step `teacher_attempts`, whose answers `majority_vote` and `difficulty` take."""
    max_difficulty: Annotated[bounds.Difficulty | None, At("curation.{domain}.max_difficulty")] = None
    """Step `difficulty`: most failed attempts out of eight."""
    length: LengthChanges = LengthChanges()
    """Step `length`, by the tokens of the answers."""
    max_rejected: Annotated[bounds.PositiveProbability | None, At("curation.{domain}.advanced.max_rejected")] = None
    """Every step: the run stops at one that rejects a larger share."""
    workers: Annotated[bounds.ProcessesOrZero | None, At("workers")] = None
    """Processes on this machine."""


class TrainingChanges(Changes):
    """Common settings; empty ones keep the recipe's value."""

    seed: Annotated[bounds.Seed | None, At("seed")] = None
    model: Annotated[str, At("model.path")] = ""
    """The model to start from: a directory or a name on the Hub."""
    engine: Annotated[str, At("training.engine")] = ""
    """The sampling engine: `transformers` or `vllm`."""
    machines: Annotated[bounds.Machines | None, At("training.hardware.machines")] = None
    processes: Annotated[bounds.Processes | None, At("training.hardware.processes")] = None
    """Ranks on each machine."""
    micro_batch_tokens: Annotated[bounds.Tokens | None, At("training.hardware.micro_batch_tokens")] = None
    """Tokens of one forward-backward pass on one rank: bounds memory."""
    prompts_per_batch: Annotated[bounds.Prompts | None, At("training.stages.*.prompts_per_batch")] = None
    """Prompts per step, set in every stage, like the next two."""
    rollouts: Annotated[bounds.Rollouts | None, At("training.stages.*.rollouts")] = None
    learning_rate: Annotated[bounds.LearningRate | None, At("training.stages.*.learning_rate")] = None
    checkpoint_every: Annotated[bounds.Steps | None, At("training.checkpoint_every")] = None
    """Steps between checkpoints."""


class EvaluationChanges(Changes):
    """Common settings; empty ones keep the recipe's value."""

    temperature: Annotated[bounds.Temperature | None, At("evaluation.temperature")] = None
    top_p: Annotated[bounds.TopP | None, At("evaluation.top_p")] = None
    max_tokens: Annotated[bounds.Tokens | None, At("evaluation.max_tokens")] = None
    """Tokens per response."""
    engine: Annotated[str, At("training.engine")] = ""
    """The sampling engine: `transformers` or `vllm`."""
    processes: Annotated[bounds.Processes | None, At("training.hardware.processes")] = None
    """Ranks on this machine."""
