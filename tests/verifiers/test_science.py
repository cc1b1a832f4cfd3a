"""Choices, numbers with units, expressions: what passes, what does not, and answers written to pass without knowing."""

import json
import os
from pathlib import Path

import pytest

from ratchet.data_curation.base.prompts import PromptFormat, user_message
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.science.domain import Science, read_quantity, read_unit
from ratchet.verifiers.serving.local_pool import VerifierPool
from ratchet.verifiers.submission import JudgeSettings
from tests.verifiers.test_instructions import children

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
      "ten", "10..0", "1e1000",
      "9.6-10.4", "\\{10, 11\\}", "10 m/s^2", "20/2 m/s"]),
    (SCALED, ["3.83", "3.9", "3.83\\times 10^{-4}", "3.83\\times10^{-4} \\mathrm{cm}^3", "0.383 mm^3"],
     ["3.83 cm^3", "383", "38300 cm^3"]),
    (BARE, ["0.25", "1/4", "\\frac{1}{4}", "25\\%", ".2501"], ["25", "0.26", "-0.25", "0.25 m", "2.5%"]),
    (ENERGY, ["\\frac{mv^2}{2}", "\\frac{v^2m}{2}"], ["mv^2", "\\frac{1}{2}mv", "E"]),
]  # fmt: skip


def judged(pairs):
    with VerifierPool(1) as pool:
        for number, (problem, response) in enumerate(pairs):
            pool.submit(number, problem, response)
        return [verdict for _, verdict in sorted(pool.results(), key=lambda pair: pair[0])]


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
    before = children()
    responses = [f"\\boxed{{{answer}}}" for answer in HOSTILE]
    responses += ["\\boxed{" * 100_000, "B" * 1_000_000, "\\boxed{10} m/s \\boxed{11}", "10 m/s", ""]
    verdicts = judged([(problem, response) for problem in (CHOICE, SPEED, BARE) for response in responses])
    forged = [(v.extracted, v.outcome) for v in verdicts if v.outcome not in (Outcome.FAILED, Outcome.UNPARSEABLE)]
    # "B" and blanks is the right letter; everything else is nothing.
    assert [(found or "").strip() for found, _ in forged] == ["B"]
    assert os.listdir(tmp_path) == []
    assert children() == before


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


UNITS = [  # reference, its unit, answer, whether they are the same
    ("60", "Hz", "60 rad/s", False),
    ("60", "Hz", "60 Hz", True),
    ("60", "Hz", "0.06 kHz", True),
    ("60", "Hz", "60 s^{-1}", True),
    ("60", "rad/s", "60 rad/s", True),
    ("60", "rad/s", "60 s^{-1}", True),
    ("60", "rad/s", "60 Hz", False),
    ("5", "Bq", "5 Hz", False),
    ("5", "Sv", "5 Gy", False),
    ("5", "Sv", "5 Sv", True),
    ("180", "degree", "3.14159 rad", True),
    ("5", "m", "5 Meters", True),
    ("10", "J", "10 Joules", True),
    ("10", "J", "10 Newtons", False),
    ("300", "K", "300 Kelvin", True),
    ("25", "degC", "25 degrees Celsius", True),
    ("25", "degC", "25 Celsius", True),
    ("25", "degC", "25^\\circ C", True),
    ("25", "degC", "25 degrees Fahrenheit", False),
    ("-285", "kJ/mol", "\\Delta H = -285 \\text{ kJ/mol}", True),
    ("-285", "kJ/mol", "\\Delta H^\\circ = -285 \\text{ kJ/mol}", True),
    ("-285", "kJ/mol", "\\Delta H = 285 \\text{ kJ/mol}", False),
    ("5", "m/s", "5 \\frac{\\text{m}}{\\text{s}}", True),
    ("5", "m/s", "5 \\frac{\\text m}{\\text s}", True),
    ("5", "m/s", "5\\,\\frac{m}{s^2}", False),
    ("6.02e23", "1/mol", "6.02 \\times 10^{23} mol⁻¹", True),
    ("1.6e-19", "C", "1.6 \\times 10^(-19) C", True),
    ("1.6e-19", "C", "1.6*10^(-18) C", False),
    ("5", "m/s", "5 ms^{-1}", True),
    ("5", "m/s", "5 m s^{-1}", True),
    ("5", "1/ms", "5 ms^{-1}", True),
    ("5", "m/s", "5 km/s", False),
    ("9.8", "m/s^2", "9.8 ms^{-2}", True),
    ("9.8", "m/s^2", "9.8 m/s²", True),
    ("9.8", "m/s^2", "9.8 m/s", False),
    ("2", "N*m", "2 J", True),
    ("3", "V", "3 Volts", True),
    ("3", "V", "3 mV", False),
    ("12", "g/mol", "12 g mol⁻¹", True),
    ("0.5", "mol/L", "0.5 \\frac{mol}{L}", True),
    ("7", "", "7", True),
    ("1/2", "", "0.5", True),
    ("4.2", "J/(g*K)", "4.2 J g^{-1} K^{-1}", True),
    ("100", "km/h", "27.78 m/s", True),
    ("100", "km/h", "100 m/s", False),
    ("12", "N*s", "12 Ns", True),
    ("12", "N*s", "12 kgms^{-1}", True),
    ("12", "N*s", "12 kg\\,m\\,s^{-1}", True),
    ("0.001", "Pa*s", "0.001 Nsm^{-2}", True),
    ("6.63e-34", "J*s", "6.63\\times10^{-34} Js", True),
    ("6.63e-34", "J*s", "6.63 \\times 10^{-34}\\ \\mathrm{J\\,s}", True),
    ("1.38e-23", "J/K", "1.38*10^(-23) JK^{-1}", True),
    ("8.314", "J/(mol*K)", "8.314 Jmol^{-1}K^{-1}", True),
    ("8.314", "J/(mol*K)", "8.314 J/molK", True),
    ("8.314", "J/(mol*K)", "8.314 kJmol^{-1}K^{-1}", False),
    ("0.6", "W/(m*K)", "0.6 W/mK", True),
    ("0.6", "W/(m*K)", "0.6 Wm^{-1}K^{-1}", True),
    ("0.6", "W/(m*K)", "0.6 W/(m·°C)", True),
    ("300", "V/m", "300 V m⁻¹", True),
    ("300", "V/m", "0.3 kVm^{-1}", True),
    ("40", "A/m", "40 Am^{-1}", True),
    ("5", "C*m", "5 Cm", True),
    ("0.02", "kg/m", "0.02 kgm^{-1}", True),
    ("3", "kg*m^2", "3 kgm^2", True),
    ("3", "kg*m^2", "3 kg\\cdot\\text{m}^2", True),
    ("3", "kg*m^2/s", "3 kgm^2s^{-1}", True),
    ("7", "m/s", "7\\frac{\\mathrm{m}}{\\mathrm{s}}", True),
    ("7", "m/s", "7 \\dfrac{m}{s}", True),
    ("7", "m/s", "7 dms^{-1}", False),
    ("7", "m/s", "7 mms^{-1}", False),
    ("7", "m/s", "7/ms", False),
    ("7", "m/s", "7 s^{-1}m", True),
    ("7", "1/s", "7 ms^{-1}", False),
    ("7000", "1/s", "7 ms^{-1}", True),
    ("7", "1/m", "7 mm^{-1}", False),
    ("8", "N*m", "8 mN", False),
    ("8", "N*m", "8 Nm", True),
    ("8", "N*m", "8 Newton meters", True),
    ("8", "N*m", "8 N-m", True),
    ("90", "kPa", "90 KPa", True),
    ("4", "kW", "4 KW", True),
    ("4", "kW", "4 Kilowatts", True),
    ("4", "kV", "4 KV", True),
    ("4", "km", "4 Km", True),
    ("4", "K", "4 k", False),
    ("4", "kg", "4 Kilograms", True),
    ("4", "kg", "4 KG", True),
    ("4", "g", "4 Kg", False),
    ("4", "mg", "4 Mg", False),
    ("3", "A", "3 Amperes", True),
    ("3", "A", "3 amps", True),
    ("3", "A", "3 mA", False),
    ("3", "A", "3 Am", False),
    ("50", "lux", "50 cd/m^2", False),
    ("50", "lux", "50 lm/m^2", True),
    ("2", "sr", "2 rad", False),
    ("2", "rad", "2 radians", True),
    ("90", "degree", "\\frac{\\pi}{2}", False),
    ("2", "mol/L", "2 molL⁻¹", True),
    ("2", "mol/L", "2 mol/m^3", False),
    ("2", "mol/L", "2 mmolL^{-1}", False),
    ("2", "L/(mol*s)", "2 Lmol^{-1}s^{-1}", True),
    ("2", "L/(mol*s)", "2 M^{-1}s^{-1}", True),
    ("6.022e23", "1/mol", "6.022 \\times 10^{23} \\text{mol}^{-1}", True),
    ("334", "J/g", "334 Jg^{-1}", True),
    ("334", "kJ/kg", "334 J/g", True),
    ("334", "kJ/kg", "334 kJkg^{-1}", True),
    ("334", "kJ/kg", "334 Jkg^{-1}", False),
    ("5", "N/C", "5 NC^{-1}", True),
    ("5", "N/C", "5 V/m", True),
    ("2", "T", "2 Teslas", True),
    ("2", "T", "2 Wb/m^2", True),
    ("0.75", "", "3/4", True),
    ("3", "", "9/3", False),
    ("2.45", "", "4.9/2", False),
    ("3", "m/s", "9/3 m/s", False),
    ("2.6429", "m/s", "74/28 m/s", True),
    ("1/2", "", "1/2", True),
    ("17", "", "34/2", False),
    ("2.5", "", "5/2", True),
    ("2.5", "", "5\\div 2", False),
    ("17", "", "17=74-28-29", False),
    ("3", "cd", "3 lm", False),
    ("3", "lm", "3 cd", False),
    ("3", "sr", "3 rad", False),
    ("3", "rad", "3 sr", False),
    ("6/3", "", "6/3", True),
    ("6/3", "", "2", True),
    ("6", "cm^2", "6 cm2", True),
    ("6", "min", "6 mins", True),
    ("6", "h", "6 hr", True),
    ("6", "MPa", "6 Nmm^{-2}", True),
    ("6", "MPa", "6 Nm^{-2}", False),
    ("6", "kg/s", "6 kgs^{-1}", True),
    ("6", "kg*s", "6 kgs^{-1}", False),
    ("300", "K", "300 Kms", False),
    ("5", "m", "5 kms^{-1}", False),
]


@pytest.mark.parametrize(("reference", "unit", "answer", "same"), UNITS)
def test_units_as_they_are_written(reference, unit, answer, same):
    reference = reference if "/" in reference else str(float(reference))
    tests = json.dumps({"unit": unit, "tolerance": 0.02})
    problem = Problem("p", "science", "?", answer=reference, tests=tests)
    assert Science().judged(problem, answer, JudgeSettings()).passed is same


PAIRS = [json.loads(line) for line in Path(__file__).with_name("science_pairs.jsonl").read_text("utf-8").splitlines()]


LIMITS = ["5 rev/s", "F = ma = 2.4 N"]
"""Right answers of the second half that are not read."""


@pytest.mark.parametrize(("half", "limits"), [(1, []), (2, LIMITS)])
def test_labelled_pairs(half, limits):
    wrong = []
    for pair in (pair for pair in PAIRS if pair["half"] == half):
        problem = Problem("p", "science", "?", answer=pair["reference"], tests=json.dumps({"unit": pair["unit"]}))
        if Science().judged(problem, pair["answer"], JudgeSettings()).passed is not pair["same"]:
            wrong.append(pair["answer"])
    assert wrong == limits
