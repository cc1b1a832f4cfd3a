"""Read the rows of a file as dictionaries: Parquet, Arrow, JSON values, JSON lines and CSV, also in gzip, zstd or zip.

The container is recognized by the file's content. Parquet, Arrow, JSON lines and CSV are streamed. A file of JSON
values over several lines, each a row, a list of rows or an object that contains them, is read whole. A folder whose
JSON files have one row each is read as one file, as is one with problem packages (`kattis`).
"""

import gzip
import io
import json
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.readers import kattis
from ratchet.data_curation.readers.csv_files import csv_delimiter, csv_rows
from ratchet.data_curation.readers.malformed import Malformed, Row, check_names
from ratchet.verifiers.errors import RatchetError

PARQUET_MAGIC, GZIP_MAGIC, BYTE_ORDER_MARK = b"PAR1", b"\x1f\x8b", b"\xef\xbb\xbf"
ARROW_FILE_MAGIC, ARROW_STREAM_MAGIC, ZSTD_MAGIC, ZIP_MAGIC = b"ARROW1", b"\xff\xff\xff\xff", b"\x28\xb5\x2f\xfd", b"PK"
_READ = "Parquet, Arrow, JSON, JSON lines and CSV, also in gzip, zstd or zip"
_NO_TABLE = {  # by the first bytes
    "XML or HTML": rb"\s*<(?:[?!]|[A-Za-z][\w:-]*[\s/>])",
    "a tar archive": rb"(?s:.{257})ustar",
    "a PDF": rb"%PDF-",
    "a pointer of Git LFS, not the file itself": rb"version https://git-lfs",
    "a binary file, or no text in UTF-8": rb"[^\0]*\0",
}
HEAD_BYTES = 4096
"""Bytes read to distinguish JSON from CSV."""
MAX_LINE_BYTES = 32_000_000
"""Most bytes of a line of JSON; three times the longest published rows, which have many tests."""
PARQUET_ROWS = 128
"""Rows that are Python objects at a time: a row with its tests can be megabytes."""


Buffered = io.BufferedReader | io.BufferedRandom
SUFFIXES = tuple(
    [".parquet", ".arrow", ".zip"]
    + [f".{kind}{packed}" for packed in ("", ".gz", ".zst") for kind in ("jsonl", "json", "csv", "tsv")]
)
_NOT_DATA = re.compile(
    r"(?:^|/)(?:\.|__MACOSX/|dataset_infos?\.json|dataset_dict\.json|state\.json|README|cache-[0-9a-f]+\.arrow)"
)


def is_data(name: str) -> bool:
    """True if a file in a folder, an archive or a repository is data, by its name."""
    return name.endswith(SUFFIXES) and not _NOT_DATA.search(name)


Raw = Row | Malformed | bytes | pa.RecordBatch
"""A row, an unparsed line of JSON, or several rows as Arrow; `parsed` makes rows of it, in any process."""


def read_rows(path: Path) -> Iterator[Row | Malformed]:
    """Each record of the file in order; one that is not an object is `Malformed`. Raises RatchetError for a missing or
    unreadable file."""
    for raw in raw_rows(path):
        yield from parsed(raw)


def raw_rows(path: Path) -> Iterator[Raw]:
    """Each record of the file in order, unparsed (see `read_rows`)."""
    if path.is_dir():
        packages = kattis.packages(path)
        yield from kattis.rows(packages) if packages else map(_only_row, data_files(path))
        return
    try:
        with path.open("rb") as file:
            yield from _unpacked(file, path)
    except FileNotFoundError:
        raise RatchetError(f"{path}: no such file. Check the path of this input.") from None
    except (OSError, EOFError, zlib.error, pa.ArrowException, zipfile.BadZipFile, RuntimeError) as error:
        # RuntimeError: an encrypted zip archive, or a compression that zipfile does not know
        raise RatchetError(f"{path}: cannot be read ({error}). Fetch or unpack the file again.") from error


def data_files(folder: Path) -> list[Path]:
    """The data files in a folder and its subfolders, sorted."""
    return [file for file in sorted(folder.rglob("*")) if file.is_file() and is_data(str(file))]


def row_names(path: Path) -> list[str]:
    """The names of a folder's rows: those of their files, without ending; none for a file's rows, which have
    numbers."""
    if not path.is_dir():
        return []
    if packages := kattis.packages(path):
        return [str(package.relative_to(path)) for package in packages]
    return [str(file.relative_to(path).with_suffix("")) for file in data_files(path)]


def has_a_file_per_row(files: Sequence[Path]) -> bool:
    """True for a folder of JSON files with one row each, by the first, second and last of them."""
    if len(files) < 2 or any(file.suffix != ".json" for file in files):
        return False
    samples = [files[0], files[1], files[-1]]
    if any(file.stat().st_size > MAX_LINE_BYTES for file in samples):
        return False
    rows = [row for row in map(_only_row, samples) if not isinstance(row, Malformed) or row.field != "rows"]
    return len(rows) == len(samples) and any(isinstance(row, dict) for row in rows)


def _only_row(file: Path) -> Row | Malformed:
    """The only row of a file in a folder; `rows` is the field at fault where it has none or several."""
    try:
        rows = list(islice(read_rows(file), 2))
    except RatchetError as error:
        return Malformed("file", str(error).removeprefix(f"{file}: "))
    return rows[0] if len(rows) == 1 else Malformed("rows", f"{'more than' if rows else 'not'} one row in the file")


def _unpacked(file: Buffered, path: Path) -> Iterator[Raw]:
    start = file.peek(HEAD_BYTES)[:HEAD_BYTES]
    if start.startswith(PARQUET_MAGIC):
        parquet = pq.ParquetFile(file)
        check_names(parquet.schema_arrow.names, path)
        yield from parquet.iter_batches(batch_size=PARQUET_ROWS)
    elif start.startswith(ARROW_FILE_MAGIC):
        batches = pa.ipc.open_file(file)
        check_names(batches.schema.names, path)
        yield from _pieces(map(batches.get_batch, range(batches.num_record_batches)))
    elif start.startswith(ARROW_STREAM_MAGIC):  # as `datasets` writes it
        stream = pa.ipc.open_stream(file)
        check_names(stream.schema.names, path)
        yield from _pieces(stream)
    elif start.startswith(GZIP_MAGIC):
        with gzip.open(file) as unpacked:
            yield from _unpacked(io.BufferedReader(unpacked), path)  # type: ignore[arg-type]
    elif start.startswith(ZSTD_MAGIC):
        with tempfile.TemporaryFile() as unpacked:  # Arrow's stream cannot return to its start
            shutil.copyfileobj(pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd"), unpacked)
            unpacked.seek(0)
            yield from _unpacked(unpacked, path)  # type: ignore[arg-type]
    elif start.startswith(ZIP_MAGIC):
        with zipfile.ZipFile(file) as archive:
            names = sorted(name for name in archive.namelist() if is_data(name))
            if not names:
                there = ", ".join(archive.namelist()[:5])
                raise RatchetError(f"{path}: a zip archive without a data file; it has {there}. Read are {_READ}.")
            for name in names:
                with archive.open(name) as member:
                    yield from _unpacked(io.BufferedReader(member), path / name)  # type: ignore[arg-type]
    elif kind := next((kind for kind, magic in _NO_TABLE.items() if re.match(magic, start)), None):
        raise RatchetError(f"{path}: this is {kind}. Read are {_READ}.")
    else:
        yield from _text_rows(file, path)


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from (batch.slice(at, PARQUET_ROWS) for at in range(0, batch.num_rows, PARQUET_ROWS))


def _shortest_floats(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with numbers of less than double precision as they were written: 0.1, not 0.10000000149011612."""
    for place, field in enumerate(batch.schema):
        if pa.types.is_float32(field.type) or pa.types.is_float16(field.type):
            column = batch.column(place).cast(pa.float32())
            written = [float(str(value)) for value in column.to_numpy(zero_copy_only=False)]
            numbers = pa.array(written, pa.float64(), mask=column.is_null().to_numpy(zero_copy_only=False))
            batch = batch.set_column(place, field.name, numbers)
    return batch


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. Raises ValueError if it has a name twice with different values: no one knows which one counts."""
    known = dict(pairs)
    if len(known) < len(pairs) and (twice := next((name for name, value in pairs if known[name] != value), None)):
        raise ValueError(f"the name {twice!r} twice in one object")
    return known


_DECODER = json.JSONDecoder(object_pairs_hook=_object)


def parsed(raw: Raw) -> list[Row | Malformed]:
    """The rows of a raw record; Malformed for one that cannot be parsed."""
    if isinstance(raw, dict | Malformed):
        return [raw]
    if not isinstance(raw, bytes):
        batch = _shortest_floats(raw)
        try:
            return batch.to_pylist()
        except (ValueError, OverflowError, LookupError):  # text that is not UTF-8, the year 10000, an unknown time zone
            return [_readable(batch.slice(at, 1)) for at in range(batch.num_rows)]
    try:
        return _rows_of(json.loads(raw, object_pairs_hook=_object))
    except (ValueError, RecursionError) as error:  # ValueError: not JSON, not UTF-8, or an enormous integer
        return [Malformed("line", f"not valid JSON ({error})")]


def _readable(row: pa.RecordBatch) -> Row | Malformed:
    """A row of which Python cannot hold each value: Malformed for broken text, null for a time that is no date."""
    values: Row = {}
    for name, column in zip(row.schema.names, row.columns, strict=True):
        try:
            (values[name],) = column.to_pylist()
        except UnicodeDecodeError as error:
            return Malformed(name, f"not UTF-8 text ({error})")
        except (ValueError, OverflowError, LookupError):
            values[name] = None
    return values


def _text_rows(file: Buffered, path: Path) -> Iterator[Row | Malformed | bytes]:
    start = file.peek(HEAD_BYTES)[:HEAD_BYTES].removeprefix(BYTE_ORDER_MARK).lstrip()
    try:
        if start[:1] == b"[":
            if _has_a_list_per_line(file):
                return _json_lines(file)
            values = [value if isinstance(value, list) and not _is_chat(value) else [value] for value in _values(file)]
            return chain.from_iterable(map(_rows_of, chain.from_iterable(values)))
        if start[:1] == b"{" and (records := _rows_of_objects(file, path)):
            return map(_checked, records)
    except (ValueError, RecursionError) as error:
        raise RatchetError(f"{path}: not valid JSON ({error}). Fetch the file again.") from error
    delimiter = csv_delimiter(start)
    return _json_lines(file) if delimiter is None else csv_rows(file, path, delimiter)


_SPACE = re.compile(r"\s*")
_ROWS_INSIDE = frozenset((
    "data", "rows", "examples", "train", "training", "test", "dev", "validation", "problems", "questions", "instances",
    "Instances", "items", "records", "samples", "dataset", "results", "tasks",
))  # fmt: skip
_SPLITS = frozenset(("train", "training", "test", "testing", "dev", "val", "valid", "validation", "eval"))
_NAMED_ROWS = re.compile(rb'\s*\{\s*"[^"]*"\s*:\s*\{')


def _rows_of_objects(file: Buffered, path: Path) -> list[Any] | None:
    """The rows of a file that is one object: its values, their values, or its lists of rows; several objects, not on a
    line each, are rows. None: JSON lines."""
    line = file.readline(MAX_LINE_BYTES)
    more = file.read(1)
    file.seek(0)
    in_lines = line.rstrip()[-1:] in (b"{", b"[", b",")
    if not in_lines and more and not _NAMED_ROWS.match(line):
        return None
    try:
        values = _values(file)
    except ValueError:
        if in_lines:
            raise
        values = []  # JSON lines, of which one is broken
    file.seek(0)
    if len(values) != 1:
        return values if in_lines or not more else None
    (value,) = values
    if _are_objects(groups := [*value.values()]):
        several = all(_are_objects([*group.values()]) for group in groups)
        return [row for group in groups for row in group.values()] if several else groups
    lists = {n: v for n, v in value.items() if isinstance(v, list) and v and _are_objects(v) and not _is_chat(v)}
    only_rows = 1 < len(value) == len(lists) == len(_rows_alike(lists))
    if not in_lines and not only_rows:  # {"data": [...]}; others are JSON lines
        if _ROWS_INSIDE.isdisjoint(value):
            return None
        lists = {name: rows for name, rows in lists.items() if name in _ROWS_INSIDE}
    alike = _rows_alike(lists)
    if len(splits := [name for name in alike if name.casefold() in _SPLITS]) > 1:
        raise RatchetError(f"{path}: it has the lists {', '.join(splits)}. Save the one to read as a file of its own.")
    return [row for rows in alike.values() for row in rows] if alike else [value]


def _are_objects(values: list[Any]) -> bool:
    return all(isinstance(value, dict) for value in values)


def _rows_alike(lists: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The largest list of rows and those that have most of its columns: no list of authors."""
    if not lists:
        return {}
    columns = {name: {*rows[0]} for name, rows in lists.items()}
    known = columns[max(lists, key=lambda name: len(str(lists[name])))]
    return {name: lists[name] for name, own in columns.items() if len(own & known) * 2 > min(len(own), len(known))}


def _values(file: BinaryIO) -> list[Any]:
    """The JSON values of a file, one after another."""
    text = file.read().decode("utf-8-sig")
    values, at = [], _SPACE.match(text).end()  # type: ignore[union-attr]
    while at < len(text):
        value, at = _DECODER.raw_decode(text, at)
        values.append(value)
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
    return values


def _json_lines(file: Iterable[bytes]) -> Iterator[Malformed | bytes]:
    for line in file:
        if len(line) > MAX_LINE_BYTES:
            yield Malformed("line", f"{len(line):,} bytes, more than {MAX_LINE_BYTES:,}")
        elif line := line.removeprefix(BYTE_ORDER_MARK).strip():
            yield line


def _has_a_list_per_line(file: Buffered) -> bool:
    """True if the first or second of several lines is a list by itself: one of both may be broken."""
    lines = [file.readline(MAX_LINE_BYTES) for _ in range(2)]
    file.seek(0)
    return bool(lines[1].strip()) and any(_is_list(line.removeprefix(BYTE_ORDER_MARK)) for line in lines)


def _is_list(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), list)
    except (ValueError, RecursionError):
        return False


def _is_chat(value: Any) -> bool:
    """True for a list of turns, which is one row; a list of other objects has a row in each."""
    return isinstance(value, list) and bool(value) and all(map(_is_turn, value))


def _is_turn(value: Any) -> bool:
    speaker, text = {"role", "from"}, {"content", "value", "ground_truth"}
    return isinstance(value, dict) and bool(value.keys() & speaker and value.keys() & text)


def _rows_of(value: Any) -> list[Row | Malformed]:
    """The rows of one JSON value."""
    objects = isinstance(value, list) and value and all(isinstance(row, dict) for row in value)
    return [_checked(row) for row in (value if objects and not _is_chat(value) else [value])]


def _checked(record: Any) -> Row | Malformed:
    if _is_chat(record):
        truth = next((turn["ground_truth"] for turn in record if turn.get("ground_truth")), None)  # Open-Reasoner-Zero
        return {"conversations": record, "ground_truth": truth.get("value") if isinstance(truth, dict) else truth}
    if isinstance(record, dict) and len(record) == 1 and isinstance(inner := next(iter(record.values())), dict):
        return inner  # a row under a name
    return record if isinstance(record, dict) else Malformed("row", f"{type(record).__name__} instead of an object")
