"""Common parts of the steps of curation: a data set in, kept and rejected rows out."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from ratchet.data_curation.base.draft import REJECTED, DatasetResult, Draft
from ratchet.data_curation.settings.curation import Curation
from ratchet.data_curation.split import Split
from ratchet.infra.store.artifacts import Artifact, Parameters
from ratchet.tasks.reporter import ProgressReporter
from ratchet.tasks.run_context import RunContext
from ratchet.tasks.step import Step, run_step, write_splits
from ratchet.verifiers.workers import in_order


def in_batches(
    reporter: ProgressReporter, workers: int, judge: Callable[[Any], Split], batches: Iterable[Any],
    rows: int | None = None,
) -> Iterator[Split]:  # fmt: skip
    """The splits of all batches, by several processes (0: one per core), reporting progress."""
    rows_judged = 0
    for split in in_order(judge, batches, workers):
        yield split
        rows_judged += split.summary["rows_in"]
        reporter.progress(rows_judged, rows, {})


def split_step(
    run: RunContext, step: Step, domain: str, settings: Curation, inputs: Sequence[Artifact], parameters: Parameters,
    work: Callable[[Draft[DatasetResult]], Iterable[Split]], code: Iterable[str] = (),
) -> Artifact:  # fmt: skip
    """A step of a domain's curation. `work` gives the splits to write; a `summary` that it leaves in the draft's result
    is added to the counts."""

    def make(draft: Draft[DatasetResult]) -> None:
        write_splits(draft, work(draft), settings.advanced.max_rejected)
        summary = draft.result.summary or {}
        if test := summary.get("self_test"):
            draft.result.metrics |= {"self_test_recall": test["recall"], "unprotected": len(test["unprotected"])}
        if sharing := summary.get("kept_sharing"):
            draft.result.metrics |= {"kept_sharing": sharing}
            draft.result.headline = f"{sharing:,} kept rows share an n-gram with a benchmark item"
        warn_of_losses(run, draft)

    title = f"{step.name.replace('_', ' ')} {domain}"
    return run_step(
        run, step, f"{domain}-{step.name}", parameters=parameters, inputs=inputs, make=make, title=title, code=code
    )


def warn_of_losses(run: RunContext, draft: Draft[DatasetResult]) -> None:
    """Warn of files of which more than half could not be read: wrong columns, or an unknown layout."""
    summary = draft.result.summary or {}
    lost = {file: n for file, n in summary.get("unreadable", {}).items() if n > summary["files"][file] / 2}
    if not lost:
        return
    rejected = pq.read_table(draft.path / REJECTED, columns=["rule", "source", "evidence"])
    malformed = rejected.filter(pc.field("rule") == "malformed")
    for file, count in lost.items():
        sources = zip(malformed["source"], malformed["evidence"], strict=True)
        example = next(str(e) for s, e in sources if file.startswith(str(s)) and json.loads(str(e))["file"] in file)
        run.reporter.warning(
            f"{file}: {count:,} of {summary['files'][file]:,} rows cannot be read as problems, e.g. {example}. Correct "
            "the file, or map its columns with `columns` in the recipe."
        )
