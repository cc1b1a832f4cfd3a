"""Read a benchmark's problems and check them."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from ratchet.data_curation.base.problem_table import from_table
from ratchet.infra.recipe.evaluation import Benchmark
from ratchet.infra.recipe.questions import REFERENCE, distinct_questions
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import Problem

DECISIVE = ("problem_id", "prompt", *REFERENCE, "metadata")


def load_problems(benchmark: Benchmark, path: str | Path) -> tuple[Problem, ...]:
    """Read a benchmark's problems from a Parquet file in `PROBLEM_SCHEMA`. Errors name the rows of the user's own file,
    `benchmark.path`, if there is one.

    The questions are `distinct_questions`, so that validation and evaluation take their parts of the same ones. Raises
    RatchetError naming file, row and field when the file is empty, has a problem of another domain, or a problem that
    cannot be graded (no answer or tests, or a reference that does not verify against itself).
    """
    path, name, published = Path(path), benchmark.name, benchmark.path
    problems = tuple(from_table(pq.read_table(path)))
    if not problems:
        raise RatchetError(f"benchmark {name}: {published or path} has no problems")
    for number, problem in enumerate(problems):
        row = problem.source_id if published and problem.source_id else str(number)
        where = f"benchmark {name}: {published or path}, row {row} (problem {problem.problem_id})"
        if problem.domain != benchmark.domain:
            raise RatchetError(f"{where}: domain is {problem.domain!r}, the benchmark's is {benchmark.domain!r}")
        if fault := domain_of(problem.domain).reference_fault(problem):
            raise RatchetError(f"{where}: no response can be graded, {fault}; fix or remove the row")
    distinct = distinct_questions(problems)
    if not distinct:
        raise RatchetError(
            f"benchmark {name}: every question of {published or path} is there with different references"
        )
    selected = {*benchmark.select(distinct)}
    if not selected:
        asked = {"part": benchmark.advanced.part, "max_difficulty": benchmark.advanced.max_difficulty}
        of = " and ".join(f"{field} {value}" for field, value in asked.items() if value is not None)
        raise RatchetError(f"benchmark {name}: of {len(distinct)} questions in {published or path} none has {of}")
    return tuple(problem for problem_id, problem in distinct.items() if problem_id in selected)


def require_room(benchmark: str, problem: Problem, prompt_tokens: int, longest: int, positions: int | None) -> None:
    """Raises RatchetError if the longest response does not fit behind the prompt into the model's positions (None: any
    number)."""
    if positions is not None and prompt_tokens + longest > positions:
        raise RatchetError(
            f"{benchmark}, row {problem.source_id}: a prompt of {prompt_tokens} tokens and a response of up to "
            f"{longest} need more than the model's {positions} positions. Lower evaluation.max_tokens, or remove the "
            "problem from the benchmark."
        )


def content_hash(problems: Sequence[Problem]) -> str:
    """The sha256 of everything that decides a score, in any order: scores with the same hash are comparable."""
    digest = hashlib.sha256()
    for problem in sorted(problems, key=lambda problem: problem.problem_id):
        digest.update(json.dumps([getattr(problem, name) for name in DECISIVE]).encode())
    return digest.hexdigest()
