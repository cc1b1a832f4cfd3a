"""Raw rows to problems: statements without templates and typographic accidents, each with its content identity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from ratchet.data_curation.readers import problems as reading
from ratchet.data_curation.readers import source_names
from ratchet.data_curation.split import Rejection, Split, assemble, joined, partition, set_column
from ratchet.data_curation.templates import clean_statement
from ratchet.infra.problems import problem_id

STEP = "normalise"
RULES = ("empty",)


def normalise(table: pa.Table, domain: str) -> Split:
    """Clean each prompt and give the row its content identity, `problem_id`.

    A row in which nothing but a template was found is rejected as `empty`. The summary counts what was cut, by name.
    """
    cut: Counter[str] = Counter()
    prompts = []
    for prompt in table.column("prompt").to_pylist():
        text, names = clean_statement(prompt)
        cut.update(names)
        prompts.append(text)
    entry_points = table.column("entry_point").to_pylist()
    identities = [problem_id(domain, text, entry) for text, entry in zip(prompts, entry_points, strict=True)]
    verdicts = [None if text else Rejection("empty") for text in prompts]
    table = set_column(set_column(table, "prompt", prompts), "problem_id", identities)
    return partition(STEP, RULES, table, verdicts, templates_cut=dict(sorted(cut.items())))


def read_and_normalise(paths: Sequence[Path], domain: str) -> Split:
    """Raw files to clean problems in one `Split` that accounts for every row of every file.

    Rules `malformed` and `other_domain` (see `readers`), then `empty`. Raises RatchetError as `read_problems` does.
    """
    return joined(normalised_batches(paths, domain))


def normalised_batches(paths: Sequence[Path], domain: str) -> Iterator[Split]:
    """The same batch by batch: memory does not grow with the files."""
    for path, source in zip(paths, source_names(paths), strict=True):
        for read in reading.read_batches(Path(path), domain, source):
            clean = normalise(read.kept, domain)
            rejected = [row | {"step": STEP} for split in (read, clean) for row in split.rejected.to_pylist()]
            measured = {"files": read.summary["files"], "templates_cut": clean.summary["templates_cut"]}
            yield assemble(STEP, (*reading.RULES, *RULES), clean.kept, rejected, **measured)
