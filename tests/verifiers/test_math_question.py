r"""What the question decides: its unit, base, modulus, conditions and names may be left out, its form may not; and if
a list has an order."""

import pytest

from ratchet.verifiers import Problem, verify
from ratchet.verifiers.math.question import Question
from tests.verifiers.programs import programs

ROWS = programs("math_context")


@pytest.mark.parametrize("row", ROWS, ids=[row["question"][:60] for row in ROWS])
def test_the_question_decides(row):
    problem = Problem.of("math", row["question"], answer=row["reference"])
    right = [row["reference"], *row["right"]]
    passed = []
    for answer in (*right, *row["wrong"]):
        verdict = verify(problem, answer if "\\boxed" in answer else f"\\boxed{{{answer}}}")
        passed += [answer] * verdict.passed
    assert passed == right


@pytest.mark.parametrize(
    ("question", "count", "asks"),
    [
        ("Compute $d(6)$, $d(16)$, and $d(72)$.", 3, True),
        ("Determine the values of $T(10), T(11)$ and $T(12)$.", 3, True),
        ("What are the values of $a, h$ and $k$ ?", 3, True),
        ("Find $p$ and $q$.", 2, True),
        ("Find both the net distance and the total distance, respectively.", 2, True),
        ("How many adults attended? How many children attended?", 2, True),
        ("The sum is ____ and the product is ____.", 2, True),
        ("List the numbers from least to greatest.", 4, True),
        ("Enter the roots in increasing order, separated by commas.", 3, True),
        ("Find the maximum and minimum possible number of such elements for $n=7$.", 2, True),
        ("What are the area, the perimeter and the diagonal of the rectangle?", 3, True),
        ("Find all roots of $x^3+x^2-4x-4$. Enter your answer as a list of numbers separated by commas.", 3, False),
        ("Find all real solutions of $x^2=4$. Enter all the solutions, separated by commas.", 2, False),
        ("Enter all possible values, separated by commas.", 2, False),
        ("Let $a$, $b$ and $c$ be the sides. Find all possible values of $a$.", 3, False),
        ("Find all $x$ such that $f(x)$ and $g(x)$ are equal.", 2, False),
        ("Enter all possible areas of a square three of whose vertices are, in some order, $z, z^2, z^3$.", 3, False),
        ("Find three consecutive odd integers such that the first and twice the second are equal.", 3, False),
        ("Let $a$, $b$, $c$ be complex numbers. Enter their values, separated by commas, in any order.", 3, False),
    ],
)
def test_a_question_may_ask_for_an_order(question, count, asks):
    assert Question(question).orders(count) is asks


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


@pytest.mark.parametrize("answer", ["B", "(b) 29", "29", "option b", "(a)", "(b) 21", "21"])
def test_an_option_may_have_a_small_letter(answer):
    problem = Problem.of("math", "Which is prime?\n(a) 21\n(b) 29\n(c) 33", answer="(b)")
    assert verify(problem, f"\\boxed{{{answer}}}").passed is ("21" not in answer and answer != "(a)")
