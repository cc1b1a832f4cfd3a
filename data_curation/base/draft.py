"""The directory that a step fills; the store then finishes it into an artifact."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel

KEPT = "kept.parquet"
REJECTED = "rejected.parquet"
ROW_GROUP = 1 << 17
"""Rows per Parquet row group: one group is held in memory."""


class StepResult(BaseModel):
    """Facts about a step's output that its manifest records; each kind of artifact may add fields."""

    headline: str = ""
    """The result in one line."""
    metrics: dict[str, float | int | None] = {}
    shown: list[str] = []
    """Files for a person to look at."""
    isolation: str = ""
    """The isolation of the programs that the step judged."""


class DatasetResult(StepResult):
    summary: dict[str, Any] | None = None
    """Counts of a curation step: `rows_in`, `rows_out`, `dropped` by rule, and the step's own."""


R = TypeVar("R", bound=StepResult)


@dataclass
class Draft(Generic[R]):
    """A directory being filled. `counts` and `result` go into the manifest."""

    path: Path
    result: R
    counts: dict[str, int] = field(default_factory=dict)
    tracking_id: str = ""
    """The step's run in the tracking journal, empty outside a run."""

    def write_dataset(self, kept: pa.Table, rejected: pa.Table, rows_in: int) -> None:
        """Write both sides of a step. Raises AssertionError when they do not partition the input."""
        if len(kept) + len(rejected) != rows_in:
            raise AssertionError(
                f"{self.path.name}: {len(kept)} kept + {len(rejected)} rejected is not {rows_in} rows in"
            )
        with self.dataset_writer(kept.schema, rejected.schema) as write:
            write(kept, rejected)

    @contextmanager
    def dataset_writer(self, kept: pa.Schema, rejected: pa.Schema) -> Iterator[Callable[[pa.Table, pa.Table], None]]:
        """Write both sides of a step in batches: call the result with both sides of each batch."""
        counts = Counter(rows_in=0, kept=0, rejected=0)
        with (
            pq.ParquetWriter(self.path / KEPT, kept) as kept_file,
            pq.ParquetWriter(self.path / REJECTED, rejected) as rejected_file,
        ):

            def write(kept_rows: pa.Table, rejected_rows: pa.Table) -> None:
                for writer, rows in ((kept_file, kept_rows), (rejected_file, rejected_rows)):
                    if len(rows):
                        writer.write_table(rows, row_group_size=ROW_GROUP)
                kept, rejected = len(kept_rows), len(rejected_rows)
                counts.update(rows_in=kept + rejected, kept=kept, rejected=rejected)

            yield write
        self.counts.update(counts)
