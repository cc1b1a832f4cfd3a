"""Labelled statements for each rule: what it must take, and what looks like it and must stay."""

import pytest

from data_curation.rules import filter_by_rules, math_rules
from infra.problems import Problem
from infra.recipe.model import Rules
from tests.data_curation.conftest import problems

LIMITS = Rules()
# rule: [(statement, answer)] that it takes, then that it must leave alone.
TAKEN = {
    "multiple_choice": [
        ("What is 2+3?\n(A) 4\n(B) 5\n(C) 6", "5"),
        (r"What is 2+3? $\textbf{(A)}\ 4 \qquad \textbf{(B)}\ 5 \qquad \textbf{(C)}\ 6$", "\\textbf{(B)}"),
        ("Which is prime?\nA. 4\nB. 6\nC. 7\nD. 9", "C"),
        ("Which is prime?\nA) 4  B) 6  C) 7", "7"),
        ("Which is prime?\nA: 4\nB: 7\nC: 9", "7"),
        (r"Which is prime? $\text{A. }4\quad\text{B. }7\quad\text{C. }9$", "7"),
        ("Which is even? (a) 3 (b) 4", "b"),
        ("Choose one: [A] red [B] green [C] blue", "A"),
    ],
    "true_false": [
        ("Is 91 a prime number?", "No"),
        ("Does it hold for all n?", "\\text{False}"),
        ("True or false: 7 is prime.", "1"),
        ("Determine whether the claim is true or false.", "2"),
    ],
    "proof": [
        ("Prove that $\\sqrt2$ is irrational.", ""),
        ("Let $n$ be odd. Show that $n^2-1$ is divisible by 8.", "see above"),
        ("Let $f$ be continuous.\nProve: $f$ is bounded.", "1"),
        ("Prove or disprove that every such graph is planar.", "1"),
        ("Find all primes $p$ with $p+2$ prime and say why.", "proof"),
        ("Give a proof that there are infinitely many primes.", "1"),
        ("Verify that the identity holds for every real $x$.", "1"),
    ],
    "sub_questions": [
        ("Let $x=2$.\n(a) Find $x+1$.\n(b) Find $x-1$.", "3, 1"),
        ("1. Compute $2+2$.\n2. Compute $3+3$.", "4"),
        ("(i) How many are red? (ii) How many are blue?", "3"),
        ("A train leaves. (1) When does it arrive?\n(2) How far does it go?", "3"),
        ("Part (a) Determine $f(1)$.\nPart (b) Determine $f(2)$.", "3"),
        ("a) Solve $x+1=2$.\nb) Solve $x+2=4$.", "3"),
    ],
    "figure": [
        ("[asy] draw((0,0)--(1,1)); [/asy] How long is it?", "1"),
        ("In the figure, $AB=3$. Find $BC$.", "1"),
        ("The graph of $f$ is shown below. Find $f(1)$.", "1"),
        ("As shown in the diagram, the circles touch. Find the radius.", "1"),
        (r"\includegraphics{a.png} What is the area?", "1"),
        ("![](a.png) What is the area?", "1"),
        ("What is the area of the shaded region in the picture at right?", "1"),
        (r"\begin{tikzpicture}\draw (0,0) circle (1);\end{tikzpicture} Find the area.", "1"),
    ],
    "non_english": [
        ("Найдите все простые числа, меньшие 20.", "1"),
        ("求所有小于 20 的素数之和。", "1"),
        ("Soit $n$ un entier positif tel que $n^2 = 49$. Trouver la valeur de $n$.", "7"),
        ("Encuentra todos los números primos menores que $20$ y calcula su suma.", "77"),
        ("Bestimme die Summe aller natürlichen Zahlen, die kleiner als $10$ sind.", "45"),
    ],
    "too_brief": [("Find $x$.", "1"), ("$\\sqrt{5}$", "1"), ("Simplify.", "1"), ("3 times 4?", "12")],
    "long_answer": [
        ("List the multiples of 3 below 40 in increasing order.", "3,6,9,12,15,18,21,24,27"),
        ("Describe the set of all points with this property.", "the union of " + "very many " * 12 + "lines"),
    ],
}
LEFT = {
    "multiple_choice": [
        ("Events have $P(A) = 0.5$, $P(B) = 0.2$ and $P(C) = 0.1$. What is the largest?", "0.5"),
        ("Points A, B and C lie on a line. B is between A and C. How long is AC?", "5"),
        ("Choices (A), (B), and (C) were offered to 12 people; how many chose none?", "3"),
        ("Let $f(A)$, $g(B)$ and $h(C)$ be given by (A) and (B) above.", "3"),
        ("[asy] E = (A + reflect(B)*(A)); F = (B + reflect(C)*(B)); G = (C); [/asy] Find it in full.", "3"),
        ("Box A: 3 coins. Box B: 5 coins. Box C: 1 coin. How many coins are in all boxes?", "9"),
    ],
    "true_false": [("It is a true story: 3 men met. How many met?", "3"), ("What is not false in base 2?", "11")],
    "proof": [
        ("A firm improved its output by 20 %. By how much did it improve?", "1"),
        ("Prove that such $n$ exists and find the least one.", "7"),
        ("What is the least $n$? Prove your answer.", "7"),
        ("He disproved 3 claims and approved 4. How many is that?", "7"),
        ("The results show that 3 of 4 voters agree. How many of 400 agree?", "300"),
        ("Determine all $n$ for which one can prove that $n$ is even.", "2"),
    ],
    "sub_questions": [
        ("What is the least number such that:\na) divided by 2 it leaves 1.\nb) divided by 3 it leaves 2?", "5"),
        ("A function satisfies\n(i) $f(1)=2$ and\n(ii) $f(x+1)=f(x)+3$.\nFind $f(9)$.", "26"),
        ("A line goes through (1, 2) and (2, 3). It is 3.5 long, or 2.7. Find its slope.", "1"),
        ("There are two rules. 1. No red ball. 2. No blue ball. How many balls are left of 9?", "4"),
    ],
    "figure": [
        ("Find $a$ if the function is continuous (which means that its graph can be drawn in one line).", "1"),
        ("How many four-figure numbers are there?", "9000"),
        ("If you can figure out 3 puzzles an hour, how many in 4?", "12"),
        ("Every picture costs 4 dollars. How many can one buy for 20?", "5"),
        ("What is the image of 3 under $f$, and how does the graph of $f$ behave?", "1"),
        ("The table shows nothing; the answer is as follows from 3 + 4.", "7"),
    ],
    "non_english": [
        (r"$$\int_0^1 x^2\,dx$$", "1/3"),
        (r"Evaluate the infinite geometric series: $$\frac{1}{3}+\frac{1}{6}+\dots$$", "1"),
        ("Convert $115_{10}$ to base 11. Represent $10$ as $A$, if necessary.", "1"),
        ("Start at 1. Turn 1: twice. Turn 2: plus 1. Turn 3: less 1. What is the total?", "2"),
        ("Let $\\alpha$, $\\beta$ be roots. Compute $\\alpha+\\beta$ for Σ = Ω.", "2"),
    ],
    "too_brief": [
        ("What is the sum of 3 and 4?", "7"), (r"Compute $\sin 60^\circ$.", "1"), ("$2x + 3 = 7$, $x = ?$", "2"),
    ],
    "long_answer": [
        ("What is the value of pi to a few places?", "3.14159265358979"),
        ("Find the matrix.", r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}"),
    ],
}  # fmt: skip
RULES = {rule.__name__: rule for rule in math_rules.RULES}


def evidence(rule: str, statement: str, answer: str):
    return RULES[rule](Problem("id", "math", statement, answer=answer), LIMITS)


def cases(labelled):
    return [(rule, *case) for rule, statements in labelled.items() for case in statements]


@pytest.mark.parametrize(("rule", "statement", "answer"), cases(TAKEN))
def test_takes(rule, statement, answer):
    found = evidence(rule, statement, answer)
    assert found
    if "span" in found:
        assert statement[slice(*found["span"])].strip() == found["text"].strip() != ""


@pytest.mark.parametrize(("rule", "statement", "answer"), cases(LEFT))
def test_leaves(rule, statement, answer):
    assert evidence(rule, statement, answer) is None


def test_what_the_source_declares_counts():
    for rule, mark in (("multiple_choice", "MCQ"), ("proof", "proof")):
        row = Problem("id", "math", "Find the number of ways.", answer="3", metadata=f'{{"question_type": "{mark}"}}')
        assert RULES[rule](row, LIMITS) == {"field": "question_type", "value": mark}


def test_the_first_rule_that_applies_is_named_and_limits_come_from_the_recipe():
    table = problems("math", "Prove that this holds for all n.", "Find the sum of 3 and 4.", answer=["proof", "7"])
    split = filter_by_rules(table, "math", LIMITS)
    assert split.rejected.column("rule").to_pylist() == ["proof"]
    assert list(split.summary["dropped"]) == list(RULES)
    strict = filter_by_rules(table, "math", Rules(min_prompt_words=9))
    assert strict.rejected.column("rule").to_pylist() == ["proof", "too_brief"]


@pytest.mark.parametrize("filler", [" ", "\n", "(", "$", "A) ", "\\(", "a", "1.", "? ", "![", "\\["])
def test_no_statement_takes_a_rule_long(filler):
    statement = filler * (40_000 // len(filler))
    problem = Problem("id", "math", statement, answer="7")
    for rule in math_rules.RULES:
        rule(problem, LIMITS)  # quadratic patterns take minutes here
