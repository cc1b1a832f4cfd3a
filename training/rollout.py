"""Sampling responses from the present policy and having them judged, over all ranks."""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from ratchet.infra.inference.protocol import Completion, Request, Sampling, derive_seed
from ratchet.infra.problems import Problem
from ratchet.infra.recipe.model import PromptFormat
from ratchet.training import ranks
from ratchet.training.policy import Policy
from ratchet.training.sampler import Sampler
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.prompts import prompt_ids
from ratchet.verifiers.serving.pool import Pool


@dataclass(frozen=True)
class Rollout:
    """One judged response: token ids int32 [prompt], [response]; the engine's log-probabilities float32 [response].
    `version` is that of the weights it was sampled with (`Policy.version`)."""

    problem_id: str
    domain: str
    sample: int
    prompt: np.ndarray
    response: np.ndarray
    logprobs: np.ndarray
    truncated: bool
    outcome: Outcome
    fraction: float
    detail: str
    version: int = 0


TICK_S = 0.2
"""At most so long after a problem's last verdict on one rank all ranks have its rollouts, with an engine beside."""

TRUNCATED = Verdict(Outcome.UNPARSEABLE, decided_by="truncated")
"""A response cut at the limit has no end, so it has no answer. It is not judged: text after the answer would be free,
and a policy learns to fill it."""


def judged(
    pool: Pool, response_prefix: str, responses: Iterable[tuple[Problem, Completion]]
) -> Iterator[tuple[Problem, Completion, Verdict]]:
    """The responses with their verdicts, each judged from the moment it arrives and yielded when that is done.
    `response_prefix`: what the prompt began it with."""
    waiting: dict[int, tuple[Problem, Completion]] = {}
    for number, (problem, completion) in enumerate(responses):
        if completion.finish_reason == "stop":
            waiting[number] = problem, completion
            pool.submit(number, problem, response_prefix + completion.text)
        else:
            yield problem, completion, TRUNCATED
        for ticket, verdict in pool.results(wait=False):
            yield *waiting.pop(ticket), verdict
    for ticket, verdict in pool.results():
        yield *waiting.pop(ticket), verdict


class RolloutWorker:
    """One rank's part in sampling. What a problem's sample says depends on the seed, not on which rank drew it."""

    def __init__(
        self, policy: Policy, sampler: Sampler, pool: Pool, prompt_format: PromptFormat, batch_size: int
    ) -> None:
        self._policy, self.sampler, self._pool, self._format = policy, sampler, pool, prompt_format
        self._batch_size = batch_size
        self._prompts: dict[str, tuple[int, ...]] = {}
        self._ended = 0.0  # when the last response had
        self.judge_wait_s = 0.0
        """Of the last run: how long this rank waited for verdicts after its last response had ended."""

    @property
    def tokenizer(self) -> Any:
        return self._policy.tokenizer

    def prompts(self, problems: Sequence[Problem]) -> list[tuple[int, ...]]:
        """The problems' prompts as token ids."""
        new = [problem for problem in problems if problem.problem_id not in self._prompts]
        for problem, ids in zip(new, prompt_ids(self.tokenizer, new, self._format), strict=True):
            self._prompts[problem.problem_id] = ids
        return [self._prompts[problem.problem_id] for problem in problems]

    def run(
        self, problems: Sequence[Problem], samples: int, sampling: Sampling, seed_parts: tuple[object, ...],
        expected: Mapping[str, float] = {}, finished: Callable[[list[Rollout]], None] | None = None,
    ) -> list[Rollout]:  # fmt: skip
        """`samples` judged responses to each problem, in the order of problems and samples, on every rank. `expected`:
        tokens of a response, by problem id. With an engine beside the trainer, `finished` is given those of problems
        whose responses are all judged, the same on every rank, while others are still being sampled. Collective."""
        mine = self._rollouts(problems, samples, sampling, seed_parts, expected)
        if finished is None:
            everyone = list(chain.from_iterable(ranks.gather(list(mine))))
        else:
            everyone = []
            for fresh in _meanwhile(_whole(mine, samples)):
                everyone += fresh
                finished(fresh)
        place = {problem.problem_id: i for i, problem in enumerate(problems)}
        return sorted(everyone, key=lambda rollout: (place[rollout.problem_id], rollout.sample))

    def pass_counts(
        self, problems: Sequence[Problem], samples: int, sampling: Sampling, seed_parts: tuple[object, ...],
        expected: Mapping[str, float] = {},
    ) -> Iterator[tuple[str, tuple[int, int]]]:  # fmt: skip
        """(passed, judged) of the samples of each problem that this rank sampled, by problem id, as soon as they are
        judged; infra errors count for neither. All ranks' problems are all. Collective."""
        for found in _whole(self._rollouts(problems, samples, sampling, seed_parts, expected), samples):
            outcomes = [rollout.outcome for rollout in found]
            passed, errors = outcomes.count(Outcome.PASSED), outcomes.count(Outcome.INFRA_ERROR)
            yield found[0].problem_id, (passed, samples - errors)

    def _rollouts(
        self, problems: Sequence[Problem], samples: int, sampling: Sampling, seed_parts: tuple[object, ...],
        expected: Mapping[str, float],
    ) -> Iterator[Rollout]:  # fmt: skip
        """This rank's part of the judged responses, in the order of their verdicts. Collective, and what it returns is
        not.

        The problems are cut into decode batches that do not depend on who decodes them, the longest expected first
        where a response begins when another ends. Every rank decodes an even share of them, and one that has finished
        takes what others have not begun: what is sampled is the same however fast each rank is. Each response goes to
        the judge when it ends, while others are still being decoded.
        """
        by_id = {problem.problem_id: problem for problem in problems}
        if self.sampler.continuous:
            problems = sorted(problems, key=lambda problem: -expected.get(problem.problem_id, 0.0))
        # What is decoded beside the trainer is decoded together with other ranks' anyway: problem by problem.
        size = 1 if self.sampler.beside else self._batch_size
        batches = _decode_batches(problems, samples, size, self._policy.ranks)
        own, left = (
            (self._requests(batches[turn], samples, seed_parts) for turn in turns) for turns in ranks.deal(len(batches))
        )
        completions = self.sampler.generate(own, sampling, left)
        return self._judged((by_id[completion.key[0]], completion) for completion in completions)

    def _judged(self, responses: Iterable[tuple[Problem, Completion]]) -> Iterator[Rollout]:
        def timed() -> Iterator[tuple[Problem, Completion]]:
            yield from responses
            self._ended = time.perf_counter()

        for found in judged(self._pool, self._format.response_prefix, timed()):
            yield self._rollout(*found)
        self.judge_wait_s = time.perf_counter() - self._ended

    def _requests(self, problems: Sequence[Problem], samples: int, seed_parts: tuple[object, ...]) -> list[Request]:
        return [
            Request(
                key=(problem.problem_id, sample),
                seed=derive_seed(*seed_parts, problem.problem_id, sample),
                prompt_ids=prompt,
            )
            for problem, prompt in zip(problems, self.prompts(problems), strict=True)
            for sample in range(samples)
        ]

    def _rollout(self, problem: Problem, completion: Completion, verdict: Verdict) -> Rollout:
        return Rollout(
            problem_id=problem.problem_id,
            domain=problem.domain,
            sample=completion.key[1],
            prompt=np.array(self._prompts[problem.problem_id], np.int32),
            response=np.array(completion.token_ids, np.int32),
            logprobs=np.array(completion.logprobs, np.float32),
            truncated=completion.finish_reason == "length",
            outcome=verdict.outcome,
            fraction=verdict.fraction,
            detail=verdict.detail,
            version=self._policy.version,
        )


def _whole(rollouts: Iterable[Rollout], samples: int) -> Iterator[list[Rollout]]:
    """Those of each problem as soon as there are so many: a problem's samples are in one decode batch, on one rank."""
    open_problems: dict[str, list[Rollout]] = {}
    for rollout in rollouts:
        found = open_problems.setdefault(rollout.problem_id, [])
        found.append(rollout)
        if len(found) == samples:
            yield sorted(open_problems.pop(rollout.problem_id), key=lambda each: each.sample)


def _meanwhile(groups: Iterable[list[Rollout]]) -> Iterator[list[Rollout]]:
    """What the ranks have since last time, the same on every rank, until all of their `groups` are at an end: these are
    read on a thread of their own, and whoever reads this may compute meanwhile. Collective."""
    inbox: queue.SimpleQueue[list[Rollout] | BaseException | None] = queue.SimpleQueue()

    def read() -> None:
        try:
            for members in groups:
                inbox.put(members)
            inbox.put(None)
        except BaseException as error:
            inbox.put(error)

    threading.Thread(target=read, name="sampling", daemon=True).start()
    everyone_ended = ended = False
    while not everyone_ended:
        fresh: list[Rollout] = []
        while not ended:
            try:
                item = inbox.get(timeout=0 if fresh else TICK_S)
            except queue.Empty:
                break
            if isinstance(item, BaseException):
                raise item
            ended = item is None
            fresh += item or []
        parts = ranks.gather((fresh, ended))
        everyone_ended = all(each for _, each in parts)
        yield list(chain.from_iterable(part for part, _ in parts))


def pass_rate(passed: int, judged: int) -> float:
    """A problem all of whose verdicts failed on our side has rate 0: it stays in training."""
    return passed / judged if judged else 0.0


def _decode_batches(problems: Sequence[Problem], samples: int, batch_size: int, ranks: int) -> list[list[Problem]]:
    """Problems cut into sets whose responses are decoded together: as few as `batch_size` responses allow, but at least
    one a rank, and of equal size but for one problem."""
    in_one = max(1, batch_size // samples)
    count = max(min(ranks, len(problems)), -(-len(problems) // in_one))
    return [list(problems[first::count]) for first in range(count)]
