"""The data of a rehearsal: a few rows of each data set, in its published files, columns and containers."""

import gzip
import json
import shutil
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.readers.sources import local_files
from ratchet.infra.recipe import Recipe
from ratchet.infra.recipe.evaluation import named_path
from ratchet.rehearsal.layouts import LAYOUTS, write_layout
from ratchet.tasks.inputs import GENERATED
from ratchet.verifiers.errors import RatchetError

ROWS = 60
"""Rows of a file: enough that some are dropped and some are left at each step."""


def on_hub(recipe: Recipe) -> dict[str, list[str]]:
    """The paths that the recipe reads from the Hub, by repository `OWNER/NAME`."""
    paths = [path for own in recipe.curation.values() for path in (*own.inputs, *map(named_path, own.benchmarks))]
    paths += [benchmark.path for benchmark in recipe.evaluation.benchmarks if benchmark.path]
    repositories: dict[str, list[str]] = {}
    for path in dict.fromkeys(paths):
        local = path.startswith((GENERATED, "/", ".", "~")) or Path(path).exists()
        if not local:
            repositories.setdefault(repository(path), []).append(path)
    return dict(sorted(repositories.items()))


def repository(path: str) -> str:
    """OWNER/NAME of a path on the Hub."""
    return "/".join(path.removeprefix("hf://").removeprefix("datasets/").partition("@")[0].split("/")[:2])


def collect(recipe: Recipe, samples: Path | None, published: bool, directory: Path) -> list[str]:
    """Write `directory/datasets/OWNER/NAME/FILE` for each data set of the recipe on the Hub: a copy of that directory
    of `samples` where it exists; else, unless `published`, the bundled rows in its layout; else the first rows of the
    published files. Returns the names.

    Raises RatchetError for a data set that is nowhere."""
    repositories = on_hub(recipe)
    for name, paths in repositories.items():
        place = directory / "datasets" / name
        own = samples / "datasets" / name if samples else None
        if own and own.is_dir():
            shutil.copytree(own, place)
            continue
        if name in LAYOUTS and not published:
            write_layout(name, place)
            continue
        try:
            files = dict.fromkeys(file for path in paths for file in local_files(path))
        except RatchetError as error:
            raise RatchetError(
                f"{error} For a rehearsal without it, put a few rows in the same layout at "
                f"SAMPLES/datasets/{name}/FILE, with the file's published name, and give --samples SAMPLES."
            ) from error
        for file in files:
            _first_rows(file, place / _published_name(file, name))
    return list(repositories)


def in_cache(name: str) -> str:
    """The directory in the Hub's cache of the data set OWNER/NAME."""
    return f"datasets--{name.replace('/', '--')}/"


def _published_name(file: Path, name: str) -> str:
    """The file's path in its repository, from its place in the Hub's cache."""
    _, snapshots, rest = str(file).partition(f"{in_cache(name)}snapshots/")
    return rest.partition("/")[2] if snapshots else file.name


def _first_rows(file: Path, target: Path) -> None:
    """A file with the first `ROWS` rows in the same container. One that is not read by rows is copied."""
    target.parent.mkdir(parents=True, exist_ok=True)
    name = file.name.removesuffix(".gz")
    opened: Any = gzip.open if file.name.endswith(".gz") else open
    if name.endswith(".parquet"):
        batch = next(pq.ParquetFile(file).iter_batches(ROWS))
        pq.write_table(pa.Table.from_batches([batch]), target)
    elif name.endswith((".jsonl", ".ndjson")):
        with opened(file, "rt", encoding="utf-8") as lines, opened(target, "wt", encoding="utf-8") as out:
            out.writelines(islice(lines, ROWS))
    elif name.endswith(".json"):
        with opened(file, "rt", encoding="utf-8") as text, opened(target, "wt", encoding="utf-8") as out:
            rows: Iterable[Any] = json.load(text)
            json.dump(rows[:ROWS] if isinstance(rows, list) else rows, out, ensure_ascii=False)
    else:
        shutil.copy(file, target)
