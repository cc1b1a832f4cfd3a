"""Any table with a column of text: Parquet, JSON lists and JSON lines, with whatever other columns they have.

Rows come in batches, as Arrow tables with the file's own columns, so that memory does not grow with the file. JSON has
no schema: the file is read once for it. A column whose values are of several types, or objects, is kept as JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ratchet.data_curation.readers.raw_files import PARQUET_MAGIC, Malformed, read_rows
from ratchet.infra.errors import RatchetError

TEXT_COLUMNS = (
    "problem", "question", "prompt", "text", "statement", "question_content", "description", "instruction", "query",
    "input", "content", "messages", "conversations", "conversation",
)  # fmt: skip
_CHATS = (("role", "content"), ("from", "value"))  # OpenAI's names for who speaks and what, and ShareGPT's
_USERS = ("user", "human")
DATE_COLUMNS = ("released", "release_date", "date", "contest_date", "published")
URL_COLUMNS = ("source_url", "url", "link")
BATCH_ROWS = 8192
_JSON_TEXT = pa.large_string()


@dataclass(frozen=True)
class Batch:
    """Some rows. `texts[i]` is the text of row i of `table`, null where there is none, for the reason `unusable[i]`."""

    table: pa.Table
    texts: pa.Array
    unusable: dict[int, str]


@dataclass(frozen=True)
class TextFile:
    path: Path
    schema: pa.Schema
    rows: int
    text_column: str
    json_columns: frozenset[str]
    is_parquet: bool

    def batches(self) -> Iterator[Batch]:
        """Every row of the file, in order. Raises RatchetError when the file turns out to be damaged."""
        if self.is_parquet:
            try:
                for part in pq.ParquetFile(self.path).iter_batches(BATCH_ROWS):
                    table = pa.Table.from_batches([part])
                    yield Batch(table, *_usable(_texts(table.column(self.text_column))))
            except (pa.ArrowException, OSError) as error:
                raise RatchetError(f"{self.path}: cannot be read ({error}). Fetch the file again.") from error
            return
        for rows in _chunks(read_rows(self.path)):
            records: list[dict[str, Any]] = [{} if isinstance(row, Malformed) else row for row in rows]
            table = pa.table([self._column(field, records) for field in self.schema], schema=self.schema)
            values = [_text(record.get(self.text_column)) for record in records]
            texts, unusable = _usable(pa.array(values, pa.large_string()))
            unusable |= {at: str(row) for at, row in enumerate(rows) if isinstance(row, Malformed)}
            yield Batch(table, texts, unusable)

    def _column(self, field: pa.Field, records: Sequence[dict[str, Any]]) -> pa.Array:
        values = [record.get(field.name) for record in records]
        if field.name in self.json_columns:
            values = [None if value is None else json.dumps(value) for value in values]
        return pa.array(values, field.type)


def open_text_file(path: Path, text_column: str | None = None) -> TextFile:
    """The file with its schema. `text_column` defaults to the first of `TEXT_COLUMNS` that holds text, or a chat, of
    which the last user's message is the text. Raises RatchetError for a file that cannot be read or has no such column.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            is_parquet = file.read(4) == PARQUET_MAGIC
        if is_parquet:
            with pq.ParquetFile(path) as parquet:
                schema, rows, json_columns = parquet.schema_arrow.remove_metadata(), parquet.metadata.num_rows, set()
        else:
            schema, rows, json_columns = _json_schema(path)
    except FileNotFoundError:
        raise RatchetError(f"{path}: no such file. Check the path.") from None
    except (pa.ArrowException, OSError) as error:
        raise RatchetError(f"{path}: cannot be read ({error}). Fetch or unpack the file again.") from error
    column = _find_text_column(path, schema, json_columns, text_column)
    return TextFile(path, schema, rows, column, frozenset(json_columns), is_parquet)


def named_column(table: pa.Table, names: Sequence[str]) -> pa.ChunkedArray | None:
    """The first of these columns that the table has, in any case."""
    by_name = {name.lower(): name for name in reversed(table.column_names)}
    return next((table.column(by_name[name]) for name in names if name in by_name), None)


def _find_text_column(path: Path, schema: pa.Schema, json_columns: set[str], asked: str | None) -> str:
    there = f"its columns are {', '.join(schema.names) or 'none'}"
    if asked is not None and asked not in schema.names:
        raise RatchetError(f"{path}: there is no column {asked!r}, {there}.")
    names = [asked] if asked else [n for usual in TEXT_COLUMNS for n in schema.names if n.lower() == usual]
    for name in names:
        if name in json_columns or _holds_text(schema.field(name).type):
            return name
    if asked:
        raise RatchetError(f"{path}: column {asked!r} is {schema.field(asked).type} and holds no text, {there}.")
    raise RatchetError(f"{path}: none of its columns has a usual name for texts, {there}. Name one with --text-column.")


def _holds_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _holds_text(kind.value_type)
    chat = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if chat and pa.types.is_struct(kind.value_type):
        return any({*names} <= {field.name for field in kind.value_type} for names in _CHATS)
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _texts(column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return pa.array([_text(value) for value in column.to_pylist()], pa.large_string())
    return column.cast(pa.large_string()).combine_chunks()


def _text(value: Any) -> str | None:
    if isinstance(value, list):
        turns = [turn for turn in value if isinstance(turn, dict)]
        asked = [turn.get(text) for turn in turns for who, text in _CHATS if turn.get(who) in _USERS]
        value = asked[-1] if asked else None
    return value.encode(errors="replace").decode() if isinstance(value, str) else None


def _usable(texts: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    texts = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    blank = pc.fill_null(pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(texts)), 0), True)
    places = pc.indices_nonzero(blank).to_pylist()
    if not places:
        return texts, {}
    return pc.if_else(blank, pa.scalar(None, pa.large_string()), texts), dict.fromkeys(places, "no text")


# ----------------------------------------------------------------------------------------- JSON


def _json_schema(path: Path) -> tuple[pa.Schema, int, set[str]]:
    """Types of all columns, the number of rows, and the columns that are kept as JSON text."""
    kinds: dict[str, pa.DataType] = {}
    rows = 0
    for chunk in _chunks(read_rows(path)):
        rows += len(chunk)
        records = [row for row in chunk if not isinstance(row, Malformed)]
        for name in dict.fromkeys(name for record in records for name in record):
            kind = _kind([record.get(name) for record in records])
            kinds[name] = _common(kinds.get(name, pa.null()), kind)
    if not kinds:
        raise RatchetError(f"{path}: no row of it can be read. Is it the right file?")
    as_json = {name for name, kind in kinds.items() if kind == pa.binary()}
    final = {name: _JSON_TEXT if name in as_json else pa.string() if kind == pa.null() else kind
             for name, kind in kinds.items()}  # fmt: skip
    return pa.schema(final.items()), rows, as_json


def _kind(values: Sequence[Any]) -> pa.DataType:
    """The Arrow type of plain values and lists of them; `binary`, which JSON cannot have, stands for anything else."""
    try:
        kind = pa.infer_type(values)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return pa.binary()
    inner = kind.value_type if pa.types.is_list(kind) else kind
    if pa.types.is_nested(inner):
        return pa.binary()
    try:
        pa.array(values, kind)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return pa.binary()
    return pa.large_string() if kind == pa.string() else kind


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if {one, other} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pa.types.is_list(one) and pa.types.is_list(other):
        inner = _common(one.value_type, other.value_type)
        return inner if inner == pa.binary() else pa.list_(inner)
    return pa.binary()


def _chunks(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while chunk := list(islice(rows, BATCH_ROWS)):
        yield chunk


def common_schema(files: Sequence[TextFile]) -> pa.Schema:
    """The columns of all files. Raises RatchetError for one that is of types in two files that do not go together."""

    def merge(one: pa.Schema, file: TextFile) -> pa.Schema:
        for field in file.schema:
            if field.name in one.names:
                try:
                    pa.unify_schemas([pa.schema([one.field(field.name)]), pa.schema([field])],
                                     promote_options="permissive")  # fmt: skip
                except pa.ArrowException:
                    other = one.field(field.name).type
                    raise RatchetError(
                        f"{file.path}: column {field.name!r} is {field.type}, but {other} in another input. Give "
                        "inputs of the same columns, or one at a time."
                    ) from None
        return pa.unify_schemas([one, file.schema], promote_options="permissive")

    return reduce(merge, files[1:], files[0].schema)


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with the columns of `schema`: cast, or null where it has none."""
    columns = [
        table.column(field.name).cast(field.type) if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]  # fmt: skip
    return pa.table(columns, schema=schema)
