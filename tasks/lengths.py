"""Check while a run is planned, before hours of curation and training, that prompts and responses fit into the
model."""

import tempfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.base.prompts import prompt_ids
from ratchet.evaluation.benchmarks import load_problems, require_room
from ratchet.infra.inference import unused_libraries_hidden
from ratchet.infra.recipe.evaluation import Benchmark
from ratchet.infra.recipe.model import Model
from ratchet.infra.recipe.training import Stage
from ratchet.infra.store.artifacts import FILE_KIND, Artifact
from ratchet.tasks.curation import read_benchmark
from ratchet.tasks.run_context import RunContext
from ratchet.tasks.step import MODELS
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import Problem

MOST_BYTES = 50 << 20
"""Most bytes of a benchmark file that is read for a plan."""


def check_stage_length(run: RunContext, model: Model, stage: Stage, start: Artifact) -> None:
    """Raises RatchetError if no prompt fits beside the stage's longest response."""
    positions, _ = _model_facts(run, model, start)
    if positions and stage.longest_response >= positions:
        raise RatchetError(
            f"training.stages: {stage.name} has responses of up to {stage.longest_response:,} tokens, and with its "
            f"prompt the model has only {positions:,} positions (max_position_embeddings in its config.json). Lower "
            "max_response_tokens, or give a copy of the model that was extended to longer contexts."
        )


def check_evaluation_length(
    run: RunContext, subject: Artifact, benchmarks: Sequence[tuple[Benchmark, Artifact]]
) -> None:
    """Raises RatchetError if the longest response to a question does not fit, as far as the questions can be read now,
    and for questions that cannot be graded."""
    recipe = run.recipe
    positions, tokenizer = _model_facts(run, recipe.model, subject)
    longest = recipe.evaluation.max_tokens
    if positions and longest >= positions:
        raise RatchetError(
            f"evaluation.max_tokens is {longest}, and with its prompt the model has only {positions} positions. Lower "
            "evaluation.max_tokens, or no long response could be complete."
        )
    for benchmark, artifact in benchmarks:
        columns = recipe.curation_of(benchmark.domain).columns
        problems = _questions(run, columns, benchmark, artifact)
        if not (positions and tokenizer and problems):
            continue
        prompt = benchmark.prompt_format(recipe.model.prompt)
        for problem, ids in zip(problems, prompt_ids(tokenizer, problems, prompt), strict=True):
            require_room(benchmark.name, problem, len(ids), longest, positions)


def _questions(
    run: RunContext, columns: Mapping[str, str], benchmark: Benchmark, artifact: Artifact
) -> Sequence[Problem]:
    """A benchmark's questions, also before it is read; none where its files are not here, or are large."""
    if artifact.finished:
        return load_problems(benchmark, artifact.kept)
    files = next((step.inputs for step in run.plan if step.output == artifact), ())
    if not files or any(file.kind != FILE_KIND or not file.path.is_file() for file in files):
        return ()
    if sum(file.path.stat().st_size for file in files) > MOST_BYTES:
        return ()
    splits = read_benchmark(benchmark.domain, files, columns, benchmark.advanced.window)
    with tempfile.TemporaryDirectory() as directory:
        pq.write_table(pa.concat_tables([split.kept for split in splits]), file := Path(directory, "kept.parquet"))
        return load_problems(benchmark, file)


def _model_facts(run: RunContext, model: Model, subject: Artifact) -> tuple[int | None, Any]:
    """Positions and tokenizer of a model that is here, or of the one that its training starts from; a new one has no
    tokenizer yet."""
    made_from = {step.output: step.inputs for step in run.plan}
    while not subject.finished:
        before = [read for read in made_from.get(subject, ()) if read.kind in MODELS]
        if not before:
            return _read(model.path) if model.path else (model.from_config.max_positions, None)
        subject = before[0]
    return _read(str(subject.path if subject.kind == "model" else subject.path / "model"))


@lru_cache
def _read(path: str) -> tuple[int | None, Any]:
    with unused_libraries_hidden():
        from ratchet.infra.inference import models  # torch and transformers: seconds

        tokenizer, config = models.check_model(path), models.read_config(path)
    return models.max_positions(config), tokenizer
