"""Teacher attempts: ask several times for each problem, and never pay for an answer twice.

Every answer goes to a journal under a key made of its content (model, sampling, messages, sample number), not of its
row, so that a changed or reordered input keeps what was paid for. Failed calls are not written: they are asked again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.attempt_journal import AttemptJournal, read_answers
from ratchet.data_curation.teacher_bill import Bill, money
from ratchet.infra.errors import RatchetError
from ratchet.infra.inference.engine import TeacherEngine
from ratchet.infra.inference.protocol import Completion, Request, Sampling, derive_seed
from ratchet.infra.problems import from_table
from ratchet.infra.recipe.model import PromptFormat, Teacher
from ratchet.verifiers.prompts import user_message

ATTEMPTS_SCHEMA = pa.schema(
    [
        pa.field("problem_id", pa.string(), nullable=False),
        pa.field("sample", pa.int32(), nullable=False),
        pa.field("response", pa.large_string(), nullable=False),
        # stop; length: cut, an attempt without an answer; refused, error: no attempt, `response` is the reason
        pa.field("finish_reason", pa.string(), nullable=False),
        pa.field("tokens", pa.int32(), nullable=False),
        pa.field("counted_by", pa.string()),  # teacher: its own usage numbers; else the tokenizer
        pa.field("prompt_tokens", pa.int32()),
    ]
)
LEVELS = 8
"""Difficulty is failures scaled to eight attempts, the paper's scale."""
MAX_FAILED = 0.01
"""Share of calls that may fail for good (an endpoint refuses a prompt) without holding up all others."""
ROWS_AT_ONCE = 512
Progress = Callable[[int, int, Mapping[str, Any]], None]
_TokenCounter = Callable[[str], int | None]


def collect_attempts(
    problems: pa.Table,
    engine: TeacherEngine,
    teacher: Teacher,
    prompt_format: PromptFormat,
    journal_file: Path,
    seed: int,
    output: Path,
    progress: Progress = lambda done, total, facts: None,
    note: Callable[[str], None] = lambda text: None,
) -> Bill:
    """Write `teacher.attempts` answers to each problem to the Parquet file `output`, with `ATTEMPTS_SCHEMA`, ordered by
    problem and sample; returns what they cost.

    The journal is read first and appended to. `note` is told the estimate before the first call. Calls without an
    answer are in the table with the reason, and not in the journal. Raises RatchetError when more than a few failed
    (`MAX_FAILED`), when every prompt is refused, when `max_cost` is reached, when nothing counts the tokens, or when
    the journal is damaged: the same command then asks only for what is missing.
    """
    sampling = _sampling(teacher)
    rows, requests = _requests(problems, teacher, sampling, prompt_format, seed)
    count = _token_counter(teacher.tokenizer)
    with AttemptJournal(journal_file, requests, durable=engine.paid) as journal:
        bill = Bill(teacher, [_characters(request) for request in requests.values()], getattr(engine, "traffic", None))
        for key, facts in journal.facts.items():
            if facts["tokens"] is None:
                facts |= {"tokens": count(journal.response(key)), "counted_by": "tokenizer"}
            bill.add(_characters(requests[key]), facts, now=False)
        if bill.answered < bill.answers:
            note(bill.estimate())
        progress(bill.answered, bill.answers, bill)
        try:
            unanswered = _ask(requests, engine, sampling, journal, bill, count, progress)
        except RatchetError as error:
            raise RatchetError(
                f"{error} {bill.answered:,} of {bill.answers:,} answers are in {journal_file}: the same command asks "
                "only for the rest."
            ) from error
        if unanswered:
            last = next(reversed(unanswered.values()))
            note(f"{len(unanswered):,} calls without an answer, the last ({last.finish_reason}) with: {last.error}")
        _write(rows, journal, unanswered, output)
    return bill


def estimate_attempts(
    problems: pa.Table, teacher: Teacher, prompt_format: PromptFormat, journal_file: Path, seed: int
) -> str:
    """What `collect_attempts` would ask for and cost, in a sentence. Asks nothing and writes nothing."""
    _, requests = _requests(problems, teacher, _sampling(teacher), prompt_format, seed)
    bill = Bill(teacher, [_characters(request) for request in requests.values()])
    answers = {key: facts for _, key, facts in read_answers(journal_file)} if journal_file.exists() else {}
    for key in answers.keys() & requests.keys():
        bill.add(_characters(requests[key]), answers[key], now=False)
    return bill.estimate()


def all_answered(
    problems: pa.Table, teacher: Teacher, prompt_format: PromptFormat, journal_file: Path, seed: int
) -> bool:
    """Whether the journal has everything that `collect_attempts` would ask for."""
    _, requests = _requests(problems, teacher, _sampling(teacher), prompt_format, seed)
    return requests.keys() <= {key for _, key, _ in read_answers(journal_file)}


def _sampling(teacher: Teacher) -> Sampling:
    return Sampling(teacher.temperature, teacher.top_p, 0, teacher.max_tokens)


def _requests(
    problems: pa.Table, teacher: Teacher, sampling: Sampling, prompt_format: PromptFormat, seed: int
) -> tuple[list[tuple[str, int, str]], dict[str, Request]]:
    """(problem_id, sample, key) of each attempt, and the request of each key."""
    rows: list[tuple[str, int, str]] = []
    requests: dict[str, Request] = {}
    for problem in from_table(problems):
        messages = ({"role": "user", "content": user_message(problem, prompt_format)},)
        for sample in range(teacher.attempts):
            key = _key(teacher, sampling, messages, sample, seed)
            rows.append((problem.problem_id, sample, key))
            if key not in requests:  # two problems may ask the same
                requests[key] = Request(key, derive_seed(seed, problem.problem_id, sample), messages=messages)
    return rows, requests


def _ask(
    requests: Mapping[str, Request],
    engine: TeacherEngine,
    sampling: Sampling,
    journal: AttemptJournal,
    bill: Bill,
    count: _TokenCounter,
    progress: Progress,
) -> dict[str, Completion]:
    """Ask for what the journal lacks; returns what has no answer in the end. Raises RatchetError when it makes no sense
    to go on, after the open calls."""
    unanswered: dict[str, Completion] = {}
    begun = finished = failed = 0
    uncounted = any(facts["tokens"] is None for facts in journal.facts.values())

    def stop() -> str:
        if uncounted:
            return "The endpoint does not count tokens: say with curation.<domain>.teacher.tokenizer what does."
        if failed > MAX_FAILED * len(requests):
            return f"{failed:,} of {len(requests):,} teacher calls failed, the last with: {last_error()}."
        if len(unanswered) == len(requests) > 0:
            return f"The teacher refuses all {len(requests):,} prompts, the last with: {last_error()}."
        return ""

    def last_error() -> str | None:
        return next(reversed(unanswered.values())).error

    def wanted() -> Iterator[Request]:
        nonlocal begun
        for key, request in requests.items():
            if key not in journal.facts and key not in unanswered:
                if stop() or not bill.affords(begun - finished):
                    return  # the engine finishes what is open
                begun += 1
                yield request

    while True:  # a second time only near the ceiling
        if reason := stop():
            raise RatchetError(reason)
        if len(journal.facts) + len(unanswered) == len(requests):
            return unanswered
        if not bill.affords(0):
            raise RatchetError(
                f"The answers have cost {money(bill.cost)}, and one more may pass max_cost "
                f"{money(bill.teacher.max_cost or 0)}. Raise it to go on: all would cost about "
                f"{money(bill.expected_cost)}."
            )
        for completion in engine.generate(wanted(), sampling):
            finished += 1
            if completion.finish_reason in ("refused", "error"):
                unanswered[completion.key] = completion
                failed += completion.finish_reason == "error"
                continue
            tokens, counted_by = completion.tokens, "teacher"
            if tokens is None:
                tokens, counted_by = count(completion.text), "tokenizer"
                uncounted |= tokens is None
            facts = {
                "finish_reason": completion.finish_reason,
                "tokens": tokens,
                "counted_by": counted_by,
                "prompt_tokens": completion.prompt_tokens,
            }
            journal.add(completion.key, completion.text, **facts)
            bill.add(_characters(requests[completion.key]), facts)
            progress(bill.answered, bill.answers, bill)


def _write(
    rows: list[tuple[str, int, str]], journal: AttemptJournal, unanswered: Mapping[str, Completion], output: Path
) -> None:
    """The attempts as a table, a few at a time: all of them together may be larger than memory."""

    def attempt(key: str) -> dict[str, Any]:
        if key in journal.facts:
            return {"response": journal.response(key), **journal.facts[key]}
        return {"response": unanswered[key].error, "finish_reason": unanswered[key].finish_reason, "tokens": 0}

    with pq.ParquetWriter(output, ATTEMPTS_SCHEMA) as writer:
        for start in range(0, len(rows), ROWS_AT_ONCE):
            attempts = [
                {"problem_id": problem_id, "sample": sample, **attempt(key)}
                for problem_id, sample, key in rows[start : start + ROWS_AT_ONCE]
            ]
            writer.write_table(pa.Table.from_pylist(attempts, schema=ATTEMPTS_SCHEMA))


def difficulty(passes: int, attempts: int) -> int:
    """Failures scaled to eight attempts: 8 if and only if none passed, 0 if and only if all did."""
    if passes in (0, attempts):
        return 0 if passes else LEVELS
    return min(max(round(LEVELS * (attempts - passes) / attempts), 1), LEVELS - 1)


def _token_counter(name: str) -> _TokenCounter:
    """Counts the tokens of an answer whose endpoint did not; None where the recipe names no tokenizer."""
    if not name:
        return lambda text: None
    from tokenizers import Tokenizer

    file = Path(name, "tokenizer.json")
    try:
        tokenizer = Tokenizer.from_file(str(file)) if file.is_file() else Tokenizer.from_pretrained(name)
    except Exception as error:  # the library raises nothing more exact
        raise RatchetError(
            f"Cannot load the teacher's tokenizer {name!r} ({error}): give a directory that holds tokenizer.json, or a "
            "hub name."
        ) from error
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def _characters(request: Request) -> int:
    return sum(len(turn["content"]) for turn in request.messages or ())


def _key(teacher: Teacher, sampling: Sampling, messages: Any, sample: int, seed: int) -> str:
    content = [teacher.kind, teacher.model, asdict(sampling), messages, sample, seed]
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()[:32]
