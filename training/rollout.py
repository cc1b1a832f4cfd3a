"""Sampling responses from the present policy and having them judged, over all ranks."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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
        self, problems: Sequence[Problem], samples: int, sampling: Sampling, seed_parts: tuple[object, ...]
    ) -> list[Rollout]:
        """`samples` judged responses to each problem, in the order of problems and samples, on every rank.
        Collective."""
        rollouts = list(self._rollouts(problems, samples, sampling, seed_parts))
        place = {problem.problem_id: i for i, problem in enumerate(problems)}
        everyone = [rollout for part in ranks.gather(rollouts) for rollout in part]
        return sorted(everyone, key=lambda rollout: (place[rollout.problem_id], rollout.sample))

    def pass_counts(
        self, problems: Sequence[Problem], samples: int, sampling: Sampling, seed_parts: tuple[object, ...]
    ) -> Iterator[tuple[str, tuple[int, int]]]:
        """(passed, judged) of the samples of each problem that this rank sampled, by problem id, as soon as they are
        judged; infra errors count for neither. All ranks' problems are all. Collective."""
        outcomes: dict[str, list[Outcome]] = {}
        for rollout in self._rollouts(problems, samples, sampling, seed_parts):
            found = outcomes.setdefault(rollout.problem_id, [])
            found.append(rollout.outcome)
            if len(found) == samples:  # a problem's samples are in one decode batch
                passed, errors = found.count(Outcome.PASSED), found.count(Outcome.INFRA_ERROR)
                yield rollout.problem_id, (passed, samples - errors)
                del outcomes[rollout.problem_id]

    def _rollouts(
        self, problems: Sequence[Problem], samples: int, sampling: Sampling, seed_parts: tuple[object, ...]
    ) -> Iterator[Rollout]:
        """This rank's part of the judged responses, in the order of their verdicts.

        The problems are cut into decode batches that do not depend on who decodes them. Every rank decodes an even
        share of them, and one that has finished takes what others have not begun: what is sampled is the same however
        fast each rank is. Each response goes to the judge when it ends, while others are still being decoded.
        """
        by_id = {problem.problem_id: problem for problem in problems}
        batches = _decode_batches(problems, samples, self._batch_size, self._policy.ranks)
        own, left = (
            (self._requests(batches[turn], samples, seed_parts) for turn in turns) for turns in ranks.deal(len(batches))
        )

        def responses() -> Iterator[tuple[Problem, Completion]]:
            for completion in self.sampler.generate(own, sampling, left):
                yield by_id[completion.key[0]], completion
            self._ended = time.perf_counter()

        for found in judged(self._pool, self._format.response_prefix, responses()):
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


def pass_rate(passed: int, judged: int) -> float:
    """A problem all of whose verdicts failed on our side has rate 0: it stays in training."""
    return passed / judged if judged else 0.0


def _decode_batches(problems: Sequence[Problem], samples: int, batch_size: int, ranks: int) -> list[list[Problem]]:
    """Problems cut into sets whose responses are decoded together: as few as `batch_size` responses allow, but at least
    one a rank, and of equal size but for one problem."""
    in_one = max(1, batch_size // samples)
    count = max(min(ranks, len(problems)), -(-len(problems) // in_one))
    return [list(problems[first::count]) for first in range(count)]
