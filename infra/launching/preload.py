"""Load what models and domains load on first use, before the processes that use them are forked."""

import json
from contextlib import suppress
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.base.problem_table import from_table
from ratchet.verifiers.domains import DOMAINS
from ratchet.verifiers.submission import Submission

PROBLEMS = 64
"""Most problems of a file: they are of one domain, but each kind of instruction or puzzle may load something."""
TEXT = "<answer>1</answer> \\boxed{1}"


def load_libraries() -> bool:
    """Import torch and transformers with all parts that a model needs; True if this process may then be forked: CUDA
    does not survive a fork."""
    import torch
    from transformers import conversion_mapping

    conversion_mapping.get_checkpoint_conversion_mapping("")  # compiles hundreds of regular expressions
    return not torch.cuda.is_available()


def load_domains(specification: str) -> None:
    """Begin to judge a text for the first problems of each file (Parquet) of a shipped domain that a specification
    names: puzzles, units and languages come with libraries and models that each copy of this process would load for
    seconds. No program runs, and no fault is reported: the copies find it themselves."""
    with suppress(OSError, ValueError):
        spec = json.loads(Path(specification).read_text())
        for file in (*spec.get("problems", {}).values(), *spec.get("validation", {}).values()):
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
