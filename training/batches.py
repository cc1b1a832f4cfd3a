"""The groups that one step learns from: rollouts of the drawn prompts, and of more prompts if those teach nothing."""

import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from ratchet.infra.inference.protocol import Sampling
from ratchet.infra.recipe.training import Stage
from ratchet.training import ranks
from ratchet.training.advantages import OF_ONE_GROUP
from ratchet.training.curriculum import Batch, Curriculum
from ratchet.training.groups import Group, by_domain, from_json, group, to_json, with_advantages
from ratchet.training.learner import Learner
from ratchet.training.rewards import check_infra_errors
from ratchet.training.rollout import Rollout, RolloutWorker
from ratchet.verifiers.outcome import Outcome

LEAST_USABLE = 0.25
"""Lower bound of the share of teaching prompts that sizes the next round, so that an unlucky round cannot inflate
it."""


@dataclass
class Collected:
    """`groups` to learn from; all groups `sampled` in this step; `rounds` of sampling; prompts `missing` by domain."""

    groups: list[Group] = field(default_factory=list)
    sampled: list[Group] = field(default_factory=list)
    rounds: int = 0
    missing: Counter[str] = field(default_factory=Counter)


class Batches:
    """Samples the batches of one stage.

    With dynamic sampling (DAPO, arXiv 2503.14476, section 3.2) a group with equal rewards is replaced by other prompts
    of its domain, for a bounded number of rounds. Groups beyond the batch wait for the next step if a batch gets
    several updates, with the log-probabilities of the policy that sampled them. In strictly on-policy training they
    would be stale by then, so the step learns from them too.
    """

    def __init__(
        self, stage: Stage, seed: int, curriculum: Curriculum, worker: RolloutWorker, learner: Learner,
        max_infra_errors: float,
    ) -> None:  # fmt: skip
        self._stage, self._seed, self._curriculum = stage, seed, curriculum
        self._worker, self._learner, self._max_infra_errors = worker, learner, max_infra_errors
        self.surplus: list[Group] = []
        """Groups that wait for the next step."""
        reason = _waits_for_batch(stage)
        self._early = worker.sampler.separate_devices and not reason
        if worker.sampler.separate_devices and reason and ranks.rank() == 0:
            print(f"stage {stage.name}: learns only when the whole batch is sampled: {reason}", file=sys.stderr)

    def collect(self, batch: Batch) -> Collected:
        """Sample and judge the batch, and replacements as the stage allows. Collective. Raises RatchetError if too many
        verdicts failed on our side."""
        stage, wanted = self._stage, Counter(problem.domain for problem in batch.problems)
        collected = Collected(groups=self.surplus)
        if not stage.dynamic_sampling_rounds:
            collected.groups = self._sample(batch, collected)
            return collected
        waiting = _counts(self.surplus)
        first = self._curriculum.draw_more({d: max(1, count - waiting[d]) for d, count in wanted.items()})
        fresh = self._sample(replace(batch, problems=first), collected)
        while True:
            collected.groups = collected.groups + _teaching(fresh, stage)
            collected.missing = wanted - _counts(collected.groups)  # none is negative
            more = self._curriculum.draw_more(self._needed(collected))
            if not more or collected.rounds > stage.dynamic_sampling_rounds:
                break
            fresh = self._sample(replace(batch, problems=more), collected)
        self.surplus = []
        if stage.updates_per_batch > 1:
            collected.groups, surplus = _split(collected.groups, wanted)
            self.surplus = self._learner.old_logprobs(surplus, batch.temperature)
        collected.groups = with_advantages(collected.groups, batch.stage)  # of one batch, from several rounds
        return collected

    def _needed(self, collected: Collected) -> dict[str, int]:
        """Prompts to sample for the missing ones, at the rate at which prompts taught so far."""
        sampled = by_domain(collected.sampled)
        usable = {domain: fmean(not g.advantages.zero_variance for g in groups) for domain, groups in sampled.items()}
        return {d: math.ceil(count / max(usable[d], LEAST_USABLE)) for d, count in collected.missing.items()}

    def _sample(self, batch: Batch, collected: Collected) -> list[Group]:
        sampling = Sampling(temperature=batch.temperature, max_tokens=batch.stage.max_response_tokens)
        again = (f"round {collected.rounds}",) if collected.rounds else ()
        seed_parts = (self._seed, self._stage.name, batch.step, *again)
        expected = self._curriculum.expected_tokens(batch.problems)

        def finished(fresh: list[Rollout]) -> None:
            groups = group(fresh, batch.stage)
            self._learner.learn_early(_teaching(groups, batch.stage), batch.temperature)

        rollouts = self._worker.run(
            batch.problems, batch.rollouts, sampling, seed_parts, expected, finished if self._early else None
        )
        errors = [r.detail for r in rollouts if r.outcome is Outcome.INFRA_ERROR]
        check_infra_errors(errors, len(rollouts), self._max_infra_errors)
        collected.rounds += 1
        groups = group(rollouts, batch.stage)
        collected.sampled += groups
        self._curriculum.record({g.problem_id: g.all_passed for g in groups})
        self._curriculum.note_tokens({g.problem_id: fmean(len(r.response) for r in g.rollouts) for g in groups})
        return groups

    def state_dict(self) -> dict[str, Any]:
        return {"surplus": [to_json(members) for members in self.surplus]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.surplus = [from_json(members) for members in state["surplus"]]


def _waits_for_batch(stage: Stage) -> str:
    """Why a group's gradient depends on others of its batch; "" if it does not."""
    if stage.updates_per_batch > 1:
        return f"updates_per_batch is {stage.updates_per_batch}, and weights change with the first"
    if stage.advantage not in OF_ONE_GROUP:
        return f"advantage {stage.advantage} may depend on all groups; {', '.join(OF_ONE_GROUP)} do not"
    return ""


def _teaching(groups: Sequence[Group], stage: Stage) -> list[Group]:
    """The groups that a step learns from; dynamic sampling replaces the others."""
    return [g for g in groups if not (stage.dynamic_sampling_rounds and g.advantages.zero_variance)]


def _counts(groups: Sequence[Group]) -> Counter[str]:
    return Counter(g.domain for g in groups)


def _split(groups: Sequence[Group], wanted: Counter[str]) -> tuple[list[Group], list[Group]]:
    """The first groups of each domain, as many as wanted, and the surplus. Domains without wanted prompts have none."""
    kept, surplus, counts = [], [], Counter()
    for members in groups:
        counts[members.domain] += 1
        waits = counts[members.domain] > wanted[members.domain] > 0
        (surplus if waits else kept).append(members)
    return kept, surplus
