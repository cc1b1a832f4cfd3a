"""Files of rows for the readers, and what came of them."""

import csv
import json
from pathlib import Path

import yaml

from ratchet.data_curation.base.problem_table import from_table

HERE = Path(__file__).parent
SOLUTIONS = yaml.safe_load((HERE / "solutions.yaml").read_text(encoding="utf-8"))


def write_json(path, rows):
    path.write_text(json.dumps(rows))
    return path


def write_lines(path, rows):
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def write_csv(path, rows, **options):
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, list(rows[0]), **options)
        writer.writeheader()
        writer.writerows(rows)
    return path


def only(split):
    assert (len(split.kept), len(split.rejected)) == (1, 0), split.rejected.to_pylist()
    return from_table(split.kept)[0]


def reasons(split):
    return [(row["source_id"], json.loads(row["evidence"])) for row in split.rejected.to_pylist()]
