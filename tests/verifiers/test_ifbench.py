"""IFBench's kinds: followed and violated by the examples of ifbench.yaml, refused without an argument, and linear."""

import json
from pathlib import Path

import pytest
import yaml

from ratchet.data_curation.read import read_problems
from ratchet.verifiers.instructions.ifbench import IFBENCH
from ratchet.verifiers.instructions.scoring import instruction, loose, strict
from ratchet.verifiers.instructions.words import sentences, tokens
from tests.work import grows_linearly

EXAMPLES = yaml.safe_load(Path(__file__).with_name("ifbench.yaml").read_text())
SIZE = 20_000
HOSTILE = {
    "newlines": "\n" * SIZE,
    "periods": "." * SIZE,
    "short sentences": "Ab. " * (SIZE // 4),
    "closed sentences": ".)" * (SIZE // 2),
    "quotation marks": '"' * SIZE,
    "brackets that never close": "([{" * (SIZE // 3),
    "one word": "a" * SIZE,
    "short words": "a b " * (SIZE // 4),
    "numbers": "1 " * (SIZE // 2),
    "questions without options": "Question 1" * (SIZE // 10),
    "a field that never ends": 'ProductID,Category,Brand,Price,Stock\n"' + "!" * SIZE,
    "emoji": "😀" * SIZE,
    "contractions": "n't" * (SIZE // 3),
    "half a surrogate pair": "\ud800 " * (SIZE // 2),
}


@pytest.mark.parametrize("row", EXAMPLES, ids=[row["kind"] for row in EXAMPLES])
def test_followed_and_violated(row):
    given = instruction(row["kind"], row["arguments"])
    assert row["follows"] and row["violates"]
    assert [text for text in row["follows"] if not given.followed(text)] == []
    assert [text for text in [*row["violates"], "", " \n"] if given.followed(text)] == []


def test_all_58_kinds_have_examples():
    assert len(IFBENCH) == 58 and {row["kind"] for row in EXAMPLES} == set(IFBENCH)


@pytest.mark.parametrize("row", EXAMPLES, ids=[row["kind"] for row in EXAMPLES])
def test_each_argument_is_demanded(row):
    for name in row["arguments"]:
        with pytest.raises(ValueError, match=rf"{row['kind']}: it has no {name}"):
            instruction(row["kind"], row["arguments"] | {name: None})
    with pytest.raises(ValueError, match=f"{row['kind']}: it takes no color"):
        instruction(row["kind"], row["arguments"] | {"color": "red"})


@pytest.mark.parametrize(
    ("kind", "arguments", "reason"),
    [
        ("count:words_japanese", {"N": 0}, "N: 0 is not a whole number from 1"),
        ("sentence:keyword", {"word": "sea", "N": -1}, "N: -1 is not a whole number"),
        ("ratio:overlap", {"reference_text": " ", "percentage": 20}, "reference_text: ' ' is not text"),
        ("format:list", {"sep": 3}, "sep: 3 is not text"),
    ],
)
def test_a_wrong_argument_is_named(kind, arguments, reason):
    with pytest.raises(ValueError, match=reason):
        instruction(kind, arguments)


def test_rows_as_published_are_read_and_others_refused_with_row_and_field(tmp_path):
    def row(kind, **arguments):
        nulls = dict.fromkeys(("N", "keyword", "letter", "small_n"))
        return {"key": "1", "prompt": f"Go {kind}.", "instruction_id_list": [kind], "kwargs": [nulls | arguments]}

    path = tmp_path / "test.jsonl"
    rows = [row("count:numbers", N=5.0), row("words:repeats", small_n=2.0), row("count:numbers"), row("words:rhyme")]
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    split = read_problems(path, "instructions")
    assert [json.loads(tests) for tests in split.kept["tests"].to_pylist()] == [
        [{"id": "count:numbers", "kwargs": {"N": 5}}], [{"id": "words:repeats", "kwargs": {"small_n": 2}}]
    ]  # fmt: skip
    refused = [json.loads(evidence) for evidence in split.rejected["evidence"].to_pylist()]
    assert [(each["row"], each["field"], each["reason"]) for each in refused] == [
        (2, "instruction_id_list", "count:numbers: it has no N"),
        (3, "instruction_id_list", "unknown instruction 'words:rhyme'"),
    ]


@pytest.mark.parametrize("name", HOSTILE)
def test_the_work_of_every_kind_grows_as_the_response(name):
    every = [instruction(row["kind"], row["arguments"]) for row in EXAMPLES]
    slow = [given.id for given in every if not grows_linearly(given.followed, HOSTILE[name])]
    assert slow == []


def test_loose_forgives_an_introduction():
    given = [instruction("words:prime_lengths", {}), instruction("format:title_case", {})]
    text = "here it is, surely:\n**The Cat Is Happy**"
    assert strict(given, text) == [False, False] and loose(given, text) == [True, True]


def test_sentences_and_tokens():
    assert sentences('He said "Go." Then (no!) he left at 5 p.m. on Monday... or so. Why?') == [
        'He said "Go."', "Then (no!)", "he left at 5 p.m. on Monday... or so.", "Why?"
    ]  # fmt: skip
    assert sentences("See e.g. Dr. Roy of the U.S. Army.\n1. One\n2. two") == [
        "See e.g.", "Dr. Roy of the U.S. Army.", "1.", "One\n2. two"
    ]  # fmt: skip
    assert tokens('I don\'t know "it"... at 3.50, we\'ll (see).') == [
        "I", "do", "n't", "know", "''", "it", "''", "...", "at", "3.50", ",", "we", "'ll", "(", "see", ")", "."
    ]  # fmt: skip
