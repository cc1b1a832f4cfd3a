"""The tiny world's teacher: it reads a problem from the text of the user turn, solves it, and has habits. It answers
through the same protocol as an endpoint. The recipe names one of two models:

`careful` is curation's teacher. Its most frequent answer is right, so a majority vote finds wrong references, and it
fails more often on longer problems, so its failures measure difficulty.

`hasty` writes the traces of the supervised start. In math it stops early: of a chain of L steps it works all with
probability 0.5^(L-1), otherwise the first ones only, and answers with the value it has. In code it makes each habitual
mistake that a task allows (`>=` for `>`, no default for an empty list) with probability 0.6. A model that imitates it
solves short problems often and long ones rarely, and guessing does not help it. The right way is rare in the traces but
present, so reinforcement learning can find it: working to the end, in longer responses.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from random import Random
from typing import Any

from ratchet.data_curation.base.protocol import Completion, Request, Sampling
from ratchet.data_curation.base.teacher_engine import TeacherEngine
from ratchet.data_curation.settings.teacher import Teacher
from ratchet.examples.tiny_world import code_problems, instruction_prompts, math_problems, puzzles, science_questions
from ratchet.examples.tiny_world.code_problems import OPERATIONS, PIECES, Task
from ratchet.examples.tiny_world.math_problems import Chain
from ratchet.examples.tiny_world.science_questions import Happens
from ratchet.verifiers.errors import RatchetError


@dataclass(frozen=True)
class Habits:
    """Probability of each habit at temperature 1."""

    stops_early: float  # math: for each step but the first, the chance that some last steps are left out
    slip: float  # math: a step's result is wrong, and the chain continues with it
    no_box: float  # math: the answer is not boxed
    mistake: float  # code: the habitual mistake, in each part that has one
    wrong_operation: float  # code
    dropped_operation: float  # code
    syntax_error: float  # code
    no_fence: float  # code


HABITS = {
    "careful": Habits(0.04, 0.05, 0.05, 0.15, 0.05, 0.04, 0.04, 0.04),
    "hasty": Habits(0.50, 0.08, 0.08, 0.60, 0.05, 0.04, 0.04, 0.04),
}
"""By the name of the model."""

_TOKEN = re.compile(r"[A-Za-z]+|\d|[^\w\s]|\n")
_ASKS_FOR_CODE = re.compile(r"\b(?:solve\(|def |python|program|function|array|code)", re.IGNORECASE)


def count_tokens(text: str) -> int:
    """Length of a text in this teacher's tokens: words, single digits, punctuation marks and line ends."""
    return len(_TOKEN.findall(text))


class ProceduralTeacher(TeacherEngine):
    """An engine that solves the tiny world's problems with these habits.

    A temperature other than 1 sharpens or flattens every habit as softmax does: p becomes p^(1/T), normalized.
    All randomness is a function of (`seed`, `Request.seed`, the text).
    """

    def __init__(self, seed: int = 0, habits: Habits = HABITS["careful"]) -> None:
        self._seed, self._habits = seed, habits

    @classmethod
    def for_teacher(cls, teacher: Teacher) -> "ProceduralTeacher":
        """Raises RatchetError for a `model` that is not in `HABITS`."""
        if teacher.model not in HABITS:
            raise RatchetError(
                f"The teacher of the tiny recipe has no model {teacher.model!r}: set it to {' or '.join(HABITS)}."
            )
        return cls(habits=HABITS[teacher.model])

    @classmethod
    def check(cls, teacher: Teacher) -> None:
        cls.for_teacher(teacher)

    def generate(self, requests: Iterable[Request], sampling: Sampling) -> Iterator[Completion]:
        """Yield the answers in the order of the requests. Raises RatchetError for a request without messages."""
        for request in requests:
            if request.messages is None:
                raise RatchetError(
                    "The procedural teacher reads messages, and this request has only token ids. "
                    "Set Request.messages to the chat turns."
                )
            text = next((turn["content"] for turn in reversed(request.messages) if turn["role"] == "user"), "")
            rng = Random(f"{self._seed} {request.seed}")
            answer = self._answer(text, partial(_happens, rng, sampling.temperature), rng)
            yield _completion(request, answer, sampling.max_tokens)

    def _answer(self, text: str, happens: Happens, rng: Random) -> str:
        problem = _read(text)
        if isinstance(problem, Chain):
            return _work_out(problem, self._habits, rng, happens)
        if isinstance(problem, Task):
            return _write_program(problem, self._habits, rng, happens)
        if problem is not None:
            return problem.response(rng, happens)
        if _ASKS_FOR_CODE.search(text):
            return f"```python\n{code_problems.program([str(rng.randint(0, 9))])}```"
        return f"The answer is {rng.randint(0, 9)}."


def _completion(request: Request, text: str, max_tokens: int) -> Completion:
    tokens = count_tokens(text) + 1  # and the end of the turn
    if tokens <= max_tokens:
        return Completion(request.key, text, "stop", tokens)
    ends = [match.end() for match in _TOKEN.finditer(text)]
    return Completion(request.key, text[: ends[max_tokens - 1]] if max_tokens else "", "length", max_tokens)


_PARSERS = (
    math_problems.parse, code_problems.parse, science_questions.parse, instruction_prompts.parse, puzzles.parse,
)  # fmt: skip


@lru_cache(maxsize=20_000)
def _read(text: str) -> Any:
    return next(filter(None, (parse(text) for parse in _PARSERS)), None)


def _happens(rng: Random, temperature: float, probability: float) -> bool:
    if temperature > 0:
        does, does_not = (p ** (1 / temperature) for p in (probability, 1 - probability))
        probability = does / (does + does_not)
    return rng.random() < (probability if temperature > 0 else round(probability))


def _work_out(chain: Chain, habits: Habits, rng: Random, happens: Happens) -> str:
    lines, value, worked = "", chain.start, chain.level
    if happens(1 - (1 - habits.stops_early) ** (chain.level - 1)):
        worked = rng.randrange(1, chain.level)
    for number, step in enumerate(chain.steps[:worked], 1):
        result = step.apply(value)
        if happens(habits.slip):
            result = rng.choice([digit for digit in range(10) if 0 < abs(digit - result) <= 3] or [0])
        lines += f"{number}: {value}{step.operation}{step.operand}={result}\n"
        value = result
    answer = str(value) if happens(habits.no_box) else f"\\boxed{{{value}}}"
    return f"{lines}The answer is {answer}."


def _write_program(task: Task, habits: Habits, rng: Random, happens: Happens) -> str:
    lines = task.lines()
    for part, mistake in task.mistakes():
        if happens(habits.mistake):
            name, constant = task.parts[part]
            lines[part] = PIECES[name].mistakes[mistake][0].format(k=constant)
    if happens(habits.wrong_operation):
        piece = rng.choice(OPERATIONS)
        lines[rng.randrange(task.level)] = piece.code.format(k=rng.choice(piece.constants))
    if happens(habits.dropped_operation):
        del lines[rng.randrange(task.level)]
    program = code_problems.program(lines)
    if happens(habits.syntax_error):
        program = program.replace(":\n", "\n", 1)
    return program if happens(habits.no_fence) else f"```python\n{program}```"
