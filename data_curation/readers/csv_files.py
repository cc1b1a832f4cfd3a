"""Read the rows of a CSV or TSV file as a stream, also behind a quote that is not closed."""

import csv
import io
import re
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ratchet.data_curation.readers.malformed import Malformed, Row, check_names
from ratchet.verifiers.errors import RatchetError

_A_LETTER = re.compile(r"[^\W\d_]")
_ROWS_BEHIND = 5
"""Lines with the header's number of values behind a quote, from which on they are rows of their own."""


def csv_delimiter(start: bytes) -> str | None:
    """The separator of the columns; None for JSON lines, of which the first may be broken."""
    lines = start.splitlines()
    if not lines or any(line.lstrip()[:1] in (b"{", b"[") for line in lines[:2]):
        return None
    header = lines[0].decode(errors="replace")
    delimiter = max(",\t;", key=header.count)
    return delimiter if delimiter in header else None


class _Lines:
    """The lines of a CSV file, of which those of the last record can be returned to be read again."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = io.TextIOWrapper(file, "utf-8-sig", newline="")
        self._again: deque[str] = deque()
        self.record: list[str] = []
        self.number = 0
        """The number of lines that were read."""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else next(self._file)
        self.record.append(line)
        self.number += 1
        return line

    def retreat(self, lines: int) -> None:
        self._again.extendleft(reversed(self.record[len(self.record) - lines :]))
        self.number -= lines


def _swallows_rows(record: list[str], columns: int, delimiter: str, closed: bool) -> bool:
    """True if the lines behind the first of a record are rows of their own, because a quote in the first is not closed;
    the last line, at which the reader saw it, says nothing. A quote that is closed may be around a text of several
    lines, whose tables of numbers are no rows."""
    rows = [values for values in csv.reader(record[1:-1], delimiter=delimiter) if values]
    right = sum(len(values) == columns and any(map(_A_LETTER.search, values)) for values in rows)
    return right >= _ROWS_BEHIND and right >= 0.9 * len(rows) if closed else right * 2 >= len(rows)


def csv_rows(file: BinaryIO, path: Path, delimiter: str) -> Iterator[Row | Malformed]:
    """Rows with the header's names. All values are text; an empty one is None. A row with a quote that is not closed is
    Malformed by itself."""
    csv.field_size_limit(sys.maxsize)
    source = _Lines(file)
    lines = csv.reader(source, delimiter=delimiter, strict=True)
    try:
        try:
            header = [name.strip() or f"column {number}" for number, name in enumerate(next(lines), 1)]
        except csv.Error as error:
            raise RatchetError(f"{path}: its header is not valid CSV ({error}).") from error
        check_names(header, path)
        while True:
            source.record.clear()
            first, values, fault = source.number + 1, list[str](), None
            try:
                values = next(lines)
            except StopIteration:
                return
            except csv.Error as error:
                fault = error
            behind = len(source.record) - 1
            if behind and _swallows_rows(source.record, len(header), delimiter, closed=not fault):
                source.retreat(behind)
                lines = csv.reader(source, delimiter=delimiter, strict=True)
                yield Malformed("line", f"a quote in line {first} is not closed")
            elif fault:
                yield Malformed("line", f"lines {first} to {source.number} are not valid CSV ({fault})")
            elif len(values) == len(header):
                yield {name: value or None for name, value in zip(header, values, strict=True)}
            elif values:  # a blank line has none
                yield Malformed("line", f"{len(values)} values instead of {len(header)} at line {source.number}")
    except UnicodeDecodeError as error:
        raise RatchetError(f"{path}: this CSV is not UTF-8 text ({error}). Save it as UTF-8.") from error
