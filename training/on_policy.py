"""Sample strictly on-policy: a step's batch comes from the current weights alone."""

import math
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from ratchet.data_curation.base.protocol import Sampling
from ratchet.infra.recipe.training import Stage
from ratchet.training import ranks
from ratchet.training.advantages import GROUP_LOCAL_ADVANTAGES
from ratchet.training.curriculum import Curriculum, PromptBatch
from ratchet.training.groups import Group, Rollout, by_domain, group, group_from_json, group_to_json, with_advantages
from ratchet.training.learner import Learner
from ratchet.training.metrics import Metrics, describe
from ratchet.training.rollout import RolloutWorker, check_infra_errors
from ratchet.training.rollout_source import Collected

LEAST_USABLE = 0.25
"""Smallest share of teaching prompts that is assumed for the next round's size, so that an unlucky round cannot inflate
it."""


class OnPolicySampler:
    """A sampler that draws each batch from the current weights, before the update.

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
        reason = ""  # why a group's gradient depends on others of its batch
        if stage.updates_per_batch > 1:
            reason = f"updates_per_batch is {stage.updates_per_batch}, and weights change with the first"
        elif stage.advantage not in GROUP_LOCAL_ADVANTAGES:
            reason = f"advantage {stage.advantage} may depend on all groups; {', '.join(GROUP_LOCAL_ADVANTAGES)} do not"
        self._early = worker.sampler.separate_devices and not reason
        if worker.sampler.separate_devices and reason and ranks.rank() == 0:
            print(f"stage {stage.name}: learns only when the whole batch is sampled: {reason}", file=sys.stderr)

    def collect(self, batch: PromptBatch) -> Collected:
        """Sample and judge the batch, and replacements as the stage allows. Collective. Raises RatchetError if too many
        verdicts were infrastructure errors."""
        stage, wanted = self._stage, Counter(problem.domain for problem in batch.problems)
        collected = Collected(groups=self.surplus)
        if not stage.dynamic_sampling_rounds:
            collected.groups = self._sample(batch, collected)
            return collected
        waiting = Counter(g.domain for g in self.surplus)
        first = self._curriculum.draw_more({d: max(1, count - waiting[d]) for d, count in wanted.items()})
        fresh = self._sample(replace(batch, problems=first), collected)
        while True:
            collected.unlearned += [each for each in fresh if each.advantages.zero_variance]
            collected.groups = collected.groups + _teaching(fresh, stage)
            collected.missing = wanted - Counter(g.domain for g in collected.groups)  # none is negative
            more = self._curriculum.draw_more(self._needed(collected))
            if not more or collected.rounds > stage.dynamic_sampling_rounds:
                break
            fresh = self._sample(replace(batch, problems=more), collected)
        self.surplus = []
        if stage.updates_per_batch > 1:
            collected.groups, surplus = _split(collected.groups, wanted)
            new = [g for g in surplus if g.old_logprobs is None]  # others waited before
            self.surplus = [g for g in surplus if g.old_logprobs is not None]
            self.surplus += self._learner.old_logprobs(new, batch.temperature)
        collected.groups = with_advantages(collected.groups, batch.stage)  # of one batch, from several rounds
        return collected

    def _needed(self, collected: Collected) -> dict[str, int]:
        """Prompts to sample for the missing ones, at the rate at which prompts taught so far."""
        sampled = by_domain(collected.sampled)
        usable = {domain: fmean(not g.advantages.zero_variance for g in groups) for domain, groups in sampled.items()}
        return {d: math.ceil(count / max(usable[d], LEAST_USABLE)) for d, count in collected.missing.items()}

    def _sample(self, batch: PromptBatch, collected: Collected) -> list[Group]:
        sampling = Sampling(temperature=batch.temperature, max_tokens=batch.cap or batch.stage.max_response_tokens)
        again = (f"round {collected.rounds}",) if collected.rounds else ()
        seed_parts = (self._seed, self._stage.name, batch.step, *again)
        expected = self._curriculum.expected_tokens(batch.problems)

        def finished(rollouts: list[Rollout]) -> None:
            groups = _teaching(group(_within_cap(rollouts, batch), batch.stage), batch.stage)
            self._learner.learn_early(groups, batch.temperature)

        rollouts = self._worker.run(
            batch.problems, batch.rollouts, sampling, seed_parts, expected, finished if self._early else None,
            batch.drawn,
        )  # fmt: skip
        if batch.stage.advanced.tail_batching:
            every, rollouts = rollouts, _within_cap(rollouts, batch)
            if not rollouts:  # all of its prompts are long: a step needs some to learn from
                collected.deferred_tokens += sum(len(r.response) for r in every)
                return self._sample(replace(batch, cap=None), collected)
            self._curriculum.defer(batch, _longest(every))
            kept = {r.problem_id for r in rollouts}
            collected.unlearned += group([r for r in every if r.problem_id not in kept], batch.stage)
            collected.deferred_tokens += sum(len(r.response) for r in every if r.problem_id not in kept)
        check_infra_errors(rollouts, self._max_infra_errors)
        collected.rounds += 1
        groups = group(rollouts, batch.stage)
        collected.sampled += groups
        self._curriculum.record({g.problem_id: g.pass_rate for g in groups})
        self._curriculum.note_tokens({g.problem_id: fmean(len(r.response) for r in g.rollouts) for g in groups})
        return groups

    def settle(self) -> None:
        """Do nothing: nothing is sampled while the policy learns."""

    def leftover(self) -> list[Group]:
        return self.surplus

    def report(self, collected: Collected) -> Metrics:
        """Metrics of the step's samples."""
        report = describe(collected.sampled, self._stage) | self._worker.report()
        sampled = (len(r.response) for g in collected.sampled for r in g.rollouts)
        report["sampled_tokens"] = float(collected.deferred_tokens + sum(sampled))
        if self._stage.advanced.tail_batching:
            report["deferred_tokens"] = float(collected.deferred_tokens)
        if self._stage.dynamic_sampling_rounds:
            report |= {
                "sampling_rounds": float(collected.rounds), "learned_groups": float(len(collected.groups)),
                "carried_groups": float(len(self.surplus)), "missing_prompts": float(collected.missing.total()),
            }  # fmt: skip
            if len(self._stage.domains) > 1:
                report |= {f"{name}/missing_prompts": float(collected.missing[name]) for name in self._stage.domains}
        return report

    def state_dict(self) -> dict[str, Any]:
        return {"surplus": [group_to_json(members) for members in self.surplus]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.surplus = [group_from_json(members) for members in state["surplus"]]


def _teaching(groups: Sequence[Group], stage: Stage) -> list[Group]:
    """The groups that a step learns from; dynamic sampling replaces the others."""
    return [g for g in groups if not (stage.dynamic_sampling_rounds and g.advantages.zero_variance)]


def _longest(rollouts: Iterable[Rollout]) -> dict[str, int]:
    """Tokens of each problem's longest response; one more where it did not end."""
    longest = Counter[str]()
    for rollout in rollouts:
        longest[rollout.problem_id] = max(longest[rollout.problem_id], len(rollout.response) + rollout.truncated)
    return longest


def _within_cap(rollouts: list[Rollout], batch: PromptBatch) -> list[Rollout]:
    """The rollouts of problems whose every response ended within the batch's cap, if it has one."""
    longest = _longest(rollouts) if batch.cap else {}
    return [each for each in rollouts if not batch.cap or longest[each.problem_id] <= batch.cap]


def _split(groups: Sequence[Group], wanted: Counter[str]) -> tuple[list[Group], list[Group]]:
    """The first groups of each domain, as many as wanted, and the surplus. Domains without wanted prompts have none."""
    kept, surplus, counts = [], [], Counter()
    for members in groups:
        counts[members.domain] += 1
        waits = counts[members.domain] > wanted[members.domain] > 0
        (surplus if waits else kept).append(members)
    return kept, surplus
