"""Defects of raw math problems: templates of unverifiable, unusable or broken problems as published sets have them
(`mess.yaml`), and look-alikes: sound problems with the words that a careless rule looks for.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random

from ratchet.examples.tiny_world import math_problems
from ratchet.verifiers.yaml_files import load_yaml

MESS = load_yaml(Path(__file__).with_name("mess.yaml"))
TEMPLATES: dict[str, list[tuple[str, str]]] = MESS["math"]
# Sound problems of other worlds, each used once. No rule may reject them; the majority vote does, because this world's
# teacher cannot read them. The answer is a function of the four digits.
LOOK_ALIKES: tuple[tuple[str, Callable[[int, int, int, int], int]], ...] = (
    ("Find the second coordinate of the point halfway from ({a}, 0) to ({b}, 1{c}{c}) and double it.",
     lambda a, b, c, d: 100 + 11 * c),
    ("A factory improved its output from {a} to {a}{b} units a day. By how many units did it improve?",
     lambda a, b, c, d: 9 * a + b),
    ("If you can figure out {a} puzzles an hour, how many can you do in {b} hours?", lambda a, b, c, d: a * b),
    ("Mara approved {a} plans and disproved {b} claims. How many items did she decide in total?",
     lambda a, b, c, d: a + b),
    ("The number {a}.8 is rounded up and the number {b}.1 is rounded down. What is their sum?",
     lambda a, b, c, d: a + 1 + b),
    ("A choir of {a}0 sings in a hall with 5 rows (2 aisles, 3 doors). How many singers stand in each row?",
     lambda a, b, c, d: 2 * a),
    ("Every picture costs {a} dollars. How many dollars do {b} pictures cost?", lambda a, b, c, d: a * b),
    ("What is the value of $f({a})$ if $f(x) = {b}x + {c}$ for every real number $x$?", lambda a, b, c, d: a * b + c),
    ("Given that $x - {a} = {b}$, what is the value of $x + {c}$ as a whole number?", lambda a, b, c, d: a + b + c),
    ("It is a true story: {a} sailors shared {a}{a} coins evenly. How many coins did each of them get?",
     lambda a, b, c, d: 11),
    ("How many four-figure numbers start with the digit {a} and end with the digit {b}?", lambda a, b, c, d: 100),
    ("Vitamin A is sold in packs of {a}, vitamin B in packs of {b}. How many pills are in one pack of each?",
     lambda a, b, c, d: a + b),
    ("Let $g(x) = x^{a}$. For what positive $x$ is $g(x)$ equal to $x$ itself?", lambda a, b, c, d: 1),
    ("Die A shows 4 and die B shows 3 points. By how much is {a}0 larger than what both show together?",
     lambda a, b, c, d: 10 * a - 7),
    ("A lawyer has {a} witnesses who can prove their alibi and {b} who cannot. How many witnesses are there?",
     lambda a, b, c, d: a + b),
    ("The graph of $y = {a}x + {b}$ meets the $y$-axis. At what height does this happen?", lambda a, b, c, d: b),
    ("Line 1 of a song has {a} words and line 2 has {b} words. What is the total number of words?",
     lambda a, b, c, d: a + b),
    ("A shop shows that it is open for {a} hours on each of {b} days. For how many hours is it open?",
     lambda a, b, c, d: a * b),
    ("In the expression $(a + {a})({b})$, replace $a$ by {c}. What number comes out?", lambda a, b, c, d: (c + a) * b),
    ("Nora says yes {a} times and no {b} times. How often does she speak?", lambda a, b, c, d: a + b),
    ("Solve for $n$: $2^n = 2^{a} \\cdot 2^{b}$.", lambda a, b, c, d: a + b),
    ("How many integers $k$ satisfy (i.e. make true) the inequality $0 < k < {a}{b}$?",
     lambda a, b, c, d: 10 * a + b - 1),
    ("A drawing class of {a} has {b} times as many pencils as members. How many pencils are there?",
     lambda a, b, c, d: a * b),
    ("Point $C$ lies on segment $AB$ with $AC = {a}$ and $CB = {b}$. How long is $AB$?", lambda a, b, c, d: a + b),
)  # fmt: skip

_OPTION_STYLES = (
    ("({})", " "), ("{}.", "\n"), ("{})", "  "), ("({})", "\n"), ("$\\textbf{{({})}}$", " \\qquad "), ("{}:", "\n"),
)  # fmt: skip


def fill(rng: Random, template: str) -> str:
    """The template with four different digits from 2 to 9."""
    return template.format(**dict(zip("abcd", rng.sample(range(2, 10), 4), strict=True)))


def problem_of_kind(rng: Random, kind: str, number: int) -> tuple[str, str]:
    """(problem, answer) with the defect `kind`; `number` counts within the kind, so that templates take turns."""
    if kind == "multiple_choice":
        return _multiple_choice(rng, number)
    if kind == "look_alike":
        problem, solve = LOOK_ALIKES[number]
        values = rng.sample(range(2, 10), 4)
        return problem.format(**dict(zip("abcd", values, strict=True))), str(solve(*values))
    templates = TEMPLATES[kind]
    problem, answer = templates[number % len(templates)]
    if kind == "long_answer":
        return fill(rng, problem), _long_answer(rng, answer)
    digits = dict(zip("abcd", rng.sample(range(2, 10), 4), strict=True))
    return problem.format(**digits), answer.format(**digits)


def _multiple_choice(rng: Random, number: int) -> tuple[str, str]:
    mark, between = _OPTION_STYLES[number % len(_OPTION_STYLES)]
    if number % 2:
        stem = fill(rng, rng.choice(MESS["math"]["multiple_choice"]))
    else:
        stem = math_problems.draw_problem(rng, rng.choice(math_problems.LEVELS)).prompt
    letters = "ABCDE"[: rng.choice((4, 5))]
    values = rng.sample(range(10, 100), len(letters))
    options = between.join(f"{mark.format(letter)} {value}" for letter, value in zip(letters, values, strict=True))
    right = rng.randrange(len(letters))
    return f"{stem}\n{options}", letters[right] if rng.random() < 0.7 else str(values[right])


def _long_answer(rng: Random, form: str) -> str:
    numbers = [rng.randint(2, 9) * k for k in range(1, 13)]
    return {
        "multiples": ", ".join(map(str, numbers)),
        "squares": "\\{" + ", ".join(map(str, numbers[:10])) + "\\}",
        "polynomial": " + ".join(f"{k}x^{{{11 - i}}}" for i, k in enumerate(numbers)),
        "words": "all points of two lines that are parallel to the given line, one on each side of it, without the "
        f"open segments of length {numbers[0]} in the middle",
        "formula": f"\\frac{{{numbers[1]}(n+1)^{{3}} - {numbers[2]}(n-1)^{{2}} + {numbers[3]}n}}{{{numbers[4]}}} + "
        f"\\sum_{{k={numbers[0]}}}^{{n}} \\binom{{n+{numbers[5]}}}{{k}} \\left({numbers[6]}^k - 1\\right)",
    }[form]
