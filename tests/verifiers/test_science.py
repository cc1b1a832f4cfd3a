"""Choices, numbers with units, expressions: what passes, what does not, and answers written to pass without knowing."""

import json
import os

import pytest

from ratchet.data_curation.base.prompts import PromptFormat, user_message
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.science.domain import Science, read_quantity, read_unit
from ratchet.verifiers.serving.local_pool import VerifierPool
from ratchet.verifiers.submission import JudgeSettings
from tests.verifiers.programs import rows
from tests.verifiers.sandbox_world import descendants

OPTIONS = ["$5$ m/s", "10 m/s", "The force is zero.", "5.0 m"]
CHOICE = Problem("c", "science", "How fast?", answer="B", tests=json.dumps({"options": OPTIONS}))
SPEED = Problem("s", "science", "How fast?", answer="10", tests=json.dumps({"unit": "m/s", "tolerance": 0.05}))
SCALED = Problem("d", "science", "How much?", answer="3.83", tests=json.dumps({"unit": "$10^{-4} \\mathrm{~cm}^3$"}))
BARE = Problem("b", "science", "How many?", answer="0.25", tests=json.dumps({"unit": "", "tolerance": 0.01}))
ENERGY = Problem("e", "science", "What energy?", answer="\\frac{1}{2}mv^2")
CASES = [  # problem, answers that pass, answers that do not
    (CHOICE, ["B", "b", "(B)", "B.", "\\text{B}", "\\textbf{(B)}", "$B$", "B. 10 m/s", "(B) 10 m/s", "10 m/s"],
     ["A", "A or B", "A, B", "BA", "B. 5 m/s", "B or C", "not A, so B", "option", "E", "5", "C. The force is zero",
      "B?!"]),
    (SPEED, ["10", "10.4 m/s", "9.6\\,\\mathrm{m\\,s^{-1}}", "36 \\text{ km/h}", "v = 1.0\\times 10^{1}~\\text{m/s}",
             "1000 cm/s", "10 meters per second", "10.0 m s^{-1}", "21/2 m/s"],
     ["10 m", "-10", "10.6", "10 or 11", "10 apples", "10 photons", "\\$10", "10 m/s, not 11", "10 \\text{ million}",
      "ten", "10..0", "1e1000", "10 Np^2",
      "9.6-10.4", "\\{10, 11\\}", "10 m/s^2", "20/2 m/s"]),
    (SCALED, ["3.83", "3.9", "3.83\\times 10^{-4}", "3.83\\times10^{-4} \\mathrm{cm}^3", "0.383 mm^3"],
     ["3.83 cm^3", "383", "38300 cm^3"]),
    (BARE, ["0.25", "1/4", "\\frac{1}{4}", "25\\%", ".2501"], ["25", "0.26", "-0.25", "0.25 m", "2.5%"]),
    (ENERGY, ["\\frac{mv^2}{2}", "\\frac{v^2m}{2}"], ["mv^2", "\\frac{1}{2}mv", "E"]),
]  # fmt: skip


def judged(pairs):
    with VerifierPool(1) as pool:
        return pool.verify(pairs)


def test_right_and_wrong_answers():
    asked = [(problem, answer, True) for problem, good, _ in CASES for answer in good]
    asked += [(problem, answer, False) for problem, _, bad in CASES for answer in bad]
    verdicts = judged([(problem, f"<think>Hm.</think> So \\boxed{{{answer}}}") for problem, answer, _ in asked])
    wrong = [(p.problem_id, answer) for (p, answer, good), v in zip(asked, verdicts, strict=True) if v.passed != good]
    assert wrong == []
    assert all(verdict.fraction == float(verdict.passed) for verdict in verdicts)


HOSTILE = [
    "ABCD", "A\\text{ or B}", "\\text{the right one}", "(" * 900 + "B" + ")" * 900, "B" + " " * 2000, "B}\\boxed{A",
    "10" + "^{9}" * 200, "9" * 1900 + " m/s", "10 " + "m*" * 90 + "s", "10 m^{99999999}", "10 [1] * 10**9 m/s",
    "10 __import__('os').system('touch forged')", "\\frac{10}{0}", "1e999 m/s", "inf", "nan", "10 m/s \ud800",
    "10\\%" * 40, "10 +/- 1000 m/s", "\\pm 10 m/s", "10 m0", "10 m/s^0", "10^{999} 10^{999} m",
    "x" + "_" * 190, "x" + "_degdegdeg" * 19,
]  # fmt: skip


def test_hostile_answers_are_decided_and_pass_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = descendants(os.getpid())
    responses = [f"\\boxed{{{answer}}}" for answer in HOSTILE]
    responses += ["\\boxed{" * 100_000, "B" * 1_000_000, "\\boxed{10} m/s \\boxed{11}", "10 m/s", ""]
    verdicts = judged([(problem, response) for problem in (CHOICE, SPEED, BARE) for response in responses])
    forged = [(v.extracted, v.outcome) for v in verdicts if v.outcome not in (Outcome.FAILED, Outcome.UNPARSEABLE)]
    # "B" and blanks is the right letter; everything else is nothing.
    assert [(found or "").strip() for found, _ in forged] == ["B"]
    assert os.listdir(tmp_path) == []
    assert descendants(os.getpid()) == before


@pytest.mark.parametrize(
    ("answer", "tests", "fault"),
    [
        ("", None, "it has no answer"),
        ("B", {"options": ["only one"]}, "its options are not from 2 to 26"),
        ("C", {"options": ["a", "b"]}, "its answer 'C' is the letter of none of its 2 options"),
        ("AB", {"options": ["a", "b", "c"]}, "'AB' is the letter of none"),
        ("about ten", {"unit": "m"}, "'about ten' is not a number"),
        ("10", {"unit": "m", "tolerance": 2}, "its tolerance 2 is not"),
        ("10", {"units": "m"}, "tests is not an object with options"),
        ("10", [1], "tests is not an object"),
        ("The acid donates a proton to the base.", None, "prose"),
    ],
)
def test_what_nothing_can_be_compared_with(answer, tests, fault):
    problem = Problem("p", "science", "Q?", answer=answer, tests=tests and json.dumps(tests))
    assert fault in domain_of("science").fault(problem)
    (verdict,) = judged([(problem, "\\boxed{B}")])
    assert (verdict.outcome, verdict.decided_by) == (Outcome.UNPARSEABLE, "invalid_problem")


def test_units_and_prompts():
    assert read_unit("J/mol K") == read_unit("$\\mathrm{J} /(\\mathrm{mol} \\mathrm{~K})$") != read_unit("J/mol")
    assert read_unit("$10^{3} \\mathrm{~kJ} \\mathrm{~mol}^{-1}$") == (1000.0, "kJ**1*mol**-1")
    assert read_unit("ft-lb") and read_unit("\\Omega") and read_unit("$^{\\circ} \\mathrm{C}$") == (1.0, "degC**1")
    assert read_unit("not sure") is None and read_quantity("5 or 6") is None and read_quantity("x" * 300) is None
    form = domain_of("science").templates
    asked = [user_message(p, PromptFormat()) for p in (CHOICE, SPEED, ENERGY)]
    assert [text.partition("\n\n")[2] for text in asked] == [
        form[name].format(prompt="").strip() for name in ("science_choice", "science_number", "science")
    ]


@pytest.mark.parametrize("row", rows("science_units"), ids=lambda row: f"{row['unit']}: {row['answer']}")
def test_units_as_they_are_written(row):
    reference = row["reference"] if "/" in row["reference"] else str(float(row["reference"]))
    tests = json.dumps({"unit": row["unit"], "tolerance": 0.02})
    problem = Problem("p", "science", "?", answer=reference, tests=tests)
    assert Science().judged(problem, row["answer"], JudgeSettings()).passed is row["same"]


LIMITS = ["5 rev/s", "F = ma = 2.4 N"]
"""Right answers of the second half that are not read."""


@pytest.mark.parametrize(("half", "limits"), [(1, []), (2, LIMITS)])
def test_labelled_pairs(half, limits):
    wrong = []
    for pair in (pair for pair in rows("science_pairs") if pair["half"] == half):
        problem = Problem("p", "science", "?", answer=pair["reference"], tests=json.dumps({"unit": pair["unit"]}))
        if Science().judged(problem, pair["answer"], JudgeSettings()).passed is not pair["same"]:
            wrong.append(pair["answer"])
    assert wrong == limits
