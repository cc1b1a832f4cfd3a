"""Curation, step by step: each function is one task whose output is one artifact."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from data_curation import (
    decontamination,
    deduplication,
    difficulty,
    funnel,
    length_filter,
    normalisation,
    rules,
    validation,
)
from data_curation import (
    majority_vote as voting,
)
from data_curation import (
    teacher_attempts as attempting,
)
from data_curation.readers import local_files, read_benchmark
from data_curation.readers.problems import BATCH_ROWS
from data_curation.split import Split
from data_curation.tiny_world import score, world
from infra.artifacts import Artifact, Draft
from infra.errors import RatchetError
from infra.inference.protocol import Engine, derive_seed
from infra.problems import PROBLEM_SCHEMA
from infra.recipe.model import CodeCuration, Domain, MathCuration, Recipe, Teacher
from tasks.pipeline_run import active_run
from tasks.step import Step, not_done, record_isolation, run_step, write_split, write_splits
from verifiers.pool import VerifierPool

TINY_WORLD = Step("tiny_world", 2, "raw")
HELD_OUT = Step("held_out", 3, "problems")
NORMALISE = Step("normalise", 3, "problems")
RULES = Step("rules", 2, "problems")
DECONTAMINATE = Step("decontaminate", 1, "problems")
DEDUPLICATE = Step("deduplicate", 1, "problems")
TEACHER_ATTEMPTS = Step("teacher_attempts", 1, "attempts")
MAJORITY_VOTE = Step("majority_vote", 2, "problems")
VALIDATE_TESTS = Step("validate_tests", 2, "problems")
DIFFICULTY = Step("difficulty", 2, "problems")
LENGTH = Step("length", 1, "problems")
CURATED = Step("curated", 1, "problems")

NO_TEACHER = "no teacher is configured (curation.{domain}.teacher.kind)"


@dataclass(frozen=True)
class Curated:
    """What a curation flow hands on: the data set that training reads, with its card, funnel and every reject."""

    domain: Domain
    problems: Artifact


def tiny_world(recipe: Recipe) -> Artifact:
    """The procedural raw material: messy problems, held-out benchmarks, and what was done to each row."""
    config = recipe.curation.tiny_world
    assert config is not None
    parameters = {"world": config.model_dump(mode="json"), "seed": recipe.seed}

    def make(draft: Draft) -> None:
        world.generate_world(draft.path, config, recipe.seed)
        for file in sorted(draft.path.glob("*.parquet")):
            draft.counts[file.stem] = pq.read_metadata(file).num_rows
        draft.extra["headline"] = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in draft.counts.items())

    return run_step(TINY_WORLD, "tiny-world", parameters=parameters, inputs=[], make=make, title="tiny world")


def world_file(recipe: Recipe, name: str) -> Artifact:
    """One file of the tiny world; its identity is the world's."""
    made = tiny_world(recipe)
    return Artifact("raw", made.name, made.key, made.path / name)


def raw_files(recipe: Recipe, domain: Domain) -> list[Artifact]:
    """The recipe's raw files, or the tiny world's."""
    paths = _settings(recipe, domain).inputs
    if _in_tiny_world(recipe, domain):
        return [world_file(recipe, f"{domain}_raw.parquet")]
    if not paths:
        raise RatchetError(
            f"curation.{domain}.inputs is empty in recipe {recipe.name}: give the raw files, e.g. "
            f"`ratchet curate {domain} --input FILE`, or --set 'curation.{domain}.inputs=[FILE, …]'."
        )
    return [active_run().store.file(file) for path in paths for file in local_files(path)]


def held_out(recipe: Recipe, domain: Domain) -> list[Artifact]:
    """The benchmarks that nothing kept may be contaminated with, each as a data set."""
    if _in_tiny_world(recipe, domain):
        return [benchmark_problems(recipe, domain, None)]
    paths = [str(file) for path in _settings(recipe, domain).benchmarks for file in local_files(path)]
    return [benchmark_problems(recipe, domain, path) for path in paths]


def benchmark_problems(recipe: Recipe, domain: Domain, path: str | None) -> Artifact:
    """One benchmark file as a data set; no path means the tiny world's held-out problems."""
    if path is None and recipe.curation.tiny_world is None:
        raise RatchetError(f"Recipe {recipe.name} has a {domain} benchmark without a path: give the file it is in.")
    files = local_files(path) if path else []
    if len(files) > 1:
        raise RatchetError(
            f"{path} is {len(files)} files: a benchmark is one, so that its name says which. Name one of them."
        )
    file = active_run().store.file(files[0]) if files else world_file(recipe, f"{domain}_benchmark.parquet")

    def make(draft: Draft) -> None:
        split = read_benchmark(file.path, domain)
        write_split(draft, split.kept, split.rejected, split.summary, max_rejected=1.0)

    name = file.path.name.split(".")[0]
    title = f"held out {name.replace('_', ' ')}"
    return run_step(HELD_OUT, name, parameters={"domain": domain}, inputs=[file], make=make, title=title)


def normalise(recipe: Recipe, domain: Domain, raw: Sequence[Artifact]) -> Artifact:
    """Read the files by what they contain, strip templates, and give each problem its content identity."""
    settings = _settings(recipe, domain)

    def make(draft: Draft) -> None:
        write_splits(
            draft, normalisation.normalised_batches([file.path for file in raw], domain), settings.max_rejected
        )

    return run_step(
        NORMALISE, f"{domain}-normalise", parameters={"domain": domain}, inputs=raw, make=make,
        title=f"normalise {domain}",
    )  # fmt: skip


def filter_by_rules(recipe: Recipe, domain: Domain, problems: Artifact) -> Artifact:
    settings = _settings(recipe, domain)
    return _filter(
        RULES, recipe, domain, problems, settings.rules.model_dump(mode="json"),
        lambda table: rules.filter_by_rules(table, domain, settings.rules), by_batch=True,
    )  # fmt: skip


def decontaminate(recipe: Recipe, domain: Domain, problems: Artifact, benchmarks: Sequence[Artifact]) -> Artifact:
    settings = _settings(recipe, domain)

    def apply(table: pa.Table) -> Split:
        items = pa.concat_tables([pq.read_table(artifact.kept) for artifact in benchmarks])
        return decontamination.decontaminate(table, items, settings.decontaminate)

    if not benchmarks:
        raise RatchetError(
            f"curation.{domain}.benchmarks is empty: give the held-out files to decontaminate against, "
            "e.g. --benchmark math500.json."
        )
    parameters = settings.decontaminate.model_dump(mode="json")
    return _filter(DECONTAMINATE, recipe, domain, problems, parameters, apply, benchmarks)


def deduplicate(recipe: Recipe, domain: Domain, problems: Artifact) -> Artifact:
    settings = _settings(recipe, domain)
    return _filter(
        DEDUPLICATE, recipe, domain, problems, settings.deduplicate.model_dump(mode="json"),
        lambda table: deduplication.deduplicate(table, settings.deduplicate),
    )  # fmt: skip


def teacher_attempts(recipe: Recipe, domain: Domain, problems: Artifact) -> Artifact:
    """Ask the teacher several times for each problem; journaled, so that no answer is paid for twice."""
    teacher = _settings(recipe, domain).teacher
    parameters = {
        "teacher": teacher.model_dump(mode="json", exclude={"concurrency", "timeout_s", "api_key_env"}),
        "prompt": recipe.model.prompt.model_dump(mode="json"),
        "seed": recipe.seed,
    }

    def make(draft: Draft) -> None:
        draft_attempts(recipe, draft, pq.read_table(problems.kept), teacher, purpose="curation")

    title = f"teacher attempts {domain}"
    return run_step(TEACHER_ATTEMPTS, domain, parameters=parameters, inputs=[problems], make=make, title=title)


def draft_attempts(recipe: Recipe, draft: Draft, problems: pa.Table, teacher: Teacher, purpose: str) -> pa.Table:
    """Fill a draft with teacher attempts; returns them. `purpose` keeps the random numbers of two uses apart.

    The journal is the teacher's, not the artifact's: with other parameters the answers already paid for still count.
    """
    watcher, home = active_run().watcher, active_run().settings.home
    journal = home / "teacher" / (re.sub(r"[^A-Za-z0-9._-]+", "-", f"{teacher.kind}-{teacher.model}") + ".jsonl")
    journal.parent.mkdir(parents=True, exist_ok=True)
    engine = teacher_engine(teacher)
    try:
        attempts = attempting.collect_attempts(
            problems, engine, teacher, recipe.model.prompt, journal, derive_seed(recipe.seed, purpose),
            progress=lambda done, total: watcher.progress(done, total, {}),
        )  # fmt: skip
    finally:
        engine.close()
    pq.write_table(attempts, draft.path / "kept.parquet")
    draft.counts["attempts"] = len(attempts)
    draft.extra["headline"] = f"{len(attempts):,} answers to {len(problems):,} problems"
    return attempts


def teacher_engine(teacher: Teacher) -> Engine:
    if teacher.kind == "procedural":
        from data_curation.tiny_world.teacher import ProceduralTeacher

        return ProceduralTeacher()
    from infra.inference.openai_engine import OpenAIEngine

    return OpenAIEngine.for_teacher(teacher)


def majority_vote(recipe: Recipe, problems: Artifact, attempts: Artifact) -> Artifact:
    return _filter(
        MAJORITY_VOTE, recipe, "math", problems, {},
        lambda table: voting.vote(table, pq.read_table(attempts.kept)), [attempts],
    )  # fmt: skip


def filter_by_length(recipe: Recipe, problems: Artifact) -> Artifact:
    settings = recipe.curation.math.length
    return _filter(
        LENGTH, recipe, "math", problems, {**settings.model_dump(mode="json"), "seed": recipe.seed},
        lambda table: length_filter.filter_by_length(table, settings, recipe.seed),
    )  # fmt: skip


def validate_tests(recipe: Recipe, problems: Artifact) -> Artifact:
    """Golden solutions must pass their tests, and the tests must notice faults: solutions run in the sandbox."""
    settings = recipe.curation.code.validation

    def apply(table: pa.Table) -> Split:
        watcher = active_run().watcher
        with VerifierPool(minimum_isolation=recipe.verification.minimum_isolation) as pool:
            return validation.validate_tests(
                table, settings, pool, progress=lambda done, total: watcher.progress(done, total, {})
            )

    return _filter(VALIDATE_TESTS, recipe, "code", problems, settings.model_dump(mode="json"), apply, runs_code=True)


def grade_difficulty(recipe: Recipe, problems: Artifact, attempts: Artifact) -> Artifact:
    """Judge the teacher's programs; difficulty is the failures out of eight."""
    maximum = recipe.curation.code.max_difficulty

    def apply(table: pa.Table) -> Split:
        watcher = active_run().watcher
        with VerifierPool(minimum_isolation=recipe.verification.minimum_isolation) as pool:
            return difficulty.grade(
                table, pq.read_table(attempts.kept), pool, maximum,
                progress=lambda done, total: watcher.progress(done, total, {}),
            )  # fmt: skip

    return _filter(DIFFICULTY, recipe, "code", problems, {"max_difficulty": maximum}, apply, [attempts], runs_code=True)


def without_teacher(domain: Domain) -> list[str]:
    """The steps that need a teacher, recorded as not done."""
    steps = [TEACHER_ATTEMPTS, MAJORITY_VOTE, LENGTH] if domain == "math" else [TEACHER_ATTEMPTS, DIFFICULTY]
    for step in steps:
        not_done(step, domain, NO_TEACHER.format(domain=domain))
    return [step.name for step in steps]


def curated(recipe: Recipe, domain: Domain, steps: Sequence[Artifact], missing: Sequence[str]) -> Curated:
    """The curated data set: the last step's rows, all rejects, the funnel, the data card, and, for the tiny world, how
    well each rule did against the truth that curation never reads."""
    truth = [world_file(recipe, f"{domain}_truth.parquet")] if _in_tiny_world(recipe, domain) else []

    def make(draft: Draft) -> None:
        kept = pq.read_table(steps[-1].kept)
        rejected = pa.concat_tables([pq.read_table(step.rejected) for step in steps])
        draft.write_dataset(kept, rejected, _rows_in(steps[0]))
        summaries = [step.manifest["summary"] for step in steps]
        table = funnel.funnel(summaries)
        pq.write_table(table, draft.path / "funnel.parquet")
        (draft.path / "funnel.png").write_bytes(funnel.figure(table, domain))
        not_done_reasons = {name: NO_TEACHER.format(domain=domain) for name in missing}
        card = funnel.card(domain, table, rejected, not_done_reasons)
        draft.extra["metrics"] = {"rows_in": _rows_in(steps[0]), "rows_kept": len(kept)}
        if truth:
            scores = score.score_rules(pq.read_table(truth[0].path), rejected, kept)
            rows = [vars(s) if hasattr(s, "__dict__") else s._asdict() for s in scores]
            (draft.path / "rule_scores.json").write_text(json.dumps(rows, indent=1))
            card += score.markdown(scores)
            for s in scores:
                draft.extra["metrics"] |= {f"precision/{s.rule}": s.precision, f"recall/{s.rule}": s.recall}
        (draft.path / "card.md").write_text(card)
        draft.extra["shown"] = ["card.md", "funnel.png"]

    parameters = {"domain": domain, "not_done": list(missing)}
    inputs = [*steps, *truth]
    name, title = f"{domain}-curated", f"curated {domain}"
    return Curated(domain, run_step(CURATED, name, parameters=parameters, inputs=inputs, make=make, title=title))


def _rows_in(first: Artifact) -> int:
    return int(first.manifest["counts"]["rows_in"])


def _in_tiny_world(recipe: Recipe, domain: Domain) -> bool:
    return recipe.curation.tiny_world is not None and not _settings(recipe, domain).inputs


def _settings(recipe: Recipe, domain: Domain) -> MathCuration | CodeCuration:
    return recipe.curation.math if domain == "math" else recipe.curation.code


def kept_batches(kept: Path) -> Iterator[pa.Table]:
    """The rows of a data set, a batch at a time; one empty table when there are none."""
    with pq.ParquetFile(kept) as file:
        for batch in file.iter_batches(batch_size=BATCH_ROWS):
            yield pa.Table.from_batches([batch])
        if not file.metadata.num_rows:
            yield PROBLEM_SCHEMA.empty_table()


def _filter(
    step: Step,
    recipe: Recipe,
    domain: Domain,
    problems: Artifact,
    parameters: Mapping[str, Any],
    apply: Any,
    others: Sequence[Artifact] = (),
    runs_code: bool = False,
    by_batch: bool = False,
) -> Artifact:
    """A step that splits one data set: read the kept rows of the last step, apply, store both sides. `by_batch` for a
    step that judges each row by itself."""

    def make(draft: Draft) -> None:
        if runs_code:
            record_isolation(draft, recipe)
        tables = kept_batches(problems.kept) if by_batch else [pq.read_table(problems.kept)]
        write_splits(draft, map(apply, tables), _settings(recipe, domain).max_rejected)

    return run_step(
        step, f"{domain}-{step.name}", parameters=parameters, inputs=[problems, *others], make=make,
        title=f"{step.name.replace('_', ' ')} {domain}",
    )  # fmt: skip
