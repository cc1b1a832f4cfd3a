"""Any table with a column of text: Parquet, or whatever `read_rows` reads, with whatever other columns it has.

Rows come in batches, as Arrow tables with the file's own columns, so that memory does not grow with the file. JSON has
no schema: the file is read once for it. A column whose values are of several types, or objects, is kept as JSON text.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.readers.columns import take_statement
from ratchet.data_curation.readers.raw_files import PARQUET_ROWS, Malformed, Row, parsed, raw_rows
from ratchet.infra.errors import RatchetError

TEXT_COLUMNS = (
    "problem", "question", "prompt", "text", "statement", "question_content", "description", "instruction", "query",
    "input", "content", "messages", "conversations", "conversation",
)  # fmt: skip
_CHATS = (("role", "content"), ("from", "value"))  # OpenAI's names for who speaks and what, and ShareGPT's
BATCH_ROWS = 8192
Batch = tuple[pa.Table, pa.Array, dict[int, str]]
"""Some rows; the text of each, null where it has none; and of these the reason."""


@dataclass(frozen=True)
class TextFile:
    path: Path
    schema: pa.Schema
    rows: int
    text_column: str
    json_columns: frozenset[str]

    def batches(self) -> Iterator[Batch]:
        """Every row of the file, in order. Raises RatchetError when the file turns out to be damaged."""
        for chunk in _chunks(self.path):
            table = self._typed(chunk) if isinstance(chunk, list) else chunk
            rows = chunk if isinstance(chunk, list) else chunk[self.text_column].to_pylist()
            texts, unusable = [], {}
            for at, row in enumerate(rows):
                try:
                    if isinstance(row, Malformed):
                        raise row
                    value = row.get(self.text_column) if chunk is rows else row
                    texts.append(take_statement({self.text_column: value}, self.text_column))
                except Malformed as fault:
                    texts.append(None)
                    unusable[at] = str(fault)
            yield table, pa.array(texts, pa.large_string()), unusable

    def _typed(self, rows: Sequence[Row | Malformed]) -> pa.Table:
        arrays = []
        for field in self.schema:
            values = [None if isinstance(row, Malformed) else row.get(field.name) for row in rows]
            if field.name in self.json_columns:
                values = [None if value is None else json.dumps(value) for value in values]
            arrays.append(pa.array(values, field.type))
        return pa.table(arrays, schema=self.schema)


def open_text_file(path: Path, text_column: str | None = None) -> TextFile:
    """The file with its schema. `text_column` defaults to the first of `TEXT_COLUMNS` that holds text, or a chat, of
    which the last user's message is the text. Raises RatchetError for a file that cannot be read or has no such column.
    """
    schema, rows, json_columns = _shape(path)
    there = f"its columns are {', '.join(schema.names)}"
    if text_column is not None and text_column not in schema.names:
        raise RatchetError(f"{path}: there is no column {text_column!r}, {there}.")
    usual = [name for text in TEXT_COLUMNS for name in schema.names if name.lower() == text]
    for name in [text_column] if text_column else usual:
        if name in json_columns or _holds_text(schema.field(name).type):
            return TextFile(path, schema, rows, name, json_columns)
    if text_column:
        kind = schema.field(text_column).type
        raise RatchetError(f"{path}: column {text_column!r} is {kind} and holds no text, {there}.")
    raise RatchetError(f"{path}: none of its columns has a usual name for texts, {there}. Name one with --text-column.")


def named_column(table: pa.Table, names: Sequence[str]) -> pa.ChunkedArray | None:
    """The first of these columns that the table has, in any case."""
    by_name = {name.lower(): name for name in reversed(table.column_names)}
    return next((table.column(by_name[name]) for name in names if name in by_name), None)


def common_schema(files: Sequence[TextFile]) -> pa.Schema:
    """The columns of all files. Raises RatchetError for one that is of types in two files that do not go together."""
    try:
        return pa.unify_schemas([file.schema for file in files], promote_options="permissive")
    except pa.ArrowException as error:
        paths = ", ".join(str(file.path) for file in files)
        raise RatchetError(f"{paths}: {error}. Give inputs of the same columns, or one at a time.") from error


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with the columns of `schema`: cast, or null where it has none."""
    there = table.column_names
    columns = [table.column(f.name).cast(f.type) if f.name in there else pa.nulls(len(table), f.type) for f in schema]
    return pa.table(columns, schema=schema)


def _holds_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _holds_text(kind.value_type)
    chat = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if chat and pa.types.is_struct(kind.value_type):
        return any({*names} <= {field.name for field in kind.value_type} for names in _CHATS)
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _shape(path: Path) -> tuple[pa.Schema, int, frozenset[str]]:
    """Types of all columns, the number of rows, and the columns that are kept as JSON text."""
    kinds: dict[str, pa.DataType | None] = {}  # None: JSON text
    rows = 0
    for chunk in _chunks(path):
        if not isinstance(chunk, list):
            return chunk.schema.remove_metadata(), pq.read_metadata(path).num_rows, frozenset()
        rows += len(chunk)
        records = [row for row in chunk if not isinstance(row, Malformed)]
        for name in dict.fromkeys(name for record in records for name in record):
            kind = _kind([record.get(name) for record in records])
            kinds[name] = _common(kinds.get(name, pa.null()), kind)
    if not kinds:
        raise RatchetError(f"{path}: no row of it can be read. Is it the right file?")
    as_text = {name: pa.large_string() if kind is None else kind for name, kind in kinds.items()}
    schema = pa.schema([(name, pa.string() if kind == pa.null() else kind) for name, kind in as_text.items()])
    return schema, rows, frozenset(name for name, kind in kinds.items() if kind is None)


def _kind(values: Sequence[Any]) -> pa.DataType | None:
    """The Arrow type of plain values and lists of them; None for anything else."""
    try:
        kind = pa.array(values).type
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return None
    inner = kind.value_type if pa.types.is_list(kind) else kind
    return None if pa.types.is_nested(inner) else pa.large_string() if kind == pa.string() else kind


def _common(one: pa.DataType | None, other: pa.DataType | None) -> pa.DataType | None:
    """The type that holds values of both; None when there is none."""
    if one is None or other is None:
        return None
    try:
        schemas = [pa.schema([("both", one)]), pa.schema([("both", other)])]
        return pa.unify_schemas(schemas, promote_options="permissive").field("both").type
    except pa.ArrowException:
        return None


def _chunks(path: Path) -> Iterator[pa.Table | list[Row | Malformed]]:
    raw = raw_rows(path)
    for first in raw:
        if isinstance(first, pa.RecordBatch):
            yield pa.Table.from_batches([first, *islice(raw, BATCH_ROWS // PARQUET_ROWS - 1)])  # type: ignore[list-item]
        else:
            yield [row for one in (first, *islice(raw, BATCH_ROWS - 1)) for row in parsed(one)]
