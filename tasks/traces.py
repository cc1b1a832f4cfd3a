"""Teacher traces for the supervised warm start."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.infra.artifacts import KEPT, Artifact, Draft
from ratchet.infra.errors import RatchetError
from ratchet.infra.problems import from_table
from ratchet.infra.recipe.model import Recipe, Teacher, WarmStart
from ratchet.tasks.curation import check_teacher, draft_attempts, teacher_seed
from ratchet.tasks.step import Step, run_step
from ratchet.verifiers.prompts import user_message, with_templates

TEACHER_TRACES = Step("teacher_traces", 2, "traces")


def teacher_traces(recipe: Recipe, problems: Mapping[str, Artifact]) -> Artifact:
    """The teacher's answers to the curated problems, right and wrong, as (prompt, response) pairs.

    Columns: problem_id, domain, prompt (the user turn), response. Answers cut at the token limit are left out: a model
    must not learn to stop in the middle.
    """
    warm_start = recipe.training.warm_start
    assert warm_start is not None
    wanted = _wanted(warm_start, list(problems))
    teachers = {domain: recipe.curation_of(domain).teacher for domain in wanted}
    parameters = {
        "wanted": wanted,
        "teachers": teachers,
        "prompt": with_templates(recipe.model.prompt, wanted),
        "seed": {domain: teacher_seed(recipe, teacher) for domain, teacher in teachers.items()},
    }

    def make(draft: Draft) -> None:
        tables = [_traces(recipe, draft, d, problems[d], teachers[d], wanted[d]) for d in wanted if wanted[d]]
        traces = pa.concat_tables(tables)
        pq.write_table(traces, draft.path / KEPT)
        draft.counts = {"traces": len(traces)}
        draft.extra["headline"] = ", ".join(f"{len(t):,} {d}" for d, t in zip(wanted, tables, strict=False))

    def check() -> None:
        for domain in (d for d in wanted if wanted[d]):
            if teachers[domain].kind == "none":
                raise RatchetError(
                    f"training.warm_start learns from a teacher's answers, and curation.{domain}.teacher.kind is none."
                )
            asked = _asked(teachers[domain], wanted[domain], problems[domain])
            check_teacher(recipe, asked, problems[domain], purpose=f"traces-{domain}")

    inputs = list(problems.values())
    return run_step(
        TEACHER_TRACES,
        "warm-start",
        parameters=parameters,
        inputs=inputs,
        make=make,
        title="teacher traces",
        check=check,
    )


def _wanted(settings: WarmStart, domains: Sequence[str]) -> dict[str, int]:
    """How many traces of each domain; the last takes what rounding leaves."""
    mix = settings.mix or dict.fromkeys(domains, 1.0)
    *first, last = mix
    wanted = {domain: round(settings.traces * mix[domain] / sum(mix.values())) for domain in first}
    return wanted | {last: settings.traces - sum(wanted.values())}


def _asked(teacher: Teacher, wanted: int, problems: Artifact) -> Teacher:
    """Asked as often as it takes to have `wanted` answers."""
    rows = pq.read_metadata(problems.kept).num_rows if problems.path.exists() else 0
    return teacher.model_copy(update={"attempts": math.ceil(wanted / max(1, rows))})


def _traces(recipe: Recipe, draft: Draft, domain: str, problems: Artifact, teacher: Teacher, wanted: int) -> pa.Table:
    table = pq.read_table(problems.kept)
    draft_attempts(recipe, draft, table, _asked(teacher, wanted, problems), purpose=f"traces-{domain}")
    attempts = pq.read_table(draft.path / KEPT).to_pylist()
    prompts = {p.problem_id: user_message(p, recipe.model.prompt) for p in from_table(table)}
    finished = [row for row in attempts if row["finish_reason"] == "stop"]
    by_sample = sorted(finished, key=lambda row: (row["sample"], row["problem_id"]))[:wanted]
    return pa.table(
        {
            "problem_id": [row["problem_id"] for row in by_sample],
            "domain": [domain] * len(by_sample),
            "prompt": [prompts[row["problem_id"]] for row in by_sample],
            "response": [row["response"] for row in by_sample],
        }
    )
