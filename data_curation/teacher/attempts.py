"""Teacher attempts: ask several times for each problem, and never pay for an answer twice.

Every answer goes to a journal. Its key is a hash of the request (model, sampling, messages, sample number), not of the
row, so that a changed or reordered input keeps the answers that were paid for, and equal questions share theirs. Failed
calls are not written, so that they are asked again. Requests are created as calls become free, and answers stay in the
journal until the table is written: only a key per answer is in memory.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.base.journal import Journal, read_lines
from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.base.prompts import PromptFormat, user_message
from ratchet.data_curation.base.protocol import Completion, Request, Sampling, derive_seed, token_count, valid_text
from ratchet.data_curation.base.teacher_engine import TeacherEngine
from ratchet.data_curation.settings.teacher import Teacher
from ratchet.data_curation.split import add_metadata, set_column
from ratchet.data_curation.teacher.bill import CHARACTERS_PER_TOKEN, Bill, money
from ratchet.verifiers.errors import RatchetError

ATTEMPTS_SCHEMA = pa.schema(
    [
        pa.field("problem_id", pa.string(), nullable=False),
        pa.field("sample", pa.int32(), nullable=False),
        pa.field("response", pa.large_string(), nullable=False),
        # stop; length: truncated, no answer; refused, error: no attempt, `response` has the reason
        pa.field("finish_reason", pa.string(), nullable=False),
        pa.field("tokens", pa.int32(), nullable=False),
        # teacher: its usage numbers; tokenizer; estimate: by the characters per token of the teacher's other answers
        pa.field("counted_by", pa.string()),
        pa.field("prompt_tokens", pa.int32()),
    ]
)
ANSWERED = ("stop", "length")
"""Finish reasons of successful attempts; with any other, the call failed."""
LEVELS = 8
"""The paper's scale of difficulty: failures of eight attempts."""
MAX_FAILED = 0.01
"""Share of calls that may fail permanently (an endpoint rejects a prompt) without ending the step. The attempts at one
problem may always fail: a prompt that an endpoint never answers must not stop a small step each time it is run."""
EMPTY_AT_MOST = 20
"""Answers after which the step ends if none has a text."""
UNCOUNTED_AT_MOST = 8
"""Answers after which the step ends if none has a number of tokens."""
ROWS_AT_ONCE = 512
MISSING, OPEN, FAILED = -1, -2, -3
"""Values in place of an answer's position in the journal: not requested, requested, failed."""


class Prompt(NamedTuple):
    """One question, asked several times."""

    problem_id: str
    text: str
    """The user turn."""


Prompts = Callable[[], Iterable[Prompt]]
"""A function that reads all questions from the start; they are never in memory together."""
Progress = Callable[[int, int, Mapping[str, Any]], None]


def collect_attempts(
    prompts: Prompts,
    engine: TeacherEngine,
    teacher: Teacher,
    journal_file: Path,
    seed: int,
    output: Path,
    progress: Progress = lambda done, total, facts: None,
    note: Callable[[str], None] = lambda text: None,
) -> Bill:
    """Write `teacher.attempts` answers to each of `prompts` to the Parquet file `output`, with `ATTEMPTS_SCHEMA`, in
    order of prompts and samples; returns their cost.

    The journal is read first and appended to. `note` gets the estimate before the first call. Failed calls are in the
    table with the reason, and not in the journal. Raises RatchetError when too many failed (`MAX_FAILED`), when every
    prompt is refused or every answer is empty, when `max_cost` is reached, when no answer's tokens are counted, or when
    the journal is damaged; the same command then asks only for what is missing.
    """
    engine.tell = note
    collection = _Collection(prompts, teacher, seed, getattr(engine, "traffic", None))
    with Journal(journal_file, engine.paid, alone=True) as journal:
        collection.read(journal_file)
        bill = collection.bill
        if bill.answered < bill.answers:
            note(bill.estimate())
        progress(bill.answered, bill.answers, bill)
        try:
            collection.ask(engine, journal, progress)
        except RatchetError as error:
            raise RatchetError(
                f"{error} {bill.answered:,} of {bill.answers:,} answers are in {journal_file}: the same command asks "
                "only for the rest."
            ) from error
        if failed := list(collection.failed.values()):
            note(f"{len(failed):,} calls without an answer, the last ({failed[-1].finish_reason}) with: "
                 f"{failed[-1].error}")  # fmt: skip
        if bill.empty:
            note(f"{bill.empty:,} of {bill.answered:,} answers have no text after the thinking: they count as attempts "
                 "without an answer.")  # fmt: skip
        if bill.uncounted:
            note(f"{bill.uncounted:,} of {bill.answered:,} answers came without a number of tokens, which is estimated "
                 "by their characters: set curation.<domain>.teacher.advanced.tokenizer to count them.")  # fmt: skip
        collection.write(journal, output)
    return bill


def known_attempts(prompts: Prompts, teacher: Teacher, journal_file: Path, seed: int) -> Bill:
    """Count the answers that `collect_attempts` would ask for, and those that the journal has. Read-only."""
    collection = _Collection(prompts, teacher, seed)
    collection.read(journal_file)
    return collection.bill


def problem_prompts(batches: Callable[[], Iterable[pa.Table]], prompt_format: PromptFormat) -> Prompts:
    """The problems' user turns."""
    return lambda: (
        Prompt(problem.problem_id, user_message(problem, prompt_format))
        for batch in batches()
        for problem in from_table(batch)
    )


class _Collection:
    """The answers that one step needs, and which of them it has: `places` has, by key, the byte of the journal at which
    an answer begins, or one of the constants above."""

    def __init__(self, prompts: Prompts, teacher: Teacher, seed: int, traffic: Any = None) -> None:
        self.prompts, self.teacher, self.seed = prompts, teacher, seed
        self.sampling = Sampling(teacher.temperature, teacher.top_p, 0, teacher.max_tokens)
        self.places: dict[str, int] = {}
        characters = 0
        for prompt in prompts():
            keys = self._keys(prompt)
            characters += len(prompt.text) * len(keys) * (keys[0] not in self.places)
            self.places.update(dict.fromkeys(keys, MISSING))
        self.bill = Bill(teacher, len(self.places), characters, traffic)
        self.failed: dict[str, Completion] = {}
        self._count = _token_counter(teacher.advanced.tokenizer)
        self._errors = self._came = self._came_empty = self._came_uncounted = 0
        self._characters = 0  # of the answers with a number of tokens

    def read(self, journal_file: Path) -> None:
        """Read the answers that the journal has."""
        place = 0
        for line, (end, record) in enumerate(read_lines(journal_file) if journal_file.exists() else (), start=1):
            if not isinstance(record.get("response"), str) or record.get("finish_reason") not in ANSWERED:
                raise RatchetError(f"{journal_file}, line {line}: not an answer. Remove that line and run again.")
            if self.places.get(str(record.get("key"))) == MISSING:
                self._enter(place, record, now=False)
            place = end

    def ask(self, engine: TeacherEngine, journal: Journal, progress: Progress) -> None:
        """Ask for what the journal lacks. Raises RatchetError with the reason of `_stop`, after the open calls."""
        bill, places = self.bill, self.places
        begun = finished = 0

        def wanted() -> Iterator[Request]:  # read in the engine's own thread
            nonlocal begun
            for prompt in self.prompts():
                messages = ({"role": "user", "content": prompt.text},)
                for sample, key in enumerate(self._keys(prompt)):
                    if places[key] == MISSING:
                        if self._stop() or not bill.affords(begun - finished):
                            return  # the engine finishes what is open
                        begun += 1
                        places[key] = OPEN
                        yield Request(key, derive_seed(self.seed, prompt.problem_id, sample), messages=messages)

        while True:  # repeated near the cost ceiling
            if reason := self._stop():
                raise RatchetError(reason)
            for key in [key for key, place in places.items() if place == OPEN]:
                places[key] = MISSING  # not returned by the engine
            if MISSING not in places.values():
                return
            if not bill.affords(0):
                raise RatchetError(
                    f"The answers have cost {money(bill.cost)}, and one more may exceed max_cost "
                    f"{money(bill.teacher.advanced.max_cost or 0)}. Raise it to continue: all would cost about "
                    f"{money(bill.expected_cost)}."
                )
            for completion in engine.generate(wanted(), self.sampling):
                finished += 1
                key = completion.key
                if completion.finish_reason in ("refused", "error"):
                    self.failed[key], places[key] = replace(completion, error=valid_text(str(completion.error))), FAILED
                    self._errors += completion.finish_reason == "error"
                    continue
                record = {
                    "key": key,
                    "finish_reason": completion.finish_reason,
                    "tokens": completion.tokens,
                    "counted_by": "teacher",
                    "prompt_tokens": completion.prompt_tokens,
                    "response": valid_text(completion.text),
                }
                self._counted(record)
                self._came += 1
                self._came_empty += completion.empty
                self._came_uncounted += record["tokens"] is None
                self._enter(journal.append(record), record, now=True)
                progress(bill.answered, bill.answers, bill)

    def write(self, journal: Journal, output: Path) -> None:
        """Write the attempts as a table, in parts: together they may be larger than memory."""

        def attempt(key: str) -> dict[str, Any]:
            if key in self.failed:
                failed = self.failed[key]
                return {"response": failed.error, "finish_reason": failed.finish_reason, "tokens": 0}
            record = self._counted(journal.record_at(self.places[key]))
            if record["tokens"] is None:
                characters_per_token = self._characters / max(1, self.bill.response_tokens) or CHARACTERS_PER_TOKEN
                tokens = round(len(record["response"]) / characters_per_token)
                record |= {"tokens": tokens, "counted_by": "estimate"}
            return record

        rows = (
            {"problem_id": prompt.problem_id, "sample": sample, **attempt(key)}
            for prompt in self.prompts()
            for sample, key in enumerate(self._keys(prompt))
        )
        with pq.ParquetWriter(output, ATTEMPTS_SCHEMA) as writer:
            while some := list(islice(rows, ROWS_AT_ONCE)):
                writer.write_table(pa.Table.from_pylist(some, schema=ATTEMPTS_SCHEMA))

    def _keys(self, prompt: Prompt) -> list[str]:
        """Keys of all attempts at a question."""
        messages = [{"role": "user", "content": prompt.text}]
        content = [self.teacher.kind, self.teacher.model, asdict(self.sampling), messages]
        head = hashlib.sha256(json.dumps(content, ensure_ascii=False)[:-1].encode())
        keys = []
        for sample in range(self.teacher.attempts):
            whole = head.copy()
            whole.update(f", {sample}, {self.seed}]".encode())
            keys.append(whole.hexdigest()[:32])
        return keys

    def _enter(self, place: int, record: dict[str, Any], now: bool) -> None:
        if self._counted(record)["tokens"] is not None:
            self._characters += len(record["response"])
        self.places[record["key"]] = place
        self.bill.add(record, now)

    def _counted(self, record: dict[str, Any]) -> dict[str, Any]:
        """The record with its numbers of tokens, None where nothing counts them."""
        for name in ("tokens", "prompt_tokens"):
            record[name] = token_count(record.get(name))
        if record["tokens"] is None:
            record |= {"tokens": self._count(record["response"]), "counted_by": "tokenizer"}
        return record

    def _stop(self) -> str:
        total = self.bill.answers
        last = next(reversed(self.failed.values())).error if self.failed else ""
        if self.bill.uncounted == self.bill.answered > 0 and (
            self._came_uncounted >= UNCOUNTED_AT_MOST or self.bill.answered + len(self.failed) == total
        ):
            return "The endpoint counts no tokens: set curation.<domain>.teacher.advanced.tokenizer to count them here."
        if self._errors > max(MAX_FAILED * total, self.teacher.attempts):
            return f"{self._errors:,} of {total:,} teacher calls failed, the last with: {last}."
        if len(self.failed) == total > 0:
            return f"The teacher refuses all {total:,} prompts, the last with: {last}."
        if self._came_empty == self._came >= EMPTY_AT_MOST:
            return (
                f"All {self._came:,} answers so far are empty. Does the endpoint's reasoning parser fit the model? To "
                "ask for them again, remove their lines from the journal."
            )
        return ""


def difficulty(passes: int, attempts: int) -> int:
    """Failures scaled to eight attempts: 8 if and only if none passed, 0 if and only if all did."""
    if passes in (0, attempts):
        return 0 if passes else LEVELS
    return min(max(round(LEVELS * (attempts - passes) / attempts), 1), LEVELS - 1)


def teacher_columns(passes: int, attempts: int, tokens: Sequence[int]) -> dict[str, Any]:
    """The columns of a problem that the judged attempts fill; `tokens` are their lengths."""
    return {
        "teacher_passes": passes,
        "teacher_attempts": attempts,
        "teacher_tokens": sum(tokens) / len(tokens) if tokens else None,
        "difficulty": difficulty(passes, attempts) if attempts else None,
    }


def with_facts(problems: pa.Table, step: str, facts: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The `problems` with `teacher_columns` set from `facts`; the other facts become metadata of `step`."""
    columns = teacher_columns(0, 0, ())
    for name in columns:
        problems = set_column(problems, name, [fact[name] for fact in facts])
    rest = [{name: value for name, value in fact.items() if name not in columns} for fact in facts]
    return add_metadata(problems, step, rest)


def _token_counter(name: str) -> Callable[[str], int | None]:
    """A counter of tokens for answers whose endpoint does not count; its counts are None if the recipe names no
    tokenizer."""
    if not name:
        return lambda text: None
    from tokenizers import Tokenizer

    file = Path(name, "tokenizer.json")
    try:
        tokenizer = Tokenizer.from_file(str(file)) if file.is_file() else Tokenizer.from_pretrained(name)
    except Exception as error:  # the library raises nothing more specific
        raise RatchetError(
            f"Cannot load the teacher's tokenizer {name!r} ({error}): give a directory with tokenizer.json, or a name "
            "on the Hugging Face Hub."
        ) from error
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
