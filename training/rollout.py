"""Sampling responses from the present policy and having them judged, over all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from infra.inference.prompts import prompt_ids
from infra.inference.protocol import Request, Sampling, derive_seed
from infra.problems import Problem
from infra.recipe.model import PromptFormat
from training import ranks
from training.policy import Policy
from training.rewards import Judging
from training.sampler import Sampler
from verifiers.outcome import Outcome
from verifiers.tickets import Pool


@dataclass(frozen=True)
class Rollout:
    """One judged response: token ids int32 [prompt], [response]; the engine's log-probabilities float32 [response]."""

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


class RolloutWorker:
    """One rank's part in sampling. What a problem's sample says depends on the seed, not on which rank drew it."""

    def __init__(self, policy: Policy, sampler: Sampler, pool: Pool, prompt_format: PromptFormat) -> None:
        self._policy, self.sampler, self._pool, self._format = policy, sampler, pool, prompt_format
        self._prompts: dict[str, tuple[int, ...]] = {}

    def prompt(self, problem: Problem) -> tuple[int, ...]:
        """The problem's prompt as token ids."""
        if problem.problem_id not in self._prompts:
            self._prompts[problem.problem_id] = prompt_ids(self._policy.tokenizer, problem, self._format)
        return self._prompts[problem.problem_id]

    def run(
        self, problems: Sequence[Problem], samples: int, sampling: Sampling, seed_parts: tuple[object, ...]
    ) -> list[Rollout]:
        """`samples` judged responses to each problem, in the order of problems and samples, on every rank. Collective.

        Each response goes to the judge when it ends, while others are still being decoded.
        """
        mine = {problem.problem_id: problem for problem in problems[self._policy.rank :: self._policy.ranks]}
        requests = [
            Request(
                key=(problem.problem_id, sample),
                seed=derive_seed(*seed_parts, problem.problem_id, sample),
                prompt_ids=self.prompt(problem),
            )
            for problem in mine.values()
            for sample in range(samples)
        ]
        judging = Judging(self._pool, self._format.response_prefix)
        for completion in self.sampler.generate(requests, sampling):
            judging.submit(mine[completion.key[0]], completion)
        rollouts = []
        for completion, verdict in judging.verdicts():
            problem = mine[completion.key[0]]
            rollouts.append(
                Rollout(
                    problem_id=problem.problem_id,
                    domain=problem.domain,
                    sample=completion.key[1],
                    prompt=np.array(self.prompt(problem), np.int32),
                    response=np.array(completion.token_ids, np.int32),
                    logprobs=np.array(completion.logprobs, np.float32),
                    truncated=completion.finish_reason == "length",
                    outcome=verdict.outcome,
                    fraction=verdict.fraction,
                    detail=verdict.detail,
                )
            )
        place = {problem.problem_id: i for i, problem in enumerate(problems)}
        everyone = [rollout for part in ranks.gather(rollouts) for rollout in part]
        return sorted(everyone, key=lambda rollout: (place[rollout.problem_id], rollout.sample))

    def pass_rates(
        self, problems: Sequence[Problem], samples: int, sampling: Sampling, seed_parts: tuple[object, ...]
    ) -> dict[str, float]:
        """The share of each problem's samples that passed, by problem id; infra errors count for neither. Collective.

        A problem all of whose verdicts failed on our side has rate 0: it stays in training.
        """
        judged: dict[str, list[bool]] = {problem.problem_id: [] for problem in problems}
        for rollout in self.run(problems, samples, sampling, seed_parts):
            if rollout.outcome is not Outcome.INFRA_ERROR:
                judged[rollout.problem_id].append(rollout.outcome is Outcome.PASSED)
        return {problem_id: float(np.mean(passed)) if passed else 0.0 for problem_id, passed in judged.items()}
