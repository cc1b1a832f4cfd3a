"""Small problems for a rehearsal, each a function of its number: the same number is the same problem."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

THINGS = ("apples", "pears", "stamps", "marbles", "coins", "books", "shells", "cards", "plums", "pens", "bolts")
PLACES = (
    "in a basket",
    "on the shelf",
    "under a bench",
    "at the market",
    "by the river",
    "behind the barn",
    "in a van",
)
PEOPLE = ("keeper", "clerk", "gardener", "driver", "teacher", "sailor", "baker", "nurse", "painter", "miner")
ARRIVALS = ("{b} more arrive", "a child brings {b}", "somebody adds {b}")


@dataclass(frozen=True)
class MathProblem:
    statement: str
    answer: int
    solution: str


def math_problem(number: int) -> MathProblem:
    """Two numbers to add. Between any two numbers there are few words, so problems share no long n-gram."""
    a, b, day = 3 + number % 53, 2 + number * 7 % 31, number + 1
    arrival = ARRIVALS[number % 3].format(b=b)
    statement = (
        f"A {PEOPLE[number % 10]} counts {a} {THINGS[number % 11]} {PLACES[number % 7]} on day {day}. "
        f"Then {arrival}. How many now?"
    )
    return MathProblem(statement, a + b, f"There are $ {a} + {b} = {a + b} $, so the answer is $\\boxed{{{a + b}}}$.")


DROPPED = (
    ("Which is even? (A) 3 (B) 4 (C) 5 (D) 7", "B"),
    ("Prove that the sum of two even numbers is even.", "proof"),
    ("As shown in the figure, a square has side 3 cm. Find the area of the shaded part.", "5"),
    ("Let x = 4. (1) Find 2x. (2) Find x + 1.", "8, 5"),
)
"""Statements and answers that rules of math drop: multiple choice, a proof, a figure, two questions."""


@dataclass(frozen=True)
class Task:
    """A function of a list of integers, `solve(nums)`."""

    statement: str
    expression: str
    function: Callable[[list[int]], int]

    def tests(self) -> list[tuple[list[int], int]]:
        return [(nums, self.function(nums)) for nums in INPUTS]


INPUTS = ([], [1], [4, 7, 2], [9, 9, 3, 12], [-5, 0, 5, 10, 15], [8, 16, 24, 3, 1, 6], [13, 2, 2, 30])
KINDS: tuple[tuple[str, str, Callable[[int], Callable[[list[int]], int]]], ...] = (
    (
        "sum of the elements above {k}",
        "sum(x for x in nums if x > {k})",
        lambda k: lambda n: sum(x for x in n if x > k),
    ),
    ("count of elements below {k}", "sum(1 for x in nums if x < {k})", lambda k: lambda n: sum(1 for x in n if x < k)),
    ("sum of all elements times {k}", "sum(nums) * {k}", lambda k: lambda n: sum(n) * k),
    ("sum of squares plus {k}", "sum(x * x for x in nums) + {k}", lambda k: lambda n: sum(x * x for x in n) + k),
    ("length times {k} minus the sum", "len(nums) * {k} - sum(nums)", lambda k: lambda n: len(n) * k - sum(n)),
)


def task(number: int) -> Task:
    what, expression, make = KINDS[number % len(KINDS)]
    k = 2 + number
    return Task(what.format(k=k), expression.format(k=k), make(k))


TASKS = 2000
"""Numbers from which statements of tasks are recognized."""


def program(statement: str) -> str | None:
    """Of the task that a statement asks for: lines of stdin, or a function `solve`. None for statements of others."""
    number = NUMBERS.get(next(iter(re.findall(r"the ([a-z ]+ \d+[a-z ]*)[.\n]", statement)), ""))
    if number is None:
        return None
    expression = task(number).expression
    if "solve(nums)" in statement:
        return f"def solve(nums):\n    return {expression}"
    return f"nums = list(map(int, input().split()))\nprint({expression})"


NUMBERS = {task(number).statement: number for number in range(TASKS)}
FORCES = (
    ("A body of mass {a} kg accelerates at {b} m/s^2. What force acts on it, in N?", "N", lambda a, b: a * b),
    ("A current of {a} A flows through {b} ohms. What is the voltage, in V?", "V", lambda a, b: a * b),
    ("A cart moves at {a} m/s for {b} s. How far does it get, in m?", "m", lambda a, b: a * b),
    ("A pump does {a} J of work in each of {b} strokes. How much is that, in J?", "J", lambda a, b: a * b),
)


def science_problem(number: int) -> tuple[str, int, str]:
    """(question, value, unit)."""
    text, unit, value = FORCES[number % len(FORCES)]
    a, b = 2 + number % 17, 3 + number * 5 % 13
    return text.format(a=a, b=b), value(a, b), unit


ORDERS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("Write in lower case only.", "validate_lowercase", "change_case:english_lowercase", {}),
    ("Use no commas.", "validate_no_commas", "punctuation:no_comma", {}),
    ("Write in capital letters only.", "validate_uppercase", "change_case:english_capital", {}),
    ("Put the whole answer into double quotation marks.", "validate_quotation", "startend:quotation", {}),
    ("Give it a title in double angular brackets.", "validate_title", "detectable_format:title", {}),
)


def order(number: int) -> tuple[str, str, str, dict[str, Any]]:
    """(prompt, function of RLVR-IFeval, kind of IFEval, its arguments)."""
    words, function, kind, arguments = ORDERS[number % len(ORDERS)]
    subject = f"{number + 2} {THINGS[number % 11]} {PLACES[number % 7]}"
    return f"Describe {subject} for a {PEOPLE[number % 10]}. {words}", function, kind, arguments
