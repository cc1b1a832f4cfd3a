"""Sample responses from the current policy and judge them, over all ranks."""

import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from ratchet.data_curation.base.prompts import PromptFormat, prompt_ids
from ratchet.data_curation.base.protocol import Completion, Request, Sampling, derive_seed
from ratchet.infra.inference.engine import BATCHES_AT_ONCE
from ratchet.infra.recipe.evaluation import Benchmark
from ratchet.training import ranks
from ratchet.training.groups import Rollout
from ratchet.training.metrics import Metrics
from ratchet.training.policy import Policy
from ratchet.training.sampler import Sampler
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.math.answer_patterns import BOXED, submit_by
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.reward import reward_of
from ratchet.verifiers.serving.pool import Pool

Item = TypeVar("Item")
TICK_S = 0.2
"""Most seconds between a problem's last verdict and its rollouts on all ranks, for engines on their own devices."""
TRUNCATED = Verdict(Outcome.UNPARSEABLE, decided_by="truncated")
"""The verdict on truncated responses, which are not judged: otherwise text after the answer would cost nothing, and a
policy learns to fill the limit."""


def judged(
    pool: Pool, response_prefix: str, responses: Iterable[tuple[Problem, Completion]], answer_pattern: str = BOXED
) -> Iterator[tuple[Problem, Completion, Verdict]]:
    """Yield the responses with their verdicts; each is judged as soon as it arrives. `response_prefix` is the
    response's start, given in the prompt; `answer_pattern` is a benchmark's."""
    waiting: dict[int, tuple[Problem, Completion]] = {}
    for number, (problem, completion) in enumerate(responses):
        at_once: Verdict | None = TRUNCATED
        if completion.finish_reason == "stop":
            at_once = submit_by(answer_pattern, pool, number, problem, response_prefix + completion.text)
        if at_once is None:
            waiting[number] = problem, completion
        else:
            yield problem, completion, at_once
        for ticket, verdict in pool.results(wait=False):
            yield *waiting.pop(ticket), verdict
    for ticket, verdict in pool.results():
        yield *waiting.pop(ticket), verdict


class RolloutWorker:
    """One rank's part in sampling. A problem's sample depends on the seed, not on the rank."""

    def __init__(
        self, policy: Policy, sampler: Sampler, pool: Pool, prompt_format: PromptFormat, batch_size: int,
        answer_pattern: str = BOXED,
    ) -> None:  # fmt: skip
        self._policy, self.sampler, self._pool, self._format = policy, sampler, pool, prompt_format
        self._batch_size, self._pattern = batch_size, answer_pattern
        self._prompts: dict[str, tuple[int, ...]] = {}
        self._ended = 0.0  # time at which the last response ended
        self._judge_wait_s = 0.0  # for verdicts after that

    def report(self) -> Metrics:
        """Metrics of the last run on this rank."""
        return {**self.sampler.facts, "judge_wait_seconds": self._judge_wait_s}

    def asking(self, benchmark: Benchmark) -> "RolloutWorker":
        """The worker that asks a benchmark's questions as its evaluation does, and reads the answers so."""
        own, pattern = benchmark.prompt_format(self._format), benchmark.advanced.answer_pattern
        if (own, pattern) == (self._format, self._pattern):
            return self
        return RolloutWorker(self._policy, self.sampler, self._pool, own, self._batch_size, pattern)

    @property
    def tokenizer(self) -> Any:
        return self._policy.tokenizer

    def prompts(self, problems: Sequence[Problem]) -> list[tuple[int, ...]]:
        """The problems' prompts as token ids."""
        new = [problem for problem in problems if problem.problem_id not in self._prompts]
        for problem, ids in zip(new, prompt_ids(self._policy.tokenizer, new, self._format), strict=True):
            self._prompts[problem.problem_id] = ids
        return [self._prompts[problem.problem_id] for problem in problems]

    def run(
        self, problems: Sequence[Problem], samples: int, sampling: Sampling, seed_parts: tuple[object, ...],
        expected: Mapping[str, float] = {}, finished: Callable[[list[Rollout]], None] | None = None,
        drawn: Mapping[str, int] = {},
    ) -> list[Rollout]:  # fmt: skip
        """Sample and judge `samples` responses to each problem; they come in the order of problems and samples, on
        every rank. `expected`: response lengths by problem id; `drawn`: instead of the last of `seed_parts`, by problem
        id. With an engine beside the trainer, `finished` gets the rollouts of completely judged problems, the same on
        every rank, while others are sampled. Collective."""
        mine, everyone = self._rollouts(problems, samples, sampling, seed_parts, expected, drawn), list[Rollout]()
        for rollouts in _meanwhile(_whole(mine, samples)) if finished else ranks.gather(list(mine)):
            everyone += rollouts
            if finished:
                finished(rollouts)
        place = {problem.problem_id: i for i, problem in enumerate(problems)}
        return sorted(everyone, key=lambda rollout: (place[rollout.problem_id], rollout.sample))

    def pass_counts(
        self, problems: Sequence[Problem], samples: int, sampling: Sampling, seed_parts: tuple[object, ...],
        expected: Mapping[str, float] = {}, first: int = 0,
    ) -> Iterator[tuple[str, tuple[int, int]]]:  # fmt: skip
        """Yield the problem id and (passed, judged) of each problem that this rank sampled, as soon as it is judged;
        infra errors count for neither. The ranks together yield all problems. Samples are numbered from `first`.
        Collective."""
        for rollouts in _whole(self._rollouts(problems, samples, sampling, seed_parts, expected, {}, first), samples):
            yield rollouts[0].problem_id, _counts(rollouts)

    def scores(
        self, problems: Sequence[Problem], samples: int, sampling: Sampling, seed_parts: tuple[object, ...],
        graded: Collection[str],
    ) -> Iterator[tuple[str, tuple[int, int, float]]]:  # fmt: skip
        """Yield what `pass_counts` does, and the sum of the rewards, with these `graded` domains."""
        for rollouts in _whole(self._rollouts(problems, samples, sampling, seed_parts, {}), samples):
            rewards = (reward_of(r.domain, r.outcome, r.fraction, graded) for r in rollouts)
            yield rollouts[0].problem_id, (*_counts(rollouts), sum(filter(None, rewards)))

    def _rollouts(
        self, problems: Sequence[Problem], samples: int, sampling: Sampling, seed_parts: tuple[object, ...],
        expected: Mapping[str, float], drawn: Mapping[str, int] = {}, first: int = 0,
    ) -> Iterator[Rollout]:  # fmt: skip
        """This rank's judged responses, in the order of their verdicts. Collective; the returned iterator is not.

        The problems are divided into batches independently of the ranks, with continuous engines the longest expected
        first. Every rank decodes an even share of the batches, then takes from ranks that have not started
        theirs, so the samples do not depend on the ranks' speed. A response is judged while others are decoded.
        """
        by_id = {problem.problem_id: problem for problem in problems}
        if self.sampler.continuous_batching:
            problems = sorted(problems, key=lambda problem: -expected.get(problem.problem_id, 0.0))

        def asked(batch: Sequence[Problem]) -> tuple[Sampling, list[Request]]:
            return sampling, self._requests(batch, range(first, first + samples), seed_parts, drawn)

        completions = self.completions(self.divided(problems, samples), asked)
        # Of the ranks that share an engine, one judges its responses.
        judges = self._policy.rank % self.sampler.ranks_per_engine == 0
        return self.judged((by_id[completion.key[0]], completion) for completion in completions if judges)

    def divided(self, items: Sequence[Item], samples: int) -> list[list[Item]]:
        """Divide items with at most `samples` requests each into batches for decoding, the same on every rank."""
        # Servers decode the requests of all ranks together, so a batch is a problem.
        per_engine = self.sampler.ranks_per_engine
        at_once = 1 if self.sampler.continuous_batching else BATCHES_AT_ONCE
        size = 1 if self.sampler.separate_devices else self._batch_size * per_engine * at_once
        return _decode_batches(items, samples, size, self._policy.ranks // per_engine)

    def completions(
        self, batches: Sequence[Item], asked: Callable[[Item], tuple[Sampling, list[Request]]]
    ) -> Iterator[Completion]:
        """Completions of the batches that this rank decodes. Collective; the returned iterator is not."""
        turns = ranks.assign(len(batches), self.sampler.ranks_per_engine)
        return self.sampler.generate_each(*((asked(batches[turn]) for turn in mine) for mine in turns))

    def judged(self, responses: Iterable[tuple[Problem, Completion]]) -> Iterator[Rollout]:
        """Yield the responses as rollouts, in the order of their verdicts. Not collective."""

        def timed() -> Iterator[tuple[Problem, Completion]]:
            yield from responses
            self._ended = time.perf_counter()

        for problem, completion, verdict in judged(self._pool, self._format.response_prefix, timed(), self._pattern):
            yield Rollout(
                problem_id=problem.problem_id, domain=problem.domain, sample=completion.key[1],
                prompt=np.array(self._prompts[problem.problem_id], np.int32),
                response=np.array(completion.token_ids, np.int32), logprobs=np.array(completion.logprobs, np.float32),
                truncated=completion.finish_reason == "length", outcome=verdict.outcome, fraction=verdict.fraction,
                detail=verdict.detail, version=self._policy.version, decided_by=verdict.decided_by,
            )  # fmt: skip
        self._judge_wait_s = time.perf_counter() - self._ended

    def _requests(
        self, problems: Sequence[Problem], samples: range, seed_parts: tuple[object, ...], drawn: Mapping[str, int]
    ) -> list[Request]:
        requests = []
        for problem, prompt in zip(problems, self.prompts(problems), strict=True):
            name = problem.problem_id
            parts = (*seed_parts[:-1], drawn.get(name, seed_parts[-1]), name)
            requests += [Request((name, sample), derive_seed(*parts, sample), prompt) for sample in samples]
        return requests


def check_infra_errors(rollouts: Sequence[Rollout], limit: float) -> None:
    """Raises RatchetError if too large a share of a batch's verdicts were infrastructure errors."""
    details = [rollout.detail for rollout in rollouts if rollout.outcome is Outcome.INFRA_ERROR]
    if len(details) > limit * len(rollouts):
        shown = "; ".join(sorted(set(filter(None, details)))[:3]) or "no detail"
        raise RatchetError(
            f"{len(details)} of {len(rollouts)} verdicts of this batch were infrastructure errors, more than "
            f"training.advanced.max_infra_errors ({limit:.0%}) allows: {shown}. Fix what it names if that is code of "
            "your own; `ratchet doctor` checks the judge's sandbox. Then run the same command again: it continues from "
            "the last checkpoint."
        )


def require_verdicts(counts: Iterable[tuple[int, int, int]], limit: float, what: str) -> None:
    """Raises RatchetError if too large a share of the verdicts were infrastructure errors, given the passed, judged and
    sampled responses of each problem."""
    judged, sampled = (sum(numbers) for numbers in list(zip(*counts, strict=True))[1:])
    if sampled - judged > limit * sampled:
        raise RatchetError(
            f"{sampled - judged} of {sampled} verdicts of {what} were infrastructure errors, more than "
            f"training.advanced.max_infra_errors ({limit:.0%}) allows. Run `ratchet doctor` to check the judge's "
            "sandbox; then run the same command again."
        )


def _counts(rollouts: Sequence[Rollout]) -> tuple[int, int]:
    """The passed and the judged responses."""
    outcomes = [rollout.outcome for rollout in rollouts]
    return outcomes.count(Outcome.PASSED), len(outcomes) - outcomes.count(Outcome.INFRA_ERROR)


def _whole(rollouts: Iterable[Rollout], samples: int) -> Iterator[list[Rollout]]:
    """Each problem's rollouts as soon as they are complete; a problem's samples are decoded on one rank."""
    unfinished = defaultdict[str, list[Rollout]](list)
    for rollout in rollouts:
        unfinished[rollout.problem_id].append(rollout)
        if len(unfinished[rollout.problem_id]) == samples:
            yield sorted(unfinished.pop(rollout.problem_id), key=lambda each: each.sample)


def _meanwhile(groups: Iterable[list[Rollout]]) -> Iterator[list[Rollout]]:
    """New rollouts of all ranks, the same on every rank, until all `groups` have ended. A thread reads `groups`, so the
    caller may compute meanwhile. Collective."""
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
    """The pass rate; 0 for a problem whose verdicts were all infrastructure errors, which stays in training."""
    return passed / judged if judged else 0.0


def _decode_batches(problems: Sequence[Item], samples: int, batch_size: int, ranks: int) -> list[list[Item]]:
    """Problems divided into batches for decoding: as few as `batch_size` responses allow, at least one per rank, and of
    equal size within one problem."""
    in_one = max(1, batch_size // samples)
    count = max(min(ranks, len(problems)), -(-len(problems) // in_one))
    return [list(problems[first::count]) for first in range(count)]
