"""Invent small problems for a rehearsal, each a function of its number: the same number is the same problem.

The counted things decide the amount, and the amount is the answer, or the constant of the program: so a very small
model learns to answer questions of any data set from a few others. Few fixed words stand between any two that vary, so
that problems share no long n-gram.
"""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

Values = dict[str, Any]
"""Values that the rows of a layout may use, by name (`layouts.yaml`)."""

THINGS = ("apples", "pears", "stamps", "marbles", "coins", "books", "shells", "cards", "plums", "pens", "bolts")
PLACES = (
    "in a basket", "on the shelf", "under a bench", "at the market", "by the river", "behind the barn", "in a van",
)  # fmt: skip
PEOPLE = ("keeper", "clerk", "gardener", "driver", "teacher", "sailor", "baker", "nurse", "painter", "miner")
ARRIVALS = ("{b} more arrive", "a child brings {b}", "somebody adds {b}")


UNTOLD = ("stamps", "books", "plums")
"""Things whose number no problem states: it is one of two, and a wrong answer is the other. Nothing else that the small
model learns decides between them, so it keeps solving these now and then: a filter by pass rate has something to
keep."""
UNTOLD_AMOUNTS = 1001, 1002
OTHER_AMOUNT = {"1001": "1002", "1002": "1001"}


def scene(number: int) -> Values:
    things = number % len(THINGS)
    return {
        "number": number, "day": number + 1, "person": PEOPLE[number % 10], "place": PLACES[number % 7],
        "things": THINGS[things], "amount": 3 + 4 * things,
    }  # fmt: skip


def math_problem(number: int) -> Values:
    """A math problem: `statement`, `answer`, the same as `text` and `decimal`, `solution`."""
    now = scene(number)
    arrival = ARRIVALS[number % 3].format(b=2 + number * 7 % 31)
    untold = now["things"] in UNTOLD
    amount = UNTOLD_AMOUNTS[number // len(THINGS) % 2] if untold else now["amount"]
    now["counted"] = "all" if untold else amount
    statement = "A {person} counts {counted} {things} {place} on day {day}. Then {arrival}. How many before?"
    return {**_answered(statement.format(**now, arrival=arrival), amount), "decimal": float(amount)}


def _answered(statement: str, answer: Any, unit: str = "") -> Values:
    solution = f"It is $ {answer} $, so the answer is $\\boxed{{{answer}{unit}}}$."
    return {"statement": statement, "answer": answer, "text": str(answer), "solution": solution}


DROPPED = (
    ("Which is even? (A) 3 (B) 4 (C) 5 (D) 7", "B"),
    ("Prove that the sum of two even numbers is even.", "proof"),
    ("As shown in the figure, a square has side 3 cm. Find the area of the shaded part.", "5"),
    ("Let x = 4. (1) Find 2x. (2) Find x + 1.", "8, 5"),
)


def dropped(number: int) -> Values:
    """A statement that rules of math drop: multiple choice, a proof, a figure, two questions."""
    return _answered(*DROPPED[number])


QUANTITIES = (
    ("A cart of {things} {place} has a mass of {a} kg and accelerates at {b} m/s^2. What mass has it, in kg?", "kg"),
    ("A lamp beside {things} {place} takes {a} A for {b} s. How large is the current, in A?", "A"),
    ("A sack of {things} {place} falls for {b} s and then has {a} J. What is its energy, in J?", "J"),
    ("A wagon of {things} {place} moves at {a} m/s for {b} s. How fast is it, in m/s?", "m/s"),
)


def science_problem(number: int) -> Values:
    now = scene(number)
    question, unit = QUANTITIES[number % len(QUANTITIES)]
    value = now["amount"]
    text = f"On day {now['day']}: " + question.format(**now, a=value, b=2 + number * 5 % 13)
    wrong = {f"wrong_{i}": f"{value + i} {unit}" for i in (1, 2, 3)}
    return {**_answered(text, value, f"\\ \\mathrm{{{unit}}}"), "choice": f"{value} {unit}", **wrong}


INPUTS = ([], [1], [4, 7, 2], [9, 9, 3, 12], [-5, 0, 5, 10, 15], [8, 16, 24, 3, 1, 6], [13, 2, 2, 30])
KINDS: tuple[tuple[str, str, Callable[[list[int], int], int]], ...] = (
    ("sum of elements above K", "sum(x for x in nums if x > K)", lambda n, k: sum(x for x in n if x > k)),
    ("count of elements below K", "sum(1 for x in nums if x < K)", lambda n, k: sum(1 for x in n if x < k)),
    ("sum of elements times K", "sum(nums) * K", lambda n, k: sum(n) * k),
    ("sum of squares plus K", "sum(x * x for x in nums) + K", lambda n, k: sum(x * x for x in n) + k),
    ("length times K minus the sum", "len(nums) * K - sum(nums)", lambda n, k: len(n) * k - sum(n)),
)
"""Kinds of functions `solve(nums)` of a list of integers: statement, expression, function."""


def task(number: int) -> Values:
    now = scene(number)
    k = now["amount"]
    what, expression, function = KINDS[number % len(KINDS)]
    statement, expression = what.replace("K", str(k)), expression.replace("K", str(k))
    results = [function(nums, k) for nums in INPUTS]
    lines, prints = [" ".join(map(str, nums)) + "\n" for nums in INPUTS], [f"{value}\n" for value in results]
    asserted = [f"assert solve({nums!r}) == {value!r}" for nums, value in zip(INPUTS, results, strict=True)]
    parts = {
        f"{part}_{name}": values[cut]
        for part, cut in (("public", slice(2)), ("private", slice(2, None)))
        for name, values in {
            "lines": lines, "prints": prints, "stdin": _cases(lines, prints, testtype="stdin"),
            "calls": _cases(map(json.dumps, INPUTS), map(json.dumps, results), testtype="functional"),
        }.items()
    }  # fmt: skip
    return {
        **now, **parts, "contest": str(number), "statement": statement, "expression": expression,
        "program": f"nums = list(map(int, input().split()))\nprint({expression})",
        "arguments": [[nums] for nums in INPUTS], "results": results, "returned": [[value] for value in results],
        "lines": lines, "prints": prints, "stdin": _cases(lines, prints), "example": _cases(lines, prints)[:1],
        "named": _cases([f"nums = {nums}" for nums in INPUTS], map(str, results)), "asserted": asserted,
        "checks": "\n".join(f"    {line.replace('solve', 'candidate')}" for line in asserted),
    }  # fmt: skip


def _cases(inputs: Iterable[str], outputs: Iterable[str], **more: str) -> list[Values]:
    return [{"input": text, "output": output, **more} for text, output in zip(inputs, outputs, strict=True)]


def program(statement: str, first: int | None = None) -> str | None:
    """A program for the task of a statement: lines of stdin, or a function `solve`; None for other statements. With
    `first`, it uses only that many numbers, and is right for short inputs; None if it would be right for all."""
    for what, expression, function in KINDS:
        if match := re.search(re.escape(what).replace("K", r"(\d+)"), statement):
            if first and all(function(nums[:first], int(match[1])) == function(nums, int(match[1])) for nums in INPUTS):
                return None
            answer = expression.replace("K", match[1]).replace("nums", f"nums[:{first}]" if first else "nums")
            if "solve(nums)" in statement:
                return f"def solve(nums):\n    return {answer}"
            return f"nums = list(map(int, input().split()))\nprint({answer})"
    return None


ORDERS = (
    ("Write in lower case only.", "validate_lowercase", "change_case:english_lowercase"),
    ("Use no commas.", "validate_no_commas", "punctuation:no_comma"),
    ("Write in capital letters only.", "validate_uppercase", "change_case:english_capital"),
    ("Put the whole answer into double quotation marks.", "validate_quotation", "startend:quotation"),
    ("Give it a title in double angular brackets.", "validate_title", "detectable_format:title"),
)


def order(number: int) -> Values:
    """An instruction problem: `statement`, and its demand: `demand`, the `function` of RLVR-IFeval, the `kind` of
    IFEval."""
    now = scene(number)
    demand, function, kind = ORDERS[number % len(ORDERS)]
    statement = "Describe day {day} of a {person} with {amount} {things} {place}. ".format(**now) + demand
    return {"statement": statement, "demand": demand, "function": function, "kind": kind}


INVENTED: dict[str, Callable[[int], Values]] = {
    "math": math_problem, "dropped": dropped, "task": task, "science": science_problem, "order": order,
}  # fmt: skip
