"""Score answers to puzzles by the task's own scorer, as far as that can be trusted.

reasoning-gym's scorers are written for honest answers; here they reward a policy. So each runs on data only, form earns
nothing, and those that an answer can fool are repaired or left out: docs/reference/logic.md has the table.
"""

import copy
import json
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

from ratchet.verifiers.logic.evaluation_guard import data_only

Entry = dict[str, Any]
"""A scorer's input: `answer`, the task's own (None if only rules decide), and `metadata`."""
LONGEST_ANSWER = 32_768
"""Most characters of an answer that is scored; any task's own answers are shorter, at every level. Longer ones score
0."""
PAID_FOR_FORM = 0.1
"""The most that a task pays for an answer that parses, is no worse than an empty one, or has the right shape. It counts
as 0."""

LEFT_OUT = {
    "composite": "a mixture of other tasks: name those",
    "propositional_logic": "a premise, repeated, is a valid conclusion, and scores 1",
}


class Repair(NamedTuple):
    """A repair of a task's scorer, and its reason."""

    why: str
    accepts: Callable[[str, Entry], bool] = lambda answer, entry: True
    """A further condition for an answer; an exception means no."""
    whole: bool = False
    """True if only a score of 1 counts: the task gives partial credit without any part of a solution."""


def _same_numbers(answer: str, entry: Entry) -> bool:
    parsed, own = (json.loads(text.replace("'", '"')) for text in (answer, entry["answer"]))
    return [float(number) for number in parsed] == [float(number) for number in own]


def _calculates(answer: str, entry: Entry) -> bool:
    from sympy.parsing.sympy_parser import parse_expr

    plain = re.fullmatch(r"[\d\s()+*/-]+", answer, re.ASCII) and not re.search(r"\*\s*\*|/\s*/", answer)
    numbers = sorted(map(int, re.findall(r"\d+", answer)))
    facts = entry["metadata"]
    return bool(plain) and numbers == sorted(facts["numbers"]) and parse_expr(answer) == facts.get("target", 24)


def _near_probability(answer: str, entry: Entry) -> bool:
    if not re.fullmatch(r"\d*\.?\d+(e-?\d\d?)?|\d+/\d+", answer.strip()):
        return False
    return abs(Fraction(answer.strip()) - Fraction(entry["answer"])) <= Fraction(1, 10_000)


_AMONG_TEXT = Repair("pays for the answer among other text", whole=True)
_LETTERS = Repair("pays for letters that happen to be right", whole=True)
REPAIRED = {
    "coin_flip": Repair("pays 1 for any prefix of the digits, such as `0`", _near_probability, whole=True),
    "countdown": Repair("numbers written as 1e2 or 0x64 are not counted as used; near is enough", _calculates),
    "game_of_life": Repair("a board without life has most cells right", whole=True),
    "game_of_life_halting": Repair(
        "accepts any text", lambda answer, entry: answer.strip().lower() == str(entry["answer"]).strip().lower()
    ),
    "knights_knaves": Repair("calling one person both pays more than a guess", whole=True),
    "number_sorting": Repair("accepts numbers that are up to 1 off, and NaN", _same_numbers),
    "prime_factorization": Repair("pays 0.5 for the number itself", whole=True),
    "puzzle24": Repair("accepts any four numbers, 6*4*1*1 for every puzzle, and 24.9 for 24", _calculates),
    "rubiks_cube": Repair("counts the stickers that are right in any unsolved cube", whole=True),
    "time_intervals": Repair("pays for any time of the same day", whole=True),
    **dict.fromkeys(("chain_sum", "codeio", "manipulate_matrix", "products", "tsumego"), _AMONG_TEXT),
    **dict.fromkeys(("emoji_mystery", "figlet_font", "spell_backward"), _LETTERS),
}
_BOARDS = ("arc_agi", "rearc")
"""Tasks whose scorer compares tuples, which JSON does not have."""
_WITH_DATA: dict[str, dict[str, Any]] = {"sokoban": {}, "word_ladder": {"min_word_length": 3, "max_word_length": 5}}
"""Tasks whose scorer needs the data set's data, and the configuration that loads all of it."""
_NOT_A_NUMBER = re.compile(r"(?<![a-z])s?(nan\d*|inf(inity)?)j?(?![a-z])", re.IGNORECASE)


@cache
def tasks() -> Mapping[str, tuple[type, type]]:
    """Every task that is not excluded, by name, with the classes of its data set and its configuration."""
    return {name: classes for name, classes in library().DATASETS.items() if name not in LEFT_OUT}


def library() -> ModuleType:
    """The module of reasoning-gym that has its tasks. Importing it takes seconds, so it is imported only on use."""
    import reasoning_gym.factory

    return reasoning_gym.factory


@cache
def load() -> dict[str, Any]:
    """Import every task, and load the data of their scorers: once, before processes are forked for single scores."""
    import sympy

    x = sympy.Symbol("x")
    sympy.simplify(sympy.parse_expr("x*sin(x) + exp(x)/2").diff(x) - x)  # does sympy's late imports
    return {task: tasks()[task][0](tasks()[task][1](**config)) for task, config in _WITH_DATA.items()}


def fault(task: str, entry: Entry) -> str:
    """The reason why no answer to this puzzle can be scored; "" if answers can."""
    if task in LEFT_OUT:
        return f"the task {task} is left out: {LEFT_OUT[task]}"
    if task not in tasks():
        return f"reasoning-gym has no task {task!r}"
    if "metadata" not in entry or "answer" not in entry:
        return "its entry has no answer and metadata"
    return "" if entry["answer"] is None or str(entry["answer"]).strip() else "its own answer is empty"


def score(task: str, config: Mapping[str, Any], entry: Entry, answer: str) -> float:
    """Score an answer from 0 to 1: the task's own score, repaired. `config` differs from the task's defaults.

    Raises ValueError for a puzzle that cannot be scored. An answer on which the scorer fails scores 0: it was tried on
    the puzzle's own answer when the puzzle was made.
    """
    if problem := fault(task, entry):
        raise ValueError(problem)
    # NaN is near every number for `not distance > tolerance`. A puzzle's own words may contain it.
    nan = _NOT_A_NUMBER.search(answer) if len(answer) <= LONGEST_ANSWER else None
    is_nan = nan is not None and nan[0].lower() not in json.dumps(entry).lower()
    if not answer.strip() or len(answer) > LONGEST_ANSWER or is_nan:
        return 0.0
    scorer, repair, entry = _scorer(task, config), REPAIRED.get(task), copy.deepcopy(entry)  # some write into it
    if task in _BOARDS:
        entry["metadata"]["output"] = tuple(map(tuple, entry["metadata"]["output"]))
    try:
        with data_only():
            if repair and not repair.accepts(answer, entry):
                return 0.0
            points = float(scorer.score_answer(answer, entry))
    except MemoryError:
        raise
    except Exception:
        return 0.0
    return points if points == 1 or (PAID_FOR_FORM < points < 1 and not only_whole(task)) else 0.0


def only_whole(task: str) -> bool:
    """True if only a score of 1 counts. A third of the tasks use the library's default scorer, which pays for the right
    answer among others: "1, 2, or 3"."""
    by_default = tasks()[task][0].score_answer is library().ProceduralDataset.score_answer
    return REPAIRED[task].whole if task in REPAIRED else by_default


def _scorer(task: str, config: Mapping[str, Any]) -> Any:
    """The task's data set without its data, which would be read again for every score."""
    dataset, settings = tasks()[task]
    scorer = copy.copy(load()[task]) if task in _WITH_DATA else object.__new__(dataset)
    scorer.config = settings(**config)
    scorer.board_format_opts = getattr(scorer.config, "board_format_opts", None)
    return scorer
