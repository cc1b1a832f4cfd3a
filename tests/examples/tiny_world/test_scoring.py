import pyarrow as pa
import pytest

from ratchet.examples.tiny_world.world import TRUTH_SCHEMA
from tests.examples.tiny_world.rule_scores import accepts, score_rules


def _truth(*rows):
    names = ("label", "acceptable", "partner")
    return pa.Table.from_pylist(
        [
            dict(zip(names, row, strict=True))
            | {"row": number, "expected": row[1][0] if row[1] else None, "benchmark_item": None}
            for number, row in enumerate(rows)
        ],
        schema=TRUTH_SCHEMA,
    )


def _score(truth, rejected, kept):
    rows = [{"source_id": str(row), "step": s.split(":")[0], "rule": s.split(":")[1]} for row, s in rejected.items()]
    columns = pa.schema([("source_id", pa.string()), ("step", pa.string()), ("rule", pa.string())])
    scores = score_rules(
        truth, pa.Table.from_pylist(rows, schema=columns), pa.table({"source_id": [str(row) for row in kept]})
    )
    return {score.rule: score for score in scores}


CLEAN = ("clean", [], None)


def test_precision_and_recall_of_one_rule():
    proof = ("proof", ["rules:proof"], None)
    scores = _score(
        _truth(proof, proof, proof, CLEAN, CLEAN), {0: "rules:proof", 1: "rules:proof", 3: "rules:proof"}, [2, 4]
    )
    assert scores["rules:proof"].recall == 2 / 3
    assert scores["rules:proof"].precision == 2 / 3


def test_a_row_taken_by_a_rule_it_does_not_name_is_missed_by_one_and_wrong_for_the_other():
    scores = _score(_truth(("figure", ["rules:figure"], None), CLEAN), {0: "rules:proof"}, [1])
    assert scores["rules:figure"].recall == 0
    assert scores["rules:proof"].precision == 0
    assert scores["rules:proof"].recall is None


def test_any_acceptable_rule_finds_a_row():
    row = ("benchmark_copy", ["decontaminate:ngram", "decontaminate:whole_match"], None)
    scores = _score(_truth(row, row), {0: "decontaminate:ngram", 1: "decontaminate:whole_match"}, [])
    assert scores["decontaminate:ngram"].recall == 1
    assert scores["decontaminate:whole_match"].precision == 1
    assert accepts(["majority_vote:*"], "majority_vote:tie")
    assert not accepts(["majority_vote:*"], "length:too_short")
    assert not accepts(["majority_vote:*"], None)


@pytest.mark.parametrize("dropped", [0, 1])
def test_either_one_of_a_duplicate_pair_may_go(dropped):
    truth = _truth(CLEAN, ("exact_duplicate", ["deduplicate:exact"], 0))
    scores = _score(truth, {dropped: "deduplicate:exact"}, [1 - dropped])
    assert (scores["deduplicate:exact"].precision, scores["deduplicate:exact"].recall) == (1, 1)


def test_dropping_the_whole_cluster_is_a_mistake_and_keeping_it_a_miss():
    truth = _truth(CLEAN, ("exact_duplicate", ["deduplicate:exact"], 0), ("exact_duplicate", ["deduplicate:exact"], 0))
    everything = _score(truth, dict.fromkeys((0, 1, 2), "deduplicate:exact"), [])["deduplicate:exact"]
    assert (everything.right, everything.rejected, everything.recall) == (2, 3, 1)
    nothing = _score(truth, {}, [0, 1, 2])["deduplicate:exact"]
    assert (nothing.expected, nothing.recall, nothing.precision) == (2, 0, None)


def test_an_original_dropped_by_design_leaves_its_copy_to_deduplication():
    truth = _truth(CLEAN, ("exact_duplicate", ["deduplicate:exact"], 0))
    scores = _score(truth, {1: "deduplicate:exact", 0: "length:too_short"}, [])
    assert scores["deduplicate:exact"].precision == 1
    assert scores["length:too_short"].precision is None


def test_rules_that_are_choices_have_no_precision_but_a_contradicted_answer_is_a_claim():
    scores = _score(_truth(CLEAN, CLEAN), {0: "majority_vote:tie", 1: "majority_vote:likely_wrong_reference"}, [])
    assert scores["majority_vote:tie"].precision is None
    assert scores["majority_vote:likely_wrong_reference"].precision == 0


@pytest.mark.parametrize("rejected, kept", [({}, []), ({0: "rules:proof"}, [0]), ({0: "rules:proof"}, [7])])
def test_rows_that_do_not_add_up_are_an_error(rejected, kept):
    with pytest.raises(ValueError, match="once each"):
        _score(_truth(CLEAN), rejected, kept)
