"""The tiny world's teacher: it parses a problem, solves it, and makes habitual mistakes.

It answers through the same protocol as an endpoint, from the text of the user turn alone. Its most frequent habits
are wrong (an answer without working, a forgotten boundary), so a model that imitates it scores low. The right
alternative to each habit also occurs, and reinforcement learning can find it.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from random import Random
from typing import Any

from ratchet.examples.tiny_world import code_problems, instruction_prompts, math_problems, puzzles, science_questions
from ratchet.examples.tiny_world.code_problems import OPERATIONS, PIECES, Task
from ratchet.examples.tiny_world.math_problems import Chain
from ratchet.infra.errors import RatchetError
from ratchet.infra.inference.engine import TeacherEngine
from ratchet.infra.inference.protocol import Completion, Request, Sampling
from ratchet.infra.recipe.curation import Teacher

# Probability of each habit at temperature 1.
NO_WORKING = 0.60  # math: an answer without working
RIGHT_GUESS = 0.35  # the share of those answers that is right; the others are any digit
SLIP = 0.08  # math: a step's result is wrong, and the chain continues with it
NO_BOX = 0.08  # math: the answer is not boxed
HABITUAL_MISTAKE = 0.60  # code: one habitual mistake, where the task allows one
WRONG_OPERATION = 0.10
DROPPED_OPERATION = 0.06
SYNTAX_ERROR = 0.06
NO_FENCE = 0.06

_TOKEN = re.compile(r"[A-Za-z]+|\d|[^\w\s]|\n")
_ASKS_FOR_CODE = re.compile(r"\b(?:solve\(|def |python|program|function|array|code)", re.IGNORECASE)


def count_tokens(text: str) -> int:
    """Length of a text in this teacher's tokens: words, single digits, punctuation marks and line ends."""
    return len(_TOKEN.findall(text))


class ProceduralTeacher(TeacherEngine):
    """An engine that solves the tiny world's problems with a human error rate.

    A temperature other than 1 sharpens or flattens every habit as softmax does: p becomes p^(1/T), normalized.
    All randomness is a function of (`seed`, `Request.seed`, the text).
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    @classmethod
    def for_teacher(cls, teacher: Teacher) -> "ProceduralTeacher":
        return cls()

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
            answer = _answer(rng, text, sampling.temperature)
            yield _completion(request, answer, sampling.max_tokens)


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


def _answer(rng: Random, text: str, temperature: float) -> str:
    problem = _read(text)
    if isinstance(problem, Chain):
        return _work_out(rng, problem, temperature)
    if isinstance(problem, Task):
        return _write_program(rng, problem, temperature)
    if problem is not None:
        return problem.response(rng, partial(_happens, rng, temperature=temperature))
    if _ASKS_FOR_CODE.search(text):
        return f"```python\n{code_problems.program([str(rng.randint(0, 9))])}```"
    return f"The answer is {rng.randint(0, 9)}."


@lru_cache(maxsize=1000)
def _sharpened(probabilities: tuple[float, ...], temperature: float) -> tuple[float, ...]:
    if temperature <= 0:
        best = probabilities.index(max(probabilities))
        return tuple(float(i == best) for i in range(len(probabilities)))
    powers = [p ** (1 / temperature) for p in probabilities]
    return tuple(power / sum(powers) for power in powers)


def _happens(rng: Random, probability: float, temperature: float) -> bool:
    return rng.random() < _sharpened((probability, 1 - probability), temperature)[0]


def _work_out(rng: Random, chain: Chain, temperature: float) -> str:
    lines = []
    value = chain.start
    if _happens(rng, NO_WORKING, temperature):
        right = chain.values()[-1]
        other = (1 - RIGHT_GUESS) / 10  # "any digit" may be the right one
        weights = _sharpened((RIGHT_GUESS + other, *[other] * 9), temperature)
        digits = [right, *(digit for digit in range(10) if digit != right)]
        value = rng.choices(digits, weights)[0]
    else:
        for number, step in enumerate(chain.steps, 1):
            result = step.apply(value)
            if _happens(rng, SLIP, temperature):
                result = rng.choice([digit for digit in range(10) if 0 < abs(digit - result) <= 3] or [0])
            lines.append(f"{number}: {value}{step.operation}{step.operand}={result}\n")
            value = result
    answer = str(value) if _happens(rng, NO_BOX, temperature) else f"\\boxed{{{value}}}"
    return f"{''.join(lines)}The answer is {answer}."


def _write_program(rng: Random, task: Task, temperature: float) -> str:
    lines = task.lines()
    mistakes = task.mistakes()
    if mistakes and _happens(rng, HABITUAL_MISTAKE, temperature):
        part, mistake = rng.choice(mistakes)
        name, constant = task.parts[part]
        lines[part] = PIECES[name].mistakes[mistake][0].format(k=constant)
    if _happens(rng, WRONG_OPERATION, temperature):
        piece = rng.choice(OPERATIONS)
        lines[rng.randrange(task.level)] = piece.code.format(k=rng.choice(piece.constants))
    if _happens(rng, DROPPED_OPERATION, temperature):
        del lines[rng.randrange(task.level)]
    program = code_problems.program(lines)
    if _happens(rng, SYNTAX_ERROR, temperature):
        program = program.replace(":\n", "\n", 1)
    return program if _happens(rng, NO_FENCE, temperature) else f"```python\n{program}```"
