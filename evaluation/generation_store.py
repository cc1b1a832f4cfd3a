"""Stored generations, shared by all evaluations with the same settings.

    <root>/<benchmark>-<key16>/
        settings.json     the content of the key, for people
        <digest>.parquet  a part: generations that were decoded together, `STORED_SCHEMA`; never changed
        journal.jsonl     generations of an endpoint, one per line as they arrive; becomes a part

The key covers everything that decides a text: the model's content, the benchmark's name (seeds depend on it), sampling
settings, seed, engine. Within a store the key of a generation is problem, sample number and prompt: evaluations with
fewer samples or problems, or a corrected reference answer, sample nothing. A store may be deleted: finished evaluations
have their own copy.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.base.files import HALF_WRITTEN, disk_errors, exclusive, replacing, write_atomically
from ratchet.data_curation.base.journal import Journal, read_lines
from ratchet.verifiers.errors import RatchetError

STORED_SCHEMA = pa.schema(
    [
        pa.field("problem_id", pa.string(), nullable=False),
        pa.field("sample", pa.int32(), nullable=False),
        pa.field("prompt", pa.string(), nullable=False),  # digest of the prompt
        pa.field("text", pa.large_string(), nullable=False),
        pa.field("finish_reason", pa.string(), nullable=False),  # stop, length or error
        pa.field("tokens", pa.int32()),  # null if the endpoint does not count them
    ]
)
Key = tuple[str, int, str]
"""The key of a generation: problem_id, sample number, digest of the prompt."""
ROWS = b"sha256 of the rows"
"""A field in the metadata of a part."""
KEY_COLUMNS = ["problem_id", "sample", "prompt"]


class GenerationStore:
    """One directory of generations. `settings` is JSON; its hash names the directory."""

    def __init__(self, root: Path, name: str, settings: Mapping[str, Any]) -> None:
        self.name, self.settings = name, dict(settings)
        self.key = hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()
        self.directory = root / f"{name}-{self.key[:16]}"

    @contextmanager
    def locked(self, wait: Callable[[str], None] = lambda note: None) -> "Iterator[GenerationStore]":
        """Hold exclusive access: a second evaluation calls `wait`, waits, and then finds the generations of the
        first. The kernel releases the lock when its holder ends."""
        with ExitStack() as held:
            with disk_errors(self.directory):
                self.directory.mkdir(parents=True, exist_ok=True)
                held.enter_context(
                    exclusive(self.directory / ".lock", f"is sampling {self.name} with this model", wait)
                )
                if not (self.directory / "settings.json").exists():
                    write_atomically(self.directory / "settings.json", json.dumps(self.settings, indent=1))
                for leftover in self.directory.glob(f"*{HALF_WRITTEN}"):
                    leftover.unlink()
                self.seal()
            yield self

    def stored(self) -> dict[Key, Path]:
        """The part of each generation. Damaged parts are deleted, to be sampled again."""
        parts: dict[Key, Path] = {}
        for path in sorted(self.directory.glob("*.parquet")):
            try:
                with path.open("rb") as file:
                    table = pq.read_table(file, columns=KEY_COLUMNS)
            except (pa.ArrowException, OSError) as error:
                _check_disk(error, path)
                path.unlink()
                continue
            for key in zip(*(table[name].to_pylist() for name in KEY_COLUMNS), strict=True):
                parts.setdefault(key, path)
        return parts

    def part(self, keys: Sequence[Key]) -> Path:
        """The file of generations that are decoded together."""
        digest = hashlib.sha256(json.dumps(keys).encode()).hexdigest()
        return self.directory / f"{digest[:16]}.parquet"

    def write(self, rows: Sequence[Mapping[str, Any]]) -> dict[Key, Path]:
        """Write rows of `STORED_SCHEMA` as a part, atomically and durably; returns the part of each."""
        keys = [_key(row) for row in rows]
        path = self.part(keys)
        with disk_errors(path), replacing(path) as temporary:
            table = pa.Table.from_pylist(list(rows), schema=STORED_SCHEMA)
            pq.write_table(table.replace_schema_metadata({ROWS: _hash(table)}), temporary, compression="zstd")
        return dict.fromkeys(keys, path)

    def append(self, row: Mapping[str, Any]) -> None:
        """Append one generation to the journal, durably."""
        with Journal(self.directory / "journal.jsonl", durable=True) as journal:
            journal.append(row)

    def seal(self) -> dict[Key, Path]:
        """Turn the journal into a part; returns its generations. After a kill both may exist, with equal content."""
        journal = self.directory / "journal.jsonl"
        if not journal.exists():
            return {}
        rows = {_key(row): row for _, row in read_lines(journal)}
        where = self.write(list(rows.values())) if rows else {}
        journal.unlink()
        return where


@lru_cache(maxsize=1)  # batches are read in order
def read_part(path: Path) -> dict[Key, dict[str, Any]]:
    """The rows of a part by key. Raises RatchetError, and deletes the part, if it is damaged."""
    try:
        with path.open("rb") as file:
            table = pq.read_table(file, schema=STORED_SCHEMA)
            recorded = (pq.read_schema(file).metadata or {}).get(ROWS)
        if recorded and recorded != _hash(table):  # earlier parts have none
            raise OSError("its rows are not those that were written")
        rows = table.to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        _check_disk(error, path)
        path.unlink(missing_ok=True)
        raise RatchetError(f"{path} is damaged ({error}). Run again: its generations are sampled again.") from error
    return {_key(row): row for row in rows}


def _check_disk(error: Exception, path: Path) -> None:
    """Raises RatchetError for an error of the disk, which says nothing of the file: only that has a number."""
    if isinstance(error, OSError) and error.errno is not None:
        raise RatchetError(f"{path} cannot be read ({error}). Run again when it can: what it has is kept.") from error


def _hash(table: pa.Table) -> bytes:
    rows = json.dumps(table.to_pylist(), ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(rows.encode("utf-8", "surrogatepass")).hexdigest().encode()


def _key(row: Mapping[str, Any]) -> Key:
    return (row["problem_id"], row["sample"], row["prompt"])
