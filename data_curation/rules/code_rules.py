"""Rules for code problems, in order of application (after AceReason, section 3.2)."""

from ratchet.data_curation.rules.evidence import Evidence, seen
from ratchet.data_curation.rules.language import non_english
from ratchet.data_curation.rules.patterns import PATTERNS, find
from ratchet.data_curation.rules.pictures import in_place_of_words
from ratchet.data_curation.rules.solutions import does_something
from ratchet.data_curation.settings.curation import Rules
from ratchet.verifiers.code.checkers import checker_of
from ratchet.verifiers.code.program_files import has_program_files
from ratchet.verifiers.problem import Problem

_DIALOGUE = (
    "hidden_information", "limited_queries", "judge_replies", "output_decides_input", "calls", "verdict",
    "interaction_heading",
)  # fmt: skip
"""Two signs of different kinds indicate a dialogue."""
_SPECIAL_JUDGE = ("any_answer", "unordered", "tolerance", "random")


def task_of(statement: str) -> str:
    """The statement without its examples and their explanations."""
    match = find("examples_begin", statement)
    return statement[: match.start()] if match else statement


def interactive(problem: Problem, limits: Rules) -> Evidence | None:
    """The program must interact with a judge, and the problem has no interactor and no grader."""
    if ((checker := checker_of(problem.metadata)) and checker.interactive) or has_program_files(problem.metadata):
        return None
    text = problem.prompt
    if match := find("interactive", text):
        return seen(match)
    cues = [match for sign in _DIALOGUE if (match := find(sign, text))]
    return seen(cues[0], also=[cue[0] for cue in cues[1:]]) if len(cues) >= 2 else None


def special_judge(problem: Problem, limits: Rules) -> Evidence | None:
    """More than one output is correct, so that comparing with the expected one fails correct programs, and the problem
    has no checker."""
    if checker_of(problem.metadata):
        return None
    for kind in _SPECIAL_JUDGE:
        for match in PATTERNS[kind].finditer(problem.prompt):
            is_story = (kind == "unordered" and find("operation_in_any_order", match[0])) or (
                kind == "random" and not find("random_asked", problem.prompt)
            )
            if not is_story:
                return seen(match, kind=kind)
    return None


def platform_template(problem: Problem, limits: Rules) -> Evidence | None:
    """The solution needs classes, calls or input handling of the platform, which the problem does not come with."""
    if has_program_files(problem.metadata):
        return None
    if match := find("own_classes", problem.starter_code or ""):
        return {"text": match[0], "field": "starter_code"}
    task = task_of(problem.prompt)
    if (match := find("nodes", task)) and not find("standard_input", task):
        return seen(match)
    if match := find("platform", problem.prompt):
        return seen(match)
    match = None if problem.entry_point else find("driven", problem.prompt)
    return seen(match) if match else None


_FEW_WORDS = 40
"""A statement with a picture and fewer words is incomplete."""


def image(problem: Problem, limits: Rules) -> Evidence | None:
    """A picture in place of a word or a formula, or with hardly any text; illustrations do not count."""
    task = task_of(problem.prompt)
    match = in_place_of_words(task) or (find("picture", task) if len(task.split()) < _FEW_WORDS else None)
    return seen(match) if match else None


def no_golden_solution(problem: Problem, limits: Rules) -> Evidence | None:
    """Without a known Python solution, the tests cannot be validated."""
    solutions = problem.golden_solutions or []
    if any(does_something(solution) for solution in solutions):
        return None
    return {"golden_solutions": len(solutions), "of_them_python": 0}


RULES = (interactive, special_judge, platform_template, image, no_golden_solution, non_english)
