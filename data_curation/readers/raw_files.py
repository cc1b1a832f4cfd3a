"""Rows of a file as dictionaries: JSON lists, JSON lines and Parquet, gzipped or not.

Parquet and JSON lines come row by row, whatever their size. A JSON list is one value, and is read whole.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.infra.errors import RatchetError

PARQUET_MAGIC, GZIP_MAGIC, BYTE_ORDER_MARK = b"PAR1", b"\x1f\x8b", b"\xef\xbb\xbf"
PARQUET_ROWS = 128
"""Rows held as Python objects at a time. A row with its tests can be megabytes."""


class Malformed(Exception):
    """A row that cannot be read. Expected in raw data, so a value here: it becomes a rejected row."""

    def __init__(self, field: str, reason: str):
        super().__init__(f"{field}: {reason}")
        self.field, self.reason = field, reason


def read_rows(path: Path) -> Iterator[dict[str, Any] | Malformed]:
    """Each record of the file in order, blank lines aside; one that is not an object is given as `Malformed`.

    Raises RatchetError when there is no such file, or it is none of the containers above.
    """
    try:
        with path.open("rb") as file:
            if file.peek(4)[:4] == PARQUET_MAGIC:
                yield from _parquet_rows(file)
            elif file.peek(2)[:2] == GZIP_MAGIC:
                with gzip.open(file) as unpacked:
                    yield from _json_rows(unpacked, path)
            else:
                yield from _json_rows(file, path)
    except FileNotFoundError:
        raise RatchetError(f"{path}: no such file. Check the path of this input.") from None
    except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
        raise RatchetError(f"{path}: cannot be read ({error}). Fetch or unpack the file again.") from error


def _parquet_rows(file: BinaryIO) -> Iterator[dict[str, Any]]:
    for batch in pq.ParquetFile(file).iter_batches(batch_size=PARQUET_ROWS):
        yield from batch.to_pylist()


def _json_rows(file: Any, path: Path) -> Iterator[dict[str, Any] | Malformed]:
    buffered = io.BufferedReader(file) if isinstance(file, gzip.GzipFile) else file
    if _first_character(buffered) == b"[":
        try:
            records = json.load(buffered)
        except (ValueError, RecursionError) as error:
            raise RatchetError(f"{path}: not valid JSON ({error}). Fetch the file again.") from error
        for record in records:
            yield _checked(record)
        return
    for line in buffered:
        line = line.removeprefix(BYTE_ORDER_MARK)
        if not line.strip():
            continue
        try:
            yield _checked(json.loads(line))
        except (ValueError, RecursionError) as error:  # ValueError: not JSON, not UTF-8, or an enormous integer
            yield Malformed("line", f"not valid JSON ({error})")


def _checked(record: Any) -> dict[str, Any] | Malformed:
    return record if isinstance(record, dict) else Malformed("row", f"{type(record).__name__} instead of an object")


def _first_character(buffered: Any) -> bytes:
    return buffered.peek(64).removeprefix(BYTE_ORDER_MARK).lstrip()[:1]
