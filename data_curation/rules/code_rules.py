"""Rules for code problems, in the order in which they are applied (AceReason, section 3.2; the wording is ours)."""

from __future__ import annotations

import re

from data_curation.rules.evidence import Evidence, declared, seen, too_brief
from data_curation.rules.language import non_english
from infra.problems import Problem
from infra.recipe.model import Rules

_I = re.IGNORECASE

_INTERACTIVE = re.compile(
    r"\binteractive (?:problem|task|version)\b|\b(?:problem|task) is interactive\b|\binteractor\b"
    r"|\binteracts? with (?:the|a) (?:judge|grader|jury|checker)\b|\bidleness limit\b"
    r"|\bf?flush(?:ing)?(?:\(\)| (?:the |your )?(?:standard )?(?:output|stdout)\b)",
    _I,
)
_THINGS = (
    r"(?:answer|solution|list|arrangement|string|array|way|option|choice|result|output|ordering|permutation|path|set)s?"
)
_SEVERAL = r"(?:multiple|several|many|more than one|various|different)"
_GIVE = r"(?:print|output|return|report)"
_SPECIAL_JUDGE = {
    "any_answer": re.compile(
        rf"\b{_SEVERAL} (?:\w+ ){{0,3}}{_THINGS}\b[^.?!]{{0,80}}\bany\b"
        rf"|\b{_GIVE} any (?:one |(?:of them|of the|valid|such|correct|possible|answer|solution)\b)"
        rf"|\b{_GIVE} any\s*(?:[.,;]|\Z)"
        r"|\bany (?:correct|valid|of them|such|possible) [^.?!]{0,60}\baccept",
        _I,
    ),
    "unordered": re.compile(
        rf"\b(?:{_GIVE}|answers?|results?|them)\b[^.?!]{{0,60}}\bin any order\b"
        r"|\border of (?:the |your )?(?:output|answers?|results?|returned \w+)[^.?!]{0,30}(?:not|n't) matter",
        _I,
    ),
    "tolerance": re.compile(
        r"\b(?:absolute|relative) error\b|\bwithin (?:an error of |a tolerance of )?\$?10\s*(?:\^|\*\*)\s*\{?\s*[-−]",
        _I,
    ),
}
_TEMPLATE = re.compile(r"#\s*Definition for\b|\b(?:ListNode|TreeNode|NestedInteger)\b|\bclass Node\b")
_COMPLETE_FUNCTION = re.compile(
    r"\byour task is to complete the function\b|\byou (?:don't|do not) need to read (?:the )?input\b", _I
)
_IMAGE = re.compile(
    r"!\[[^\]]{0,200}\]\(|<img\b|<image>|<svg\b|\[image\]|\\includegraphics"
    r"|\b(?:image|picture|figure|diagram)s? (?:shown )?(?:below|above)\b"
    r"|\b(?:shown|seen|see) in the (?:\w+ )?(?:image|picture|figure|diagram)\b",
    _I,
)


def interactive(problem: Problem, limits: Rules) -> Evidence | None:
    """The program would have to talk with a judge."""
    found = _INTERACTIVE.search(problem.prompt)
    return seen(found) if found else None


def special_judge(problem: Problem, limits: Rules) -> Evidence | None:
    """More than one output is right, and comparing with the expected one would fail right programs. `kind`: any answer
    is accepted, the order is free, or numbers need not be exact."""
    for kind, pattern in _SPECIAL_JUDGE.items():
        if found := pattern.search(problem.prompt):
            return seen(found, kind=kind)
    return None


def platform_template(problem: Problem, limits: Rules) -> Evidence | None:
    """The solution needs classes or input handling that only the platform has."""
    if found := _TEMPLATE.search(problem.starter_code or ""):
        return {"text": found[0], "field": "starter_code"}
    if found := _TEMPLATE.search(problem.prompt):
        return seen(found)
    found = None if problem.entry_point else _COMPLETE_FUNCTION.search(problem.prompt)
    return seen(found) if found else None


def image(problem: Problem, limits: Rules) -> Evidence | None:
    """A picture, words that point at one, or a source that counts pictures."""
    if found := _IMAGE.search(problem.prompt):
        return seen(found)
    return declared(problem, "picture_num", *map(str, range(1, 100)))


def no_golden_solution(problem: Problem, limits: Rules) -> Evidence | None:
    """Without a solution known to be right, nothing says that the tests are."""
    return None if problem.golden_solutions else {"golden_solutions": 0}


RULES = (interactive, special_judge, platform_template, image, no_golden_solution, non_english, too_brief)
