"""Logic puzzles: the answer in <answer> tags, scored by the puzzle's own scorer in a confined process."""

import importlib.util
import json

from ratchet.verifiers.domain import Domain
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.logic import scoring
from ratchet.verifiers.problem import Problem


class Logic(Domain):
    name = "logic"
    templates = {"logic": "{prompt}\n\nPut the final answer between <answer> and </answer>."}
    requires = ("metadata",)
    reward = "graded"
    curation = "ratchet.data_curation.domains.logic:LOGIC"

    def __init__(self) -> None:
        if importlib.util.find_spec("reasoning_gym") is None:
            raise RatchetError(
                "The domain logic needs reasoning-gym: pip install './verifiers[logic]' in a checkout of Ratchet."
            )

    def load(self) -> None:
        scoring.load()

    def fault(self, problem: Problem) -> str:
        try:
            puzzle = json.loads(problem.metadata or "{}")
        except (ValueError, RecursionError) as error:
            return f"its metadata is no JSON: {error}"
        if (
            not isinstance(puzzle, dict)
            or not isinstance(puzzle.get("task"), str)
            or not isinstance(puzzle.get("entry"), dict)
        ):
            return "its metadata has no task and no entry to score by"
        return scoring.fault(puzzle["task"], puzzle["entry"])

    def score(self, problem: Problem, answer: str) -> float:
        puzzle = json.loads(problem.metadata or "{}")
        return scoring.score(puzzle["task"], puzzle.get("config") or {}, puzzle["entry"], answer)
