"""Collect the data of a rehearsal: a few rows of each data set, in its published files, columns and containers."""

import gzip
import json
import shutil
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.readers.raw_files import SUFFIXES
from ratchet.data_curation.readers.sources import local_files
from ratchet.infra.recipe import Recipe
from ratchet.infra.recipe.evaluation import named_path
from ratchet.infra.recipe.load import validate_recipe, with_paths
from ratchet.rehearsal.layouts import layouts, write_layout
from ratchet.tasks.inputs import GENERATED
from ratchet.verifiers.errors import RatchetError

ROWS = 60
"""Rows of a file: enough that each step drops some and leaves some."""
OWN = ("train.jsonl", "test.jsonl")
"""Bundled files for a shipped recipe that leaves its files to the user."""


def collect(recipe: Recipe, samples: Path | None, published: bool, directory: Path) -> Recipe:
    """Write a few rows of everything that the recipe reads, and return the recipe that reads them.

    A data set on the Hub becomes `directory/datasets/OWNER/NAME/FILE`: a copy of that directory of `samples` where it
    exists; else, unless `published`, the bundled rows in its layout; else the first rows of the published files. A path
    on this machine: `files/NAME` of `samples`, else the file's first rows. Raises
    RatchetError for data that are nowhere."""
    recipe = _with_own(recipe)
    for name, paths in on_hub(recipe).items():
        place = directory / "datasets" / name
        if samples and (own := samples / "datasets" / name).is_dir():
            shutil.copytree(own, place)
        elif name in layouts() and not published:
            write_layout(name, place)
        else:
            for file in dict.fromkeys(file for path in paths for file in _files(path, f"datasets/{name}/FILE")):
                _first_rows(file, place / _published_name(file, name))
    places = {
        path: str(_on_this_machine(recipe, path, samples, directory / f"files/{number}"))
        for number, path in enumerate(filter(is_local, _paths(recipe)))
    }
    data = with_paths(recipe.model_dump(mode="json"), lambda path: places.get(path, path))
    return validate_recipe(data, recipe.name)


def on_hub(recipe: Recipe) -> dict[str, list[str]]:
    """The paths that the recipe reads from the Hub, by repository `OWNER/NAME`."""
    repositories: dict[str, list[str]] = {}
    for path in _paths(recipe):
        if not path.startswith(GENERATED) and not is_local(path):
            repositories.setdefault(repository(path), []).append(path)
    return dict(sorted(repositories.items()))


def is_local(path: str) -> bool:
    is_file = path.startswith(("/", ".", "~")) or path.endswith(SUFFIXES) or Path(path).exists()
    return is_file and "://" not in path


def repository(path: str) -> str:
    """The repository, OWNER/NAME, of a path on the Hub."""
    return "/".join(path.removeprefix("hf://").removeprefix("datasets/").partition("@")[0].split("/")[:2])


def in_cache(name: str) -> str:
    """The directory of the data set OWNER/NAME in the Hub's cache."""
    return f"datasets--{name.replace('/', '--')}/"


def _paths(recipe: Recipe) -> list[str]:
    paths = [path for own in recipe.curation.values() for path in (*own.inputs, *map(named_path, own.benchmarks))]
    paths += [benchmark.path for benchmark in recipe.evaluation.benchmarks if benchmark.path]
    paths += recipe.training.warm_start.file_names if recipe.training.warm_start else ()
    return list(dict.fromkeys(paths))


def _with_own(recipe: Recipe) -> Recipe:
    """`own-data` leaves its files to the user: it gets the bundled ones."""
    data = recipe.model_dump(mode="json")
    for domain, own in data["curation"].items():
        if not own["inputs"] and recipe.name not in layouts():
            raise RatchetError(f"curation.{domain}.inputs is empty: name the files or data sets to rehearse with.")
        if not own["inputs"]:
            train, test = OWN
            own.update(inputs=[train], benchmarks=[test])
            asked = {"name": "test", "domain": domain, "path": test, "samples": max(recipe.evaluation.pass_at)}
            data["evaluation"]["benchmarks"] = data["evaluation"]["benchmarks"] or [asked]
    return validate_recipe(data, recipe.name)


def _files(path: str, place: str) -> list[Path]:
    try:
        files = local_files(path)
        if missing := [file for file in files if not file.exists()]:
            raise RatchetError(f"{missing[0]}: there is no such file.")
        return files
    except RatchetError as error:
        raise RatchetError(
            f"{error} For a rehearsal without it, put a few rows in the same layout at SAMPLES/{place}, with the "
            "file's published name, and give --rows DIR."
        ) from error


def _on_this_machine(recipe: Recipe, path: str, samples: Path | None, place: Path) -> Path:
    """The path that the recipe reads in place of another: one file, or the directory of several."""
    name = Path(path).name
    if samples and (own := samples / "files" / name).exists():
        return own.resolve()
    if not Path(path).exists() and name in layouts().get(recipe.name, {}):
        write_layout(recipe.name, place)
        return place / name
    files = _files(path, f"files/{name}")
    if files == [Path(path).expanduser()]:
        _first_rows(files[0], place / name)
        return place / name
    for file in files:
        _first_rows(file, place / file.name)
    return place


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
        table = pq.ParquetFile(file)
        batches = islice(table.iter_batches(ROWS), 1)
        pq.write_table(pa.Table.from_batches(batches, table.schema_arrow), target)
    elif name.endswith((".jsonl", ".ndjson")):
        with opened(file, "rt", encoding="utf-8") as lines, opened(target, "wt", encoding="utf-8") as out:
            out.writelines(islice(lines, ROWS))
    elif name.endswith(".json"):
        with opened(file, "rt", encoding="utf-8") as text, opened(target, "wt", encoding="utf-8") as out:
            rows: Iterable[Any] = json.load(text)
            json.dump(rows[:ROWS] if isinstance(rows, list) else rows, out, ensure_ascii=False)
    else:
        shutil.copy(file, target)
