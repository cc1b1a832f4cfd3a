"""Columns of verifiable instructions. `test_layouts.py` has rows of IFEval, RLVR-IFeval and IF-RLVR."""

from ratchet.data_curation.read import read_problems
from ratchet.data_curation.readers.instruction_formats import _RLVR_KINDS
from ratchet.data_curation.rule_filter import filter_by_rules
from ratchet.verifiers.instructions.ifeval import IFEVAL
from ratchet.verifiers.instructions.scoring import read_tests
from tests.data_curation.readers.files import write_json


def read(tmp_path, rows, columns=None):
    return read_problems(write_json(tmp_path / "rows.json", rows), "instructions", columns)


def test_every_kind_of_ifeval_has_its_function_in_rlvr_ifeval():
    assert {kind for kind, _ in _RLVR_KINDS.values()} == set(IFEVAL)


def test_no_rule_drops_what_can_be_judged(tmp_path):
    row = {"prompt": "Write.", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}
    split = read(tmp_path, [row])
    assert split.kept["answer"].null_count == 1 and len(filter_by_rules(split.kept).kept) == 1


def test_columns_of_ones_own(tmp_path):
    own = [{"id": "punctuation:no_comma", "kwargs": {}}, {"id": "startend:quotation"}]
    split = read(tmp_path, [{"ask": "Say so.", "checks": own}], {"prompt": "ask", "tests": "checks"})
    found = read_tests(split.kept.column("tests")[0].as_py())
    assert [(i.id, dict(i.arguments)) for i in found] == [("punctuation:no_comma", {}), ("startend:quotation", {})]
