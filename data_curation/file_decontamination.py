"""Decontamination of any files: `kept.parquet` and `rejected.parquet` have all columns of the input.

    from ratchet.data_curation.file_decontamination import decontaminate_files
    summary = decontaminate_files(["train.parquet"], ["math500.json", "aime24.json"], "clean")

Rows are read, judged and written in batches, so memory does not grow with the input. The output gets its name only when
it is complete.
"""

import fcntl
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from ratchet.data_curation.contamination import BenchmarkIndex, Findings, find
from ratchet.data_curation.decontamination import RULES, STEP, item_keys, reject
from ratchet.data_curation.domains.plain import PLAIN
from ratchet.data_curation.injection import self_test
from ratchet.data_curation.readers.sources import source_names
from ratchet.data_curation.split import Rejection, to_json
from ratchet.data_curation.templates import strip_templates
from ratchet.data_curation.text_files import TextFile, common_schema, fitted, named_column, open_text_file
from ratchet.infra.recipe.curation import Decontamination
from ratchet.infra.store.artifacts import MANIFEST, Artifact, ArtifactStore, artifact_key
from ratchet.infra.store.draft import Draft
from ratchet.infra.store.files import disk_errors
from ratchet.verifiers.errors import RatchetError

VERSION = 7
PREFIX = f"{STEP}_"
FACTS = pa.schema(
    [
        pa.field(PREFIX + "file", pa.string()),
        pa.field(PREFIX + "row", pa.int64()),  # in that file, from 0
        pa.field(PREFIX + "coverage", pa.float64()),
        pa.field(PREFIX + "paper_hit", pa.bool_()),
        pa.field(PREFIX + "coverage_hit", pa.bool_()),
        pa.field(PREFIX + "benchmark", pa.string()),  # of the item with that coverage; null when nothing is shared
        pa.field(PREFIX + "item", pa.string()),
    ]
)
REASON = pa.schema([pa.field(PREFIX + "rule", pa.string()), pa.field(PREFIX + "evidence", pa.large_string())])
URL_COLUMNS = ("source_url", "url", "link")
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

    Each output row has the columns of its input and `FACTS`; rejected ones also `REASON`, whose item spans count from
    the beginning of the item's statement. A row without text is rejected as `malformed`. A repeated call finds its
    output and returns. Raises RatchetError for an output of other files or settings, and for files without texts.
    """
    settings, output = settings or Decontamination.model_validate({}), Path(output).expanduser().absolute()
    settings = settings.model_copy(update={"ngram": settings.ngram or PLAIN.ngram})
    if not inputs or not benchmarks or settings.released_after:
        raise RatchetError("Give at least one input and one benchmark, and no released_after: files have no dates.")
    store = ArtifactStore(output.parent)
    parameters = {"decontaminate": settings, "text_column": text_column, "inputs": len(inputs)}
    given = [store.file(path) for path in [*inputs, *benchmarks]]
    target = Artifact("decontaminated", output.name, artifact_key(STEP, VERSION, "", parameters, given), output)
    if output.exists():
        return _finished(target)

    started_at = time.time()
    files = [open_text_file(Path(path), text_column) for path in inputs]
    columns = common_schema(files)
    texts, names, urls, without_text = _read_items(benchmarks, text_column)
    with _draft(output) as draft, disk_errors(output.parent):
        index = BenchmarkIndex(texts, names, settings.ngram or PLAIN.ngram)
        summary = {"preset": settings.preset, "items": len(texts), "items_without_text": without_text}
        summary["self_test"] = self_test(index, settings)
        item_urls = item_keys(pa.chunked_array([pa.array(urls, pa.string())]))
        summary |= _judge(files, columns, index, item_urls, settings, draft, progress)
        draft.extra["summary"] = summary
        store.finish(
            target, draft, step=STEP, step_version=VERSION, parameters=parameters, inputs=given, started_at=started_at
        )
    return summary


def _read_items(
    benchmarks: Sequence[str | Path], text_column: str | None
) -> tuple[list[str], list[tuple[str, str]], list[str], list[str]]:
    """The items of all files: texts without templates, names, URLs; and the names of items without text."""
    texts, names, urls, without_text = [], [], [], []
    paths = [Path(path) for path in benchmarks]
    for path, benchmark in zip(paths, source_names(paths), strict=True):
        file = open_text_file(path)
        if text_column in file.schema.names:
            file = open_text_file(path, text_column)
        first = 0
        for table, found, _ in file.batches():
            addresses = named_column(table, URL_COLUMNS)
            for at, text in enumerate(found.to_pylist()):
                if text is None:
                    without_text.append(f"{benchmark}:{first + at}")
                    continue
                texts.append(strip_templates(text)[0] or text)
                names.append((benchmark, str(first + at)))
                urls.append(str(addresses[at].as_py()) if addresses is not None else "")
            first += len(found)
    if not texts:
        raise RatchetError(f"{', '.join(map(str, benchmarks))}: no item has a text. Are these the right files?")
    return texts, names, urls, without_text


def _judge(
    files: Sequence[TextFile], columns: pa.Schema, index: BenchmarkIndex, item_urls: dict[str, int],
    settings: Decontamination, draft: Draft, progress: Progress,
) -> dict[str, Any]:  # fmt: skip
    """Read, judge and write all rows; returns the counts."""
    own = pa.schema([field for field in columns if not field.name.startswith(PREFIX)])
    kept_schema = pa.schema([*own, *FACTS])
    total, done = sum(file.rows for file in files), 0
    counts, hits, named = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    with draft.dataset_writer(kept_schema, pa.schema([*kept_schema, *REASON])) as write:
        for file in files:
            shared = sum(other.path.name == file.path.name for other in files) > 1
            name, first = str(file.path) if shared else file.path.name, done
            for read, texts, unusable in file.batches():
                findings = find(texts, index, settings)
                rejections = reject(findings, settings, None, named_column(read, URL_COLUMNS), item_urls)
                rejections |= {row: Rejection("malformed", {"reason": why}) for row, why in unusable.items()}
                facts = _facts(name, done - first, findings)
                table = pa.table([*fitted(read, own).columns, *facts], schema=kept_schema)
                rows = sorted(rejections)
                reasons = [(rejections[row].rule, to_json(rejections[row].evidence)) for row in rows]
                dropped = table.take(pa.array(rows, pa.int64()))
                for field, values in zip(REASON, zip(*reasons, strict=True) if rows else ((), ()), strict=True):
                    dropped = dropped.append_column(field, pa.array(values, field.type))
                write(table.filter(pa.array([row not in rejections for row in range(len(table))], pa.bool_())), dropped)
                counts.update(rejection.rule for rejection in rejections.values())
                named.update((e["benchmark"], e["item"]) for r in rejections.values() if "item" in (e := r.evidence))
                hits.update(paper=int(findings.paper_hit.sum()), coverage=int(findings.coverage_hit.sum()))
                hits["kept"] += int(findings.paper_hit.sum()) - sum(bool(findings.paper_hit[row]) for row in rejections)
                done += len(table)
                progress(done, total)
    return {
        **draft.counts,
        "dropped": {rule: counts[rule] for rule in ("malformed", *RULES)},
        "paper_hits": hits["paper"], "coverage_hits": hits["coverage"], "kept_sharing": hits["kept"],
        "items_hit_most": [[*name, count] for name, count in named.most_common(5)],
        "columns_as_json": sorted({name for file in files for name in file.json_columns}),
    }  # fmt: skip


def _facts(file: str, first: int, findings: Findings) -> list[pa.Array]:
    """The columns of `FACTS` for rows that start at number `first` of the file."""
    overlaps = findings.overlaps
    best = pa.array(overlaps.item, mask=overlaps.item < 0)
    benchmarks, items = (pa.array(side).take(best) for side in zip(*findings.index.names, strict=True))
    rows = len(best)
    return [
        pa.repeat(file, rows), pa.array(range(first, first + rows)), pa.array(overlaps.coverage.round(4)),
        pa.array(findings.paper_hit), pa.array(findings.coverage_hit), benchmarks, items,
    ]  # fmt: skip


def _finished(target: Artifact) -> dict[str, Any]:
    """The summary of an existing output. Raises RatchetError unless it is of the same files and settings."""
    try:
        made = json.loads((target.path / MANIFEST).read_text())
    except (OSError, ValueError):
        made = {}
    if made.get("key") != target.key:
        what = "was made from other files or settings" if made.get("key") else "exists and is no output of this command"
        raise RatchetError(f"{target.path} {what}. Choose another output, or delete it first.")
    return made["summary"]


@contextmanager
def _draft(output: Path) -> Iterator[Draft]:
    """An empty directory beside the output, for one process at a time."""
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
