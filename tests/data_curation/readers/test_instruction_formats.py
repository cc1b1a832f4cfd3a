"""IFEval, RLVR-IFeval and IF-RLVR as rows of each; what cannot be judged is rejected with its reason."""

import json

import pytest

from ratchet.data_curation.read import read_problems
from ratchet.data_curation.readers.instruction_formats import _RLVR_KINDS
from ratchet.data_curation.rule_filter import filter_by_rules
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.instructions.ifeval import IFEVAL
from ratchet.verifiers.instructions.scoring import read_tests


def read(tmp_path, rows, columns=None):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_problems(path, "instructions", columns)


def instructions(split):
    return [[(i.id, dict(i.arguments)) for i in read_tests(row["tests"])] for row in split.kept.to_pylist()]


def reasons(split):
    return [(e["row"], e["field"], e["reason"]) for e in map(json.loads, split.rejected.column("evidence").to_pylist())]


def ifeval(ids, kwargs, prompt="Write, without commas."):
    return {"key": 1, "prompt": prompt, "instruction_id_list": ids, "kwargs": kwargs}


COMMA, WORDS = "punctuation:no_comma", "length_constraints:number_words"


def test_ifeval(tmp_path):
    several = ifeval([COMMA, WORDS], [{}, {"num_words": 3, "relation": "at least", "keywords": None}], "Write a lot.")
    split = read(tmp_path, [several, ifeval([COMMA], [None]), ifeval(json.dumps([COMMA]), "[{}]", "As text.")])
    words = (WORDS, {"num_words": 3, "relation": "at least"})
    assert instructions(split) == [[(COMMA, {}), words], [(COMMA, {})], [(COMMA, {})]]
    assert not len(split.rejected) and split.kept.column("answer").null_count == 3
    assert len(filter_by_rules(split.kept).kept) == 3


def test_what_cannot_be_judged_is_rejected_with_its_reason(tmp_path):
    split = read(
        tmp_path,
        [
            ifeval([COMMA], [{}]),
            ifeval(["keywords:rhyme"], [{}]),
            ifeval([COMMA, WORDS], [{}]),
            ifeval([WORDS], [{"num_words": "many", "relation": "at least"}]),
            ifeval([WORDS], [{"num_words": 3}]),
            ifeval([], []),
            ifeval([COMMA], [{}], prompt=""),
        ],
    )
    field = "instruction_id_list"
    assert reasons(split) == [
        (1, field, "unknown instruction 'keywords:rhyme'"),
        (2, field, "not a list of instructions with as many kwargs"),
        (3, field, f"{WORDS}: num_words: 'many' is not a whole number from 0"),
        (4, field, f"{WORDS}: it has no relation"),
        (5, field, "not a list of instructions with as many kwargs"),
        (6, "prompt", "missing or empty"),
    ]
    with pytest.raises(RatchetError, match=r"not one row of it can be read.*unknown instruction"):
        read(tmp_path, [ifeval(["keywords:rhyme"], [{}])])


def rlvr(truth):
    return {"messages": [{"role": "user", "content": "Say so."}], "ground_truth": truth, "dataset": "ifeval"}


def test_rlvr_ifeval(tmp_path):
    none = dict.fromkeys(("end_phrase", "keyword_list", "letter", "i", "options"))
    given = [
        {"func_name": "validate_word_constraint", "N": 17, "quantifier": "around", **none},
        {"func_name": "verify_keyword_frequency", "N": 2, "word": "sea"} | {"letter": None},
        {"func_name": "verify_paragraph_count", "N": 3},
        {"func_name": "validate_choice", "options": ["a)", "b)"]},
        {"func_name": "validate_paragraphs", "N": 3, "first_word": "So", "i": 2},
    ]
    split = read(tmp_path, [rlvr(json.dumps(truth)) for truth in given] + [rlvr([json.dumps(given[0])])])
    assert instructions(split) == [
        [(WORDS, {"num_words": 17, "relation": "around"})],
        [("keywords:frequency", {"keyword": "sea", "frequency": 2, "relation": "exactly"})],
        [("length_constraints:number_paragraphs", {"num_paragraphs": 3, "divider": "* * *"})],
        [("detectable_format:constrained_response", {"options": ["a)", "b)"]})],
        [("length_constraints:nth_paragraph_first_word",
          {"num_paragraphs": 3, "nth_paragraph": 2, "first_word": "So"})],
        [(WORDS, {"num_words": 17, "relation": "around"})],
    ]  # fmt: skip
    assert split.kept.column("prompt").to_pylist() == ["Say so."] * 6
    assert {kind for kind, _ in _RLVR_KINDS.values()} == set(IFEVAL), "each of the 25 has its function there"


def test_if_rlvr_lists_and_what_is_none(tmp_path):
    literal = str([{"instruction_id": [COMMA, "startend:quotation"], "kwargs": [None, {}]}])
    lists = json.dumps([{"instruction_id": ["count:count_unique"], "kwargs": [{"N": 3}]}])
    truths = [literal, lists, json.dumps({"func_name": "validate_rhyme"}), "prose", json.dumps(7)]
    split = read(tmp_path, [rlvr(truth) for truth in truths])
    assert instructions(split) == [[(COMMA, {}), ("startend:quotation", {})]]
    assert [reason for *_, reason in reasons(split)] == [
        "unknown instruction 'count:count_unique'",
        "unknown function 'validate_rhyme'",
        "neither JSON nor a Python literal",
        "not a list of instructions with as many kwargs",
    ]


def test_columns_of_ones_own_and_the_prompt_to_repeat(tmp_path):
    own = [{"id": COMMA, "kwargs": {}}, {"id": "startend:quotation"}]
    split = read(tmp_path, [{"ask": "Say so.", "checks": own}], {"prompt": "ask", "tests": "checks"})
    assert instructions(split) == [[(COMMA, {}), ("startend:quotation", {})]]
    asked = "Repeat this. \r\nThen\u200b go on."
    row = ifeval(["combination:repeat_prompt"], [{"prompt_to_repeat": asked}], prompt=asked)
    split = read(tmp_path, [row])
    [[(_, arguments)]] = instructions(split)
    assert arguments["prompt_to_repeat"] == split.kept.column("prompt")[0].as_py(), "both cleaned alike"
