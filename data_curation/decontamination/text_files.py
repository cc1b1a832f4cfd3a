"""Read any table with a column of text, whatever its other columns: Parquet, Arrow, or a format that `read_rows` reads.

Rows come in batches, as Arrow tables with the file's own columns, so that memory does not grow with the file. JSON has
no schema, so the file is read once for the types; a column of lists, objects or mixed types is kept as JSON text.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from ratchet.data_curation.readers.columns import RawRow, chat_of, chat_turns
from ratchet.data_curation.readers.raw_files import PARQUET_ROWS, Malformed, Row, parsed, raw_rows
from ratchet.verifiers.errors import RatchetError

TEXT_COLUMNS = (
    "problem", "question", "prompt", "text", "statement", "question_content", "description", "instruction", "query",
    "input", "content", "messages", "conversations", "conversation",
)  # fmt: skip
_CHATS = (("role", "content"), ("from", "value"))  # of OpenAI and of ShareGPT
BATCH_ROWS = 8192
Batch = tuple[pa.Table, pa.Array, dict[int, str]]
"""Some rows; the text of each, null where there is none; and the reasons for the nulls by row."""


@dataclass(frozen=True)
class TextFile:
    """A file with a column of texts; `json_columns` are kept as JSON text."""

    path: Path
    schema: pa.Schema
    rows: int
    text_column: str
    json_columns: frozenset[str]

    def batches(self, text_of: Callable[[Row, str], str]) -> Iterator[Batch]:
        """Every row of the file, in order, with the text that `text_of` finds in the text column. Raises RatchetError
        for a damaged file."""
        name = self.text_column
        for chunk in _chunks(self.path):
            rows = chunk if isinstance(chunk, list) else _rows_with(name, chunk)
            texts, unusable = [], {}
            for at, row in enumerate(rows):
                try:
                    if isinstance(row, Malformed):
                        raise row
                    texts.append(text_of(row, name))
                except Malformed as fault:
                    texts.append(None)
                    unusable[at] = str(fault)
            yield self._typed(chunk) if isinstance(chunk, list) else chunk, pa.array(texts, pa.large_string()), unusable

    def _typed(self, rows: Sequence[Row | Malformed]) -> pa.Table:
        arrays = []
        for field in self.schema:
            values = [None if isinstance(row, Malformed) else row.get(field.name) for row in rows]
            if field.name in self.json_columns:
                values = [None if value is None else json.dumps(value) for value in values]
            arrays.append(pa.array(values, field.type))
        return pa.table(arrays, schema=self.schema)


def _rows_with(name: str, chunk: pa.Table) -> list[Row | Malformed]:
    """The rows of a table, with their text only; other files of an archive may have it under another name."""
    if name not in chunk.column_names:
        return [{} for _ in range(len(chunk))]
    return [row for batch in chunk.select([name]).to_batches() for row in parsed(batch)]


def said_by_user(row: Row, name: str) -> str:
    """All that the user says in a row, which may be a chat of several turns: a model is trained on each of them."""
    if (chat := chat_of(row.get(name), name)) is None:
        return RawRow({name: row.get(name)}).take_text(name)
    said = [RawRow({name: text}).take_text(name) for role, text in chat_turns(chat, name) if role == "user"]
    if not said:
        raise Malformed(name, "a chat without a user message")
    return "\n\n".join(said)


def asked_by_item(row: Row, name: str) -> str:
    """The question of a benchmark's item, without the worked examples that its items may share in front of it."""
    try:
        return RawRow({name: row.get(name)}).take_statement(name)
    except Malformed:
        return said_by_user(row, name)


def open_text_file(path: Path, text_column: str | None = None, required: bool = True) -> TextFile:
    """The file with its schema. Without `text_column`, or without texts in it where it is not `required`, the texts are
    in the first of `TEXT_COLUMNS` that has text or chats. Raises RatchetError for a file that cannot be read or has no
    such column."""
    schema, rows, json_columns = _shape(path)
    there = f"its columns are {', '.join(schema.names)}"
    if required and text_column is not None and text_column not in schema.names:
        raise RatchetError(f"{path}: there is no column {text_column!r}, {there}.")
    usual = [name for text in TEXT_COLUMNS for name in schema.names if name.lower() == text]
    named = [name for name in schema.names if name == text_column]
    for name in named if text_column and required else [*named, *usual]:
        if name in json_columns or _holds_text(schema.field(name).type):
            return TextFile(path, schema, rows, name, json_columns)
    if text_column and required:
        kind = schema.field(text_column).type
        raise RatchetError(f"{path}: column {text_column!r} is {kind} and holds no text, {there}.")
    raise RatchetError(f"{path}: none of its columns has a usual name for texts, {there}. Name one with --text-column.")


def named_column(table: pa.Table, names: Sequence[str]) -> pa.ChunkedArray | None:
    """The first of these columns that the table has, ignoring case."""
    by_name = {name.lower(): name for name in reversed(table.column_names)}
    return next((table.column(by_name[name]) for name in names if name in by_name), None)


def common_schema(files: Sequence[TextFile]) -> pa.Schema:
    """The columns of all files. Raises RatchetError for a column of incompatible types in two files."""
    return _unified([file.schema for file in files], ", ".join(str(file.path) for file in files))


def _unified(schemas: Sequence[pa.Schema], paths: str) -> pa.Schema:
    try:
        return pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowException as error:
        raise RatchetError(f"{paths}: {error}. Give inputs of the same columns, or one at a time.") from error


def fitted(table: pa.Table, schema: pa.Schema, path: Path) -> pa.Table:
    """The table with the columns of `schema`: cast, or null where it lacks them. Raises RatchetError for a value of
    `path` that the type does not hold, such as a whole number of 17 digits where other inputs have fractions."""
    try:
        whole = pa.concat_tables([schema.empty_table(), table], promote_options="permissive")
        return whole.select(schema.names).cast(schema)
    except pa.ArrowException as error:
        raise RatchetError(f"{path}: {error}. Give inputs of the same columns, or one at a time.") from error


def _holds_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _holds_text(kind.value_type)
    chat = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if chat and pa.types.is_struct(kind.value_type):
        return any({*names} <= {field.name for field in kind.value_type} for names in _CHATS)
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


class _Long:
    """The kind of a whole number that no float holds."""


_TYPES = {
    frozenset({_Long}): pa.int64(), frozenset({int, _Long}): pa.int64(),
    frozenset[type](): pa.string(), frozenset({bool}): pa.bool_(), frozenset({str}): pa.large_string(),
    frozenset({int}): pa.int64(), frozenset({float}): pa.float64(), frozenset({int, float}): pa.float64(),
}  # fmt: skip


def _shape(path: Path) -> tuple[pa.Schema, int, frozenset[str]]:
    """Types of all columns, the number of rows, and the columns that are kept as JSON text."""
    kinds: dict[str, set[type]] = {}
    rows, schemas = 0, list[pa.Schema]()
    for chunk in _chunks(path):
        rows += len(chunk)
        if isinstance(chunk, pa.Table):
            schemas += [] if chunk.schema in schemas else [chunk.schema]
            continue
        for record in chunk:
            for name, value in {} if isinstance(record, Malformed) else record.items():
                kinds.setdefault(name, set()).update(() if value is None else (_kind(value),))
    if not kinds and not schemas:
        raise RatchetError(f"{path}: no row of it can be read. Is it the right file?")
    types = {name: _TYPES.get(frozenset(types_of_column)) for name, types_of_column in kinds.items()}
    schemas.append(pa.schema([(name, kind or pa.large_string()) for name, kind in types.items()]))
    schema = _unified([each.remove_metadata() for each in schemas], str(path))
    return schema, rows, frozenset(name for name, kind in types.items() if kind is None)


def _kind(value: Any) -> type:
    """The type of a plain value; `object` for one that only JSON text can hold."""
    if isinstance(value, str):
        return str if value.isascii() or not re.search("[\ud800-\udfff]", value) else object
    if type(value) is int and abs(value) > 2**53:
        return _Long if -(2**63) <= value < 2**63 else object
    return type(value)


def _chunks(path: Path) -> Iterator[Any]:
    """The rows in chunks, tables of Parquet files and lists of the others'; an archive may have both."""
    for schema, alike in groupby(raw_rows(path), lambda raw: getattr(raw, "schema", None)):
        while some := [*islice(alike, BATCH_ROWS // PARQUET_ROWS if schema else BATCH_ROWS)]:
            if schema:
                yield pa.Table.from_batches(some)
            else:
                yield [row for raw in some for row in parsed(raw)]
