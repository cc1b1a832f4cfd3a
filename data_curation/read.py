"""Read files as problems: find the layout by the columns, and read the rows in batches. The first step of curation."""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from ratchet.data_curation.curation_step import BATCH_ROWS
from ratchet.data_curation.raw_batches import OWN_COLUMNS, RawBatch, RawFile, Window, formats_of, normalize
from ratchet.data_curation.readers.columns import RawRow, parse_structure, split_path
from ratchet.data_curation.readers.options import has_options, meaning_of_numbers
from ratchet.data_curation.readers.plain_formats import Columns, check_fields, mapped_names, respelled
from ratchet.data_curation.readers.raw_files import Malformed, raw_rows, read_rows, row_names
from ratchet.data_curation.readers.sources import local_files, source_names
from ratchet.data_curation.settings.curation import CurationDetails
from ratchet.data_curation.split import Split, joined, merged
from ratchet.verifiers.errors import RatchetError

BATCH_BYTES = 32_000_000
"""Most bytes of text in a batch, besides the limit on rows: a row with its tests can be megabytes."""
_ROWS_LOOKED_AT = 50
MAX_SHORTENED = CurationDetails().max_shortened
Each = Callable[[Callable[[RawBatch], Split], Iterable[RawBatch]], Iterable[Split]]
"""A function like `map`, which may work in parallel but keeps the order."""


def open_raw_file(
    path: Path, domain: str, columns: Columns | None = None, source: str = "", window: Window | None = None
) -> RawFile:
    """Determine from a file's first rows how it is read: by `columns`, or else by its layout.

    Raises RatchetError for a file that is missing, unreadable, empty, or in no known layout, and for columns that it
    does not have.
    """
    check_fields(columns or {})
    seen = columns_of(path, columns)
    if not seen:
        raise RatchetError(f"{path}: no row of it can be read as a problem. Is it the right file?")
    there = ", ".join(sorted(seen))
    first = (RawRow(row) for row in islice(read_rows(path), _ROWS_LOOKED_AT) if isinstance(row, dict))
    numbers = meaning_of_numbers(first) if not columns and has_options(seen) else "from 0"
    if columns:
        mapped = [(field, name) for field, names in columns.items() for name in mapped_names({field: names})]
        for field, column in mapped:
            if column not in seen:
                raise RatchetError(
                    f"{path}: there is no column {column!r}, which columns gives for {field}; its columns are "
                    f"{there}{_inside(path, column)}."
                )
        return RawFile(path, domain, OWN_COLUMNS, frozenset(seen), columns, source, window, numbers)
    formats = formats_of(domain)
    layout = next((f.name for f in formats if f.matches(seen | {*respelled(seen).values()})), None)
    if layout is None:
        raise RatchetError(
            f"{path}: unknown {domain} format, its columns are {there}. Say in the recipe which holds what, "
            "`columns: {prompt: COLUMN, answer: COLUMN}` (a benchmark is read by them only if it has them all), or "
            "give the file in a known format (docs/reference/layouts.md lists their columns): "
            f"{', '.join(f.name for f in formats)}."
        )
    return RawFile(path, domain, layout, frozenset(seen), {}, source, window, numbers)


def has_columns(path: Path, columns: Columns) -> bool:
    """True if a file has all the columns that are mapped."""
    return bool(columns) and {*mapped_names(columns)} <= columns_of(path, columns)


def columns_of(path: Path, mapped: Columns | None = None) -> set[str]:
    """The columns of a file's first rows, or of all if one of the `mapped` is not among them: rows of JSON may lack
    columns that are null."""
    seen: set[str] = set()
    wanted = {*mapped_names(mapped or {})}
    for number, row in enumerate(read_rows(path)):
        if number >= _ROWS_LOOKED_AT and seen >= wanted:
            break
        if isinstance(row, dict):
            seen.update(row)
            for name in wanted - seen:  # perhaps nested, or the JSON text of this row is torn
                with contextlib.suppress(Malformed):
                    (copy := RawRow(row)).lift(name)
                    seen.update({name} & copy.keys())
    return seen


def _inside(path: Path, column: str) -> str:
    """The names inside the column that holds a nested one, for a message."""
    row = next((row for row in read_rows(path) if isinstance(row, dict)), {})
    first, *steps = split_path(column, row)
    held = row.get(first)
    if steps and isinstance(held, str):
        with contextlib.suppress(Malformed):
            held = parse_structure(held, first)
    return f"; {first} has {', '.join(map(str, held))}" if steps and isinstance(held, dict) else ""


def read_problems(
    path: str | Path,
    domain: str = "math",
    columns: Columns | None = None,
    source: str = "",
    window: Window | None = None,
    max_shortened: float = MAX_SHORTENED,
) -> Split:
    """Every row of `path` as a problem of `domain`, its statement without the file's templates, or rejected:
    `malformed`, `other_domain`, `empty` (nothing but a template). `path` is a file, a directory, a glob, or a data set
    on the Hugging Face Hub.

    `columns` maps fields to the file's columns; without it, the columns decide the layout. `source` is by default the
    file's name without endings; `source_id` is the row's number in the file, from 0, or in a folder of files with one
    row each the name of its file. With a window, rows without a
    release date in it are rejected as `outside_window`. Raises RatchetError as `open_raw_file` does, when no row could
    be read, and when more than the share `max_shortened` of a file's rows lose more than half of their own text to
    templates.
    """
    paths = local_files(path)
    names = [source] * len(paths) if source else source_names(paths)
    files = [open_raw_file(file, domain, columns, name, window) for file, name in zip(paths, names, strict=True)]
    return joined(_read(files, map, max_shortened))


def read_files(
    paths: Sequence[Path], domain: str, columns: Columns | None = None, each: Each = map,
    max_shortened: float = MAX_SHORTENED,
) -> Iterator[Split]:  # fmt: skip
    """All rows of several files in batches: memory does not grow with the rows."""
    names = source_names(paths)
    files = [open_raw_file(Path(path), domain, columns, name) for path, name in zip(paths, names, strict=True)]
    yield from _read(files, each, max_shortened)


def _read(files: Sequence[RawFile], each: Each, max_shortened: float) -> Iterator[Split]:
    """Yield the splits of all batches. Raises RatchetError at the end for a file without a readable row."""
    counts = dict[str, Any]()
    for split in each(normalize, _batches(files)):
        counts = merged([counts, split.summary])
        yield split
    for file in files:
        rows, shortened, unreadable = (
            counts.get(name, {}).get(file.title, 0) for name in ("files", "shortened", "unreadable")
        )
        if shortened > max_shortened * rows:
            raise RatchetError(
                f"{file.path}: {shortened:,} of {rows:,} rows lose more than half of their own text, or all of it, as "
                f"templates: {'; '.join([*counts['templates_shown'].values()][:3])}. If nothing of a problem is "
                "missing there, raise curation.DOMAIN.advanced.max_shortened (in Python: max_shortened)."
            )
        if unreadable == rows:
            first = json.loads(counts["unreadable_first"][file.title])
            raise RatchetError(
                f"{file.path}: not one row of it can be read as a {file.domain} problem ({file.layout}), the first "
                f"because of {first['field']}: {first['reason']}. Its columns are {', '.join(sorted(file.seen))}."
            )


def _batches(files: Iterable[RawFile]) -> Iterator[RawBatch]:
    for file in files:
        batch, rows, size, names = RawBatch(file, 0), 0, 0, row_names(file.path)
        for raw in raw_rows(file.path):
            batch.rows.append(raw)
            rows += 1 if isinstance(raw, dict | Malformed | bytes) else raw.num_rows
            size += _size(raw)
            if rows >= BATCH_ROWS or size >= BATCH_BYTES:
                yield replace(batch, names=names[batch.first : batch.first + rows])
                batch, rows, size = RawBatch(file, batch.first + rows), 0, 0
        if batch.rows:
            yield replace(batch, names=names[batch.first :])


def _size(value: Any) -> int:
    """Size of all text in a value, in bytes or characters."""
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, pa.RecordBatch):
        return value.get_total_buffer_size()
    if isinstance(value, dict):
        return sum(map(_size, value.values()))
    return sum(map(_size, value)) if isinstance(value, list) else 0
