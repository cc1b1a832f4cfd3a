"""Loads what domains load with their first verdict, before processes that judge are forked."""

from collections.abc import Iterable
from contextlib import suppress
from functools import cache

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.base.problem_table import from_table
from ratchet.verifiers.domains import DOMAINS
from ratchet.verifiers.submission import Submission

PROBLEMS = 64
"""Problems of a file, at most: they are of one domain, but each kind of instruction or puzzle may load something."""
TEXT = "<answer>1</answer> \\boxed{1}"


def load_domains(files: Iterable[str]) -> None:
    """Begin to judge a text for the first problems of each file (Parquet) of a shipped domain: puzzles, units and
    languages come with libraries and models that each copy of this process would load for seconds. No program runs,
    and no fault is reported: the copies meet it themselves."""
    for file in files:
        _load(file)


@cache
def _load(file: str) -> None:
    with suppress(OSError, StopIteration, pa.ArrowException):
        batch = next(pq.ParquetFile(file).iter_batches(PROBLEMS, use_threads=False))
        for problem in from_table(pa.Table.from_batches([batch])):
            if problem.domain not in DOMAINS.shipped:  # a user's own code may start threads, which no copy would have
                continue
            with suppress(Exception):
                domain = DOMAINS.get(problem.domain)()
                if not domain.fault(problem):
                    domain.prepare(Submission(problem, TEXT))
