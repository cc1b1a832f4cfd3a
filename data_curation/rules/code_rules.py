"""Rules for code problems, in the order in which they are applied (AceReason, section 3.2; the wording is ours)."""

from __future__ import annotations

import re

from data_curation.rules.brevity import too_brief
from data_curation.rules.evidence import Evidence, declared, seen
from data_curation.rules.language import non_english
from data_curation.rules.pictures import drawing, reference
from data_curation.rules.solutions import does_something
from infra.problems import Problem
from infra.recipe.model import Rules

_I = re.IGNORECASE

# Where a statement ends and its examples begin: what these speak of is an illustration.
_EXAMPLES = re.compile(
    r"^[^\w\n]{0,20}(?:examples?|samples?|explanations?|notes?)\b(?: (?:test )?(?:input|output|case)s?)?[\s\d.#*-]*(?::.*)?$",
    _I | re.M,
)


def task_of(statement: str) -> str:
    """The statement without its examples and their explanations."""
    found = _EXAMPLES.search(statement)
    return statement[: found.start()] if found else statement


# ---------------------------------------------------------------------------------------- interactive

_INTERACTIVE = re.compile(
    r"\binteractive (?:problem|task|version|mode)\b|\b(?:problem|task) is interactive\b|\binteractor\b|\A\W*interactive\b"
    r"|\binteract(?:s|ion)? (?:of your program )?with (?:the|a|your) (?:judge|grader|jury|checker|program|system)\b"
    r"|\bidleness\b|\b(?:f?flush|flushe?s|flushing)(?:\(|\s?(?:the |your |its )?(?:standard )?(?:output|stdout|buffer)\b(?!'))"
    r"|\bAPIs?\b[^.]{0,40}\w\(|\bhelper function [^.]{0,20}\w\(|\bjury's program\b|\bgrader implements\b"
    r"|\bbefore the next [^.]{0,40}\b(?:available|sent|known)\b"
    r"|\bprogram (?:is|will be) (?:run|launched|executed) (?:twice|two times)\b|\bsubmission will be launched twice\b"
    r"|\bcommunicat\w* (?:with|via) [^.?!]{0,40}\b(?:judge|jury|testing system|grader|standard input)\b",
    _I,
)
# Each of these alone says little; two of different kinds are a dialogue.
_DIALOGUE = tuple(
    re.compile(cue, _I | re.M)
    for cue in (
        r"\b(?:hidden|secret|unknown|black box)\b|\b(?:do|does) not know\b|\bnot known in advance\b|\bthinks? of an?\b|\bcannot see\b"
        r"|\bI pick a number\b|\bhas chosen\b",
        r"\byou (?:can |may |must |should |could |have to |are allowed to )?(?:only )?(?:ask|query|request|make a query)\b"
        r"|\bto (?:ask|query|make a query)\b[^.\n]{0,30}\bprint\b|\b(?:times|often) you (?:call|ask|query)\b"
        r"|\b(?:at most|no more than|within|up to|not more than|more than|exceed\w*)\b[^.\n]{0,30}"
        r"\b(?:quer(?:y|ies)|questions?|requests?|calls?|guesses|evaluations|turns|commands)\b",
        r"\b(?:judge|jury|testing system|grader|system|device|opponent|robot|mouse|player)(?:'s \w+)?\b[^.\n]{0,60}\b(?:answers?|replies"
        r"|repl(?:y|ied)|responds?|tells?|sends?|provides?|prints|implements|offers|counts|number)\b|\bagainst the jury\b"
        r"|\bprovided by the judge\b|\bgrader'?s?\b",
        r"[\"“'`][ ]?[?!][ ]|\bread(?:s|ing)?\b[^.\n]{0,30}\b(?:reply|response)\b|\brepl(?:y|ies) to\b"
        r"|\b(?:response|answers?) to (?:your|each)\b|\b(?:prints?|writes?|sends?)\b[^.\n]{0,80}\b(?:then|and|before|upon which)\b[^.\n]{0,30}\b(?:reads?|receives?|tells?)\b"
        r"|\bonly after\b|\bonly sent after\b|\bmoves alternate\b|\bwait for\b|\bdialogue\b|\bafter your reply\b",
        r"\bAPIs?\b[^.]{0,80}\w\(|\b(?:helper|pre-?defined|provided|custom) functions?\b[^.]{0,60}\w\(|\bobject\b[^.]{0,60}\b(?:methods?|function"
        r"s?)\b[^.]{0,20}\w\(|\bonly (?:call|use|through|by)\b[^.]{0,60}\w\(|\bgiven an? function \w+\(|\bthrough the (?:interface|method)\b|\bcalls? \w+\.\w+",
        r"\bverdict\b|\bexit immediately\b|\bterminate (?:at once|immediately|your program)\b|\bjudged wrong\b|\bwrong answer\b",
        r"^[^\w\n]{0,20}(?:interaction|communication)\b[^\w\n]{0,9}(?:$|:)|\binteraction: ",
    )
)


def interactive(problem: Problem, limits: Rules) -> Evidence | None:
    """The program would have to talk with a judge."""
    text = problem.prompt
    if found := _INTERACTIVE.search(text):
        return seen(found)
    cues = [found for cue in _DIALOGUE if (found := cue.search(text))]
    return seen(cues[0], also=[cue[0] for cue in cues[1:]]) if len(cues) >= 2 else None


# -------------------------------------------------------------------------------------- special judge

_THINGS = (
    r"(?:answer|solution|list|arrangement|string|array|way|option|choice|result|output|ordering|order|permutation|path|set"
    r"|schedule|route|split|subset|tree|assignment|reconstruction)s?"
)
_SEVERAL = r"(?:multiple|several|many|more than one|various|different)"
_GIVE = r"(?:print|output|return|report|find)"
_SPECIAL_JUDGE = {
    "any_answer": re.compile(
        rf"\b{_SEVERAL} (?:\w+ ){{0,3}}{_THINGS}\b[^.?!]{{0,80}}\b(?:any|whichever|whatever|one of them|one of those)\b"
        rf"|\b{_GIVE} (?:[^.?!\n]{{0,30}} )?(?<!of )any (?:one )?(?:(?:of (?:them|those|these)|valid|such|suitable|correct|possible"
        rf"|optimal|resulting|answer|solution|permutation)\b)|\b(?:print|output|return|report) any\s*(?:[.,;]|\Z)"
        r"|\b(?:index|indices|position|value|one)s? (?:of|to) any of the\b"
        rf"|\b{_GIVE} (?:some|one of (?:them|those)|whichever|whatever)\b|\bfind one of them\b|\bany(?: one)? will do\b"
        r"|\b(?:any|all|every|each)\b[^.?!]{0,70}\b(?:is|are|will be) (?:also )?(?:accepted|considered correct|fine|considered right)\b"
        r"|\b(?:special judge|special checker|by a checker|the checker)\b|\b(?:listed|printed|rank|output)\b[^.?!]{0,30}\bas you (?:wish|please|like)\b"
        r"|\bother (?:outputs?|answers?|solutions?)\b[^.?!]{0,20}\b(?:correct|accepted|valid|right)\b"
        r"|\b(?:output|answer) may differ\b|\b(?:need|is|may) not (?:be )?unique\b|\bsystem accepts\b|\bany such \w+ counts\b"
        r"|\bnot necessary to (?:mini|maxi)mi[sz]e\b|\bchoice is arbitrary\b|\bdoes(?: not|n't) matter which(?: one)?\s*[.;]"
        rf"|\b{_GIVE} (?:\w+ )?an? (?:valid|possible|proper) \w+|\bmay be several solutions\b",
        _I,
    ),
    "unordered": re.compile(
        rf"\b(?:{_GIVE}|answers?|results?|listed|printed|returned|solution set)\b[^.?!\n]{{0,100}}"
        r"\bin (?:any|whatever|whichever|(?:an )?arbitrary) order\b"
        r"|\border (?:of|in which) (?:the |your )?(?:output|answers?|results?|returned|printed)\b[^.?!\n]{0,60}"
        r"(?:(?:not|n't) matter|irrelevant|not important)"
        r"|\bexcept for the order\b",
        _I,
    ),
    "tolerance": re.compile(
        r"\b(?:absolute|relative)(?: or (?:relative|absolute))? error\b"
        r"|\bwithin (?:an error of |a tolerance of |one (?:million|thousand|hundred)th|\$?10\s*(?:\^|\*\*)?\s*\{?\s*[-−]|1e-)"
        r"|\berror (?:of|is|does|should|must|at|not)\b[^.?!\n]{0,40}(?:10\s*\^|1e-|0\.0)"
        r"|\b(?:answers?|outputs?|results?)\b[^.?!]{0,60}\bdiffers? (?:from|by)\b[^.?!]{0,60}\b(?:less than|at most|no more than)\b"
        r"|\bdeviation of (?:at most |up to )?\d|\bcalculation error\b|\|a\s*-\s*b\|\}?\{?\\max",
        _I,
    ),
    "random": re.compile(
        r"\bequal(?:ly)? (?:probability|likely|probable)\b|\bprobability (?:in|is) proportion|\buniformly (?:at )?random\b",
        _I,
    ),
}
_RANDOM_ASKED = re.compile(r"\bimplement\b|\breturns? a random\b", _I)
_AN_OPERATION = re.compile(
    r"\b(?:prepared|visited|done|performed|processed|served)\b[^.?!]{0,20}\Z|\b(?:formed|concatenating)\b[^.?!]*\Z", _I
)


def special_judge(problem: Problem, limits: Rules) -> Evidence | None:
    """More than one output is right, and comparing with the expected one would fail right programs. `kind`: any answer
    is accepted, the order is free, numbers need not be exact, or the program must be random."""
    for kind, pattern in _SPECIAL_JUDGE.items():
        for found in pattern.finditer(problem.prompt):
            if kind == "random" and not _RANDOM_ASKED.search(problem.prompt):
                continue
            if kind == "unordered" and _AN_OPERATION.search(
                re.split(r"\bin \w+ (?:\w+ )?order\b", found[0], flags=_I)[0]
            ):
                continue
            return seen(found, kind=kind)
    return None


# ---------------------------------------------------------------------------------- platform template

_OWN_CLASSES = re.compile(
    r"#\s*Definition for\b|\b(?:ListNode|TreeNode|PolyNode|NestedInteger)\b|\bclass Node\b|['\"]Node['\"]|\bdef __init__\(self"
    r"|^class (?!Solution\b)\w+",
    re.M,
)
_NODES = re.compile(
    r"\b(?:ListNode|TreeNode|NestedInteger)\b|\b(?:class|struct) Node\b"
    r"|\bgiven\b[^.?!]{0,40}\b(?:heads?|roots?|reference|pointer)(?: node)? (?:of|to|in) (?:a |an |the |both |two |each )?"
    r"(?:[\w-]+ ){0,3}(?:linked[- ]?lists?|trees?|BST|graph|list)\b"
    r"|\b(?:given|is) (?:a |an |the head of a )?(?:singly|doubly)?[- ]?linked[- ]list\b|\blinked[- ]list\b[^.?!]{0,40}\bis given\b"
    r"|\b(?:binary|n-ary|search) tree (?:\(?root node|and (?:a|two) (?:node|of its nodes))|\bgiven a perfect binary tree\b",
    _I,
)
_STDIN = re.compile(
    r"\b(?:standard input|stdin|the (?:first|only) line|the input (?:gives|contains|consists)|print)\b", _I
)
_SIGNATURE = r"(?<![\"'\w])(?:void|int|bool|boolean|string|double|List<\w+>)\s+\w+\([^()\"]*\)"
_PLATFORM = re.compile(
    # a class that the tests drive call by call
    r"\b(?:implement|design|complete|write) (?:the|an?|your own) (?:class \w+|\w+ class\b)|\bclass [A-Z]\w+ (?:has|with)\b"
    r"|\[\s*\"\w+\"(?:\s*,\s*\"\w+\")+\s*\]\s*\n\s*\[\s*\[|\bthread-safe\b|\b(?:different|multiple|several) threads\b"
    rf"|{_SIGNATURE}(?s:.{{0,200}}?){_SIGNATURE}"
    r"|\bdesign an?\b[^.?!]{0,80}\b(?:with the (?:methods|operations)|that supports|which supports)\b(?=.{0,80}\b(?:methods?|push|get|insert)\b)"
    r"|\bimplement the interface\b"
    # another language or environment
    r"|\bSQL\b|^Table: \w+|\bDataFrame\b|\bwrite (?:an? )?(?:[\w-]+ ){0,2}(?:bash|shell|React|JavaScript|TypeScript)\b|\bin JavaScript\b"
    # files of a grader
    r"|\b\w+\.(?:h|hpp)\b|\bsample graders?\b|\bskeleton\b|\.go\b",
    _I | re.M,
)
_DRIVEN = re.compile(
    r"\b(?:your|user) task\b[^.?!]{0,40}\bcomplete the (?:\w+ )?(?:function|method)\b|\byou (?:don't|do not) need to read\b"
    r"|\bin the editor\b|\bdriver code\b|\bfunction description\b|\b(?:complete|fill in) (?:the )?(?:\w+ ){0,3}(?:below|provided)\b"
    r"|\bthe rest of the class\b|\byour code here\b",
    _I,
)


def platform_template(problem: Problem, limits: Rules) -> Evidence | None:
    """The solution needs classes, calls or input handling that only the platform has."""
    if found := _OWN_CLASSES.search(problem.starter_code or ""):
        return {"text": found[0], "field": "starter_code"}
    task = task_of(problem.prompt)
    if (found := _NODES.search(task)) and not _STDIN.search(task):
        return seen(found)
    if found := _PLATFORM.search(problem.prompt):
        return seen(found)
    found = None if problem.entry_point else _DRIVEN.search(problem.prompt)
    return seen(found) if found else None


# --------------------------------------------------------------------------------------- image, solution


def image(problem: Problem, limits: Rules) -> Evidence | None:
    """A picture, words of the task that point at one, or a source that counts pictures. Pictures that only illustrate an
    example are no loss, and words about them do not count."""
    task = task_of(problem.prompt)
    found = drawing(task) or reference(task)
    return seen(found) if found else declared(problem, "picture_num", *map(str, range(1, 100)))


def no_golden_solution(problem: Problem, limits: Rules) -> Evidence | None:
    """Without a solution in Python that is known to be right, nothing says that the tests are."""
    solutions = problem.golden_solutions or []
    if any(does_something(solution) for solution in solutions):
        return None
    return {"golden_solutions": len(solutions), "of_them_python": 0}


RULES = (interactive, special_judge, platform_template, image, no_golden_solution, non_english, too_brief)
