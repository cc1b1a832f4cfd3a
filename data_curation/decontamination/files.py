"""Decontaminate any files: `kept.parquet` and `rejected.parquet` have all columns of the input.

    from ratchet.data_curation.decontamination.files import decontaminate_files
    summary = decontaminate_files(["train.parquet"], ["math500.json", "aime24.json"], "clean")

Rows are read, judged and written in batches, so memory does not grow with the input. The output gets its name only when
it is complete.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from ratchet.data_curation.base.draft import Draft, StepResult
from ratchet.data_curation.base.files import disk_errors, replace_directory
from ratchet.data_curation.base.problem_table import PROBLEM_SCHEMA
from ratchet.data_curation.decontamination.overlaps import CLEAN
from ratchet.data_curation.decontamination.problems import RULES, STEP, Decontaminator
from ratchet.data_curation.decontamination.self_test import self_test
from ratchet.data_curation.decontamination.text_files import (
    TextFile,
    asked_by_item,
    common_schema,
    fitted,
    named_column,
    open_text_file,
    said_by_user,
)
from ratchet.data_curation.readers.sources import local_files, source_names
from ratchet.data_curation.readers.templates import strip_templates
from ratchet.data_curation.settings.curation import Decontamination
from ratchet.data_curation.split import Rejection, to_json
from ratchet.verifiers.errors import RatchetError

PREFIX = f"{STEP}_"
FACTS = pa.schema(
    [
        pa.field(PREFIX + "file", pa.string()),
        pa.field(PREFIX + "row", pa.int64()),  # in that file, from 0
        pa.field(PREFIX + "coverage", pa.float64()),
        pa.field(PREFIX + "paper_hit", pa.bool_()),
        pa.field(PREFIX + "coverage_hit", pa.bool_()),
        pa.field(PREFIX + "match", pa.string()),  # copy, variant or passage, where enough of an item is covered
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
    """Judge every row of `inputs` by `settings` (default: the preset `coverage`) and return the summary. Inputs and
    benchmarks are files, directories, globs, or data sets on the Hugging Face Hub.

    Each output row has the columns of its input and `FACTS`; rejected ones also `REASON`, whose item spans count from
    the beginning of the item's statement. A row without text is rejected as `malformed`. Raises RatchetError for an
    output that exists, and for files without texts.
    """
    settings, output = settings or Decontamination(), Path(output).expanduser().absolute()
    if not inputs or not benchmarks or settings.released_after:
        raise RatchetError("Give at least one input and one benchmark, and no released_after: files have no dates.")
    if output.exists():
        raise RatchetError(f"{output} exists. Choose another output, or delete it first.")
    files = [open_text_file(path, text_column) for name in inputs for path in local_files(name)]
    columns = common_schema(files)
    items, without_text = _read_items(benchmarks, text_column)
    draft = Draft(output.with_name(f".{output.name}.partial"), StepResult())
    shutil.rmtree(draft.path, ignore_errors=True)  # left by a run that was killed
    with disk_errors(output.parent):
        draft.path.mkdir(parents=True)
        decontaminator = Decontaminator(items, settings)
        summary = {"preset": settings.preset, "items": len(items), "items_without_text": without_text}
        summary["self_test"] = self_test(decontaminator.index, settings)
        summary |= _judge(files, columns, decontaminator, draft, progress)
        (draft.path / "summary.json").write_text(to_json(summary))
        replace_directory(draft.path, output)
    return summary


def _read_items(benchmarks: Sequence[str | Path], text_column: str | None) -> tuple[pa.Table, list[str]]:
    """The items of all files, their texts without templates; and the names of items without text."""
    items, without_text = [], []
    paths = [path for name in benchmarks for path in local_files(name)]
    for path, benchmark in zip(paths, source_names(paths), strict=True):
        file = open_text_file(path, text_column, required=False)
        first = 0
        for table, batch_texts, _ in file.batches(asked_by_item):
            addresses = named_column(table, URL_COLUMNS)
            for at, text in enumerate(batch_texts.to_pylist()):
                if text is None:
                    without_text.append(f"{benchmark}:{first + at}")
                    continue
                url = str(addresses[at].as_py()) if addresses is not None else ""
                about = {"domain": "math", "source": benchmark, "source_id": str(first + at), "source_url": url}
                items.append(about | {"prompt": strip_templates(text).text or text})
            first += len(batch_texts)
    if not items:
        raise RatchetError(f"{', '.join(map(str, benchmarks))}: no item has a text. Are these the right files?")
    return pa.Table.from_pylist(items, schema=PROBLEM_SCHEMA), without_text


def _judge(
    files: Sequence[TextFile], columns: pa.Schema, decontaminator: Decontaminator, draft: Draft, progress: Progress
) -> dict[str, Any]:
    """Read, judge and write all rows; returns the counts."""
    own = pa.schema([field for field in columns if field.name not in FACTS.names + REASON.names])
    kept_schema = pa.schema([*own, *FACTS])
    total, done = sum(file.rows for file in files), 0
    counts, hits, named = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    with draft.dataset_writer(kept_schema, pa.schema([*kept_schema, *REASON])) as write:
        for file in files:
            shared = sum(other.path.name == file.path.name for other in files) > 1
            name, first = str(file.path) if shared else file.path.name, done
            for read, texts, unusable in file.batches(said_by_user):
                found, rejections, seen = decontaminator.judge(texts, urls=named_column(read, URL_COLUMNS))
                rejections |= {row: Rejection("malformed", {"reason": why}) for row, why in unusable.items()}
                rows = range(len(read))
                facts = [{"file": name, "row": done - first + row} | found.get(row, CLEAN) for row in rows]
                columns = [pa.array([f.get(c.name.removeprefix(PREFIX)) for f in facts], c.type) for c in FACTS]
                table = pa.table([*fitted(read, own, file.path).columns, *columns], schema=kept_schema)
                dropped_rows = sorted(rejections)
                dropped = table.take(pa.array(dropped_rows, pa.int64()))
                rules = [rejections[row].rule for row in dropped_rows]
                evidence = [to_json(rejections[row].evidence) for row in dropped_rows]
                for field, values in zip(REASON, (rules, evidence), strict=True):
                    dropped = dropped.append_column(field, pa.array(values, field.type))
                write(table.filter(pa.array([row not in rejections for row in range(len(table))], pa.bool_())), dropped)
                counts.update(rejection.rule for rejection in rejections.values())
                named.update((e["benchmark"], e["item"]) for r in rejections.values() if "item" in (e := r.evidence))
                hits.update(seen)
                done += len(table)
                progress(done, total)
    return {
        **draft.counts,
        "dropped": {rule: counts[rule] for rule in ("malformed", *RULES)},
        **{name: hits[name] for name in ("paper_hits", "coverage_hits", "kept_sharing", "variants", "passages")},
        "items_hit_most": [[*name, count] for name, count in named.most_common(5)],
        "columns_as_json": sorted({name for file in files for name in file.json_columns}),
    }  # fmt: skip
