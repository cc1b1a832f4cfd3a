"""The steps that need no teacher, on published files: what they find was counted once and looked at."""

import json

import pyarrow as pa
import pytest

from ratchet.data_curation.decontamination.problems import decontaminate
from ratchet.data_curation.deduplication.copies import deduplicate
from ratchet.data_curation.read import read_files, read_problems
from ratchet.data_curation.rule_filter import filter_by_rules
from ratchet.data_curation.settings.curation import Decontamination, Deduplication
from ratchet.data_curation.split import joined
from ratchet.data_curation.tokens import cut
from ratchet.verifiers.math.equivalence import equivalent
from tests.data_curation.rules import public_labels


@pytest.fixture(scope="module")
def math(shared_data):
    files = ["math_raw/math_train.json", "math_raw/aime_1983_2023.json"]
    return joined(read_files([shared_data / file for file in files], "math"))


@pytest.fixture(scope="module")
def math_items(shared_data):
    names = ["math500", "aime24", "amc22_23", "olympiad_bench"]
    return pa.concat_tables([read_problems(shared_data / f"benchmarks/{n}.json", "math").kept for n in names])


def test_math_reads_whole(math, math_items):
    assert math.summary["rows_in"] == 7474 + 975
    assert math.summary["dropped"] == {"malformed": 0, "other_domain": 0, "empty": 0}
    assert len(math_items) == 500 + 30 + 83 + 675


def test_math_rules_are_precise(math):
    split = filter_by_rules(math.kept)
    dropped = split.summary["dropped"]
    assert 130 <= dropped["multiple_choice"] <= 160
    assert dropped["figure"] == 2  # all 766 with a picture have it as code, but two of AIME's
    # There is no proof, no yes or no, and nothing but English in these two sets.
    assert dropped["no_answer"] == 2
    assert dropped["proof"] + dropped["true_false"] + dropped["non_english"] <= 2
    assert dropped["sub_questions"] == 0 and dropped["long_answer"] <= 40


def test_rules_on_published_statements_that_were_labelled(shared_data):
    names = ("math_raw/math_train.json", "math_raw/aime_1983_2023.json", "benchmarks/olympiad_bench.json")
    scores = {(rule, half): counts for _, rule, half, *counts in public_labels.measured(shared_data / n for n in names)}
    for half, good in (("A", 40), ("B", 70)):  # with words for a picture, and complete without it
        _, wrong, _, kept = scores["figure", half]
        assert wrong == 0 and kept >= good


def test_math_decontamination_tells_copies_from_boilerplate(math, math_items):
    split = decontaminate(math.kept, math_items, Decontamination(ngram=9))
    assert 40 <= len(split.rejected) <= 90 < 1000 < split.summary["paper_hits"] < 2000
    assert 20 <= split.summary["dropped"]["variant"] == split.summary["variants"] and split.summary["passages"] >= 10
    for row in split.rejected.to_pylist():
        evidence = json.loads(row["evidence"])
        if "span" in evidence:  # not of a variant that shares no n-gram
            assert cut(row["prompt"], evidence["span"]) == evidence["text"] and evidence["tokens"] >= 9
        else:
            assert evidence["numbers"] != evidence["item_numbers"]
    report = split.summary["self_test"]
    assert report["recall"] >= 0.995 and report["unprotected"] == []
    missed = {name: (1 - recall) * report["disguised"][name] for name, recall in report["recall_by_disguise"].items()}
    assert max(missed.values()) < 2.5, "of each disguise two items at most"


def test_math_contains_aime_problems_twice(math):
    split = deduplicate(math.kept, Deduplication())
    assert 250 <= split.summary["dropped"]["exact"] <= 450 and 10 <= split.summary["dropped"]["near"] <= 20
    # Of 67 pairs this alike 43 have other answers; none of those that go does.
    for row in split.rejected.to_pylist():
        evidence = json.loads(row["evidence"])
        assert row["rule"] == "exact" or equivalent(*evidence.get("answers", ["", ""])), row
