"""What one evaluation is asked to do: the JSON file that `python -m evaluation.main` reads."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from evaluation.benchmarks import Benchmark, load_benchmark
from infra.artifacts import sha256_file
from infra.errors import RatchetError
from infra.inference.protocol import Sampling, derive_seed
from infra.problems import Problem
from infra.recipe.model import InferenceEngine, PromptFormat


class BenchmarkSpec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str = Field(..., pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    domain: Literal["math", "code"]
    path: Path
    samples: int = Field(..., ge=1)


class SamplingSpec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    temperature: float = Field(..., ge=0)
    top_p: float = Field(..., gt=0, le=1)
    max_tokens: int = Field(..., ge=1)


class EvaluationSpec(BaseModel):
    """Every value comes from the recipe, where the defaults live; none is assumed here."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    model_dir: Path
    label: str
    prompt: PromptFormat
    benchmarks: Annotated[tuple[BenchmarkSpec, ...], Field(min_length=1)]
    sampling: SamplingSpec
    seed: int
    pass_at: tuple[Annotated[int, Field(ge=1)], ...]
    dtype: Literal["float32", "bfloat16"]
    rollout_batch: int = Field(..., ge=1)
    """Responses decoded together, and stored together."""
    engine: InferenceEngine = InferenceEngine()
    """What samples: inside each sampling process, wherever training has it."""
    processes: int = Field(..., ge=1)
    """Sampling processes, and verifier processes. Where the work is done, never what comes out."""
    minimum_isolation: Literal["A", "B", "C"]
    reward_servers: tuple[str, ...]
    """URLs of reward servers that judge instead of this machine; none means this machine."""
    work_dir: Path

    @model_validator(mode="after")
    def _unique_benchmarks(self) -> EvaluationSpec:
        names = [benchmark.name for benchmark in self.benchmarks]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"benchmarks given twice: {twice}")
        return self


def read_spec(path: str | Path) -> EvaluationSpec:
    """Raises RatchetError naming the file and the field."""
    try:
        return EvaluationSpec.model_validate_json(Path(path).read_bytes())
    except OSError as error:
        raise RatchetError(f"cannot read the evaluation spec {path}: {error.strerror}") from error
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in error.errors())
        raise RatchetError(f"evaluation spec {path}: {faults}") from error


@dataclass(frozen=True)
class Batch:
    """Requests that are decoded and stored together: (problem, sample number, seed)."""

    position: int
    benchmark: str
    requests: tuple[tuple[Problem, int, int], ...]


@dataclass(frozen=True)
class Plan:
    """All the work of an evaluation, in an order that depends on nothing but the spec's content."""

    spec: EvaluationSpec
    benchmarks: tuple[Benchmark, ...]

    @property
    def sampling(self) -> Sampling:
        return Sampling(**self.spec.sampling.model_dump())

    @cached_property
    def batches(self) -> tuple[Batch, ...]:
        """Benchmark by benchmark, problem by problem, sample by sample, cut every `rollout_batch` requests.

        The samples of a problem are neighbours, so an engine reads their prompt once. A batch never spans benchmarks:
        adding one changes no batch of the others.
        """
        batches: list[Batch] = []
        for benchmark, spec in zip(self.benchmarks, self.spec.benchmarks, strict=True):
            requests = [
                (problem, sample, derive_seed(self.spec.seed, benchmark.name, problem.problem_id, sample))
                for problem in benchmark.problems
                for sample in range(spec.samples)
            ]
            for start in range(0, len(requests), self.spec.rollout_batch):
                chunk = tuple(requests[start : start + self.spec.rollout_batch])
                batches.append(Batch(len(batches), benchmark.name, chunk))
        return tuple(batches)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of everything that decides a generation, the model's bytes included: what was sampled under one
        fingerprint is never mixed with what was sampled under another."""
        spec = self.spec
        made_of = {
            "model": {f.name: sha256_file(f) for f in sorted(spec.model_dir.iterdir()) if f.is_file()},
            "prompt": spec.prompt.model_dump(),
            "benchmarks": [(b.name, b.content_hash) for b in self.benchmarks],
            "samples": [b.samples for b in spec.benchmarks],
            "sampling": asdict(self.sampling),
            "seed": spec.seed,
            "dtype": spec.dtype,
            "engine": spec.engine.kind,
            "rollout_batch": spec.rollout_batch,
        }  # fmt: skip
        return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()


def load_plan(spec: EvaluationSpec) -> Plan:
    """Raises RatchetError when the model directory or a benchmark is not what it should be."""
    if not (spec.model_dir / "config.json").is_file():
        raise RatchetError(
            f"no model in {spec.model_dir}: there is no config.json. Give a Hugging Face model directory."
        )
    return Plan(spec, tuple(load_benchmark(b.name, b.domain, b.path) for b in spec.benchmarks))
