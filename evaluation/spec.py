"""The specification of one evaluation: the JSON file that `python -m ratchet.evaluation.main` reads."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from ratchet.data_curation.base.prompts import PromptFormat, user_message
from ratchet.data_curation.base.protocol import Sampling, derive_seed
from ratchet.data_curation.base.section import Section
from ratchet.data_curation.settings.teacher import Endpoint
from ratchet.evaluation.benchmarks import load_problems
from ratchet.evaluation.generation_store import GenerationStore, Key
from ratchet.infra.inference.engine import ENGINES
from ratchet.infra.keys import in_key
from ratchet.infra.recipe.evaluation import Benchmark, Evaluation
from ratchet.infra.recipe.load import fault_lines
from ratchet.infra.recipe.recipe import Verification
from ratchet.infra.recipe.training import Hardware, Training
from ratchet.infra.store.own_code import own_code
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import Problem

SEED = 0
"""Sampling seed, independent of the recipe's: the same model answers the same questions alike in every run."""


class ModelSpec(Section):
    """A model to evaluate: a Hugging Face model directory, or a model behind an endpoint."""

    identity: str = Field(..., min_length=1)
    """A hash of the content: evaluations of models with the same identity share generations."""
    directory: Path | None = None
    endpoint: Endpoint | None = None


class EvaluationSpec(Section):
    model: ModelSpec
    label: str
    prompt: PromptFormat
    """The prompt format, unless a benchmark has its own."""
    evaluation: Evaluation
    training: Training
    """Engine, hardware and reward servers, which training and evaluation share."""
    verification: Verification
    problems: dict[str, Path]
    """Parquet file of each benchmark, with `PROBLEM_SCHEMA`."""
    set_aside: dict[str, dict[str, int]]
    """Rows of each benchmark's file that could not be read, counted by reason."""
    contaminated: Mapping[str, Sequence[str]] | None
    """problem_ids found in the training set, by benchmark; None without a check."""
    store_dir: Path
    work_dir: Path


def read_spec(path: str | Path) -> EvaluationSpec:
    """Read a specification. Raises RatchetError that names the file and the field."""
    try:
        return EvaluationSpec.model_validate_json(Path(path).read_bytes())
    except OSError as error:
        raise RatchetError(f"cannot read the evaluation spec {path}: {error.strerror}") from error
    except ValidationError as error:
        raise RatchetError(f"evaluation spec {path}: {'; '.join(fault_lines(error))}") from error


@dataclass(frozen=True)
class GenerationRequest:
    """One requested response."""

    problem: Problem
    sample: int
    seed: int
    message: str
    """The user turn."""
    key: Key
    """The key of the response in the generation store."""


@dataclass(frozen=True)
class RequestBatch:
    """Responses that are decoded and graded together."""

    position: int
    benchmark: str
    requests: tuple[GenerationRequest, ...]


@dataclass(frozen=True)
class EvaluationPlan:
    """All requests of an evaluation, in an order that depends only on the spec."""

    spec: EvaluationSpec
    problems: dict[str, tuple[Problem, ...]]
    """Problems of each benchmark, in the spec's order."""

    @cached_property
    def prompts(self) -> dict[str, PromptFormat]:
        """The prompt format of each benchmark."""
        return {b.name: b.prompt_format(self.spec.prompt) for b in self.spec.evaluation.benchmarks}

    def templates(self, benchmark: Benchmark) -> dict[str, str]:
        """The templates that a benchmark's problems are asked with, by name, and what is around them."""
        domain, prompt = domain_of(benchmark.domain), self.prompts[benchmark.name]
        asked = dict.fromkeys(domain.template(problem) for problem in self.problems[benchmark.name])
        filled = {name: prompt.templates.get(name, domain.templates[name]) for name in asked}
        return {**filled, **prompt.around, "response_prefix": prompt.response_prefix}

    @cached_property
    def judged_prefixes(self) -> dict[str, str]:
        """The part of each response that its prompt contains, by benchmark; an endpoint's responses are already
        whole."""
        own = self.spec.model.directory is not None
        return {name: prompt.response_prefix if own else "" for name, prompt in self.prompts.items()}

    @property
    def hardware(self) -> Hardware:
        return self.spec.training.hardware

    @property
    def sampling(self) -> Sampling:
        asked = self.spec.evaluation
        return Sampling(temperature=asked.temperature, top_p=asked.top_p, max_tokens=asked.max_tokens)

    @cached_property
    def batches(self) -> tuple[RequestBatch, ...]:
        """The batches by benchmark, problem and sample, of `hardware.rollout_batch` requests; smaller on several
        machines, so that each process has a batch.

        The samples of a problem are adjacent, so that an engine reads their prompt once. A batch has one benchmark.
        """
        batches: list[RequestBatch] = []
        size = self.hardware.rollout_batch
        if self.hardware.machines > 1:
            asked = sum(len(self.problems[b.name]) * b.samples for b in self.spec.evaluation.benchmarks)
            size = min(size, -(-asked // self.hardware.ranks))
        for benchmark in self.spec.evaluation.benchmarks:
            requests, prompt = [], self.prompts[benchmark.name]
            for problem in self.problems[benchmark.name]:
                message = user_message(problem, prompt)
                parts = [message, prompt.response_prefix, *prompt.around.values()]
                digest = hashlib.sha256("\x00".join(parts).encode()).hexdigest()[:16]
                for sample in range(benchmark.samples):
                    seed = derive_seed(SEED, benchmark.name, problem.problem_id, sample)
                    requests.append(
                        GenerationRequest(problem, sample, seed, message, (problem.problem_id, sample, digest))
                    )
            for start in range(0, len(requests), size):
                chunk = tuple(requests[start : start + size])
                batches.append(RequestBatch(len(batches), benchmark.name, chunk))
        return tuple(batches)

    @cached_property
    def stores(self) -> dict[str, GenerationStore]:
        """The store of each benchmark's generations."""
        return {name: GenerationStore(self.spec.store_dir, name, self._decides(name)) for name in self.problems}

    def _decides(self, benchmark: str) -> dict[str, Any]:
        """Everything that decides a generation, except for the prompt, which is in each request's key, and the batch,
        which changes a text only by rounding."""
        engine, endpoint = self.spec.training.engine, self.spec.model.endpoint
        own = {} if endpoint else own_code([ENGINES.path(engine.kind)])
        return {
            "model": self.spec.model.identity,
            "engine": "endpoint" if endpoint else in_key(engine),
            **({"own_code": own} if own else {}),
            "dtype": None if endpoint else self.hardware.dtype,
            "benchmark": benchmark,
            "sampling": asdict(self.sampling),
            "seed": SEED,
        }


def load_plan(spec: EvaluationSpec) -> EvaluationPlan:
    """Load the plan of an evaluation. Raises RatchetError for an invalid benchmark."""
    return EvaluationPlan(spec, {b.name: load_problems(b, spec.problems[b.name]) for b in spec.evaluation.benchmarks})
