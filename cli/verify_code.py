"""Judging programs from files: a bulk run with a verdict for each row, or one program explained."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ratchet.infra.errors import RatchetError
from ratchet.infra.problems import PROBLEM_SCHEMA, CodeTest, Problem
from ratchet.verifiers.code.judge import TestResult, examine
from ratchet.verifiers.code.problem import InvalidProblem, read_problem
from ratchet.verifiers.extraction import python_program
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.sandbox.server import Sandbox

AHEAD = 16
"""Solutions in hand for each worker: enough to keep it busy, little enough to hold in memory."""
Place = tuple[str, int]
Row = dict[str, Any]


# --------------------------------------------------------------------------------------------- reading


def numbered_rows(path: Path) -> Iterator[tuple[Place, Row | str]]:
    """Each row of a JSONL or Parquet file with its file and line (Parquet: row), from 1; a text is the reason why it is
    no row. Raises RatchetError when there is no such file, or it cannot be read at all."""
    try:
        with path.open("rb") as file:
            if file.peek(4)[:4] == b"PAR1":
                rows = (row for batch in pq.ParquetFile(file).iter_batches(1024) for row in batch.to_pylist())
                yield from (((path.name, number), row) for number, row in enumerate(rows, 1))
                return
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield (path.name, number), _json_row(line)
    except (OSError, pa.ArrowException) as error:
        raise RatchetError(f"{path}: cannot be read ({error}). Give a JSONL or a Parquet file.") from None


def _json_row(line: bytes) -> Row | str:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"not valid JSON ({error})"
    return row if isinstance(row, dict) else f"{type(row).__name__} instead of an object"


def _problem(row: Row | str) -> Problem:
    """Raises ValueError with the field and the reason."""
    if isinstance(row, str):
        raise ValueError(row)
    if not isinstance(row.get("problem_id"), str) or not row["problem_id"]:
        raise ValueError("problem_id: missing, or not text")
    if row.get("domain", "code") != "code":
        raise ValueError(f"domain: {row['domain']!r} instead of 'code'")
    fields = {"domain": "code", "prompt": ""} | {name: row[name] for name in PROBLEM_SCHEMA.names if name in row}
    for name in ("tests", "metadata"):  # JSON text in the schema; written by hand, often the structure itself
        if isinstance(fields.get(name), list | dict):
            fields[name] = json.dumps(fields[name])
    return Problem(**fields)


def _program(row: Row | str, problems: dict[str, Problem]) -> tuple[Problem, str | None]:
    """What to judge; None as a program when the response has none. Raises ValueError with the field and the reason."""
    if isinstance(row, str):
        raise ValueError(row)
    problem_id = row.get("problem_id")
    if problem_id is None:
        raise ValueError("problem_id: missing")
    if not isinstance(problem_id, str) or problem_id not in problems:
        raise ValueError(f"problem_id: {problem_id!r} is not among the problems")
    if isinstance(row.get("code"), str):
        return problems[problem_id], row["code"]
    if isinstance(row.get("response"), str):
        return problems[problem_id], python_program(row["response"])
    raise ValueError("neither `code` nor `response` is there as text")


class _Rejects:
    """Rows that cannot be used: kept with their place and the reason, in a file that exists when there are any."""

    def __init__(self, path: Path) -> None:
        self.path, self.rows = path, []

    def add(self, place: Place, row: Row | str, reason: str) -> None:
        known = {"row": row} if isinstance(row, dict) else {}
        self.rows.append({"file": place[0], "line": place[1], "reason": reason} | known)

    def write(self) -> None:
        if self.rows:
            _write_lines(self.path, self.rows)
        else:
            self.path.unlink(missing_ok=True)


def _read_problems(path: Path, rejects: _Rejects) -> dict[str, Problem]:
    problems: dict[str, Problem] = {}
    for place, row in numbered_rows(path):
        try:
            problem = _problem(row)
            if problem.problem_id in problems:
                raise ValueError(f"problem_id: {problem.problem_id!r} is there already, further up")
            problems[problem.problem_id] = problem
        except ValueError as error:
            rejects.add(place, row, str(error))
    return problems


# --------------------------------------------------------------------------------------------- judging


class _Workers:
    """Threads with a sandbox each."""

    def __init__(self, count: int) -> None:
        self._threads = ThreadPoolExecutor(count, "verifier")
        self._own = threading.local()
        self._sandboxes: list[Sandbox] = []

    def submit(self, problem: Problem, source: str | None) -> Future[tuple[Verdict, list[TestResult]]]:
        return self._threads.submit(self._judge, problem, source)

    def _judge(self, problem: Problem, source: str | None) -> tuple[Verdict, list[TestResult]]:
        if source is None:
            return Verdict(Outcome.UNPARSEABLE, decided_by="no_answer", detail="no closed block of Python"), []
        if not hasattr(self._own, "sandbox"):
            self._own.sandbox = Sandbox()
            self._sandboxes.append(self._own.sandbox)
        return examine(problem, source, self._own.sandbox, fraction=True)

    def __enter__(self) -> _Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)
        for sandbox in self._sandboxes:
            sandbox.close()


def _columns(problem: Problem, verdict: Verdict, results: list[TestResult]) -> Row:
    try:
        total = len(read_problem(problem).tests)
    except InvalidProblem:
        total = 0
    return {
        "outcome": verdict.outcome.value,
        "decided_by": verdict.decided_by,
        "detail": verdict.detail,
        "passed": sum(result.status == "passed" for result in results),
        "total": total,
        "tests": [
            {"index": r.index, "status": r.status, "difference": r.difference, "seconds": round(r.seconds, 6)}
            for r in results
        ],
    }


def verify_code_files(console: Console, problems: Path, solutions: Path, output: Path, workers: int | None) -> bool:
    """Judge every row of `solutions`; False when some could not be judged.

    `output` gets each row of `solutions` in its order, with `outcome`, `decided_by`, `detail`, `passed`, `total` and
    `tests`, and appears when all is done; rows that cannot be used go to `<output>.rejected.jsonl`.
    """
    if output.resolve() in (problems.resolve(), solutions.resolve()) or not output.parent.is_dir():
        raise RatchetError(f"{output}: name a file of its own, in a directory that exists.")
    rejects = _Rejects(output.with_name(output.name + ".rejected.jsonl"))
    known = _read_problems(problems, rejects)
    if not known:
        raise RatchetError(f"{problems}: no problem in it can be read; the first reason: {_first(rejects)}")
    count = sum(1 for _ in numbered_rows(solutions))
    outcomes: Counter[str] = Counter()
    unjudged: Counter[str] = Counter()
    begin = time.monotonic()
    with ExitStack() as stack:
        hands = stack.enter_context(_Workers(workers or len(os.sched_getaffinity(0))))
        progress = stack.enter_context(_progress(console))
        task = progress.add_task("judging", total=count, rate="")

        def judged() -> Iterator[Row]:
            for row, problem, (verdict, results) in _in_order(solutions, known, rejects, hands):
                outcomes[verdict.outcome.value] += 1
                if verdict.decided_by in ("invalid_problem", "sandbox"):
                    unjudged[f"{problem.problem_id}: {verdict.detail}"] += 1
                seconds = time.monotonic() - begin
                progress.update(task, completed=outcomes.total(), rate=f"{outcomes.total() / seconds:.1f} a second")
                yield row | _columns(problem, verdict, results)

        _write_lines(output, judged())
    rejects.write()
    seconds = time.monotonic() - begin
    summary = ", ".join(f"{name} {number:,}" for name, number in sorted(outcomes.items())) or "nothing"
    rate = f"{outcomes.total() / seconds:.1f} solutions a second"
    console.print(Text(f"{outcomes.total():,} judged: {summary}; {seconds:.1f} s, {rate}. {output}"), soft_wrap=True)
    for reason, number in unjudged.most_common(5):
        console.print(Text(f"{number} could not be judged: problem {reason}"), soft_wrap=True)
    if rejects.rows:
        told = f"{len(rejects.rows):,} rows set aside, the first {_first(rejects)}. All are in {rejects.path}"
        console.print(Text(told), soft_wrap=True)
    return not unjudged and not rejects.rows


def _in_order(
    solutions: Path, problems: dict[str, Problem], rejects: _Rejects, hands: _Workers
) -> Iterator[tuple[Row, Problem, tuple[Verdict, list[TestResult]]]]:
    waiting: deque[tuple[Row, Problem, Future]] = deque()
    ahead = AHEAD * hands._threads._max_workers
    for place, row in numbered_rows(solutions):
        try:
            problem, source = _program(row, problems)
        except ValueError as error:
            rejects.add(place, row, str(error))
            continue
        waiting.append((row, problem, hands.submit(problem, source)))
        if len(waiting) > ahead:
            row, problem, future = waiting.popleft()
            yield row, problem, future.result()
    for row, problem, future in waiting:
        yield row, problem, future.result()


def _first(rejects: _Rejects) -> str:
    if not rejects.rows:
        return "the file is empty"
    first = rejects.rows[0]
    return f"{first['file']}:{first['line']}: {first['reason']}"


def _progress(console: Console) -> Progress:
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    return Progress(*columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal)


def _write_lines(path: Path, rows: Iterable[Row]) -> None:
    """All or nothing: through a temporary file beside it."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(row, default=str) + "\n")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


# ------------------------------------------------------------------------------------------ explaining


def explain_code(console: Console, problems: Path, problem_id: str | None, solution: Path) -> bool:
    """Show how one program does on each test; True when it passes. A file that does not end in `.py` is a response
    that holds a program."""
    rejects = _Rejects(problems)
    known = _read_problems(problems, rejects)
    if problem_id is None and len(known) == 1:
        [problem_id] = known
    if problem_id not in known:
        named = ", ".join(list(known)[:5]) or f"none that can be read ({_first(rejects)})"
        raise RatchetError(f"{problems}: no problem {problem_id!r}. Say --problem with one of its ids: {named}")
    problem = known[problem_id]
    try:
        text = solution.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RatchetError(f"{solution}: cannot be read ({error}). Give a text file in UTF-8.") from None
    source = text if solution.suffix == ".py" else python_program(text)
    with _Workers(1) as hands:
        verdict, results = hands.submit(problem, source).result()
    table = Table("test", "status", "seconds", "first difference", box=None, padding=(0, 2, 0, 0))
    for r in results:
        style = "green" if r.status == "passed" else "red"
        table.add_row(str(r.index), Text(r.status, style=style), f"{r.seconds:.4f}", Text(r.difference))
    console.print(table)
    passed = sum(result.status == "passed" for result in results)
    console.print(f"\n[bold]{verdict.outcome.value}[/]: {passed} of {len(results)} tests passed ({verdict.decided_by})")
    failed = next((result for result in results if result.status != "passed"), None)
    if failed is not None:
        _show_failed(console, read_problem(problem).tests[failed.index], failed)
    elif not verdict.passed:
        console.print(Text(verdict.detail))
    return verdict.passed


def _show_failed(console: Console, test: CodeTest, result: TestResult) -> None:
    console.print(f"\nThe first failing test is number {result.index}.")
    if test.check is not None:
        console.print(Text(f"check     {_cut(test.check)}"), soft_wrap=True)
    else:
        given = test.input if test.call is None else json.dumps(test.call)
        console.print(Text(f"given     {_cut(given or '')}\nexpected  {_cut(json.dumps(test.output))}"), soft_wrap=True)
    console.print(Text(f"result    {result.got}"), soft_wrap=True)


def _cut(text: str, characters: int = 1000) -> str:
    return text if len(text) <= characters else f"{text[:characters]}… ({len(text):,} characters)"
