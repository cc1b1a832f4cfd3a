"""The groups that one step learns from: the drawn prompts' rollouts, and of more prompts where those teach nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ratchet.infra.inference.protocol import Sampling
from ratchet.infra.recipe.model import Stage
from ratchet.training.curriculum import Batch, Curriculum
from ratchet.training.groups import Group, from_json, group, to_json
from ratchet.training.learner import Learner
from ratchet.training.rewards import check_infra_errors
from ratchet.training.rollout import RolloutWorker
from ratchet.verifiers.outcome import Outcome

LEAST_USABLE = 0.25
"""Share of prompts that teach something, for sizing the next round: one unlucky round should not quadruple it."""


@dataclass
class Collected:
    """`groups` to learn from; `sampled`: all that were sampled for them in this step; `rounds` of sampling."""

    groups: list[Group] = field(default_factory=list)
    sampled: list[Group] = field(default_factory=list)
    rounds: int = 0
    infra_errors: int = 0


class Batches:
    """Samples the batches of one stage.

    With dynamic sampling (DAPO, arXiv 2503.14476, section 3.2) a group whose rewards are all the same is left out and
    other prompts are sampled in its place, for a bounded number of rounds; then the step makes do with what there is.
    Groups beyond the batch are not thrown away. Where a batch gets several updates they wait for the next step, with
    the log-probabilities of the policy they were sampled from. Where training is strictly on-policy they would be stale
    by then, and so the step learns from them too.
    """

    def __init__(
        self, stage: Stage, seed: int, curriculum: Curriculum, worker: RolloutWorker, learner: Learner,
        max_infra_errors: float,
    ) -> None:  # fmt: skip
        self._stage, self._seed, self._curriculum = stage, seed, curriculum
        self._worker, self._learner, self._max_infra_errors = worker, learner, max_infra_errors
        self._surplus: list[Group] = []

    def collect(self, batch: Batch) -> Collected:
        """Sample and judge the batch, and further ones as the stage allows. Collective.

        Raises RatchetError when too many verdicts failed on our side.
        """
        stage, wanted = self._stage, len(batch.problems)
        collected = Collected(groups=self._surplus)
        if not stage.dynamic_sampling_rounds:
            collected.groups = self._sample(batch, collected)
            return collected
        own = [problem for problem in batch.problems if problem.domain == stage.domain]
        replayed = [problem for problem in batch.problems if problem.domain != stage.domain]
        places = max(1, len(own) - len(self._surplus))
        fresh = self._sample(replace(batch, problems=(*own[:places], *replayed)), collected)
        while True:
            collected.groups = collected.groups + [g for g in fresh if not g.advantages.zero_variance]
            missing = wanted - len(collected.groups)
            if missing <= 0 or collected.rounds > stage.dynamic_sampling_rounds or self._curriculum.exhausted:
                break
            # As many as it takes when prompts go on to teach as often as they did.
            usable = sum(not g.advantages.zero_variance for g in collected.sampled) / len(collected.sampled)
            more = self._curriculum.draw_more(math.ceil(missing / max(usable, LEAST_USABLE)))
            fresh = self._sample(replace(batch, problems=more), collected)
        self._surplus = []
        if stage.updates_per_batch > 1 and len(collected.groups) > wanted:
            kept, surplus = collected.groups[:wanted], collected.groups[wanted:]
            collected.groups, self._surplus = kept, self._learner.old_logprobs(surplus, batch.temperature)
        return collected

    def _sample(self, batch: Batch, collected: Collected) -> list[Group]:
        sampling = Sampling(temperature=batch.temperature, max_tokens=self._stage.max_response_tokens)
        again = (f"round {collected.rounds}",) if collected.rounds else ()
        seed_parts = (self._seed, self._stage.name, batch.step, *again)
        rollouts = self._worker.run(batch.problems, batch.rollouts, sampling, seed_parts)
        errors = [r.detail for r in rollouts if r.outcome is Outcome.INFRA_ERROR]
        check_infra_errors(errors, len(rollouts), self._max_infra_errors)
        collected.rounds += 1
        collected.infra_errors += len(errors)
        groups = group(rollouts, self._stage, self._seed)
        collected.sampled += groups
        self._curriculum.record({g.problem_id: g.all_passed for g in groups})
        return groups

    @property
    def surplus(self) -> Sequence[Group]:
        """Groups that wait for the next step."""
        return self._surplus

    def state_dict(self) -> dict[str, Any]:
        return {"surplus": [to_json(members) for members in self._surplus]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._surplus = [from_json(members) for members in state["surplus"]]
