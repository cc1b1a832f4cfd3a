"""What one evaluation is asked to do: the JSON file that `python -m ratchet.evaluation.main` reads."""

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from ratchet.evaluation.benchmarks import content_hash, load_problems
from ratchet.evaluation.generation_store import GenerationStore, Key
from ratchet.infra.errors import RatchetError
from ratchet.infra.inference.protocol import Sampling, derive_seed
from ratchet.infra.problems import Problem
from ratchet.infra.recipe.evaluation import Endpoint, Evaluation
from ratchet.infra.recipe.keys import in_key
from ratchet.infra.recipe.load import explain
from ratchet.infra.recipe.model import PromptFormat
from ratchet.infra.recipe.recipe import Verification
from ratchet.infra.recipe.training import Hardware, Training
from ratchet.infra.section import Section
from ratchet.verifiers.domain import domain_of
from ratchet.verifiers.prompts import user_message


class ModelSpec(Section):
    """One of: a Hugging Face model directory, a model behind an endpoint, or somebody's stored responses."""

    identity: str = Field(..., min_length=1)
    """Of the content: generations are shared between evaluations whose models have the same."""
    directory: Path | None = None
    endpoint: Endpoint | None = None
    generations: Path | None = None
    """Parquet with `GENERATION_SCHEMA`: responses that were sampled elsewhere, to be scored here."""

    @model_validator(mode="after")
    def _one_of_them(self) -> "ModelSpec":
        if sum(source is not None for source in (self.directory, self.endpoint, self.generations)) != 1:
            raise ValueError("give one of directory, endpoint and generations")
        return self


class EvaluationSpec(Section):
    model: ModelSpec
    label: str
    prompt: PromptFormat
    """How problems are asked, where a benchmark does not say otherwise."""
    evaluation: Evaluation
    training: Training
    """What samples, in how many processes, and who judges: the recipe's, for training and evaluation alike."""
    verification: Verification
    problems: dict[str, Path]
    """By benchmark, its problems: Parquet with `PROBLEM_SCHEMA`."""
    set_aside: dict[str, dict[str, int]]
    """By benchmark, rows of its file that could not be read, by reason: flagged, and no part of any score."""
    contaminated: dict[str, tuple[str, ...]] | None
    """By benchmark, the problem_ids found in the training set; None when nobody looked."""
    store_dir: Path
    work_dir: Path

    @model_validator(mode="after")
    def _problems_of_each(self) -> "EvaluationSpec":
        if missing := [b.name for b in self.evaluation.benchmarks if b.name not in self.problems]:
            raise ValueError(f"problems has no file for {', '.join(missing)}")
        return self


def read_spec(path: str | Path) -> EvaluationSpec:
    """Raises RatchetError naming the file and the field."""
    try:
        return EvaluationSpec.model_validate_json(Path(path).read_bytes())
    except OSError as error:
        raise RatchetError(f"cannot read the evaluation spec {path}: {error.strerror}") from error
    except ValidationError as error:
        raise RatchetError(f"evaluation spec {path}: {'; '.join(map(explain, error.errors()))}") from error


@dataclass(frozen=True)
class Asked:
    """One response that is asked for."""

    problem: Problem
    sample: int
    seed: int
    message: str
    """The user turn."""
    key: Key
    """Its name in the store."""


@dataclass(frozen=True)
class Batch:
    """Responses that are decoded and graded together."""

    position: int
    benchmark: str
    requests: tuple[Asked, ...]


@dataclass(frozen=True)
class Plan:
    """All the work of an evaluation, in an order that depends on nothing but the spec's content."""

    spec: EvaluationSpec
    problems: dict[str, tuple[Problem, ...]]
    """By benchmark, in the spec's order."""

    @cached_property
    def prompts(self) -> dict[str, PromptFormat]:
        """How each benchmark's problems are asked."""
        return {b.name: b.prompt_format(self.spec.prompt) for b in self.spec.evaluation.benchmarks}

    @cached_property
    def templates(self) -> dict[str, dict[str, str]]:
        """The same in full: the templates of each benchmark's domain as they are used here, and the response prefix."""
        found = {}
        for benchmark in self.spec.evaluation.benchmarks:
            own, asked = domain_of(benchmark.domain).templates, self.prompts[benchmark.name]
            filled = {name: asked.templates.get(name, template) for name, template in own.items()}
            found[benchmark.name] = {**filled, "response_prefix": asked.response_prefix}
        return found

    @property
    def hardware(self) -> Hardware:
        return self.spec.training.hardware

    @property
    def sampling(self) -> Sampling:
        asked = self.spec.evaluation
        return Sampling(temperature=asked.temperature, top_p=asked.top_p, max_tokens=asked.max_tokens)

    @cached_property
    def batches(self) -> tuple[Batch, ...]:
        """Benchmark by benchmark, problem by problem, sample by sample, split every `hardware.rollout_batch` requests,
        and on several machines so that there is something for each of their processes.

        The samples of a problem are neighbours, so an engine reads their prompt once. A batch never spans benchmarks.
        """
        batches: list[Batch] = []
        size = self.hardware.rollout_batch
        if self.hardware.machines > 1:
            asked = sum(len(self.problems[b.name]) * b.samples for b in self.spec.evaluation.benchmarks)
            size = min(size, -(-asked // self.hardware.ranks))
        for benchmark in self.spec.evaluation.benchmarks:
            requests, prompt = [], self.prompts[benchmark.name]
            for problem in self.problems[benchmark.name]:
                message = user_message(problem, prompt)
                given = hashlib.sha256(f"{message}\x00{prompt.response_prefix}".encode()).hexdigest()[:16]
                for sample in range(benchmark.samples):
                    seed = derive_seed(self.spec.evaluation.seed, benchmark.name, problem.problem_id, sample)
                    requests.append(Asked(problem, sample, seed, message, (problem.problem_id, sample, given)))
            for start in range(0, len(requests), size):
                chunk = tuple(requests[start : start + size])
                batches.append(Batch(len(batches), benchmark.name, chunk))
        return tuple(batches)

    @cached_property
    def stores(self) -> dict[str, GenerationStore]:
        """Where each benchmark's generations are kept."""
        return {name: GenerationStore(self.spec.store_dir, name, self._decides(name)) for name in self.problems}

    @cached_property
    def content_hashes(self) -> dict[str, str]:
        return {name: content_hash(problems) for name, problems in self.problems.items()}

    def _decides(self, benchmark: str) -> dict[str, Any]:
        """Everything that decides a generation, beside the prompt, which each request brings along. The engine gives a
        request the same text in any batch, up to rounding, so how batches are cut is no part of it."""
        return {
            "model": self.spec.model.identity,
            "engine": "endpoint" if self.spec.model.endpoint else in_key(self.spec.training.engine),
            "dtype": None if self.spec.model.endpoint else self.hardware.dtype,
            "benchmark": benchmark,
            "sampling": asdict(self.sampling),
            "seed": self.spec.evaluation.seed,
        }


def load_plan(spec: EvaluationSpec) -> Plan:
    """Raises RatchetError when the model directory or a benchmark is not what it should be, and where the model has
    fewer positions than a response may have tokens: no response could be complete."""
    evaluation = spec.evaluation
    if directory := spec.model.directory:
        try:
            config = json.loads((directory / "config.json").read_text())
        except (OSError, ValueError) as error:
            raise RatchetError(
                f"no model in {directory}: config.json cannot be read ({error}). Give a Hugging Face model directory."
            ) from error
        positions = config.get("max_position_embeddings") if isinstance(config, dict) else None
        if isinstance(positions, int) and evaluation.max_tokens >= positions:
            raise RatchetError(
                f"responses may have {evaluation.max_tokens} tokens, and with its prompt the model in {directory} "
                f"has only {positions} positions. Lower evaluation.max_tokens, or the scores would be of truncation."
            )
    return Plan(spec, {b.name: load_problems(b, spec.problems[b.name]) for b in evaluation.benchmarks})
