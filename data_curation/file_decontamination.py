"""Decontamination on its own: any files in, `kept.parquet` and `rejected.parquet` out, with all columns of the input.

    from ratchet.data_curation.file_decontamination import decontaminate_files
    summary = decontaminate_files(["train.parquet"], ["math500.json", "aime24.json"], "clean")

Rows are read, judged and written some thousands at a time, so memory does not grow with the input. The output appears
under its name only when it is complete.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation import text_files
from ratchet.data_curation.contamination import BenchmarkIndex, Findings, find
from ratchet.data_curation.decontamination import RULES, STEP, item_keys, reject
from ratchet.data_curation.injection import self_test
from ratchet.data_curation.split import Rejection, to_json
from ratchet.data_curation.templates import strip_templates
from ratchet.data_curation.text_files import Batch, TextFile, named_column, open_text_file
from ratchet.infra.artifacts import KEPT, MANIFEST, REJECTED, Artifact, ArtifactStore, Draft, artifact_key, disk_errors
from ratchet.infra.errors import RatchetError
from ratchet.infra.recipe.model import Decontamination

VERSION = 2
PREFIX = f"{STEP}_"
FACTS = pa.schema(
    [
        pa.field(PREFIX + "file", pa.string()),
        pa.field(PREFIX + "row", pa.int64()),  # in that file, from 0
        pa.field(PREFIX + "coverage", pa.float64()),
        pa.field(PREFIX + "paper_hit", pa.bool_()),
        pa.field(PREFIX + "coverage_hit", pa.bool_()),
        pa.field(PREFIX + "benchmark", pa.string()),  # the item with that coverage; null when nothing is shared
        pa.field(PREFIX + "item", pa.string()),
    ]
)
REASON = pa.schema([pa.field(PREFIX + "rule", pa.string()), pa.field(PREFIX + "evidence", pa.large_string())])
Progress = Callable[[int, int], None]


def decontaminate_files(
    inputs: Sequence[str | Path],
    benchmarks: Sequence[str | Path],
    output: str | Path,
    settings: Decontamination | None = None,
    text_column: str | None = None,
    progress: Progress = lambda done, total: None,
) -> dict[str, Any]:
    """Judge every row of `inputs` by `settings` (default: the preset `coverage`) and return the summary.

    Each output row has the columns of its input and `FACTS`; rejected ones also `REASON`. A row without text is
    rejected as `malformed`. The same call again finds its own output and returns; an output made of anything else is an
    error, as are files without a column of text: RatchetError, with the file and the column.
    """
    settings, output = settings or Decontamination(), Path(output).expanduser().absolute()
    if not inputs or not benchmarks:
        raise RatchetError("Give at least one input and one benchmark.")
    store = ArtifactStore(output.parent)
    parameters = settings.model_dump(mode="json") | {"text_column": text_column, "inputs": len(inputs)}
    files = [store.file(path) for path in [*inputs, *benchmarks]]
    target = Artifact("decontaminated", output.name, artifact_key(STEP, VERSION, parameters, files), output)
    if output.exists():
        return _finished(target)

    started_at = time.time()
    opened = [open_text_file(Path(path), text_column) for path in inputs]
    columns = text_files.common_schema(opened)
    own = pa.schema([field for field in columns if not field.name.startswith(PREFIX)])
    items = _read_items(benchmarks, text_column)
    with _draft(output) as draft, disk_errors(output.parent):
        index = BenchmarkIndex(items.texts, items.names, settings.ngram)
        summary = {"preset": settings.preset, "items": len(items.texts), "items_without_text": items.without_text}
        summary["self_test"] = self_test(index, settings)
        summary |= _judge(opened, own, items, index, settings, draft, progress)
        draft.counts = {name: summary[name] for name in ("rows_in", "kept", "rejected")}
        draft.extra["summary"] = summary
        store.finish(
            target, draft, step=STEP, step_version=VERSION, parameters=parameters, inputs=files, started_at=started_at
        )
    return summary


class _Items:
    """The items of all benchmark files, without the templates around them."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.names: list[tuple[str, str]] = []
        self.cut: dict[tuple[str, str], int] = {}
        """Bytes of an item's own text that come before what is left of it."""
        self.urls: list[str] = []
        self.without_text: list[str] = []


def _read_items(benchmarks: Sequence[str | Path], text_column: str | None) -> _Items:
    items = _Items()
    for path in map(Path, benchmarks):
        file = open_text_file(path)
        if text_column in file.schema.names:
            file = open_text_file(path, text_column)
        benchmark = path.name.split(".")[0]
        if benchmark in {name for name, _ in items.names}:
            benchmark = str(path)  # another file of that name
        first = 0
        for batch in file.batches():
            urls = named_column(batch.table, text_files.URL_COLUMNS)
            for at, text in enumerate(batch.texts.to_pylist()):
                name = (benchmark, str(first + at))
                if text is None:
                    items.without_text.append(":".join(name))
                    continue
                statement = strip_templates(text)[0] or text
                items.texts.append(statement)
                items.names.append(name)
                items.cut[name] = len(text[: max(text.find(statement), 0)].encode())
                items.urls.append(str(urls[at].as_py()) if urls is not None else "")
            first += len(batch.texts)
    if not items.texts:
        raise RatchetError(f"{', '.join(map(str, benchmarks))}: no item with a text. Are these the right files?")
    return items


def _judge(
    files: Sequence[TextFile], own: pa.Schema, items: _Items, index: BenchmarkIndex, settings: Decontamination,
    draft: Draft, progress: Progress,
) -> dict[str, Any]:  # fmt: skip
    """Read, judge and write all rows; returns the counts."""
    total, done, dates = sum(file.rows for file in files), 0, Counter[str]()
    called = Counter(file.path.name for file in files)
    counts, hits, named = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    kept_schema = pa.schema([*own, *FACTS])
    rejected_schema = pa.schema([*kept_schema, *REASON])
    urls = item_keys(pa.chunked_array([pa.array(items.urls, pa.string())]))
    with (
        pq.ParquetWriter(draft.path / KEPT, kept_schema) as kept,
        pq.ParquetWriter(draft.path / REJECTED, rejected_schema) as rejected,
    ):
        for file in files:
            first = 0
            for batch in file.batches():
                findings = find(batch.texts, index, settings)
                released = _dates(file, batch, dates) if settings.released_after else None
                rejections = reject(
                    findings, settings, released, named_column(batch.table, text_files.URL_COLUMNS), urls
                )
                rejections |= {row: Rejection("malformed", {"reason": why}) for row, why in batch.unusable.items()}
                name = file.path.name if called[file.path.name] == 1 else str(file.path)
                facts = _facts(name, first, findings)
                table = pa.table([*text_files.fitted(batch.table, own).columns, *facts], schema=kept_schema)
                rows = sorted(rejections)
                keep = pa.array([row not in rejections for row in range(len(table))], pa.bool_())
                kept.write_table(table.filter(keep))
                dropped = table.take(pa.array(rows, pa.int64()))
                reasons = pa.Table.from_pylist([_reason(rejections[row], items) for row in rows], schema=REASON)
                rejected.write_table(pa.table([*dropped.columns, *reasons.columns], schema=rejected_schema))
                counts.update(rejection.rule for rejection in rejections.values())
                named.update((e["benchmark"], e["item"]) for r in rejections.values() if "item" in (e := r.evidence))
                hits.update(paper=int(findings.paper_hit.sum()), coverage=int(findings.coverage_hit.sum()))
                first += len(table)
                done += len(table)
                progress(done, total)
    rejected_rows = counts.total()
    return {
        "rows_in": done, "kept": done - rejected_rows, "rejected": rejected_rows,
        "dropped": {rule: counts[rule] for rule in ("malformed", *RULES)},
        "paper_hits": hits["paper"], "coverage_hits": hits["coverage"],
        "items_hit_most": [[*name, count] for name, count in named.most_common(5)],
        "columns_as_json": sorted({name for file in files for name in file.json_columns}),
        **({"dates_unreadable": dates["unreadable"]} if settings.released_after else {}),
    }  # fmt: skip


def _facts(file: str, first: int, findings: Findings) -> list[pa.Array]:
    overlaps = findings.overlaps
    best = pa.array(overlaps.item, mask=overlaps.item < 0)
    benchmarks, items = (pa.array(side).take(best) for side in zip(*findings.index.names, strict=True))
    rows = len(best)
    return [
        pa.repeat(file, rows), pa.array(range(first, first + rows)), pa.array(overlaps.coverage.round(4)),
        pa.array(findings.paper_hit), pa.array(findings.coverage_hit), benchmarks, items,
    ]  # fmt: skip


def _reason(rejection: Rejection, items: _Items) -> dict[str, str]:
    evidence = dict(rejection.evidence)
    if span := evidence.get("item_span"):
        before = items.cut[evidence["benchmark"], evidence["item"]]
        evidence["item_span"] = [span[0] + before, span[1] + before]
    return dict(zip(REASON.names, (rejection.rule, to_json(evidence)), strict=True))


def _dates(file: TextFile, batch: Batch, seen: Counter[str]) -> pa.ChunkedArray:
    column = named_column(batch.table, text_files.DATE_COLUMNS)
    if column is None:
        raise RatchetError(
            f"{file.path}: a date limit was given, but none of its columns is a date ({', '.join(file.schema.names)}). "
            f"Usual names are {', '.join(text_files.DATE_COLUMNS)}."
        )
    days = []
    for value in column.to_pylist():
        day = value.date() if isinstance(value, datetime) else value
        if isinstance(day, str):
            try:
                day = date.fromisoformat(day[:10])
            except ValueError:
                day = None
        days.append(day if isinstance(day, date) else None)
        seen["unreadable"] += value not in (None, "") and days[-1] is None
    return pa.chunked_array([pa.array(days, pa.date32())])


def _finished(target: Artifact) -> dict[str, Any]:
    """The summary of an output that was made before, of the same files with the same settings."""
    manifest = target.path / MANIFEST
    try:
        made = json.loads(manifest.read_text())
    except (OSError, ValueError):
        made = {}
    if made.get("key") != target.key:
        what = "was made of other files or settings" if made.get("key") else "is there already and no output of this"
        raise RatchetError(f"{target.path} {what}. Choose another output, or delete it first.")
    return made["summary"]


@contextmanager
def _draft(output: Path) -> Iterator[Draft]:
    """A directory beside the output, for one process at a time; what an interrupted one left in it is thrown away."""
    path = output.with_name(f".{output.name}.partial")
    with disk_errors(output.parent):
        path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise RatchetError(f"Another process is making {output}. Wait for it, or stop it.") from None
    try:
        for left in path.iterdir():
            left.unlink()
        yield Draft(path)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
    finally:
        os.close(descriptor)
