"""Is there a problem at all? What is left of a statement when its trimmings are taken off must ask for something about
something: "Evaluate $\\lfloor\\pi\\rfloor$." does, "Find the area." and "See attachment." do not."""

from __future__ import annotations

import re

from data_curation.rules.evidence import Evidence
from data_curation.tokens import token_texts
from infra.problems import Problem
from infra.recipe.model import Rules

LONG_ENOUGH = 16
"""Words with which a statement is never called brief."""

_I = re.IGNORECASE
_TRIMMINGS = re.compile(
    r"https?://\S+|</?\w{1,10}/?>|&\w{2,6};"
    r"|^[^\S\n]*(?:(?:time|memory) limit\b|author\b|difficulty\b|tags?\b|hint\b|note\b|subtask\b|(?:sample )?(?:in|out)put\b"
    r"|examples?\b|constraints\b|\d+\s*(?:≤|<=|\\le)|q\d)[^\n]{0,80}$"
    r"|\[\s*\d+ (?:marks?|points?)\s*\]|^\W*\(?(?:problem|exercise|question|example|chapter)\s*[\dA-Z.]{1,6}\)?\W*$",
    _I | re.MULTILINE,
)
_STANDS_FOR_ANOTHER = re.compile(
    r"\b(?:not (?:found|available)|coming soon|to view this|subscribe|continued on|statement missing|please ignore)\b"
    r"|\bsee (?:the )?(?:statement|attachment|solution|above|pdf|original|previous)\b|\bsolution on page\b"
    r"|\b(?:same as|version of|do) (?:the )?(?:previous |above )?(?:problem|task|question|above)\b|\bwhat the title says\b",
    _I,
)
_FORMULA = re.compile(  # something to work on: an operator, a command with its argument, a call, a power
    r"[=+*^<>≤≥±√∑∫%]|(?<![A-Za-z]{2})(?<=[\w)}])!|\d\s?/\s?\d|(?<=[\w$)}])\s?[-−]\s?(?=[\w$({\\])|\\[a-z]{2,}|\d\s?[x×·:]\s?\d|\|[^|]+\|",
    _I,
)
_NUMBER = re.compile(r"\d")
_ASKS = re.compile(
    r"\?|\b(?:find|compute|calculate|evaluate|simplify|solve|determine|factor|expand|express|convert|write|give|name|list"
    r"|how|what|which|when|where|who|print|output|return|count|check|decide|sum|sort|reverse|remove|round(?=[^\n]*\bto\b)|sketch"
    r"|show|prove|differentiate|integrate|divide|add|multiply|subtract|implement|create|build|complete|design|swap|rotate|merge"
    r"|join|flatten|transpose|shift|split|replace|select|delete|insert|search|test|generate|fill|read|group|construct|echo"
    r"|translate|parse|encode|decode|validate|compare|draw|make|get|move|take|repeat|apply|choose|order|state)\b",
    _I,
)
_SETTING = re.compile(
    r"\A\W*(?:let|suppose|consider|given|you are given|once|there (?:is|are)|[A-Z][a-z]+ (?:has|have|likes?|is))\b"
)
# Words that instruct and words for what a statement is about without saying which: alone they leave nothing to solve.
_SAYS_NOTHING = frozenset(
    """find compute calculate evaluate simplify solve determine factor express give state write print output return show
    sort fix optimise optimize implement complete round explain discuss continue do make expand what which how why is are
    was it its this that these the a an of for and or in to as so if all your with be my i you must can following given
    value values answer result results equation equations expression integral derivative matrix determinant area perimeter
    volume length region figure graph shape polygon function list table coordinates solution solutions domain range point
    numbers number sequence pattern set vector mean next missing many much elements fraction decimal decimals possible far
    simplest form completely places place two operations minimum condition conditions problem task exercise question
    statement code program array string no yes above below previous again version easy hard same true false x y z p q n t k
    time please test o only hence then thus now answers count xs""".split()
)


def too_brief(problem: Problem, limits: Rules) -> Evidence | None:
    """Too few words and numbers, nothing asked, nothing to ask it about, or a note in the place of a statement."""
    text = problem.prompt
    if len(text) > 400:
        return None
    core = _TRIMMINGS.sub(" ", text)
    words = [word.lower() for word in re.findall(r"[^\W\d_]+", core)]
    if len(words) >= LONG_ENOUGH:
        return None
    tokens, formula = len(token_texts(core)), bool(_FORMULA.search(core))
    counts = {"words": tokens, "limit": limits.min_prompt_words}
    if tokens < limits.min_prompt_words and not (formula and tokens > 1):
        return counts
    if found := _STANDS_FOR_ANOTHER.search(core) or re.search(r":\s*\Z", core):
        return counts | {"text": found[0]}
    if formula and not _SETTING.match(core):
        return None
    if not _ASKS.search(core):
        return counts | {"asks": False}
    said = [word for word in words if word not in _SAYS_NOTHING and (len(word) > 1 or word == "π")]
    return None if said or _NUMBER.search(core) else counts | {"says": "nothing to work on"}
