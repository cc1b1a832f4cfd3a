"""Teacher attempts: ask several times for each problem, and never pay for an answer twice.

Every answer goes to an append-only journal under a key made of its content (model, sampling, problem, messages, sample
number), not of its row, so that a changed or reordered input keeps what was paid for. Failed calls are not written:
they are asked again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from infra.errors import RatchetError
from infra.inference.prompts import user_message
from infra.inference.protocol import Completion, Engine, Request, Sampling, derive_seed
from infra.problems import from_table
from infra.recipe.model import PromptFormat, Teacher

ATTEMPTS_SCHEMA = pa.schema(
    [
        pa.field("problem_id", pa.string(), nullable=False),
        pa.field("sample", pa.int32(), nullable=False),
        pa.field("response", pa.large_string(), nullable=False),
        pa.field("finish_reason", pa.string(), nullable=False),  # stop, or length: cut, an attempt without an answer
        pa.field("tokens", pa.int32(), nullable=False),
    ]
)
FSYNC_EVERY = 256
MAX_FAILED = 0.01
"""Share of calls that may fail for good (an endpoint refuses a prompt) without holding up all others."""


def collect_attempts(
    problems: pa.Table,
    engine: Engine,
    teacher: Teacher,
    prompt_format: PromptFormat,
    journal: Path,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
) -> pa.Table:
    """`teacher.attempts` answers to each problem, with `ATTEMPTS_SCHEMA`, ordered by problem and sample.

    `journal` is read first and appended to; its torn last line, left by a kill, is dropped. A second run that wants it
    waits until this one is through. Calls that failed for good have no row, if they are few (`MAX_FAILED`). Raises
    RatchetError when they are not, or when the journal is damaged: the same command then asks only for what is missing.
    """
    sampling = Sampling(teacher.temperature, teacher.top_p, 0, teacher.max_tokens)
    asked: dict[str, tuple[str, int, Request]] = {}
    for problem in from_table(problems):
        messages = ({"role": "user", "content": user_message(problem, prompt_format)},)
        for sample in range(teacher.attempts):
            key = _key(teacher, sampling, problem.problem_id, messages, sample, seed)
            request = Request(key=key, seed=derive_seed(seed, problem.problem_id, sample), messages=messages)
            asked[key] = (problem.problem_id, sample, request)

    failed: list[Completion] = []
    with open(journal, "a", encoding="utf-8", buffering=1) as file:  # each answer reaches the kernel as it comes
        fcntl.flock(file, fcntl.LOCK_EX)  # two writers would tear each other's lines; ends with the process
        answers = {key: row for key, row in _read(journal) if key in asked}
        missing = [request for key, (_, _, request) in asked.items() if key not in answers]
        for completion in engine.generate(missing, sampling):
            if completion.finish_reason == "error":
                failed.append(completion)
                continue
            row = {"response": completion.text, "finish_reason": completion.finish_reason, "tokens": completion.tokens}
            answers[completion.key] = row
            file.write(json.dumps({"key": completion.key, **row}, ensure_ascii=False) + "\n")
            if len(answers) % FSYNC_EVERY == 0:
                os.fsync(file.fileno())
                if progress:
                    progress(len(answers), len(asked))
        os.fsync(file.fileno())
    if len(failed) > MAX_FAILED * len(asked):
        raise RatchetError(
            f"{len(failed)} of {len(asked)} teacher calls failed, the last with: {failed[-1].error}. "
            f"{len(answers)} answers are kept; run the same command again to ask only for the rest."
        )
    rows = [{"problem_id": asked[key][0], "sample": asked[key][1], **answers[key]} for key in asked if key in answers]
    return pa.Table.from_pylist(rows, schema=ATTEMPTS_SCHEMA)


def _key(teacher: Teacher, sampling: Sampling, problem_id: str, messages: Any, sample: int, seed: int) -> str:
    content = [teacher.kind, teacher.model, asdict(sampling), problem_id, messages, sample, seed]
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()[:32]


def _read(journal: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The journal's answers; cuts a torn last line off the file, so that appending goes on at a line's beginning."""
    good = 0
    with open(journal, "rb") as file:
        lines = file.read().split(b"\n")
    for number, line in enumerate(lines[:-1], start=1):
        try:
            row = json.loads(line)
            yield row.pop("key"), row
        except (ValueError, KeyError) as error:
            raise RatchetError(
                f"{journal}, line {number}: not an answer ({error}). Remove that line and run again."
            ) from error
        good += len(line) + 1
    if lines[-1]:
        os.truncate(journal, good)
