"""The forms that start flows: short names for recipe fields that are often changed.

Empty fields keep the recipe's value; any other field is an override, written as for `--set`.
"""

import json
from typing import Annotated

from ratchet.data_curation.base.bounds import (
    Attempts,
    Budget,
    LearningRate,
    Machines,
    PositiveProbability,
    Processes,
    ProcessesOrZero,
    Prompts,
    Rollouts,
    Seed,
    Steps,
    Temperature,
    Tokens,
    TopP,
)  # fmt: skip
from ratchet.data_curation.base.section import Section


class Changes(Section):
    """Each field is annotated with the recipe field that it sets."""

    def overrides(self, **names: str) -> list[str]:
        """As `--set` takes them; `names` fill in the paths."""
        values, fields = self.model_dump(mode="json", exclude_defaults=True), type(self).model_fields
        return [f"{fields[name].metadata[0].format(**names)}={json.dumps(value)}" for name, value in values.items()]


class CurationChanges(Changes):
    """Common settings; empty ones keep the recipe's value."""

    inputs: Annotated[tuple[str, ...], "curation.{domain}.inputs"] = ()
    """Raw files, directories, or data sets on the Hub."""
    benchmarks: Annotated[tuple[str, ...], "curation.{domain}.benchmarks"] = ()
    """Held-out files to decontaminate against."""
    teacher: Annotated[str, "curation.{domain}.teacher.kind"] = ""
    """`none`, `openai`, or your own engine by its import path."""
    teacher_model: Annotated[str, "curation.{domain}.teacher.model"] = ""
    teacher_url: Annotated[str, "curation.{domain}.teacher.base_url"] = ""
    """The OpenAI-compatible endpoint, e.g. http://127.0.0.1:8000/v1."""
    attempts: Annotated[Attempts | None, "curation.{domain}.teacher.attempts"] = None
    """Answers per problem."""
    max_cost: Annotated[Budget | None, "curation.{domain}.teacher.advanced.max_cost"] = None
    """Ceiling for the cost of all answers, in your bill's currency; the recipe has the prices."""
    max_rejected: Annotated[PositiveProbability | None, "curation.{domain}.advanced.max_rejected"] = None
    """The run stops at a step that rejects a larger share."""
    workers: Annotated[ProcessesOrZero | None, "workers"] = None
    """Processes on this machine."""


class TrainingChanges(Changes):
    """Common settings; empty ones keep the recipe's value."""

    seed: Annotated[Seed | None, "seed"] = None
    model: Annotated[str, "model.path"] = ""
    """The model to start from: a directory or a name on the Hub."""
    engine: Annotated[str, "training.engine"] = ""
    """The sampling engine: `transformers` or `vllm`."""
    machines: Annotated[Machines | None, "training.hardware.machines"] = None
    processes: Annotated[Processes | None, "training.hardware.processes"] = None
    """Ranks on each machine."""
    micro_batch_tokens: Annotated[Tokens | None, "training.hardware.micro_batch_tokens"] = None
    """Tokens of one forward-backward pass on one rank: bounds memory."""
    prompts_per_batch: Annotated[Prompts | None, "training.stages.*.prompts_per_batch"] = None
    """In every stage, like the next two."""
    rollouts: Annotated[Rollouts | None, "training.stages.*.rollouts"] = None
    learning_rate: Annotated[LearningRate | None, "training.stages.*.learning_rate"] = None
    checkpoint_every: Annotated[Steps | None, "training.checkpoint_every"] = None
    """Steps between checkpoints."""


class EvaluationChanges(Changes):
    """Common settings; empty ones keep the recipe's value."""

    temperature: Annotated[Temperature | None, "evaluation.temperature"] = None
    top_p: Annotated[TopP | None, "evaluation.top_p"] = None
    max_tokens: Annotated[Tokens | None, "evaluation.max_tokens"] = None
    """Per response."""
    engine: Annotated[str, "training.engine"] = ""
    """The sampling engine: `transformers` or `vllm`."""
    processes: Annotated[Processes | None, "training.hardware.processes"] = None
    """Ranks on this machine."""
