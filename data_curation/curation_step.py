"""A step of curation: a class with its settings as fields, which keeps or rejects rows (`steps.py` lists them)."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.base.draft import DatasetResult
from ratchet.data_curation.base.problem_table import PROBLEM_SCHEMA, from_table
from ratchet.data_curation.readers.templates import clean_statement
from ratchet.data_curation.settings.curation import Curation
from ratchet.data_curation.split import Rejection, Split, partition
from ratchet.verifiers.domains import code_of, domain_of
from ratchet.verifiers.errors import RatchetError, with_place
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.local_pool import VerifierPool
from ratchet.verifiers.serving.pool import Pool

BATCH_ROWS = 4096


class Rows:
    """The rows that a step reads: a table, or a Parquet file of them."""

    def __init__(self, source: pa.Table | Path) -> None:
        self._source = source

    def __len__(self) -> int:
        return pq.read_metadata(self._source).num_rows if isinstance(self._source, Path) else len(self._source)

    def table(self) -> pa.Table:
        """All rows in memory."""
        return self._source if isinstance(self._source, pa.Table) else pq.read_table(self._source)

    def mapped(self, folder: Path | None) -> pa.Table:
        """All rows as one table. A file is mapped from `folder` instead of held in memory."""
        if isinstance(self._source, pa.Table) or folder is None:
            return self.table()
        return on_disk(pq.read_schema(self._source), self.batches(), folder / "rows.arrow")

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
        """The rows in batches; one empty table when there are none."""
        if not isinstance(self._source, Path):
            for first in range(0, max(len(self._source), 1), rows):
                yield self._source.slice(first, rows)
            return
        with pq.ParquetFile(self._source) as parquet:
            for batch in parquet.iter_batches(batch_size=rows):
                yield pa.Table.from_batches([batch])
            if not parquet.metadata.num_rows:
                yield parquet.schema_arrow.empty_table()


def on_disk(schema: pa.Schema, batches: Iterable[pa.Table], file: Path) -> pa.Table:
    """All rows as one table that is mapped from disk; its space is freed with the table."""
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for batch in batches:
            writer.write_table(batch)
    source = pa.memory_map(str(file))
    file.unlink()
    return pa.ipc.open_file(source).read_all()


def held_out(tables: Iterable[pa.Table], domain: str) -> pa.Table:
    """The problems of these tables as one. Rows that reading rejected are held out by their statement, if they have
    one: a benchmark asks it although it cannot be judged here."""
    return pa.concat_tables([_as_items(one, domain) if "rule" in one.column_names else one for one in tables])


def _as_items(rejected: pa.Table, domain: str) -> pa.Table:
    rows = rejected.select(["problem_id", "source", "source_id", "prompt"]).to_pylist()
    items = [row | {"domain": domain, "prompt": clean_statement(row["prompt"] or "").text} for row in rows]
    return pa.Table.from_pylist([item for item in items if item["prompt"]], schema=PROBLEM_SCHEMA)


OpenPool = Callable[..., AbstractContextManager[Pool]]


def _open_pool(workers: int | None = None, local: bool = False, runs_programs: bool = False) -> VerifierPool:
    return VerifierPool(workers) if workers else VerifierPool()


def _one_by_one(judge: Callable[[pa.Table], Split], batches: Iterable[pa.Table], rows: int) -> Iterable[Split]:
    return map(judge, batches)


@dataclass
class StepContext:
    """Inputs and services of a step, besides its settings. The defaults are those of a Python program; a recipe's run
    gives its own."""

    domain: str = "math"
    curation: Curation = field(default_factory=Curation)
    """The recipe's curation of the domain; its section applies to a step that has no settings of its own."""
    seed: int = 0
    verified: str = "strict"
    """The recipe's `verification.math`."""
    benchmarks: Sequence[pa.Table | Path] = ()
    """Held-out problems, and the rejected rows of benchmarks, for a step that needs `benchmarks`."""
    attempts: pa.Table | Path | None = None
    """The teacher's answers, for a step that needs `attempts`."""
    folder: Path | None = None
    """A folder for files while the step runs; those of a killed run are still there if the step is `resumable`. A file
    whose name ends in `base.files.HALF_WRITTEN` is removed when the step's rows are stored."""
    each: Callable[[Callable[[pa.Table], Split], Iterable[pa.Table], int], Iterable[Split]] = _one_by_one
    """Apply a function to all batches, in several processes, in order; the number is that of all rows."""
    open_pool: OpenPool = _open_pool
    """Open a pool that judges. `local`: on this machine in any case; `runs_programs`: its isolation is recorded."""
    progress: Callable[[int, int], None] = lambda done, total: None
    warning: Callable[[str], None] = lambda text: None
    result: DatasetResult = field(default_factory=DatasetResult)
    """Facts about the whole step, for its manifest."""

    def items(self) -> pa.Table:
        """All held-out problems (`held_out`)."""
        return held_out((Rows(one).table() for one in self.benchmarks), self.domain)

    def attempt_batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        """The teacher's answers in batches: together they may be larger than memory."""
        assert self.attempts is not None, "a step that needs attempts comes after the teacher"
        if isinstance(self.attempts, Path):
            return pq.ParquetFile(self.attempts).iter_batches(rows)
        return iter(self.attempts.to_batches(rows))

    def count_attempts(self) -> int:
        return len(Rows(self.attempts)) if self.attempts is not None else 0

    def judged(self) -> dict[str, str]:
        """The part of `verification.math` in the keys of steps that judge responses."""
        is_either = self.verified == "either" and domain_of(self.domain).compares_math
        return {"verified": "either"} if is_either else {}


class CurationStep(ABC):
    """One step of curation: rows in, kept and rejected rows out. Settings are the fields of the dataclass; they are in
    the key of the step's artifact, as are `version`, the rows and the source of `code`."""

    name: ClassVar[str]
    version: ClassVar[int] = 1
    """Raise it when the same rows and settings give other rows."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Inputs that the step needs: `benchmarks`; `attempts` of the teacher; `teacher` for a step that only comes after
    the attempts."""
    resumable: ClassVar[bool] = False
    """True if the next run continues with the files that a killed one left in the folder."""

    @property
    def needs_teacher(self) -> bool:
        return bool({"attempts", "teacher"} & {*self.needs})

    def parameters(self, context: StepContext) -> Any:
        """The settings that the result depends on, for the key."""
        return asdict(self) if is_dataclass(self) and not isinstance(self, type) else {}

    def code(self, context: StepContext) -> Sequence[str]:
        """Import paths of other code that the result depends on, for the key."""
        return [f"{type(self).__module__}:{type(self).__qualname__}"]

    def check(self, context: StepContext) -> None:  # noqa: B027  # most steps have nothing to check
        """Raise RatchetError for settings that cannot work, before anything runs."""

    @abstractmethod
    def run(self, rows: Rows, context: StepContext) -> Iterable[Split]:
        """Yield splits that together have each row once, in order."""


def accounted(step: CurationStep, rows: Rows, splits: Iterable[Split]) -> Iterator[Split]:
    """The splits of a step. Raises RatchetError at the end unless they have as many rows as it was given."""
    counts = list[int]()
    for split in splits:
        counts.append(split.summary["rows_in"])
        yield split
    if not counts or sum(counts) != len(rows):
        raise RatchetError(
            f"the step {step.name} accounts for {sum(counts):,} of {len(rows):,} rows in {len(counts):,} splits: its "
            "`run` yields splits, one at least, that together have each row once, kept or rejected."
        )


class ProblemFilter(CurationStep):
    """A step that looks at one problem at a time. `judge` gives the evidence against it, or None to keep it. In the
    funnel, its rule has the step's name."""

    @abstractmethod
    def judge(self, problem: Problem) -> Mapping[str, Any] | None: ...

    def run(self, rows: Rows, context: StepContext) -> Iterable[Split]:
        return context.each(partial(_filtered, self), rows.batches(), len(rows))


def _judged(step: ProblemFilter, problem: Problem) -> Mapping[str, Any] | None:
    """The step's evidence. Raises RatchetError that names the row for an exception, and for what is no evidence."""
    where = f"row {problem.source_id} of {problem.source}"
    try:
        evidence: object = step.judge(problem)
    except Exception as error:
        raise RatchetError(
            f"the step {step.name} fails on {where}: {with_place(error)}. `ratchet --debug` shows the traceback."
        ) from error
    if evidence is None or isinstance(evidence, Mapping):
        return evidence
    raise RatchetError(
        f"the step {step.name}: judge returns a dict of evidence to drop a row, or None to keep it; for {where} it "
        f"returned {evidence!r}."
    )


def _filtered(step: ProblemFilter, table: pa.Table) -> Split:
    evidence = [_judged(step, problem) for problem in from_table(table)]
    return partition(
        step.name, [step.name], table, [None if each is None else Rejection(step.name, each) for each in evidence]
    )


def curation_code(domain: str) -> list[str]:
    """Import paths of the code that reads a domain's problems and rejects them."""
    return [*code_of([domain]), domain_of(domain).curation]
