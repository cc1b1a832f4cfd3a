"""Columns of verifiable instructions. `test_layouts.py` has rows of IFEval, RLVR-IFeval and IF-RLVR."""

import json

from ratchet.data_curation.read import read_problems
from ratchet.data_curation.readers.instruction_formats import _RLVR_KINDS
from ratchet.data_curation.rule_filter import filter_by_rules
from ratchet.verifiers.instructions.ifeval import IFEVAL
from ratchet.verifiers.instructions.scoring import read_tests


def read(tmp_path, rows, columns=None):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_problems(path, "instructions", columns)


def instructions(split):
    return [[(i.id, dict(i.arguments)) for i in read_tests(row["tests"])] for row in split.kept.to_pylist()]


def test_every_kind_of_ifeval_has_its_function_in_rlvr_ifeval():
    assert {kind for kind, _ in _RLVR_KINDS.values()} == set(IFEVAL)


def test_no_rule_drops_what_can_be_judged(tmp_path):
    row = {"prompt": "Write.", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}
    split = read(tmp_path, [row])
    assert split.kept["answer"].null_count == 1 and len(filter_by_rules(split.kept).kept) == 1


def test_columns_of_ones_own_and_the_prompt_to_repeat(tmp_path):
    own = [{"id": "punctuation:no_comma", "kwargs": {}}, {"id": "startend:quotation"}]
    split = read(tmp_path, [{"ask": "Say so.", "checks": own}], {"prompt": "ask", "tests": "checks"})
    assert instructions(split) == [[("punctuation:no_comma", {}), ("startend:quotation", {})]]
    asked = "Repeat this. \r\nThen\u200b go on."
    row = {"instruction_id_list": ["combination:repeat_prompt"], "kwargs": [{"prompt_to_repeat": asked}]}
    split = read(tmp_path, [row | {"prompt": asked}])
    [[(_, arguments)]] = instructions(split)
    assert arguments["prompt_to_repeat"] == split.kept.column("prompt")[0].as_py(), "both cleaned alike"
