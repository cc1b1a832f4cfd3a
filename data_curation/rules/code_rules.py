"""Rules for code problems, in order of application (after AceReason, section 3.2)."""

import re

from ratchet.data_curation.rules.evidence import Evidence, seen
from ratchet.data_curation.rules.language import non_english
from ratchet.data_curation.rules.patterns import AnyOf
from ratchet.data_curation.rules.pictures import PICTURE, has_marks, in_place_of_words
from ratchet.data_curation.rules.solutions import does_something
from ratchet.data_curation.settings.curation import Rules
from ratchet.verifiers.code.checkers import checker_of
from ratchet.verifiers.code.program_files import has_program_files
from ratchet.verifiers.problem import Problem

_LINES = re.IGNORECASE | re.MULTILINE

# Where the examples begin.
_EXAMPLES = re.compile(
    r"^[^\w\n]{0,20}(?:examples?|samples?|explanations?|notes?)\b"
    r"(?: (?:test )?(?:input|output|case)s?)?[\s\d.#*-]*(?::.*)?$",
    _LINES,
)


def task_of(statement: str) -> str:
    """The statement without its examples and their explanations."""
    match = _EXAMPLES.search(statement)
    return statement[: match.start()] if match else statement


_INTERACTIVE = AnyOf(
    r"\binteractive (?:problem|task|version|mode)\b",
    r"\b(?:problem|task) is interactive\b",
    r"\A\W*interactive\b",
    r"\binteractor\b",
    r"\binteract(?:s|ion)? (?:of your program )?with (?:the|a|your) (?:judge|grader|jury|checker|program|system)\b",
    r"\b(?:f?flush|flushe?s|flushing)(?:\(|\s?(?:the |your |its )?(?:standard )?(?:output|stdout|buffer)\b(?!'))",
    r"\bAPIs?\b[^.]{0,40}\w\(",
    r"\bhelper function [^.]{0,20}\w\(",
    r"\bjury's program\b",
    r"\bgrader implements\b",
    r"\bsubmission will be launched twice\b",
)
_ASKED = r"(?:quer(?:y|ies)|questions?|requests?|calls?|guesses|evaluations|turns|commands)"
_JUDGE = r"(?:judge|jury|testing system|grader|system|device|opponent)(?:'s (?!answers?\b|solution|output)\w+|(?!'s))"
# Two signs of different kinds indicate a dialogue.
_DIALOGUE = (
    AnyOf(  # hidden information
        r"\b(?:hidden|secret|unknown|black box)\b",
        r"\b(?:do|does) not know\b",
        r"\bnot known in advance\b",
        r"\bcannot see\b",
    ),
    AnyOf(  # limited queries
        r"\byou (?:can |may |must |should |could |have to |are allowed to )?(?:only )?(?:ask|query|request)\b",
        r"\b(?:times|often) you (?:call|ask|query)\b",
        rf"\b(?:at most|no more than|within|up to|not more than|more than|exceed\w*)\b[^.\n]{{0,30}}\b{_ASKED}\b",
    ),
    AnyOf(  # replies
        rf"\b{_JUDGE}\b[^.\n]{{0,60}}\b(?:answers?|replies|repl(?:y|ied)|responds?|tells?|sends?|provides?|prints)\b",
        r"\bgrader'?s?\b",
    ),
    AnyOf(  # output decides the next input
        r"[\"“'`][ ]?[?!][ ]",
        r"\brepl(?:y|ies) to\b",
        r"\b(?:prints?|writes?|sends?)\b[^.\n]{0,80}\b(?:then|and|before|upon which)\b[^.\n]{0,30}"
        r"\b(?:reads?|receives?|tells?)\b",
        r"\b(?:you|your program|prints?|writes?|outputs?|sends?|asks?|then|and) (?:[^.\n]{0,60} )?"  # nobody else
        r"wait for (?:the |a |its )?(?:\w+'s )?(?:repl(?:y|ies)|responses?|answers?|results?|inputs?|judge|jury)\b",
    ),
    AnyOf(  # calls
        r"\b(?:helper|pre-?defined|provided|custom) functions?\b[^.]{0,60}\w\(",
        r"\bobject\b[^.]{0,60}\b(?:methods?|functions?)\b[^.]{0,20}\w\(",
        r"\bonly (?:call|use|through|by)\b[^.]{0,60}\w\(",
        r"\bgiven an? function \w+\(",
    ),
    AnyOf(r"\bverdict\b"),
    AnyOf(r"^[^\w\n]{0,20}(?:interaction|communication)\b[^\w\n]{0,9}(?:$|:)", flags=_LINES),  # a heading
)


def interactive(problem: Problem, limits: Rules) -> Evidence | None:
    """The program must interact with a judge, and the problem has no interactor and no grader."""
    if ((checker := checker_of(problem.metadata)) and checker.interactive) or has_program_files(problem.metadata):
        return None
    text = problem.prompt
    if match := _INTERACTIVE.search(text):
        return seen(match)
    cues = [match for cue in _DIALOGUE if (match := cue.search(text))]
    return seen(cues[0], also=[cue[0] for cue in cues[1:]]) if len(cues) >= 2 else None


_THINGS = (
    r"(?:answer|solution|list|arrangement|string|array|way|option|choice|result|output|ordering|order|permutation|path"
    r"|set|schedule|route|split|subset|tree|assignment|reconstruction)s?"
)
_GIVE = r"(?:print|output|return|report|find)"
_SEVERAL = r"(?:multiple|several|many|more than one|various|different)"
_ONE_OF_THEM = (
    r"(?:of (?:them|those|these)|valid|such|suitable|correct"
    r"|possible|optimal|resulting|answer|solution|permutation)"
)
_OUTPUT = r"(?:answers?|outputs?|results?)"
_SPECIAL_JUDGE = {
    "any_answer": AnyOf(
        rf"\b{_SEVERAL} (?:\w+ ){{0,3}}{_THINGS}\b[^.?!]{{0,80}}"
        r"\b(?:any(?! (?:pair|two|number|adjacent|other)\b)|whichever|whatever|one of them|one of those)\b",
        rf"\b{_GIVE} (?:[^.?!\n]{{0,30}} )?(?<!of )(?<!if )any (?:one )?{_ONE_OF_THEM}\b",
        r"\b(?:print|output|return|report) any(?: one)?\s*(?:[.,;]|\Z)",
        r"\bconstruct any (?:valid|such|suitable)\b|\bfind any way\b",
        rf"\b{_GIVE} (?:some|one of (?:them|those)|whichever|whatever)\b",
        rf"\b{_GIVE} (?:\w+ )?an? (?:valid|possible|proper) \w+",
        r"\b(?:index|indices|position|value|one)s? (?:of|to) any of the\b",
        r"\b(?:any|all|every|each)\b[^.?!]{0,70}\b(?:is|are|will be) "
        r"(?:also )?(?:accepted|considered correct|fine|considered right)\b",
        r"\bany(?: one)?(?: of (?:them|these|those))? (?:will do|suffices|works)\b",
        r"\b(?:allowed|free|permitted) to (?:print|output|return) any\b",
        r"\b(?:special (?:judge|checker|grader|program)|by a checker|the checker)\b",
        r"\b(?:listed|printed|rank|output)\b[^.?!]{0,30}\bas you (?:wish|please|like)\b",
        r"\b(?:output|answer) may differ\b",
        r"\bnot necessary to (?:mini|maxi)mi[sz]e\b",
        r"\bchoice is arbitrary\b",
        r"\bdoes(?: not|n't) matter which(?: one)?\s*[.;]",
    ),
    "unordered": AnyOf(
        rf"\b(?:{_GIVE}|answers?|results?|listed|printed|returned|solution set)\b[^.?!\n]{{0,100}}"
        r"\bin (?:any|whatever|whichever|(?:an )?arbitrary) order\b",
        r"\border (?:of|in which) (?:the |your )?(?:output|answers?|results?|returned|printed)\b[^.?!\n]{0,60}"
        r"(?:(?:not|n't) matter|irrelevant|not important)",
        r"\b(?:return|print|output|list) all\b[^?!]{0,300}\border (?:of the \w+ )?does(?: not|n't) matter\b",
    ),
    "tolerance": AnyOf(
        r"\b(?:absolute|relative) error\b",
        r"\bwithin (?:an error of |a tolerance of |one (?:million|thousand|hundred)th|1e-)",
        r"\bwithin \$?10\s*(?:\^|\*\*)?\s*\{?\s*[-−]",  # also 10-5, without superscript
        r"\berror (?:of|is|does|should|must|at|not)\b[^.?!\n]{0,40}(?:10\s*\^|1e-|0\.0)",
        rf"\b{_OUTPUT}\b[^.?!]{{0,60}}\bdiffers? (?:from|by)\b[^.?!]{{0,60}}\b(?:less than|at most|no more than)\b",
        r"\bprecision of at least \d|\baccura(?:cy|te)(?: of| to)? at least \d",
        r"\bdeviation of (?:at most |up to )?\d",
        r"\|a\s*-\s*b\|\}?\{?\\max",
    ),
    "random": AnyOf(r"\bequal(?:ly)? (?:probability|likely|probable)\b", r"\buniformly (?:at )?random\b"),
}
_RANDOM_ASKED = re.compile(r"\bimplement\b|\breturns? a random\b", re.IGNORECASE)
_AN_OPERATION = AnyOf(  # operations in any order, not outputs
    r"\b(?:formed|concatenating)\b[^.?!]* in any\b"
)


def special_judge(problem: Problem, limits: Rules) -> Evidence | None:
    """More than one output is correct, so that comparing with the expected one fails correct programs, and the problem
    has no checker."""
    if checker_of(problem.metadata):
        return None
    for kind, pattern in _SPECIAL_JUDGE.items():
        for match in pattern.finditer(problem.prompt):
            is_story = (kind == "unordered" and _AN_OPERATION.search(match[0])) or (
                kind == "random" and not _RANDOM_ASKED.search(problem.prompt)
            )
            if not is_story:
                return seen(match, kind=kind)
    return None


_OWN_CLASSES = AnyOf(
    r"\b(?:ListNode|TreeNode|PolyNode|NestedInteger)\b",
    r"\bclass Node\b|['\"]Node['\"]",
    r"\bdef __init__\(self",
    r"^class (?!Solution\b)\w+",
    flags=re.MULTILINE,
)
_END = r"(?:heads?|roots?|reference|pointer)(?: node)?"
_LINKED = r"(?:linked[- ]?lists?|trees?|BST|graph|list)"
_NODES = AnyOf(
    r"\b(?:ListNode|TreeNode|NestedInteger)\b",
    r"\b(?:class|struct) Node\b",
    rf"\bgiven\b[^.?!]{{0,40}}\b{_END} (?:of|to|in) (?:a |an |the |both |two |each )?(?:[\w-]+ ){{0,3}}{_LINKED}\b",
    r"\b(?:given|is) (?:a |an |the head of a )?(?:singly|doubly)?[- ]?linked[- ]list\b",
    r"\blinked[- ]list\b[^.?!]{0,40}\bis given\b",
)
_STDIN = re.compile(
    r"\b(?:standard input|stdin|the (?:first|only) line|the input (?:gives|contains|consists)|print)\b", re.IGNORECASE
)
_SIGNATURE = r"(?<![\"'\w])(?:void|int|bool|boolean|string|double|List<\w+>)\s+\w+\([^()\"]*\)"
_PLATFORM = AnyOf(
    # a class that tests call step by step
    r"\b(?:implement|design|complete|write) (?:the|an?|your own) (?:class \w+|\w+ class\b)",
    r"\[\s*\"\w+\"(?:\s*,\s*\"\w+\")+\s*\]\s*\n\s*\[\s*\[",  # ["LRUCache", "put"] and under it [[2], [1, 1]]
    rf"{_SIGNATURE}(?s:.{{0,200}}?){_SIGNATURE}",
    r"\bthread-safe\b|\b(?:different|multiple|several) threads\b",
    # another language or environment
    r"\bwrite (?:an? )?(?:[\w-]+ ){0,2}(?:SQL|bash|shell|React|JavaScript|TypeScript)\b|\bin JavaScript\b",
    r"^Table: \w+|\bDataFrame\b",
    # files of a grader
    flags=_LINES,
)
_DRIVEN = AnyOf(
    r"\byou (?:don't|do not) need to read\b",
    r"\bin the editor\b|\bdriver code\b|\bfunction description\b",
    r"\bthe rest of the class\b|\byour code here\b",
)


def platform_template(problem: Problem, limits: Rules) -> Evidence | None:
    """The solution needs classes, calls or input handling of the platform, which the problem does not come with."""
    if has_program_files(problem.metadata):
        return None
    if match := _OWN_CLASSES.search(problem.starter_code or ""):
        return {"text": match[0], "field": "starter_code"}
    task = task_of(problem.prompt)
    if (match := _NODES.search(task)) and not _STDIN.search(task):
        return seen(match)
    if match := _PLATFORM.search(problem.prompt):
        return seen(match)
    match = None if problem.entry_point else _DRIVEN.search(problem.prompt)
    return seen(match) if match else None


_FEW_WORDS = 40
"""A statement with a picture and fewer words is incomplete."""


def image(problem: Problem, limits: Rules) -> Evidence | None:
    """A picture in place of a word or a formula, or with hardly any text; illustrations do not count."""
    if not has_marks(problem.prompt):
        return None
    task = task_of(problem.prompt)
    match = in_place_of_words(task) or (PICTURE.search(task) if len(task.split()) < _FEW_WORDS else None)
    return seen(match) if match else None


def no_golden_solution(problem: Problem, limits: Rules) -> Evidence | None:
    """Without a known Python solution, the tests cannot be validated."""
    solutions = problem.golden_solutions or []
    if any(does_something(solution) for solution in solutions):
        return None
    return {"golden_solutions": len(solutions), "of_them_python": 0}


RULES = (interactive, special_judge, platform_template, image, no_golden_solution, non_english)
