"""Curated problems in the formats of other trainers, each one declaration: docs/howto/other_trainers.md.

In every format, the text column `ratchet_problem` (`verifiers.serving.rows`) has all that a verdict needs, so every
domain can be exported and each trainer's adapter (`verifiers.adapters`) gives Ratchet's verdicts.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.base.files import replacing
from ratchet.data_curation.base.problem_table import PROBLEM_SCHEMA, from_table
from ratchet.data_curation.base.prompts import PromptFormat, user_message
from ratchet.verifiers.domain import NotExpressible
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.rows import COLUMN, encode
from ratchet.verifiers.yaml_files import load_yaml

Row = dict[str, Any]
ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class Source:
    """A problem to export, with its number."""

    problem: Problem
    number: int
    split: str = "train"
    prompt: PromptFormat = field(default_factory=PromptFormat)
    data_source: str = ""
    """The name of one of verl's own reward functions, to use instead of ours."""

    @property
    def message(self) -> str:
        return user_message(self.problem, self.prompt)

    @property
    def chat(self) -> list[Row]:
        return [*self.prompt.turns(self.message)]

    @property
    def encoded(self) -> str:
        return encode(self.problem, self.prompt.response_prefix)


Columns = Mapping[str, tuple[pa.DataType, Callable[[Source], Any]]]


@dataclass(frozen=True)
class Export:
    """A trainer's format: its columns, and instructions for training."""

    columns: Columns
    usage: str
    """Instructions for training with the export, for its README; `{train}` and `{validation}` are its files."""

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, kind) for name, (kind, _) in self.columns.items()])

    def row(self, source: Source) -> Row:
        """The exported row. Raises NotExpressible if verl's own reward function, where one was asked for, cannot judge
        the problem."""
        return {name: value(source) for name, (_, value) in self.columns.items()}


def _own(name: str) -> tuple[pa.DataType, Callable[[Source], Any]]:
    return PROBLEM_SCHEMA.field(name).type, lambda source: getattr(source.problem, name)


def _nested(columns: Columns) -> tuple[pa.DataType, Callable[[Source], Any]]:
    kind = pa.struct([(name, kind) for name, (kind, _) in columns.items()])
    return kind, lambda source: {name: value(source) for name, (_, value) in columns.items()}


def _truth(source: Source) -> str:
    domain = domain_of(source.problem.domain)
    return domain.ground_truth(source.problem) if source.data_source else source.problem.answer or ""


_CHAT = pa.list_(pa.struct([("role", pa.string()), ("content", pa.large_string())]))
_PROBLEM: Columns = {COLUMN: (pa.large_string(), lambda source: source.encoded)}
_ORIGIN: Columns = {
    name: _own(name) for name in ("problem_id", "domain", "source", "source_url", "difficulty", "starter_code")
}
_PROMPT: Columns = {"prompt": (_CHAT, lambda source: source.chat)}
_ROW: Columns = {**_PROMPT, **_PROBLEM, "answer": _own("answer"), **_ORIGIN}

_COLUMNS: dict[str, Columns] = {
    "verl": {
        "data_source": (pa.string(), lambda source: source.data_source or f"ratchet/{source.problem.domain}"),
        **_PROMPT,
        "ability": (pa.string(), lambda source: source.problem.domain),
        "reward_model": _nested(
            {"style": (pa.string(), lambda source: "rule"), "ground_truth": (pa.large_string(), _truth)}
        ),
        "extra_info": _nested(
            {
                "split": (pa.string(), lambda source: source.split),
                "index": (pa.int64(), lambda source: source.number),
                **_PROBLEM,
                **_ORIGIN,
                "entry_point": _own("entry_point"),
            }
        ),
    },
    "trl": _ROW,
    "openrlhf": {**_PROMPT, **_PROBLEM, **_ORIGIN, "datasource": (pa.string(), lambda source: source.problem.domain)},
    "nemo-rl": {"input": (pa.large_string(), lambda source: source.message), **_PROBLEM, **_ORIGIN},
    "open-instruct": {
        "messages": (_CHAT, lambda source: source.chat),
        "ground_truth": _PROBLEM[COLUMN],
        "dataset": (pa.string(), lambda source: "ratchet"),
        **_ORIGIN,
    },
    "prime-rl": _ROW,
    "ratchet": {name: _own(name) for name in PROBLEM_SCHEMA.names},
}
_USAGE = load_yaml(Path(__file__).with_name("exports.yaml"))
EXPORTS = {name: Export(columns, _USAGE.get(name, "")) for name, columns in _COLUMNS.items()}


def export_problems(
    problems: pa.Table | Path, target: Path, format: str, prompt: PromptFormat | None = None, data_source: str = ""
) -> tuple[int, Counter[str]]:
    """Write problems, a table or a Parquet file of them, to the Parquet file `target` in this trainer's format. The
    split in the rows is the target's name. Returns the number of written problems, and of omitted ones by reason: with
    `data_source`, verl's own reward functions judge, and cannot judge every problem. Raises RatchetError for an unknown
    format."""
    if format not in EXPORTS:
        raise RatchetError(f"There is no format {format!r}. Known: {', '.join(EXPORTS)}.")
    to, left_out, written = EXPORTS[format], Counter[str](), 0
    with ExitStack() as stack:
        if isinstance(problems, Path):
            batches = stack.enter_context(pq.ParquetFile(problems)).iter_batches(batch_size=ROWS_AT_ONCE)
        else:
            batches = problems.to_batches(ROWS_AT_ONCE)
        draft = stack.enter_context(replacing(target))
        writer = stack.enter_context(pq.ParquetWriter(draft, to.schema))
        for batch in batches:
            rows = []
            for problem in from_table(pa.Table.from_batches([batch])):
                source = Source(problem, written + len(rows), target.stem, prompt or PromptFormat(), data_source)
                try:
                    rows.append(to.row(source))
                except NotExpressible as reason:
                    left_out[str(reason)] += 1
            written += len(rows)
            writer.write_table(pa.Table.from_pylist(rows, schema=to.schema))
    return written, left_out
