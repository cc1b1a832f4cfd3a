"""Write data sets in their published layouts, with a few invented rows, from `layouts.yaml`."""

import base64
import csv
import io
import json
import pickle
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from ratchet.rehearsal.invented import INVENTED


class Encoded(NamedTuple):
    """A value of a row that is text in the published file."""

    encode: Callable[[Any], str]
    value: Any


def _packed(value: Any) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(value)))).decode()


class Loader(yaml.SafeLoader):
    pass


def _encoded(loader: yaml.SafeLoader, node: yaml.Node, encode: Callable[[Any], str]) -> Encoded:
    match node:
        case yaml.MappingNode():
            return Encoded(encode, loader.construct_mapping(node, deep=True))
        case yaml.SequenceNode():
            return Encoded(encode, loader.construct_sequence(node, deep=True))
    assert isinstance(node, yaml.ScalarNode)
    return Encoded(encode, loader.construct_scalar(node))


Loader.add_constructor("!json", partial(_encoded, encode=json.dumps))
Loader.add_constructor("!packed", partial(_encoded, encode=_packed))


@cache
def layouts() -> dict[str, dict[str, Any]]:
    """The parts of each file of each data set, by its name on the Hub; and `numbers`, by their name."""
    return yaml.load(Path(__file__).with_name("layouts.yaml").read_text(encoding="utf-8"), Loader)


def write_layout(name: str, directory: Path) -> None:
    """Write the files of one data set, in their containers."""
    for path, parts in layouts()[name].items():
        file, rows = directory / path, [row for part in parts for row in _rows(part)]
        file.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(".parquet"):
            pq.write_table(pa.Table.from_pylist(rows), file)
        else:
            file.write_text(_text(path, rows), encoding="utf-8")


def _rows(part: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of a part's problems; `A*N` stands for N of them from A on."""
    ((kind, chosen),) = ((name, chosen) for name, chosen in part.items() if name != "row")
    ranges = [each.partition("*") for each in chosen.split()]
    starts = [(int(layouts()["numbers"].get(first, first)), int(count or 1)) for first, _, count in ranges]
    numbers = [first + i for first, count in starts for i in range(count)]
    for i, number in enumerate(numbers):
        yield _filled(part["row"], {**INVENTED[kind](number), "i": i})


def _filled(value: Any, values: Mapping[str, Any]) -> Any:
    """$name alone is the value, whatever its type; within a text it is inserted."""
    match value:
        case Encoded():
            return value.encode(_filled(value.value, values))
        case dict():
            return {name: _filled(inner, values) for name, inner in value.items()}
        case list():
            return [_filled(inner, values) for inner in value]
        case str() if value[:1] == "$" and value[1:] in values:
            return values[value[1:]]
        case str():
            return Template(value).substitute(values)
    return value


def _text(path: str, rows: list[dict[str, Any]]) -> str:
    if path.endswith(".json"):
        return json.dumps(rows, ensure_ascii=False)
    if path.endswith(".jsonl"):
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
