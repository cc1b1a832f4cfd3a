"""IFEval's and IFBench's kinds: followed and violated by their examples, with the edges of the published evaluations;
refused without an argument; and linear."""

import json
import os

import pytest

from ratchet.data_curation.read import read_problems
from ratchet.verifiers.instructions.ifbench import IFBENCH
from ratchet.verifiers.instructions.ifeval import IFEVAL
from ratchet.verifiers.instructions.language import is_in_language
from ratchet.verifiers.instructions.scoring import accuracies, instruction, loose, read_tests, strict, to_tests
from ratchet.verifiers.instructions.words import count_capital_words, count_sentences, count_words, sentences, tokens
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.local_pool import VerifierPool
from tests.verifiers.programs import programs, rows
from tests.verifiers.sandbox_world import descendants
from tests.work import grows_linearly

ENGLISH = "the weather was fine this morning and we walked to the river"
IFEVAL_ROWS, IFBENCH_ROWS = rows("ifeval"), programs("ifbench")
ROWS = [*IFEVAL_ROWS, *IFBENCH_ROWS]


@pytest.mark.parametrize("row", ROWS, ids=[row["kind"] for row in ROWS])
def test_followed_and_violated(row):
    given = instruction(row["kind"], row["arguments"])
    assert row["follows"] and row["violates"]
    assert [text for text in row["follows"] if not given.followed(text)] == []
    assert [text for text in [*row["violates"], "", " \n"] if given.followed(text)] == []


def test_all_kinds_have_examples():
    assert len(IFEVAL) == 25 and {row["kind"] for row in IFEVAL_ROWS} == set(IFEVAL)
    assert all(len(row["follows"]) >= 2 and len(row["violates"]) >= 2 for row in IFEVAL_ROWS)
    assert len(IFBENCH) == 58 and {row["kind"] for row in IFBENCH_ROWS} == set(IFBENCH)


def test_json_that_python_does_not_read_is_none():
    given = instruction("detectable_format:json_format", {})
    assert not given.followed("[" * 100_000) and not given.followed("9" * 5_000)


@pytest.mark.parametrize("row", IFBENCH_ROWS, ids=[row["kind"] for row in IFBENCH_ROWS])
def test_each_argument_is_demanded(row):
    for name in row["arguments"]:
        with pytest.raises(ValueError, match=rf"{row['kind']}: it has no {name}"):
            instruction(row["kind"], row["arguments"] | {name: None})
    with pytest.raises(ValueError, match=f"{row['kind']}: it takes no color"):
        instruction(row["kind"], row["arguments"] | {"color": "red"})


@pytest.mark.parametrize(
    ("kind", "arguments", "reason"),
    [
        ("keywords:rhyme", {}, "unknown instruction 'keywords:rhyme'"),
        (None, {}, "unknown instruction None"),
        ("punctuation:no_comma", [], "the arguments are list"),
        ("punctuation:no_comma", {"n": 1}, "it takes no n"),
        ("keywords:existence", {"keywords": None}, "it has no keywords"),
        ("keywords:existence", {"keywords": "sea"}, "keywords: 'sea' is not a list"),
        ("keywords:existence", {"keywords": ["sea", " "]}, "keywords: ' ' is not text"),
        ("length_constraints:number_words", {"num_words": 1.5, "relation": "at least"}, "num_words: 1.5"),
        ("length_constraints:number_words", {"num_words": True, "relation": "at least"}, "num_words: True"),
        ("length_constraints:number_words", {"num_words": float("inf"), "relation": "at least"}, "num_words"),
        ("length_constraints:number_words", {"num_words": 3, "relation": "more"}, "relation: 'more'"),
        ("length_constraints:number_words", {"num_words": 3, "relation": ["at least"]}, "relation: "),
        ("keywords:letter_frequency", {"letter": "ab", "let_frequency": 1, "let_relation": "at least"}, "letter: 'ab'"),
        ("language:response_language", {"language": "tlh"}, "language: the language 'tlh'"),
        ("count:words_japanese", {"N": 0}, "N: 0 is not a whole number from 1"),
        ("sentence:keyword", {"word": "sea", "N": -1}, "N: -1 is not a whole number"),
        ("ratio:overlap", {"reference_text": " ", "percentage": 20}, "reference_text: ' ' is not text"),
        ("format:list", {"sep": 3}, "sep: 3 is not text"),
    ],
)
def test_what_no_response_can_be_judged_by_is_said(kind, arguments, reason):
    with pytest.raises(ValueError, match=reason):
        instruction(kind, arguments)


def test_null_arguments_are_none_and_whole_numbers_may_be_floats():
    given = instruction("length_constraints:number_words", {"num_words": 3.0, "relation": "at least", "letter": None})
    assert given.arguments == {"num_words": 3, "relation": "at least"}
    assert read_tests(to_tests([given])) == (given,)


@pytest.mark.parametrize("tests", ["[]", "{}", "[1]", '[{"id": "punctuation:no_comma", "kwarg": {}}]', "no JSON"])
def test_tests_that_hold_no_instructions_are_refused(tests):
    with pytest.raises(ValueError):
        read_tests(tests)


def test_loose_forgives_a_first_line_a_last_line_and_asterisks():
    lower, end = (
        instruction("change_case:english_lowercase", {}),
        instruction("startend:end_checker", {"end_phrase": "so."}),
    )
    for text in (
        f"Sure, here it is:\n{ENGLISH} and so.",
        f"{ENGLISH} and so.\nAnything else?",
        f"Sure:\n{ENGLISH} and **so.**\nBye!",
    ):
        assert not all(strict([lower, end], text)) and loose([lower, end], text) == [True, True]
    assert loose([lower], "Sure:\nThis Is It") == [False]
    judged = [([True, False], [True, True]), ([True], [True])]
    assert accuracies(judged) == {
        "prompt_strict": 0.5, "instruction_strict": 2 / 3, "prompt_loose": 1.0, "instruction_loose": 1.0
    }  # fmt: skip


def test_counting():
    assert count_words("don't stop, well_known") == 4
    assert count_capital_words("I'M at the U.S. NAVY's HQ") == 5
    for text, count in (
        ("One. Two! Three?", 3), ('He said "No." Then he left.', 2), ("1. buy milk\n2. sell it", 1),
        ("Point B. Then point C.", 2), ("P.S. Write soon.", 2), ("no end", 1), ("3.14 is pi", 1), ("", 0),
        ("What?!", 1), ("Bush v. Gore", 1),
    ):  # fmt: skip
        assert count_sentences(text) == count, text


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


def test_rows_as_published_are_read_and_others_refused_with_row_and_field(tmp_path):
    def row(kind, **arguments):
        nulls = dict.fromkeys(("N", "keyword", "letter", "small_n"))
        return {"key": "1", "prompt": f"Go {kind}.", "instruction_id_list": [kind], "kwargs": [nulls | arguments]}

    path = tmp_path / "test.jsonl"
    published = [
        row("count:numbers", N=5.0),
        row("words:repeats", small_n=2.0),
        row("count:numbers"),
        row("words:rhyme"),
    ]
    path.write_text("".join(json.dumps(each) + "\n" for each in published))
    split = read_problems(path, "instructions")
    assert [json.loads(tests) for tests in split.kept["tests"].to_pylist()] == [
        [{"id": "count:numbers", "kwargs": {"N": 5}}], [{"id": "words:repeats", "kwargs": {"small_n": 2}}]
    ]  # fmt: skip
    refused = [json.loads(evidence) for evidence in split.rejected["evidence"].to_pylist()]
    assert [(each["row"], each["field"], each["reason"]) for each in refused] == [
        (2, "instruction_id_list", "count:numbers: it has no N"),
        (3, "instruction_id_list", "unknown instruction 'words:rhyme'"),
    ]


def problem(*given):
    return Problem("p", "instructions", "Write.", tests=json.dumps([{"id": kind, "kwargs": a} for kind, a in given]))


def test_verdicts_in_a_pool():
    both = problem(("punctuation:no_comma", {}), ("change_case:english_lowercase", {}))
    with VerifierPool(1) as pool:
        responses = ["", "<think>a, B</think>\n" + ENGLISH, ENGLISH + ", yes", "A, b", "<think>a", "</think>  "]
        for number, response in enumerate(responses):
            pool.submit(number, both, response)
        pool.submit("cut", both, ENGLISH, finished=False)
        pool.submit("none", Problem("p", "instructions", "Write.", tests='[{"id": "x:y"}]'), ENGLISH)
        verdicts = dict(pool.results())
    outcomes = [(verdicts[n].outcome.value, verdicts[n].fraction) for n in range(len(responses))]
    nothing = ("unparseable", 0.0)
    assert outcomes == [nothing, ("passed", 1.0), ("failed", 0.5), ("failed", 0.0), nothing, nothing]
    assert verdicts[2].detail == "not followed: punctuation:no_comma" and verdicts["cut"].decided_by == "truncated"
    assert (verdicts["none"].outcome, verdicts["none"].decided_by) == (Outcome.UNPARSEABLE, "invalid_problem")
    assert "unknown instruction 'x:y'" in verdicts["none"].detail


SIZE = 20_000
PIECES = {
    "newlines": "\n", "periods": ".", "short sentences": "Ab. ", "closed sentences": ".)", "letters and periods": "a.",
    "markers": "p. ", "quotation marks": '"', "brackets that never close": "([{", "angles that never close": "<<",
    "asterisks": "* ", "one word": "a", "short words": "a b ", "numbers": "1 ", "digits": "9", "deep JSON": '{"a":',
    "questions without options": "Question 1", "emoji": "😀", "contractions": "n't", "half a surrogate pair": "\ud800 ",
    "not text": "\x00\ud800\u202e\U000e0001",
}  # fmt: skip
HOSTILE = {name: piece * (SIZE // len(piece)) for name, piece in PIECES.items()} | {
    "blank lines": "\n" * SIZE + "-",
    "a field that never ends": 'ProductID,Category,Brand,Price,Stock\n"' + "!" * SIZE,
}
PATTERNS = ["(a+)+$", "(a|a)*b", r"\s*\s*x", "a" * 500 + "b"]


@pytest.mark.parametrize("name", HOSTILE)
def test_the_work_of_every_kind_grows_as_the_response(name):
    every = [instruction(row["kind"], row["arguments"]) for row in ROWS]
    every += [instruction("keywords:existence", {"keywords": PATTERNS})]
    every += [instruction("keywords:forbidden_words", {"forbidden_words": PATTERNS})]
    for pattern in PATTERNS:
        every += [instruction("detectable_format:multiple_sections", {"section_spliter": pattern, "num_sections": 1})]
    slow = [given.id for given in every if not grows_linearly(given.followed, HOSTILE[name])]
    assert slow == []


def test_hostile_responses_in_a_pool_forge_nothing_and_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = problem(("detectable_format:json_format", {}), ("detectable_format:title", {}), ("startend:quotation", {}))
    code = "{'__reduce__': __import__('os').system('touch forged')}"
    before = descendants(os.getpid())
    with VerifierPool(1) as pool:
        for number, response in enumerate([*HOSTILE.values(), code, f"<think>{code}", '{"tests": []}', "NaN"]):
            pool.submit(number, asked, response)
        verdicts = [verdict for _, verdict in pool.results()]
    assert {verdict.outcome for verdict in verdicts} == {Outcome.FAILED, Outcome.UNPARSEABLE}
    assert descendants(os.getpid()) == before and not list(tmp_path.iterdir())


def test_languages_are_the_same_every_time_and_short_of_letters_none():
    assert not is_in_language("12 + 3 = 15!", "en")
    assert len({is_in_language("Hello there, how are you?", "en") for _ in range(5)}) == 1
    for code, text in {
        "fr": "Le temps était beau ce matin et nous avons marché jusqu'à la rivière.",
        "hi": "यह हिंदी में लिखा हुआ पाठ है", "mr": "मी मराठी बोलतो आणि मला ते आवडते",
        "ar": "كان الطقس جميلا هذا الصباح", "zh": "今天早上天气很好，我们去了河边。",
        "ja": "今朝は天気が良かったので川まで歩きました。", "ko": "오늘 아침은 날씨가 좋았습니다", "ml": "ഇത് മലയാളം ആണ്",
        "sw": "Hali ya hewa ilikuwa nzuri asubuhi ya leo na tulitembea hadi mtoni",
        "fi": "Sää oli kaunis tänä aamuna",
    }.items():  # fmt: skip
        assert is_in_language(text, code), code
        assert not is_in_language(text, "en"), code
