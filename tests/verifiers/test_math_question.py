"""What a question requires of a list: its order, where it asks for one."""

import pytest

from ratchet.verifiers import Problem, verify, verify_all
from ratchet.verifiers.math.question import Question


@pytest.mark.parametrize(
    ("question", "count"),
    [
        ("Compute $d(6)$, $d(16)$, and $d(72)$.", 3),
        ("Determine the values of $T(10), T(11)$ and $T(12)$.", 3),
        ("What are the values of $a, h$ and $k$ ?", 3),
        ("Find $p$ and $q$.", 2),
        ("Find both the net distance and the total distance, respectively.", 2),
        ("How many adults attended? How many children attended?", 2),
        ("The sum is ____ and the product is ____.", 2),
        ("List the numbers from least to greatest.", 4),
        ("Enter the roots in increasing order, separated by commas.", 3),
        ("Find the maximum and minimum possible number of such elements for $n=7$.", 2),
        ("What are the area, the perimeter and the diagonal of the rectangle?", 3),
    ],
)
def test_a_question_may_ask_for_an_order(question, count):
    assert Question(question).orders(count)


@pytest.mark.parametrize(
    ("question", "count"),
    [
        ("Find all roots of $x^3+x^2-4x-4$. Enter your answer as a list of numbers separated by commas.", 3),
        ("Find all real solutions of $x^2=4$. Enter all the solutions, separated by commas.", 2),
        ("Enter all possible values, separated by commas.", 2),
        ("Let $a$, $b$ and $c$ be the sides. Find all possible values of $a$.", 3),
        ("Find all $x$ such that $f(x)$ and $g(x)$ are equal.", 2),
        ("Enter all possible areas of a square three of whose vertices are, in some order, $z, z^2, z^3$.", 3),
        ("Find three consecutive odd integers such that the first and twice the second are equal.", 3),
        ("Let $a$, $b$, $c$ be complex numbers. Enter their values, separated by commas, in any order.", 3),
    ],
)
def test_others_do_not(question, count):
    assert not Question(question).orders(count)


@pytest.mark.parametrize(
    ("reference", "answer", "same"),
    [("12, 9", "12, 9", True), ("12, 9", "9, 12", False), ("12, 9", "(12, 9)", False), ("12 and 9", "12, 9", True)],
)
def test_verify_looks_at_the_question(reference, answer, same):
    for question, asks in (("Find $BP$ and $QT$.", True), ("Find the roots.", False)):
        verdict = verify(Problem.of("math", answer=reference, prompt=question), f"\\boxed{{{answer}}}")
        assert verdict.passed is (same or (not asks and answer == "9, 12")), (question, verdict.detail)


def test_a_reference_may_say_so_itself():
    for end in ("respectively", "in this order", ", respectively"):
        problem = Problem.of("math", answer=f"4 and 7 \\text{{ {end}}}")
        assert verify(problem, "\\boxed{4, 7}").passed
        assert not verify(problem, "\\boxed{7, 4}").passed


@pytest.mark.parametrize(
    ("question", "reference", "right", "wrong"),
    [
        (
            "Write $\\sqrt{72}+\\sqrt{50}$ in the form $a\\sqrt{b}$.",
            "11\\sqrt2",
            ["\\sqrt2\\cdot11"],
            ["6\\sqrt2+5\\sqrt2", "\\sqrt{242}"],
        ),
        ("Simplify $\\frac{x^2-9}{x^2+x-6}$.", "\\frac{x-3}{x-2}", ["(x-3)/(x-2)"], ["\\frac{(x-3)(x+3)}{(x-2)(x+3)}"]),
        ("Factor $x^4-4$ over the rationals.", "(x^2-2)(x^2+2)", ["(x^2+2)(x^2-2)"], ["(x-\\sqrt2)(x+\\sqrt2)(x^2+2)"]),
        ("Rationalize $\\frac{6}{\\sqrt3}$.", "2\\sqrt3", ["\\sqrt3\\cdot2"], ["\\frac{6}{\\sqrt3}"]),
        ("How much energy, in joules?", "$3\\times10^5$ J", ["300000", "300 kJ"], ["3\\times10^5\\text{ W}"]),
        ("Which is prime?\n(a) 21\n(b) 29\n(c) 33", "(b)", ["B", "(b) 29", "29", "option b"], ["(a)", "(b) 21", "21"]),
        (
            "Find $n$.",
            "n\\equiv1,3\\pmod4",
            ["all odd integers", "n=2k+1, k\\in\\mathbb{Z}"],
            ["n\\equiv1\\pmod4", "n is even"],
        ),
        (
            "In how many ways can they sit?",
            "60",
            ["They can sit in 60 ways", "There are 60 ways"],
            ["not 60", "60 or 61", "at most 60"],
        ),
        (
            "What change does he get?",
            "$5.45",
            ["5.45", "545\\text{ cents}"],
            ["5.45\\text{ cents}", "5.45\\text{ euros}"],
        ),
        (
            "What is its volume in cubic inches?",
            "64",
            ["64\\text{ cubic inches}"],
            ["64\\text{ cubic feet}", "64\\text{ inches}"],
        ),
        ("What is its momentum, in kg·m/s?", "5", ["5\\text{ kg m/s}"], ["5\\text{ J}", "5\\text{ kg}"]),
        ("Convert 90 km/h to m/s.", "25 m/s", ["25", "25\\text{ m/s}"], ["1500\\text{ m/min}", "90\\text{ km/h}"]),
        (
            "Convert 10000 s to hours, minutes and seconds.",
            "2 hours 46 minutes 40 seconds",
            ["2\\text{ h }46\\text{ min }40\\text{ s}"],
            ["2\\text{ h }46\\text{ min }"],
        ),
        ("Write 45 degrees in radians.", "\\frac{\\pi}{4}", ["\\pi/4"], ["45^\\circ"]),
        (
            "Which theorem is it?",
            "Fermat's little theorem",
            ["\\text{Fermat's Little Theorem}"],
            ["\\text{Fermat's last theorem}"],
        ),
        (
            "It has ( )\nA. no root\nB. exactly one root\nC. exactly two roots",
            "B",
            ["\\text{B. exactly one root}", "exactly one root"],
            ["\\text{C. exactly two roots}", "\\text{B. exactly two roots}"],
        ),
        ("How many muffins are sold?", "42", ["total muffins = 42", "Amount = 42"], ["zebra = 42"]),
        (
            "When do they meet?",
            "9:15 pm",
            ["quarter past nine in the evening", "21:15"],
            ["quarter to nine pm", "9:15 am"],
        ),
    ],
)
def test_classes_that_blind_authors_showed(question, reference, right, wrong):
    problem = Problem.of("math", question, answer=reference)
    verdicts = verify_all([(problem, f"\\boxed{{{answer}}}") for answer in (*right, *wrong)], workers=1)
    assert [verdict.passed for verdict in verdicts] == [True] * len(right) + [False] * len(wrong)
