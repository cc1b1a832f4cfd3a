"""IFEval's kinds: each followed and violated at least twice, with the edges of the published evaluation."""

import json
from pathlib import Path

import pytest

from ratchet.verifiers.instructions.ifeval import IFEVAL
from ratchet.verifiers.instructions.language import is_in_language
from ratchet.verifiers.instructions.scoring import accuracies, instruction, loose, read_tests, strict, to_tests
from ratchet.verifiers.instructions.words import count_capital_words, count_sentences, count_words
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.local_pool import VerifierPool


def children():
    """Processes that this one has started and that run."""
    return {pid for task in Path("/proc/self/task").iterdir() for pid in task.joinpath("children").read_text().split()}


ENGLISH = "the weather was fine this morning and we walked to the river"
EXAMPLES = [  # id, arguments, responses that follow it, responses that do not
    ("keywords:existence", {"keywords": ["sea", "C++"]}, ["SEA and c++", "undersea, C++11"], ["sea", "see and c"]),
    ("keywords:frequency", {"keyword": "cat", "frequency": 2, "relation": "at least"},
     ["cat Cat", "category cats"], ["a cat", "dog"]),
    ("keywords:frequency", {"keyword": "a.c", "frequency": 1, "relation": "less than"}, ["abc", "aac"], ["a.c", "A.C"]),
    ("keywords:forbidden_words", {"forbidden_words": ["war", "(no)"]},
     ["a warm day", "know"], ["War!", "so (no) it is"]),
    ("keywords:letter_frequency", {"letter": "Q", "let_frequency": 2, "let_relation": "exactly"},
     ["Qq", "q, and q"], ["q", "QqQ"]),
    ("keywords:letter_frequency", {"letter": "#", "let_frequency": 2, "let_relation": "at least"},
     ["##", "# a # b"], ["#", "none"]),
    ("language:response_language", {"language": "de"},
     ["Das Wetter war heute schön und wir gingen an den Fluss.", "Ich habe keine Ahnung, was das bedeuten soll."],
     ["The weather was fine today.", "12345", "今天天气很好"]),
    ("language:response_language", {"language": "ne"},
     ["यो नेपाली भाषामा लेखिएको पाठ हो र यसले धेरै कुरा बताउँछ", "तपाईं कस्तो हुनुहुन्छ र तपाईंको नाम के हो"],
     ["यह हिंदी में लिखा हुआ पाठ है और बहुत लंबा है", "मी मराठी बोलतो आणि मला ते आवडते"]),
    ("language:response_language", {"language": "kn"}, ["ಇದು ಕನ್ನಡ ಭಾಷೆಯಲ್ಲಿದೆ", "ನಮಸ್ಕಾರ"], ["ഇത് മലയാളം ആണ്", ENGLISH]),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2},
     ["one\n***\ntwo", "***\none\n***\ntwo\n***"], ["one\n\ntwo", "one\n***\n\n***\ntwo"]),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2, "divider": "* * *"},
     ["one\n* * *\ntwo", "one * * * two"], ["one\n***\ntwo", "one"]),
    ("length_constraints:number_words", {"num_words": 3, "relation": "at least"},
     ["one two three", "well-known fact"], ["one two", ", . !"]),
    ("length_constraints:number_words", {"num_words": 20, "relation": "around"},
     ["w " * 18, "w " * 22], ["w " * 17, "w " * 23]),
    ("length_constraints:number_sentences", {"num_sentences": 2, "relation": "less than"},
     ["Dr. Smith, Mr. J. Smith, left at 5 p.m. today.", "- a list\n- without periods"], ["One. Two.", "No! Why?"]),
    ("length_constraints:nth_paragraph_first_word", {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "However"},
     ["One.\n\nhowever, two.", 'One.\n\n"However" two.'], ["However.\n\nTwo.", "One.\n\nHowever.\n\nThree."]),
    ("detectable_content:number_placeholders", {"num_placeholders": 2},
     ["[a] [b]", "[[a] x [b]"], ["[a]", "[a\nb] [c\nd]", "]["]),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"},
     ["So.\nP.P.S. More.", "So. p. p. s more"], ["P.S. More.", "PPS"]),
    ("detectable_content:postscript", {"postscript_marker": "P.S."},
     ["P. S. More.", "x p.s. y"], ["PS more", "P.S more"]),
    ("detectable_content:postscript", {"postscript_marker": "N.B. (!"}, ["n.b. (! x", "N.B. (!"], ["N.B.", "nxbx (!"]),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2},
     ["* a\n* b", "x\n  - a\n- b"], ["* a", "* a\n* b\n- c", "**bold**\n**bold**"]),
    ("detectable_format:constrained_response", {},
     ["My answer is yes.", "Well. My answer is maybe."], ["Yes.", "my answer is no"]),
    ("detectable_format:constrained_response", {"options": ["(a)", "(b)"]}, ["(a)", "It is (b)"], ["a", "(c)"]),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2},
     ["*a* and *b*", "**a** and *b*"], ["*a*", "**a**", "* *\n**  **", "*a\nb*"]),
    ("detectable_format:multiple_sections", {"section_spliter": "Section (", "num_sections": 2},
     ["Section (1) a Section ( 2) b", "Section (10 Section (3"], ["Section (1)", "section (1) section (2)"]),
    ("detectable_format:json_format", {},
     ['{"a": [1]}', '```json\n{"a": 1}\n```', "3"], ["{a: 1}", 'Here: {"a": 1}', "[" * 100_000, "9" * 5_000]),
    ("detectable_format:title", {}, ["<<joy>>", "x <<a>> y <<b>>"], ["<joy>", "<<>>", "<< >>", "<<a\nb>>"]),
    ("combination:two_responses", {}, ["one ****** two", "******one******two******"],
     ["same ****** same", "a ****** b ****** c", "only one"]),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Write (a) poem."},
     ["Write (a) poem. Here.", " WRITE (A) POEM."], ["Sure! Write (a) poem.", "Write a poem."]),
    ("startend:end_checker", {"end_phrase": "Any questions?"},
     ["So. Any questions?", 'So. any questions?" '], ["Any questions? No.", "Any questions"]),
    ("startend:quotation", {}, ['"So it is."', ' "a" and "b" '], ['"', '"So', "'So'"]),
    ("change_case:english_capital", {}, [ENGLISH.upper(), "MY ANSWER IS YES."],
     [ENGLISH, "DAS WETTER WAR HEUTE SCHÖN UND WIR GINGEN AN DEN FLUSS", "123"]),
    ("change_case:english_lowercase", {}, [ENGLISH, "my answer is no."],
     [ENGLISH.title(), "das wetter war heute schön und wir gingen an den fluss", "..."]),
    ("change_case:capital_word_frequency", {"capital_frequency": 2, "capital_relation": "at most"},
     ["I am A man", "none", "UP-TO-DATE 3D"], ["A B C", "NASA, ESA and I"]),
    ("punctuation:no_comma", {}, ["none here; really", "a. b"], ["a, b", ","]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "arguments", "good", "bad"), EXAMPLES, ids=[row[0] for row in EXAMPLES])
def test_followed_and_violated(kind, arguments, good, bad):
    given = instruction(kind, arguments)
    assert len(good) >= 2 and len(bad) >= 2
    assert [text for text in good if not given.followed(text)] == []
    assert [text for text in [*bad, "", " \n"] if given.followed(text)] == []


def test_all_25_kinds_have_examples():
    assert len(IFEVAL) == 25 and {row[0] for row in EXAMPLES} == set(IFEVAL)


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
    for text, sentences in (
        ("One. Two! Three?", 3), ('He said "No." Then he left.', 2), ("1. buy milk\n2. sell it", 1),
        ("Point B. Then point C.", 2), ("P.S. Write soon.", 2), ("no end", 1), ("3.14 is pi", 1), ("", 0),
        ("What?!", 1), ("Bush v. Gore", 1),
    ):  # fmt: skip
        assert count_sentences(text) == sentences, text


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


HOSTILE = {
    "brackets that never close": "[" * 1_000_000,
    "angles that never close": "<<" * 500_000,
    "asterisks": "* " * 500_000,
    "blank lines": "\n" * 999_999 + "-",
    "one word": "a" * 1_000_000,
    "periods": "a." * 500_000,
    "an ellipsis": "." * 1_000_000,
    "deep JSON": '{"a":' * 200_000,
    "digits": "9" * 1_000_000,
    "markers": "p. " * 330_000,
    "not text": "\x00\ud800\u202e\U000e0001" * 250_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_kind_hangs_over_a_hostile_response(name):
    """A megabyte strictly, a part of it loosely, every kind: quadratic work would take hours."""
    every = [instruction(kind, arguments) for kind, arguments, *_ in EXAMPLES]
    patterns = ["(a+)+$", "(a|a)*b", r"\s*\s*x", "a" * 500 + "b"]
    every += [instruction("keywords:existence", {"keywords": patterns})]
    every += [instruction("keywords:forbidden_words", {"forbidden_words": patterns})]
    for pattern in patterns:
        every += [instruction("detectable_format:multiple_sections", {"section_spliter": pattern, "num_sections": 1})]
    assert not all(strict(every, HOSTILE[name])) and not all(loose(every, HOSTILE[name][:100_000]))


def test_hostile_responses_in_a_pool_forge_nothing_and_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = problem(("detectable_format:json_format", {}), ("detectable_format:title", {}), ("startend:quotation", {}))
    code = "{'__reduce__': __import__('os').system('touch forged')}"
    before = children()
    with VerifierPool(1) as pool:
        for number, response in enumerate([*HOSTILE.values(), code, f"<think>{code}", '{"tests": []}', "NaN"]):
            pool.submit(number, asked, response)
        verdicts = [verdict for _, verdict in pool.results()]
    assert {verdict.outcome for verdict in verdicts} == {Outcome.FAILED, Outcome.UNPARSEABLE}
    assert children() == before and not list(tmp_path.iterdir())


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
