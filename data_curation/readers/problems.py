"""From a file to problems: find the format by the columns, convert each row, reject what cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from ratchet.data_curation.readers import code_formats, math_formats
from ratchet.data_curation.readers.columns import (
    Row,
    has,
    parse_structure,
    take,
    take_date,
    take_statement,
    unicode_text,
)
from ratchet.data_curation.readers.raw_files import Malformed, read_rows
from ratchet.data_curation.readers.sources import source_names
from ratchet.data_curation.rules.math_rules import asks_for_proof
from ratchet.data_curation.split import Split, assemble, joined, set_column, to_json
from ratchet.data_curation.templates import clean_statement
from ratchet.infra.errors import RatchetError
from ratchet.infra.problems import PROBLEM_SCHEMA, problem_id

RULES = ("malformed", "other_domain")
BENCHMARK_RULES = (*RULES, "outside_window")
Window = tuple[date, date]  # from the first day up to, but not including, the second
BATCH_ROWS, BATCH_CHARACTERS = 4096, 32_000_000
"""A batch is full when it has so many rows, or so much text: a row with its tests can be megabytes."""
_ROWS_LOOKED_AT = 50  # to tell the format; a column may be absent from the rows in which it is null


@dataclass(frozen=True)
class Format:
    """A published layout. `convert` takes what it knows out of the row and returns columns of `PROBLEM_SCHEMA`."""

    name: str
    domain: str | None  # None: each row says its own
    matches: Callable[[set[str]], bool]
    convert: Callable[[Row], Row]


def read_problems(path: Path, domain: str) -> Split:
    """Every row of `path` as a problem of `domain` (`math` or `code`), or rejected as `malformed` or `other_domain`.

    `source` is the file's name without its endings, `source_id` the number of the row in the file, from 0. Raises
    RatchetError for a file that is missing, unreadable, empty, or in no known format.
    """
    return joined(read_batches(Path(path), domain))


def read_batches(
    path: Path, domain: str, source: str = "", complete: bool = True, window: Window | None = None
) -> Iterator[Split]:
    """The same batch by batch, in order, so that a file of any size is read in the same memory. `source` tells it from
    others of its name. With `complete` false, a row may lack its answer; with a window, rows released outside it are
    rejected as `outside_window`."""
    rows = read_rows(path)
    first = list(islice(rows, _ROWS_LOOKED_AT))
    columns = set().union(*(row for row in first if isinstance(row, dict)))
    if not columns:
        raise RatchetError(f"{path}: no row of it can be read as a problem. Is it the right file?")
    layout = detect(columns, domain)
    if layout is None:
        raise RatchetError(
            f"{path}: unknown {domain} format, its columns are {', '.join(sorted(columns))}. "
            f"Known are {', '.join(f.name for f in FORMATS if f.domain in (None, domain))}; docs/curation.md lists "
            "the columns each one has."
        )
    batch = _Batch(path, source or source_names([path])[0], layout, domain, complete, window)
    for number, row in enumerate(chain(first, rows)):
        batch.add(number, row)
        if batch.full:
            yield batch.split()
    if batch.kept or batch.rejected:
        yield batch.split()


def read_benchmark(path: Path, domain: str, window: Window | None = None, source: str = "") -> Split:
    """As `read_problems`, for held-out items: one without an answer or tests is still worth protecting. Statements come
    without the templates that the file puts around them, as `normalisation` gives those of the rows. With a window,
    rows released before its first day, on its last or later, or nobody knows when, are rejected as `outside_window`."""
    split = joined(read_batches(Path(path), domain, source, complete=False, window=window))
    columns = (split.kept.column(name).to_pylist() for name in ("prompt", "entry_point"))
    clean = [(clean_statement(prompt)[0], entry_point) for prompt, entry_point in zip(*columns, strict=True)]
    kept = set_column(split.kept, "prompt", [prompt for prompt, _ in clean])
    return replace(split, kept=set_column(kept, "problem_id", [problem_id(domain, *item) for item in clean]))


class _Batch:
    """Rows that are read but not yet a table."""

    def __init__(
        self, path: Path, source: str, layout: Format, domain: str, complete: bool, window: Window | None
    ) -> None:
        self.path, self.source, self.layout = path, source, layout
        self.domain, self.complete, self.window = domain, complete, window
        self.kept: list[Row] = []
        self.rejected: list[Row] = []
        self.characters = 0

    @property
    def full(self) -> bool:
        return len(self.kept) + len(self.rejected) >= BATCH_ROWS or self.characters >= BATCH_CHARACTERS

    def add(self, number: int, row: Row | Malformed) -> None:
        place = {"source": self.source, "source_id": str(number)}
        statement = None if isinstance(row, Malformed) else _statement(row)
        try:
            if isinstance(row, Malformed):
                raise row
            problem = _problem(self.layout, row, self.domain) | place
            if problem["domain"] != self.domain:
                self.rejected.append(_rejected(problem, place, "other_domain", {"domain": problem["domain"]}))
                return
            if self.window and not _inside(problem.get("released"), self.window):
                evidence = {"released": str(problem.get("released")), "window": [str(day) for day in self.window]}
                self.rejected.append(_rejected(problem, place, "outside_window", evidence))
                return
            # A proof is published without an answer; that it is one is for the rules to say.
            if self.complete and self.domain == "math" and not (
                problem.get("answer") or asks_for_proof(problem["prompt"])
            ):  # fmt: skip
                raise Malformed("answer", "missing or empty")
            self.kept.append(problem)
            self.characters += sum(len(value) for value in problem.values() if isinstance(value, str))
        except (Malformed, LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            # A published row can be wrong in any way; whatever it does to its reader is evidence, not our failure.
            fault = error if isinstance(error, Malformed) else Malformed("row", repr(error)[:200])
            self._reject(place, statement, fault)

    def split(self) -> Split:
        """What was added, as a table; what no table can hold is malformed. Empties the batch."""
        try:
            table = pa.Table.from_pylist(self.kept, schema=PROBLEM_SCHEMA)
        except _UNFIT:
            fit = []
            for problem in self.kept:
                if fault := _unfit(problem):
                    self._reject(problem, problem["prompt"] if fault.field != "prompt" else None, fault)
                else:
                    fit.append(problem)
            table = pa.Table.from_pylist(fit, schema=PROBLEM_SCHEMA)
        rejected = sorted(self.rejected, key=lambda row: int(row["source_id"]))
        *folders, _ = self.source.split("/")
        files = {f"{'/'.join([*folders, self.path.name])} ({self.layout.name})": len(table) + len(rejected)}
        self.kept, self.rejected, self.characters = [], [], 0
        return assemble("read", BENCHMARK_RULES if self.window else RULES, table, rejected, files=files)

    def _reject(self, place: Row, statement: str | None, fault: Malformed) -> None:
        place = {name: place[name] for name in ("source", "source_id")}
        evidence = {
            "file": self.path.name,
            "row": int(place["source_id"]),
            "field": fault.field,
            "reason": fault.reason,
        }
        self.rejected.append(_rejected({"prompt": statement}, place, "malformed", evidence))


def _inside(released: date | None, window: Window) -> bool:
    return released is not None and window[0] <= released < window[1]


_UNFIT = (pa.ArrowException, ValueError, TypeError, OverflowError)


def _unfit(problem: Row) -> Malformed | None:
    """Which column of this row no table can hold, if one cannot."""
    for column in PROBLEM_SCHEMA:
        try:
            pa.array([problem.get(column.name)], column.type)
        except _UNFIT as error:
            return Malformed(column.name, str(error)[:200])
    return None


def detect(columns: set[str], domain: str) -> Format | None:
    """The first known format of this domain whose columns are there."""
    return next((f for f in FORMATS if f.domain in (None, domain) and f.matches(columns)), None)


def _problem(layout: Format, row: Row, domain: str) -> Row:
    row = dict(row)
    problem = {"domain": layout.domain or domain} | layout.convert(row)
    problem["metadata"] = problem.get("metadata") or to_json({k: v for k, v in row.items() if v is not None})
    problem["problem_id"] = problem_id(problem["domain"], problem["prompt"], problem.get("entry_point"))
    return problem


def _statement(row: Row) -> str | None:
    """What can be shown of a row that could not be read; half a surrogate pair as its number."""
    names = (*math_formats.STATEMENTS, "question_content", "description", "query")
    text = next((row[name] for name in names if isinstance(row.get(name), str)), None)
    return None if text is None else text.encode("utf-8", "backslashreplace").decode()


def _rejected(problem: Row, place: Row, rule: str, evidence: Any) -> Row:
    return place | {
        "problem_id": problem.get("problem_id"),
        "step": "read",
        "rule": rule,
        "evidence": to_json(evidence),
        "prompt": problem.get("prompt"),
    }


def _ratchet(row: Row) -> Row:
    """Our own Parquet, so that what one curation kept can be another's input."""
    problem = {name: row.pop(name, None) for name in PROBLEM_SCHEMA.names}
    if not isinstance(problem["prompt"], str) or not problem["prompt"].strip():
        raise Malformed("prompt", "missing or empty")
    unicode_text("prompt", problem["prompt"])
    return problem | {"released": take_date(problem, "released")}


def _verl(row: Row) -> Row:
    """verl, Eurus-2-RL, Skywork-OR1. Where `ability` does not tell the domain, the shape of the ground truth does."""
    prompt = take_statement(row, "prompt")
    reward = row.pop("reward_model", None)
    reward = parse_structure(reward, "reward_model") if isinstance(reward, str) else reward
    if not isinstance(reward, dict) or reward.get("ground_truth") in (None, "", []):
        raise Malformed("reward_model", "no ground_truth")
    truth = reward["ground_truth"]
    ability = str(row.get("ability") or "").lower()
    looks_like_tests = isinstance(truth, dict) or (isinstance(truth, str) and '"input' in truth[:200])
    if "cod" in ability or (ability != "math" and looks_like_tests):
        columns = code_formats.verl_code(row, truth) | {"domain": "code"}
    else:
        columns = math_formats.verl_math(row, truth) | {"domain": "math"}
    return columns | {"prompt": prompt, "source_url": take(row, "url")}


FORMATS = (
    Format("ratchet", None, lambda c: has(c, "problem_id", "domain", "prompt", "metadata"), _ratchet),
    Format("verl", None, lambda c: has(c, "prompt", "reward_model"), _verl),
    Format(
        "math",
        "math",
        lambda c: bool(c & set(math_formats.STATEMENTS) and c & {*math_formats.ANSWERS, *math_formats.SOLUTIONS}),
        math_formats.plain_math,
    ),
    Format("leetcode", "code", lambda c: has(c, "task_id", "completion", "entry_point"), code_formats.leetcode),
    Format("humaneval", "code", lambda c: has(c, "prompt", "canonical_solution", "test"), code_formats.humaneval),
    Format("mbpp", "code", lambda c: has(c, "code", "test_list"), code_formats.mbpp),
    Format("codeforces", "code", lambda c: has(c, "description", "official_tests"), code_formats.codeforces),
    Format("taco", "code", lambda c: has(c, "question", "input_output"), code_formats.taco),
    Format("code-contests", "code", lambda c: has(c, "description", "public_tests"), code_formats.code_contests),
    Format(
        "livecodebench", "code", lambda c: has(c, "question_content", "public_test_cases"), code_formats.livecodebench
    ),
    Format(
        "code",
        "code",
        lambda c: bool(c & {"problem", "question", "prompt", "description"} and c & {"tests", "test_cases"}),
        code_formats.plain_code,
    ),
)
