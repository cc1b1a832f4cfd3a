"""`ratchet verify math`: one answer explained, or a file of them judged."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from ratchet.infra.errors import RatchetError
from ratchet.verifiers.math.equivalence import (
    asked_reference,
    verify_answer_quickly,
    verify_math_quickly,
    verify_math_symbolically,
)
from ratchet.verifiers.math.symbolic import Symbolic
from ratchet.verifiers.outcome import Verdict

_AHEAD = 4096
"""Rows read before the oldest of them is written."""


def verify_math(
    console: Console, pair: dict[str, str | None], *, input: str | None = None, output: str | None = None
) -> bool:
    """Explain one pair (`gold`, `response` or `pred`, and perhaps `question`), or judge a file of pairs. False when the
    one answer did not pass, or rows of the file could not be judged."""
    pair = {name: text for name, text in pair.items() if text is not None}
    if input is not None or output is not None:
        if input is None or output is None or pair:
            raise RatchetError("A file is judged with --input FILE --output FILE, and without --gold and --response.")
        return verify_file(console, Path(input), Path(output))
    if "gold" not in pair or ("response" in pair) == ("pred" in pair):
        raise RatchetError("Say --gold and either --response or --pred; or --input and --output for a whole file.")
    with _Verifier() as verifier:
        verdict, milliseconds = verifier.start(Row(pair, 0))()
    for name, value in {
        "outcome": verdict.outcome.value,
        "extracted": "nothing" if verdict.extracted is None else verdict.extracted,
        "tier": verdict.decided_by,
        "why": verdict.detail,
        "time": f"{milliseconds:.2f} ms",
    }.items():
        console.print(f"{name:10}", _printable(value), markup=False, soft_wrap=True)
    return verdict.passed


@dataclass
class Row:
    """One line of the input; `fault` says why it cannot be judged."""

    fields: dict[str, Any]
    size: int
    fault: str = ""


@dataclass
class _Tally:
    outcomes: Counter = field(default_factory=Counter)  # (outcome, tier) -> rows
    faults: list[str] = field(default_factory=list)


def verify_file(console: Console, source: Path, target: Path) -> bool:
    """Judge every row of a JSONL file, in order, with all cores; the output appears when it is whole. False when some
    could not be judged.

    A row holds `gold` and either `pred` or `response`. What cannot be judged (no JSON, a missing field) is written with
    `outcome` null and its reason in `error`.
    """
    if not source.is_file():
        raise RatchetError(
            f"There is no file {source}: --input takes a JSONL file of rows with gold and pred or response."
        )
    if not target.parent.is_dir():
        raise RatchetError(f"There is no directory {target.parent} to write {target.name} in.")
    tally, begin = _Tally(), time.monotonic()
    handle, draft = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with open(handle, "w", encoding="utf-8") as file, _Verifier() as verifier, _progress() as progress:
            bar = progress.add_task("pairs", total=source.stat().st_size, speed="")
            for row, verdict, milliseconds in verifier.all_judged(_rows(source)):
                file.write(json.dumps(_judged_fields(row, verdict, milliseconds)) + "\n")
                tally.outcomes[(verdict.outcome.value, verdict.decided_by) if verdict else ("set aside", "")] += 1
                tally.faults += [row.fault] if row.fault else []
                speed = f"{tally.outcomes.total() / (time.monotonic() - begin):,.0f} pairs/s"
                progress.update(bar, advance=row.size, speed=speed)
        os.chmod(draft, 0o644)
        os.replace(draft, target)
    except BaseException:
        os.unlink(draft)
        raise
    _summary(console, tally, time.monotonic() - begin, target)
    return not tally.faults


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[speed]}"))
    return Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True))


def _rows(source: Path) -> Iterator[Row]:
    with source.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                row = _row(line)
                if row.fault:
                    row.fault = f"{source}:{number}: {row.fault}"
                yield row


def _row(line: bytes) -> Row:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        return Row({"row": line.decode("utf-8", "backslashreplace").rstrip("\n")}, len(line), f"not JSON: {error}")
    if not isinstance(fields, dict):
        return Row({"row": fields}, len(line), "not an object with fields")
    if not isinstance(fields.get("question"), str | None):
        return Row(fields, len(line), "the field question is not text")
    for name in ("gold", "pred", "response"):
        if isinstance(fields.get(name), int | float) and not isinstance(fields[name], bool):
            continue
        if name in fields and not isinstance(fields[name], str):
            return Row(fields, len(line), f"the field {name} is neither text nor a number")
    if "gold" not in fields:
        return Row(fields, len(line), "the field gold is missing")
    if ("pred" in fields) == ("response" in fields):
        return Row(fields, len(line), "exactly one of the fields pred and response is needed")
    return Row(fields, len(line))


def _judged_fields(row: Row, verdict: Verdict | None, milliseconds: float) -> dict[str, Any]:
    if verdict is None:
        return row.fields | {"outcome": None, "tier": None, "milliseconds": None, "error": row.fault}
    judged = {"outcome": verdict.outcome.value, "tier": verdict.decided_by, "milliseconds": round(milliseconds, 3)}
    return row.fields | judged


class _Verifier:
    """Quick tiers here, algebra in one worker process a core."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(len(os.sched_getaffinity(0)), thread_name_prefix="verifier")
        self._local = threading.local()
        self._workers: list[Symbolic] = []

    def __enter__(self) -> _Verifier:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.close()

    def all_judged(self, rows: Iterator[Row]) -> Iterator[tuple[Row, Verdict | None, float]]:
        """(row, verdict, milliseconds) in the order of the rows; no verdict for a row that was set aside."""
        waiting: deque = deque()
        for row in rows:
            waiting.append((row, None if row.fault else self.start(row)))
            if len(waiting) > _AHEAD:
                yield self._finished(*waiting.popleft())
        while waiting:
            yield self._finished(*waiting.popleft())

    @staticmethod
    def _finished(row: Row, result: Any) -> tuple[Row, Verdict | None, float]:
        return (row, None, 0.0) if result is None else (row, *result())

    def start(self, row: Row) -> Any:
        """A function that waits for the verdict and its milliseconds."""
        begin = time.perf_counter()
        gold = asked_reference(str(row.fields["gold"]), row.fields.get("question"))
        if "pred" in row.fields:
            answer = str(row.fields["pred"])
            verdict = verify_answer_quickly(answer, gold)
        else:
            verdict, answer = verify_math_quickly(str(row.fields["response"]), gold)
        quick_ms = 1e3 * (time.perf_counter() - begin)
        if verdict is not None:
            return lambda: (verdict, quick_ms)
        future: Future = self._threads.submit(self._symbolically, answer, gold, quick_ms)
        return future.result

    def _symbolically(self, answer: str, gold: str, quick_ms: float) -> tuple[Verdict, float]:
        if not hasattr(self._local, "symbolic"):
            self._local.symbolic = Symbolic()
            self._workers.append(self._local.symbolic)
        begin = time.perf_counter()
        verdict = verify_math_symbolically(answer, gold, self._local.symbolic)
        return verdict, quick_ms + 1e3 * (time.perf_counter() - begin)


def _summary(console: Console, tally: _Tally, seconds: float, target: Path) -> None:
    table = Table("outcome", "tier", "pairs")
    table.columns[2].justify = "right"
    for (outcome, tier), count in sorted(tally.outcomes.items()):
        table.add_row(outcome, tier, f"{count:,}")
    console.print(table)
    total = tally.outcomes.total()
    console.print(
        f"{total:,} pairs in {seconds:.1f} s, {total / max(seconds, 1e-9):,.0f} a second → {target}", soft_wrap=True
    )
    for fault in tally.faults[:10]:
        console.print(f"set aside: {_printable(fault)}", markup=False, soft_wrap=True)
    if len(tally.faults) > 10:
        console.print(f"… and {len(tally.faults) - 10} more: the rows with `outcome` null say why.")


def _printable(text: str) -> str:
    """Lone surrogates and control characters of a model's answer do not reach the terminal."""
    shown = text.encode("utf-8", "backslashreplace").decode()
    return "".join(
        character if character.isprintable() or character == "\n" else repr(character)[1:-1] for character in shown
    )
