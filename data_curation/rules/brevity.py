"""Is there a problem at all? A text without a number or a formula that is made of words that instruct, and of words for
what is not there: "Find the area.", "Solve this.", "Evaluate the following integral:"."""

import re

from ratchet.data_curation.rules.evidence import Evidence, any_of
from ratchet.infra.problems import Problem
from ratchet.infra.recipe.curation import Rules

_TRIMMINGS = any_of(
    r"\A[\s*#(\[]*(?:example|problem|exercise|question|task)?[ ]?\d[\d.]*(?:[.:)]+(?=\s|\Z)|\Z)",  # "Example 5."
    r"\A\W*(?:example|problem|exercise|question|task)[ ]\d[\d.]*",
    r"https?://\S+|</?\w{1,10}/?>|&\w{2,6};|\[\s*\d+ (?:marks?|points?)\s*\]",
)
_FORMULA = any_of(r"[\d=+*^<>≤≥±√∑∫π]|\\[a-z]{2,}|\|[^|]+\||(?<![a-z]{2})(?<=[\w)}])!|__")
_INSTRUCTIONS_AND_NAMES = """
    find compute calculate evaluate simplify solve determine factor express give state write print output return show
    sort fix optimise optimize implement complete round explain discuss continue do make expand count see hence then
    what which how why many much is are was it its this that these the a an of for and or in as so if all with be
    your my i you must can please thus now only x y z p q n t k xs same previous above below again here attachment
    following given value values answer answers result results equation equations expression integral derivative
    matrix determinant area perimeter volume length region figure graph shape polygon function list table coordinates
    solution solutions domain range point number numbers sequence pattern set vector mean elements fraction decimal
    decimals possible far simplest form completely place places two operations minimum next missing condition
    conditions problem task exercise question statement code program array string no yes version easy hard true false
    time test original others"""
_SAYS_NOTHING = frozenset(_INSTRUCTIONS_AND_NAMES.split())


def too_brief(problem: Problem, limits: Rules) -> Evidence | None:
    """Too few words and numbers, or none that says what is asked about. The evidence has the reason."""
    core = _TRIMMINGS.sub(" ", problem.prompt) if len(problem.prompt) < 400 else problem.prompt
    words = re.findall(r"[a-z]+|[^\W\d_]", core.lower())  # of other scripts each character
    if _FORMULA.search(core):
        return None
    if len(words) < limits.min_prompt_words:
        return {"words": len(words), "limit": limits.min_prompt_words}
    return None if set(words) - _SAYS_NOTHING else {"reason": "nothing to work on"}
