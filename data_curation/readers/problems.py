"""From a file to problems: find the format by the columns, convert each row, reject what cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from data_curation.readers import code_formats, math_formats
from data_curation.readers.columns import Row, has, take, take_date
from data_curation.readers.raw_files import Malformed, read_rows
from data_curation.rules.math_rules import asks_for_proof
from data_curation.split import Split, assemble, set_column, to_json
from data_curation.templates import clean_statement
from infra.errors import RatchetError
from infra.problems import DOMAINS, PROBLEM_SCHEMA, problem_id

RULES = ("malformed", "other_domain")
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
    return _read(Path(path), domain, complete=True)


def read_benchmark(path: Path, domain: str) -> Split:
    """As `read_problems`, for held-out items: one without an answer or tests is still worth protecting. Statements come
    without the templates that the file puts around them, as `normalisation` gives those of the rows."""
    split = _read(Path(path), domain, complete=False)
    columns = (split.kept.column(name).to_pylist() for name in ("prompt", "entry_point"))
    clean = [(clean_statement(prompt)[0], entry_point) for prompt, entry_point in zip(*columns, strict=True)]
    kept = set_column(split.kept, "prompt", [prompt for prompt, _ in clean])
    return replace(split, kept=set_column(kept, "problem_id", [problem_id(domain, *item) for item in clean]))


def _read(path: Path, domain: str, complete: bool) -> Split:
    if domain not in DOMAINS:
        raise RatchetError(f"{path}: there is no domain {domain!r}; there are {' and '.join(DOMAINS)}")
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
    source = path.name.split(".json")[0].removesuffix(".parquet")
    kept, rejected = [], []
    for number, row in enumerate(chain(first, rows)):
        place = {"source": source, "source_id": str(number)}
        statement = None if isinstance(row, Malformed) else _statement(row)
        try:
            if isinstance(row, Malformed):
                raise row
            problem = _problem(layout, row, domain) | place
            if problem["domain"] != domain:
                evidence = {"domain": problem["domain"]}
                rejected.append(_rejected(problem, place, "other_domain", evidence))
                continue
            # A proof is published without an answer; that it is one is for the rules to say.
            if complete and domain == "math" and not (problem.get("answer") or asks_for_proof(problem["prompt"])):
                raise Malformed("answer", "missing or empty")
            kept.append(problem)
        except (Malformed, KeyError, TypeError, ValueError, AttributeError) as error:
            # A published row can be wrong in any way; whatever it does to its reader is evidence, not our failure.
            field, reason = (error.field, error.reason) if isinstance(error, Malformed) else ("row", repr(error)[:200])
            rejected.append(_rejected({"prompt": statement}, place, "malformed", {"field": field, "reason": reason}))
    table = pa.Table.from_pylist(kept, schema=PROBLEM_SCHEMA)
    return assemble("read", RULES, table, rejected, format=layout.name, file=path.name)


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
    """What can be shown of a row that could not be read."""
    names = (*math_formats.STATEMENTS, "question_content", "description", "query")
    return next((row[name] for name in names if isinstance(row.get(name), str)), None)


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
    return problem | {"released": take_date(problem, "released")}


def _verl(row: Row) -> Row:
    """verl, Eurus-2-RL, Skywork-OR1: a chat, and a ground truth whose shape tells the domain where `ability` does not.
    Only the user's turn is the problem: system prompts would meet in every n-gram."""
    turns = [turn["content"] for turn in row.pop("prompt") if turn["role"] == "user"]
    if not turns or not turns[-1]:
        raise Malformed("prompt", "no user message")
    truth = (row.pop("reward_model", None) or {}).get("ground_truth")
    ability = str(row.get("ability") or "").lower()
    looks_like_tests = isinstance(truth, dict) or (isinstance(truth, str) and '"input' in truth[:200])
    if "cod" in ability or (ability != "math" and looks_like_tests):
        columns = code_formats.verl_code(row, truth) | {"domain": "code"}
    else:
        columns = math_formats.verl_math(row, truth) | {"domain": "math"}
    return columns | {"prompt": turns[-1], "source_url": take(row, "url")}


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
