"""Responses that were sampled elsewhere, to be judged and scored here."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from evaluation.sampling import GENERATION_SCHEMA
from evaluation.spec import Plan

ROWS_AT_ONCE = 256


class ImportedGenerations:
    """A Parquet file with `GENERATION_SCHEMA`, of which the plan's benchmarks are taken."""

    def __init__(self, plan: Plan) -> None:
        self.path = plan.spec.model.generations
        self.benchmarks = [benchmark.name for benchmark in plan.benchmarks]
        self.total = sum(map(len, self.stream()))

    def __enter__(self) -> ImportedGenerations:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def stream(self) -> Iterator[pa.Table]:
        file = pq.ParquetFile(self.path)
        for batch in file.iter_batches(ROWS_AT_ONCE):
            table = pa.Table.from_batches([batch]).cast(GENERATION_SCHEMA)
            wanted = table.filter(pa.compute.is_in(table["benchmark"], pa.array(self.benchmarks)))
            if len(wanted):
                yield wanted

    in_order = stream
