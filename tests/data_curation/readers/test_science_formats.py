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


def test_what_has_no_reference_that_can_be_compared_is_dropped_with_the_reason(tmp_path):
    four = ["one", "two", "three", "four"]
    cases = [
        ([{"question": "By nothing?", "options": four, "answer": "five"}], "letter of none of its 4 options"),
        ([{"question": "Beyond?", "options": four, "answer_index": 9, "answer": "J"}], "letter of none"),
        ([{"problem_text": "What?", "answer_number": "(1,2)", "unit": "m"}], "its answer '(1,2)' is not a number"),
        ([{"problem": "Why?", "answer": "Because the rate of the forward reaction is larger."}],
         "its answer is prose: no letter, number or expression"),
        ([{"problem": "Say how it works.", "solution": "Heat flows until the temperatures are equal."}],
         "no reference can be retrieved"),
    ]  # fmt: skip
    for rows, fault in cases:
        _, dropped, _ = read(tmp_path, rows)
        assert dropped["0"][0] == "no_answer" and fault in dropped["0"][1]
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


def test_a_worked_solution_in_the_answer_stays_in_the_metadata(tmp_path):
    long = "The rate of the reaction is the change of the concentration in time.\n" * 6 + "So the answer is (B)."
    [problem], dropped, _ = read(tmp_path, [{"problem": "Which of the two?", "answer": long}])
    assert not dropped and (problem.answer, problem.tests) == ("B", None)
    assert json.loads(problem.metadata)["solution"] == long
