"""One row of each of some hundred published data sets, written after their cards, and of each shape that a field may
have: what it reads as, or the field for which it is refused."""

import json
import re

import pytest

from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.read import read_problems
from ratchet.verifiers.errors import RatchetError
from tests.data_curation.readers.files import HERE, write_json

LAYOUTS = [json.loads(line) for line in (HERE / "layouts.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout["set"])
def test_each_published_layout_reads_as_its_publisher_meant(tmp_path, layout):
    path = write_json(tmp_path / "rows.json", [layout["row"]])
    if "refused" in layout:
        with pytest.raises(RatchetError, match=re.escape(layout["refused"])):
            read_problems(path, layout["domain"])
        return
    split = read_problems(path, layout["domain"])
    assert len(split.kept) == 1, split.rejected["evidence"].to_pylist()
    (problem,) = from_table(split.kept)
    lists = {"tests": json.loads(problem.tests or "[]"), "golden": problem.golden_solutions or []}
    read = vars(problem) | lists | {"released": str(problem.released), "metadata": json.loads(problem.metadata)}
    for name, wanted in layout["reads"].items():
        if name == "contains":
            assert wanted in problem.prompt
        elif name == "metadata":  # a part of it
            assert wanted.items() <= read[name].items()
        else:
            assert wanted == (len(read[name]) if name in lists and isinstance(wanted, int) else read[name]), name


def test_rows_inside_an_object_on_one_line(tmp_path):
    row = {"problem": "P?", "answer": "1"}
    (tmp_path / "m.json").write_text(json.dumps({"version": "1.0", "data": [row, row]}))
    assert len(read_problems(tmp_path / "m.json", "math").kept) == 2
    chat = {"data": [{"role": "user", "content": "P?"}], "problem": "P?", "answer": "1"}
    (tmp_path / "c.json").write_text(json.dumps(chat))
    assert len(read_problems(tmp_path / "c.json", "math").kept) == 1
