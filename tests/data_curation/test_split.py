import json

import pytest

from ratchet.data_curation.split import REJECTED_SCHEMA, Rejection, Split, add_metadata, partition, step_facts
from ratchet.verifiers.errors import RatchetError
from tests.data_curation.conftest import problems


def test_kept_and_rejected_partition_the_input_in_order():
    table = problems("math", "a", "b", "c", "d")
    split = partition("s", ("r1", "r2"), table, [None, Rejection("r2", {"n": 1}), None, Rejection("r2")], extra=5)
    assert split.kept.column("prompt").to_pylist() == ["a", "c"]
    assert split.rejected.column("prompt").to_pylist() == ["b", "d"]
    assert split.rejected.column("evidence").to_pylist() == ['{"n": 1}', "{}"]
    assert split.rejected.select(["source_id", "step", "rule"]).to_pylist() == [
        {"source_id": "1", "step": "s", "rule": "r2"}, {"source_id": "3", "step": "s", "rule": "r2"},
    ]  # fmt: skip
    assert split.summary == {
        "step": "s", "rows_in": 4, "rows_out": 2, "dropped": {"r1": 0, "r2": 2}, "extra": 5,
    }  # fmt: skip


def test_a_split_that_loses_a_row_cannot_be_made():
    table = problems("math", "a", "b")
    summary = {"step": "s", "rows_in": 2, "rows_out": 1, "dropped": {}}
    with pytest.raises(AssertionError, match="account for each row"):
        Split(table.slice(0, 1), REJECTED_SCHEMA.empty_table(), summary)
    with pytest.raises(AssertionError, match="PROBLEM_SCHEMA"):
        Split(table.drop(["answer"]), REJECTED_SCHEMA.empty_table(), summary | {"rows_out": 2})


def test_a_rule_the_step_does_not_have_is_an_error():
    with pytest.raises(RatchetError, match="step s rejects by 'typo', which is none of its rules: rule"):
        partition("s", ("rule",), problems("math", "a"), [Rejection("typo")])
    with pytest.raises(RatchetError, match="step s gave 1 verdicts for 2 rows"):
        partition("s", ("rule",), problems("math", "a", "b"), [None])


def test_measurements_join_the_metadata_that_was_there():
    table = add_metadata(problems("math", "a", "b", metadata=['{"year": 1}', None]), "step", [{"x": 1}, {"x": 2}])
    assert [json.loads(text) for text in table.column("metadata").to_pylist()] == [
        {"year": 1, "step": {"x": 1}},
        {"step": {"x": 2}},
    ]


def test_measurements_leave_a_column_of_the_same_name_as_it_was():
    before = problems("math", "a", "b", metadata=['{"step": "hard"}', '{"step": {"x": 0}}'])
    first, again = map(json.loads, add_metadata(before, "step", [{"x": 1}, {"x": 2}]).column("metadata").to_pylist())
    assert first == {"step": "hard", "ratchet.step": {"x": 1}} and again == {"step": {"x": 2}}
    assert step_facts(json.dumps(first), "step") == {"x": 1} and step_facts(json.dumps(again), "step") == {"x": 2}
    assert step_facts('{"step": "hard"}', "step") == step_facts(None, "step") == {}
