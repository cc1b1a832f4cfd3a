"""Which answers of a teacher are needed, and where in the journal they are: about thirty bytes per answer.

The key of an answer is a hash of its request (model, sampling, messages, sample number), not of its row, so that a
changed or reordered input keeps the answers that were paid for.
"""

import hashlib
import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import NamedTuple

import numpy as np

from ratchet.infra.inference.protocol import Sampling
from ratchet.infra.recipe.teacher import Teacher

MISSING, OPEN, FAILED = -1, -2, -3
"""Instead of a place in the journal: not asked for, asked for, failed."""


class Prompt(NamedTuple):
    """One question, asked several times."""

    problem_id: str
    text: str
    """The user turn."""


Prompts = Callable[[], Iterable[Prompt]]
"""Reads all questions from the start; they are never in memory together."""


class AnswerIndex:
    """`places[n]` is the byte of the journal at which answer n begins, or one of the constants above. Equal questions
    share their answers. Keys are compared by 64 of their 128 bits: among ten million, two collide in one of four
    hundred thousand runs.
    """

    def __init__(self, prompts: Prompts, teacher: Teacher, seed: int) -> None:
        self.prompts, self.teacher, self.seed = prompts, teacher, seed
        self.sampling = Sampling(teacher.temperature, teacher.top_p, 0, teacher.max_tokens)
        hashes, lengths = array("Q"), array("I")
        for prompt in prompts():
            lengths.append(len(prompt.text))
            hashes.extend(_short(key) for key in self._keys(prompt.text))
        self._hashes, first = np.unique(np.array(hashes, np.uint64), return_index=True)
        self.characters = np.array(lengths, np.int64)[first // teacher.attempts]
        self.places = np.full(len(self._hashes), MISSING, np.int64)

    def find(self, key: str) -> int | None:
        """The number of the answer with this key, if it is needed."""
        (at,) = self._numbers([key])
        return at if at < len(self._hashes) and int(self._hashes[at]) == _short(key) else None

    def questions(self) -> Iterator[tuple[Prompt, list[tuple[str, int]]]]:
        """Each question with the (key, number) of every attempt."""
        for prompt in self.prompts():
            keys = self._keys(prompt.text)
            yield prompt, list(zip(keys, self._numbers(keys), strict=True))

    def _numbers(self, keys: Sequence[str]) -> list[int]:
        return np.searchsorted(self._hashes, np.array([_short(key) for key in keys], np.uint64)).tolist()

    def _keys(self, text: str) -> list[str]:
        messages = [{"role": "user", "content": text}]
        content = [self.teacher.kind, self.teacher.model, asdict(self.sampling), messages]
        head = hashlib.sha256(json.dumps(content, ensure_ascii=False)[:-1].encode())
        keys = []
        for sample in range(self.teacher.attempts):
            whole = head.copy()
            whole.update(f", {sample}, {self.seed}]".encode())
            keys.append(whole.hexdigest()[:32])
        return keys


def _short(key: str) -> int:
    return int(key[:16], 16)
