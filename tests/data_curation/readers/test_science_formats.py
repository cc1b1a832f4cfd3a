"""GPQA, SuperGPQA, MMLU-Pro, SciBench, and pairs of a problem and its solution, as rows of each."""

import json

import pytest

from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.read import read_problems
from ratchet.data_curation.readers.references import retrieved
from ratchet.data_curation.rule_filter import filter_by_rules
from ratchet.verifiers.domains import domain_of


def read(tmp_path, rows, columns=None):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows))
    split = read_problems(path, "science", columns)
    ruled = filter_by_rules(split.kept)
    dropped = {
        row["source_id"]: (row["rule"], json.loads(row["evidence"])["fault"]) for row in ruled.rejected.to_pylist()
    }
    return from_table(split.kept), dropped, [json.loads(row["evidence"]) for row in split.rejected.to_pylist()]


def test_gpqa_has_the_right_answer_at_a_place_that_the_question_decides(tmp_path):
    rows = [
        {"Question": f"What is {n}?", "Correct Answer": "right", "Record ID": n}
        | {f"Incorrect Answer {i}": f"wrong {i}" for i in (1, 2, 3)} for n in range(40)
    ]  # fmt: skip
    problems, dropped, _ = read(tmp_path, rows)
    assert not dropped and [p.answer for p in problems] == [p.answer for p in read(tmp_path, rows[::-1])[0]][::-1]
    assert {p.answer for p in problems} == set("ABCD")
    assert all(f"\n{p.answer}. right" in p.prompt and "wrong 3" in p.prompt for p in problems)
    assert json.loads(problems[7].metadata) == {"Record ID": 7}


def test_options_with_the_letter_the_number_or_the_text_of_the_right_one(tmp_path):
    four = ["one", "two", "three", "four"]
    rows = [
        {"question": "Super?", "options": four, "answer": "two", "answer_letter": "B", "discipline": "Science"},
        {"question": "Pro?", "options": [*four, "N/A"], "answer": "C", "answer_index": 2},
        {"question": "By text?", "options": four, "answer": "four"},
        {"question": "Between?", "options": ["one", "N/A", *four[1:]], "answer": "C"},
        {"question": "By nothing?", "options": four, "answer": "five"},
        {"question": "Beyond?", "options": four, "answer_index": 9, "answer": "J"},
        {"question": "No list?", "options": "one", "answer": "A"},
    ]
    problems, dropped, rejected = read(tmp_path, rows)
    assert [p.answer for p in problems] == ["B", "C", "D", "C", "five", "option 9"]
    assert "\nC. two\n" in problems[3].prompt
    assert problems[0].prompt == "Super?\n\nA. one\nB. two\nC. three\nD. four"
    assert [rule for rule, _ in dropped.values()] == ["no_answer"] * 2 and list(dropped) == ["4", "5"]
    assert "letter of none of its 4 options" in dropped["4"][1]
    assert [(e["row"], e["field"]) for e in rejected] == [(6, "options")]


def test_scibench(tmp_path):
    rows = [
        {"problem_text": "How fast?", "answer_number": "+7.3", "unit": " $\\mathrm{~m} / \\mathrm{s}$"},
        {"problem_text": "How many?", "answer_number": "0", "unit": " "},
        {"problem_text": "What?", "answer_number": "(1,2)", "unit": "m"},
    ]  # fmt: skip
    problems, dropped, _ = read(tmp_path, rows)
    assert problems[0].prompt == "How fast?\n\nThe unit of the answer is $\\mathrm{~m} / \\mathrm{s}$."
    assert (problems[0].answer, problems[1].prompt) == ("7.3", "How many?")
    assert dropped == {"2": ("no_answer", "its answer '(1,2)' is not a number")}


def test_pairs_without_a_reference_that_can_be_compared_are_dropped_with_the_reason(tmp_path):
    rows = [
        {"problem": "What energy?", "solution": "It is \\boxed{\\frac12 mv^2}."},
        {"problem": "Why?", "answer": "Because the rate of the forward reaction is larger."},
        {"problem": "Say how it works.", "solution": "Heat flows until the temperatures are equal."},
        {"problem": "What salt?", "answer": "NaCl"},
    ]
    problems, dropped, _ = read(tmp_path, rows)
    assert (problems[0].answer, problems[3].answer) == ("\\frac12 mv^2", "NaCl")
    assert dropped["1"] == ("no_answer", "its answer is prose: no letter, number or expression")
    assert dropped["2"][0] == "no_answer" and "no reference can be retrieved" in dropped["2"][1] and len(dropped) == 2
    own = [{"ask": "How fast?", "speed": 3.5, "how": {"unit": "m/s"}}]
    [problem], dropped, _ = read(tmp_path, own, {"prompt": "ask", "answer": "speed", "tests": "how"})
    assert not dropped and domain_of("science").template(problem) == "science_number"


@pytest.mark.parametrize(
    ("solution", "reference"),
    [
        ("First \\boxed{3}, then \\boxed{4 \\text{ m}}.", "4 \\text{ m}"),
        ("Add them.\n#### 12", "12"),
        ("Both are bases. The correct answer is (B).", "B"),
        ("**Answer: C**\n", "C"),
        ("The answer is (A) or so it seems. No: the answer is (D), ethanol.", "D"),
        ("So the answer is $3.2\\,\\mathrm{kJ}$.", "3.2\\,\\mathrm{kJ}"),
        ("The answer is $x^2 + 1$", "x^2 + 1"),
        ("$$v = \\sqrt{2gh} = 6.3 \\mathrm{~m} / \\mathrm{s}$$\nThis is slow.", "6.3 \\mathrm{~m} / \\mathrm{s}"),
        ("$E = 4.0$ J, so $T = 290$ K and $$p = 1.2 \\times 10^{5} \\mathrm{~Pa}$$ where we have used "
         "$1 \\mathrm{~J} = 1 \\mathrm{~N} \\mathrm{~m}$.", "1.2 \\times 10^{5} \\mathrm{~Pa}"),
        ("$$\n\\begin{aligned}\nQ &= mc \\Delta T \\\\\n&= 84 \\mathrm{~kJ}\n\\end{aligned}\n$$", "84 \\mathrm{~kJ}"),
        ("Of 24 balls 9 are red: the probability is $9/24$.", "9/24"),
        # Which value is the final one is not plain, or it is none.
        ("The answer is not obvious, and depends on the pressure.", None),
        ("The answer is A proton moves to the left.", None),
        ("$$T = 290 \\mathrm{~K}$$ At 300 K the reaction is faster.", None),
        ("$$T = 290 \\mathrm{~K}$$ " + "and the gas expands slowly against the piston " * 5, None),
        ("This holds, since $g = 9.8 \\mathrm{~m/s^2}$.", None),
        ("We use $1 \\mathrm{~J} = 1 \\mathrm{~N} \\mathrm{~m}$.", None),
        ("$$F = -kx$$", None),
        ("Heat flows until the temperatures are equal.", None),
        ("", None),
    ],
)  # fmt: skip
def test_the_reference_of_a_worked_solution(solution, reference):
    assert retrieved(solution) == reference


def test_a_retrieved_reference_says_how_it_is_compared(tmp_path):
    asked = "Which is a base?\n(A) HCl\n(B) NaOH\n(C) NaCl"
    long = "The rate of the reaction is the change of the concentration in time.\n" * 6 + "So the answer is (B)."
    rows = [
        {"problem": asked, "matched_solution": "It takes up protons: the answer is (B)."},
        {"problem": "How fast?", "matched_solution": "$v = 36 \\mathrm{~km/h} = 10.0 \\mathrm{~m} \\mathrm{~s}^{-1}$."},
        {"problem": "How many isomers?", "matched_solution": "The answer is 4."},
        {"problem": "What energy?", "answer": "1.6 \\times 10^{-19} J"},
        {"problem": "Which of the two?", "answer": long},
    ]
    problems, dropped, _ = read(tmp_path, rows)
    assert not dropped
    found = [(p.answer, json.loads(p.tests) if p.tests else None) for p in problems]
    assert found == [
        ("B", {"options": ["HCl", "NaOH", "NaCl"]}), ("10", {"unit": "m s^-1", "tolerance": 0.05}), ("4", None),
        ("1.6e-19", {"unit": "J", "tolerance": 0.05}), ("B", None),
    ]  # fmt: skip
    assert problems[1].prompt == "How fast?\n\nThe unit of the answer is m s^-1." and problems[2].prompt[-1] == "?"
    assert (
        json.loads(problems[4].metadata)["solution"] == long.strip()
        or json.loads(problems[4].metadata)["solution"] == long
    )
