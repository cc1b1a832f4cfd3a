"""Labelled statements for each rule: what it must take, and what looks like it and must stay."""

import pytest

from data_curation.rules import code_rules
from infra.problems import Problem
from infra.recipe.model import Rules

LIMITS = Rules()
SOUND = {"golden_solutions": ["def f(): ..."], "entry_point": "f"}
TAKEN = {
    "interactive": [
        "This is an interactive problem. Guess the number.",
        "After each query flush the output.",
        "Your program interacts with the judge by asking questions.",
        "Do not forget to call fflush() after every line.",
    ],
    "special_judge": [
        "If there are multiple answers, print any of them.",
        "You may return any valid arrangement of the list.",
        "If several solutions exist, output any.",
        "Any correct answer will be accepted.",
        "Return the answer in any order.",
        "Your answer is correct if its absolute or relative error is at most $10^{-6}$.",
        "Answers within 10^-5 of the actual answer will be accepted.",
    ],
    "platform_template": [
        "Given the head of a linked list (ListNode), reverse it.",
        "You don't need to read input or print anything. Your task is to complete the function sumOf().",
    ],
    "image": [
        "![](http://x.org/a.png) Count the cells.",
        "See the image below for an example of the walk.",
        '<img src="a.png"> Count the cells.',
        "The walk is shown in the figure.",
        "[Image] Count the cells.",
    ],
    "non_english": ["Напишите функцию, которая возвращает сумму чисел списка.", "编写函数 f(xs)，返回所有元素之和。"],
    "too_brief": ["Sort it.", "Write solve."],
}
LEFT = {
    "interactive": ["People interact with the list every day.", "The river flushes 3 tons of sand per hour."],
    "special_judge": [
        "If there are multiple answers, return the smallest one.",
        "Do not print anything; many companies ask this, and any language will do.",
        "You may perform the operations in any order. Return the least cost.",
        "There may be multiple equal numbers in the list. If any is repeated, count it once.",
        "If you cannot find any, return -1.",
        "An error in the list never occurs.",
    ],
    "platform_template": ["Implement a list of nodes with two methods.", "Complete the circle and return its area."],
    "image": ["A picture is worth a thousand words; return 1000.", "Try to figure out the pattern of the image list."],
    "non_english": [
        "Write solve(xs): keep numbers above 5, square each, then return the maximum or 0.",
        "def f(x):\n    return x",
    ],
    "too_brief": ["Write solve(xs): return the sum of all numbers."],
}
RULES = {rule.__name__: rule for rule in code_rules.RULES}


def cases(labelled):
    return [(rule, statement) for rule, statements in labelled.items() for statement in statements]


@pytest.mark.parametrize(("rule", "statement"), cases(TAKEN))
def test_takes(rule, statement):
    entry_point = None if rule == "platform_template" else "f"
    found = RULES[rule](Problem("id", "code", statement, **SOUND | {"entry_point": entry_point}), LIMITS)
    assert found
    if "span" in found:
        assert statement[slice(*found["span"])] == found["text"]


@pytest.mark.parametrize(("rule", "statement"), cases(LEFT))
def test_leaves(rule, statement):
    assert RULES[rule](Problem("id", "code", statement, **SOUND), LIMITS) is None


def test_columns_tell_as_well_as_words():
    starter = "# Definition for singly-linked list.\nclass Solution:"
    assert RULES["platform_template"](Problem("id", "code", "Reverse.", starter_code=starter, **SOUND), LIMITS)
    assert RULES["image"](Problem("id", "code", "Count.", metadata='{"picture_num": "2"}', **SOUND), LIMITS)
    assert not RULES["image"](Problem("id", "code", "Count.", metadata='{"picture_num": "0"}', **SOUND), LIMITS)
    assert RULES["no_golden_solution"](Problem("id", "code", "Count.", golden_solutions=[]), LIMITS)
    assert not RULES["no_golden_solution"](Problem("id", "code", "Count.", **SOUND), LIMITS)


@pytest.mark.parametrize("filler", [" ", "\n", "(", "many a ", "print ", "![", "<", "a_", "order of "])
def test_no_statement_takes_a_rule_long(filler):
    problem = Problem("id", "code", filler * (40_000 // len(filler)), **SOUND)
    for rule in code_rules.RULES:
        rule(problem, LIMITS)  # quadratic patterns take minutes here
