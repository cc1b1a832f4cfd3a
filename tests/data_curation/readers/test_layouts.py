"""One row of each of some ninety published data sets, written after their cards: what it reads as, or the field for
which it is refused."""

import json

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
        with pytest.raises(RatchetError, match=layout["refused"]):
            read_problems(path, layout["domain"])
        return
    split = read_problems(path, layout["domain"])
    assert len(split.kept) == 1, split.rejected["evidence"].to_pylist()
    (problem,) = from_table(split.kept)
    tests = json.loads(problem.tests or "[]")
    read = vars(problem) | {"tests": len(tests), "golden": len(problem.golden_solutions or [])}
    assert layout["reads"].pop("contains", "") in problem.prompt
    assert {name: read[name] for name in layout["reads"]} == layout["reads"]


def test_rows_inside_an_object_on_one_line(tmp_path):
    row = {"problem": "P?", "answer": "1"}
    (tmp_path / "m.json").write_text(json.dumps({"version": "1.0", "data": [row, row]}))
    assert len(read_problems(tmp_path / "m.json", "math").kept) == 2
    chat = {"data": [{"role": "user", "content": "P?"}], "problem": "P?", "answer": "1"}
    (tmp_path / "c.json").write_text(json.dumps(chat))
    assert len(read_problems(tmp_path / "c.json", "math").kept) == 1
