"""One row of each of some hundred published data sets, written after their cards, and of each shape that a field may
have: what it reads as, the rule that drops it for its reference, or the field for which it is refused."""

import contextlib
import json
import re
from random import Random

import pytest

from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.read import read_problems
from ratchet.data_curation.rule_filter import filter_by_rules
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
    for rule, said in layout.get("dropped", {}).items():
        (row,) = filter_by_rules(split.kept).rejected.to_pylist()
        assert row["rule"] == rule and said in row["evidence"]
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


STRANGE = [
    None, True, 0, -1, 1e308, 10**30, float("nan"), "", " ", "nan", "{}", "[1]", "[[", "\ud800", "\0", [], [None], [[]],
    [{}], {}, {"a": None}, {"content": None}, [{"role": "user"}],
]  # fmt: skip


def places(value, place=()):
    """Where a row has a field, an entry of one, or JSON in one."""
    if place:
        yield place
    if isinstance(value, str) and value[:1] in "[{":
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    for key in value if isinstance(value, dict) else range(min(len(value), 2)) if isinstance(value, list) else ():
        yield from places(value[key], (*place, key))


def replaced(value, place, new):
    if not place:
        return new
    if isinstance(value, str):
        return json.dumps(replaced(json.loads(value), place, new))
    changed = value.copy()
    changed[place[0]] = replaced(value[place[0]], place[1:], new)
    return changed


READ = [each for each in LAYOUTS if "refused" not in each and isinstance(each["row"], dict)]


@pytest.mark.parametrize("layout", READ, ids=lambda layout: layout["set"])
def test_a_strange_value_anywhere_costs_its_row_alone(tmp_path, layout):
    row, random = layout["row"], Random(layout["set"])
    rows = [row, *(replaced(row, place, new) for place in places(row) for new in random.sample(STRANGE, 2)), row]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    split = read_problems(path, layout["domain"])
    assert len(split.kept) + len(split.rejected) == len(rows)
    assert {"0", str(len(rows) - 1)} <= {*split.kept["source_id"].to_pylist()}
