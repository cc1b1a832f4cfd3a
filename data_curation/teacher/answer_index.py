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
    reference: str | None = None


Prompts = Callable[[], Iterable[Prompt]]
"""Reads all questions from the start; they are never in memory together."""
MoreNeeded = Callable[[str | None, list[str | None], int], int]
"""From a reference, the responses so far (None for an attempt without one) and the number of attempts left: the least
number of these that could decide; 0 when it is decided."""


class AnswerIndex:
    """`places[n]` is the byte of the journal at which answer n begins, or one of the constants above. Equal questions
    share their answers. Keys are compared by 64 of their 128 bits: among ten million, two collide in one of four
    hundred thousand runs.
    """

    def __init__(self, prompts: Prompts, teacher: Teacher, seed: int, early_stop: bool) -> None:
        self.prompts, self.teacher, self.seed = prompts, teacher, seed
        self.sampling = Sampling(teacher.temperature, teacher.top_p, 0, teacher.max_tokens)
        hashes, lengths = array("Q"), array("I")
        for prompt in prompts():
            lengths.append(len(prompt.text))
            hashes.extend(_short(key) for key in self._keys(prompt.text, teacher.attempts))
        self._hashes, first = np.unique(np.array(hashes, np.uint64), return_index=True)
        self.characters = np.array(lengths, np.int64)[first // teacher.attempts]
        self.places = np.full(len(self._hashes), MISSING, np.int64)
        # The attempts needed so far, by question. More than half of all attempts is the earliest that decides.
        self._wanted = np.full(len(lengths), teacher.attempts // 2 + 1 if early_stop else teacher.attempts, np.int32)
        self._settled = np.full(len(lengths), not early_stop)

    def find(self, key: str) -> int | None:
        """The number of the answer with this key, if it is needed."""
        (at,) = self._numbers([key])
        return at if at < len(self._hashes) and int(self._hashes[at]) == _short(key) else None

    def questions(self) -> Iterator[tuple[Prompt, list[tuple[str, int]]]]:
        """Each question with the (key, number) of every attempt that is needed so far."""
        for row, prompt in enumerate(self.prompts()):
            keys = self._keys(prompt.text, int(self._wanted[row]))
            yield prompt, list(zip(keys, self._numbers(keys), strict=True))

    def settle(self, response: Callable[[int], str | None], more_needed: MoreNeeded) -> tuple[bool, np.ndarray]:
        """Add attempts to the questions that are not decided. Returns whether all are decided, and which answers may
        still be needed. `response` gives the text of an answer by its place, None for a truncated one."""
        decided, possible = True, np.zeros(len(self.places), bool)
        for row, prompt in enumerate(self.prompts()):
            numbers = self._numbers(self._keys(prompt.text, self.teacher.attempts))
            while not self._settled[row]:
                places = self.places[numbers[: self._wanted[row]]]
                if np.any(places == MISSING):
                    decided = False
                    break
                responses = [response(place) if place >= 0 else None for place in places.tolist()]
                left = len(numbers) - len(responses)
                more = more_needed(prompt.reference, responses, left) if left else 0
                self._wanted[row] += more
                self._settled[row] = not more
            possible[numbers[: self._wanted[row]] if self._settled[row] else numbers] = True
        return decided, possible

    def _numbers(self, keys: Sequence[str]) -> list[int]:
        return np.searchsorted(self._hashes, np.array([_short(key) for key in keys], np.uint64)).tolist()

    def _keys(self, text: str, samples: int) -> list[str]:
        messages = [{"role": "user", "content": text}]
        content = [self.teacher.kind, self.teacher.model, asdict(self.sampling), messages]
        head = hashlib.sha256(json.dumps(content, ensure_ascii=False)[:-1].encode())
        keys = []
        for sample in range(samples):
            whole = head.copy()
            whole.update(f", {sample}, {self.seed}]".encode())
            keys.append(whole.hexdigest()[:32])
        return keys


def _short(key: str) -> int:
    return int(key[:16], 16)
