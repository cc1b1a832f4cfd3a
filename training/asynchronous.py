"""Sampling with bounded staleness: long responses span updates, and no token is staler than allowed.

A *round* goes beside each update. While the policy learns from a batch, the engine, with the weights from before that
update, decodes every unfinished response by at most `chunk` tokens. Then each response has ended, or waits for the next
round and its weights. Tokens decide, never time: the samples, the weights that they come from, and the groups of a
batch are functions of the seed, so that a killed stage continues exactly. An engine in the trainer cannot sample beside
an update: its round goes before the update, with the same weights, and its tokens are younger by a step.

With staleness k and P prompts in a batch: a response takes at most k rounds, because `chunk` is the k-th part of its
limit (in the trainer k + 1, and all that follows likewise). A batch is the P oldest complete groups. At most k x P
prompts are in flight, which keeps every token within k updates: learned in their order, no group would be too late, and
a batch may leave that order only where the groups left behind would still be in time. Where it may not, or where fewer
than P groups are complete, the round goes on, with the newest weights. On average a group is in flight for as many
updates as there are batches in flight (Little's law), so no more prompts are begun than the groups' lengths ask for.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import fmean
from typing import Any, Protocol, TypeVar

import numpy as np

from ratchet.data_curation.base.protocol import Completion, Request, Sampling, completed, derive_seed
from ratchet.infra.inference.engine import InferenceEngine
from ratchet.infra.recipe.training import Stage
from ratchet.training import ranks
from ratchet.training.curriculum import Curriculum, PromptBatch
from ratchet.training.groups import Group, Rollout, rewarded, rollout_from_json, rollout_to_json, with_advantages
from ratchet.training.metrics import Metrics, describe
from ratchet.training.rollout import TRUNCATED, RolloutWorker, check_infra_errors
from ratchet.training.rollout_source import Collected
from ratchet.verifiers.problem import Problem

SPARE = 0.25
"""Batches of prompts in flight beyond the average need of the groups' lengths, which differ from batch to batch."""
RECENT = 0.1
"""Weight of a batch in the mean number of rounds that a group takes."""


@dataclass(frozen=True, eq=False)
class InFlight:
    """A prompt begun in the round of step `begun`, with responses of at most `limit` tokens: those that have ended, or
    the tokens so far."""

    problem: Problem
    begun: int
    limit: int
    rollouts: tuple[Rollout, ...]

    def left(self, rollout: Rollout) -> int:
        """Tokens that the response may still get."""
        return self.limit - len(rollout.response) if rollout.truncated else 0

    @property
    def complete(self) -> bool:
        return not any(map(self.left, self.rollouts))


class Begun(Protocol):
    """A group as the schedule sees it: the step beside which it was begun, and whether it is complete."""

    @property
    def begun(self) -> int: ...

    @property
    def complete(self) -> bool: ...


AnyGroup = TypeVar("AnyGroup", bound=Begun)


def due(in_flight: Sequence[AnyGroup], prompts: int, staleness: int, step: int) -> list[AnyGroup] | None:
    """The batch of this step, oldest first. None if too few groups are complete, or if with this batch a group left
    behind could be learned only after more than `staleness` updates."""
    batch = [each for each in in_flight if each.complete][:prompts]
    behind = [each for each in in_flight if each not in batch]
    in_time = all(place < prompts * (each.begun + staleness - step) for place, each in enumerate(behind))
    return batch if len(batch) == prompts and in_time else None


class Round:
    """This rank's part of a round. A round `beside` an update is read on a thread of its own."""

    def __init__(self, read: Callable[[], list[Rollout]], beside: bool) -> None:
        self.rollouts: list[Rollout] = []
        self.started, self.ended = time.perf_counter(), math.inf
        self._read, self._error = read, None
        self._thread = threading.Thread(target=self._run, name="sampling", daemon=True) if beside else None
        if self._thread:
            self._thread.start()
        else:
            self._run()

    def _run(self) -> None:
        try:
            self.rollouts = self._read()
        except BaseException as error:
            self._error = error
        self.ended = time.perf_counter()

    def wait(self) -> None:
        if self._thread:
            self._thread.join()
        if self._error is not None:
            raise self._error


class AsyncSampler:
    """A sampler that works beside the updates, with bounded staleness."""

    def __init__(
        self, stage: Stage, seed: int, curriculum: Curriculum, worker: RolloutWorker, engine: InferenceEngine,
        max_infra_errors: float,
    ) -> None:  # fmt: skip
        self._stage, self._seed, self._curriculum, self._worker = stage, seed, curriculum, worker
        self._max_infra_errors, self._beside = max_infra_errors, engine.supports_async_sampling
        self._staleness = stage.advanced.max_staleness
        self._most_rounds = engine.rounds(self._staleness)
        self.in_flight: list[InFlight] = []  # oldest first
        self._rounds = float(self._most_rounds)  # that a group takes, a moving mean
        self._sampled = 0  # tokens since the last batch
        self._running: Round | None = None
        self._last_ended, self._round_seconds = math.inf, 0.0
        self._metrics = Metrics()  # of the last batch

    def collect(self, batch: PromptBatch) -> Collected:
        """Return the batch of this step; then begin prompts, and the round beside its update, or both before the batch.
        Raises RatchetError if too many verdicts were infrastructure errors."""
        prompts, waited = self._curriculum.batch_prompts, time.perf_counter()
        self.settle()
        self._metrics = {"rounds_extended": 0.0, "round_seconds": self._round_seconds}
        if not self._beside:
            self._go_on(batch, batch.step)
            self.settle()
        elif not self.in_flight:  # the stage's start
            self._begin(batch, prompts, batch.step)
        while (chosen := due(self.in_flight, prompts, self._staleness, batch.step)) is None:
            self._start(batch)
            assert self._running is not None, "no batch can be made of the groups in flight"
            self.settle()
            self._metrics["rounds_extended"] += 1
        self._metrics["learner_idle_seconds"] = time.perf_counter() - waited
        self.in_flight = [each for each in self.in_flight if each not in chosen]
        groups = self._groups(chosen, batch)
        self._measure(chosen, batch.step)
        self._curriculum.record({g.problem_id: g.pass_rate for g in groups})
        self._curriculum.note_tokens({g.problem_id: fmean(len(r.response) for r in g.rollouts) for g in groups})
        if self._beside:
            following = self._curriculum.draw()  # of the next epoch, if this batch was the last of one
            self._go_on(following, batch.step + 1)
        return Collected(groups, groups, rounds=1)

    def settle(self) -> None:
        """Wait for the current round, if any. Called also before a validation, which needs the engine, and a
        checkpoint, which needs the samples."""
        if self._running is None:
            return
        self._running.wait()
        self._last_ended = self._running.ended
        self._round_seconds = self._running.ended - self._running.started
        fresh = {(r.problem_id, r.sample): r for part in ranks.gather(self._running.rollouts) for r in part}
        self._running = None
        updated = []
        for each in self.in_flight:
            own = tuple(fresh.get((r.problem_id, r.sample), r) for r in each.rollouts)
            pairs = zip(own, each.rollouts, strict=True)
            self._sampled += sum(len(now.response) - len(before.response) for now, before in pairs)
            updated.append(replace(each, rollouts=own))
        self.in_flight = updated

    def _go_on(self, batch: PromptBatch, step: int) -> None:
        """Begin as many prompts as are missing, to learn from in `step` or later, and the next round."""
        wanted = in_flight_wanted(self._rounds, self._curriculum.batch_prompts, self._most_rounds)
        self._begin(batch, wanted - len(self.in_flight), step)
        self._start(batch)

    def _begin(self, batch: PromptBatch, count: int, step: int) -> None:
        """Begin at most `count` prompts, to learn from in `step` or later."""
        nothing = np.zeros(0, np.int32), np.zeros(0, np.float32)
        problems = self._curriculum.begin(count, step)
        for problem, ids in zip(problems, self._worker.prompts(problems), strict=True):
            prompt = np.array(ids, np.int32)
            unjudged = (True, TRUNCATED.outcome, TRUNCATED.fraction, TRUNCATED.detail)
            name, domain = problem.problem_id, problem.domain
            rollouts = tuple(Rollout(name, domain, i, prompt, *nothing, *unjudged) for i in range(batch.rollouts))
            self.in_flight.append(InFlight(problem, batch.step, batch.stage.max_response_tokens, rollouts))

    def _start(self, batch: PromptBatch) -> None:
        """Let the engine go on with every unfinished response, with the policy's current weights."""
        unfinished = [(each, r) for each in self.in_flight for r in each.rollouts if each.left(r)]
        if not unfinished:
            return
        before = {(r.problem_id, r.sample): r for _, r in unfinished}
        problems = {each.problem.problem_id: each.problem for each, _ in unfinished}
        # Responses with as many tokens to get go together, by prompt, oldest first.
        together: dict[int, dict[str, list[tuple[InFlight, Rollout]]]] = {}
        for each, r in unfinished:
            tokens = min(chunk(each.limit, self._most_rounds), each.left(r))
            together.setdefault(tokens, {}).setdefault(r.problem_id, []).append((each, r))
        batches = [
            (tokens, list(chain(*part)))
            for tokens, prompts in together.items()
            for part in self._worker.divided(list(prompts.values()), max(map(len, prompts.values())))
        ]

        def asked(responses: tuple[int, list[tuple[InFlight, Rollout]]]) -> tuple[Sampling, list[Request]]:
            sampling = Sampling(temperature=batch.temperature, max_tokens=responses[0])
            return sampling, [self._request(*each) for each in responses[1]]

        completions = self._worker.completions(batches, asked)

        def read() -> list[Rollout]:
            whole = (self._whole(before[completion.key], completion) for completion in completions)
            rollouts = self._worker.judged((problems[completion.key[0]], completion) for completion in whole)
            return [self._stamped(before[r.problem_id, r.sample], r, batch.step) for r in rollouts]

        self._running = Round(read, self._beside)
        self._metrics["sampler_idle_seconds"] = max(0.0, self._running.started - self._last_ended)

    def _request(self, each: InFlight, rollout: Rollout) -> Request:
        """Request that goes on after the response's tokens, with random numbers of its own."""
        name, sample, done = rollout.problem_id, rollout.sample, len(rollout.response)
        parts = (self._seed, self._stage.name, each.begun, name, sample, *([f"token {done}"] if done else []))
        return Request((name, sample), derive_seed(*parts), (*rollout.prompt.tolist(), *rollout.response.tolist()))

    def _whole(self, before: Rollout, completion: Completion) -> Completion:
        """The completion with the tokens of the rounds before."""
        if not len(before.response):
            return completion
        ids = [*before.response.tolist(), *(completion.token_ids or ())]
        logprobs = [*before.logprobs.tolist(), *(completion.logprobs or ())]
        request, stopped = Request(completion.key, 0), completion.finish_reason == "stop"
        return completed(request, self._worker.tokenizer, ids, logprobs, stopped, completion.weight_version)

    @staticmethod
    def _stamped(before: Rollout, rollout: Rollout, step: int) -> Rollout:
        """The rollout with the version of the weights that sampled each token."""
        fresh = len(rollout.response) - len(before.response)
        spans = dict(before.spans)  # a round that goes on has its version already
        spans[step] = spans.get(step, 0) + fresh
        return replace(rollout, version=step, spans=tuple(spans.items()))

    def _groups(self, chosen: Sequence[InFlight], batch: PromptBatch) -> list[Group]:
        rollouts = [r for each in chosen for r in each.rollouts]
        check_infra_errors(rollouts, self._max_infra_errors)
        return self._with_advantages(chosen, batch.stage)

    @staticmethod
    def _with_advantages(chosen: Iterable[InFlight], stage: Stage) -> list[Group]:
        """Groups of one batch, each rewarded with the response limit with which it was begun."""
        groups = list[Group]()
        for each in chosen:
            groups += rewarded(each.rollouts, stage.model_copy(update={"max_response_tokens": each.limit}))
        return with_advantages(groups, stage)

    def _measure(self, chosen: Sequence[InFlight], step: int) -> None:
        """Metrics of a batch, and the mean number of rounds that a group takes."""
        spans = [(step - version, n) for each in chosen for r in each.rollouts for version, n in r.spans]
        tokens = sum(n for _, n in spans)
        assert max(age for age, _ in spans) <= self._staleness, "a token is staler than allowed"
        rounds = (max(len(r.response) for r in each.rollouts) / chunk(each.limit, self._most_rounds) for each in chosen)
        taken = fmean(map(math.ceil, rounds))
        self._rounds += RECENT * (taken - self._rounds)
        self._metrics |= {
            "staleness": sum(age * n for age, n in spans) / tokens,
            "staleness_max": float(max(age for age, _ in spans)),
            "older_tokens": sum(n for age, n in spans if age) / tokens,
            "several_versions": fmean(len(r.spans) > 1 for each in chosen for r in each.rollouts),
            "complete_prompts": float(sum(each.complete for each in self.in_flight)),
            "unfinished_prompts": float(sum(not each.complete for each in self.in_flight)),
            "rounds_of_a_group": taken, "sampled_tokens": float(self._sampled),
        }  # fmt: skip
        self._sampled = 0

    def leftover(self) -> list[Group]:
        """Complete groups of a stage that ended early, which no step learned from."""
        complete = (each for each in self.in_flight if each.complete)
        return self._with_advantages(complete, self._curriculum.stage)

    def report(self, collected: Collected) -> Metrics:
        """Metrics of the batch, and of the round before it."""
        return describe(collected.sampled, self._stage) | self._worker.report() | self._metrics

    def state_dict(self) -> dict[str, Any]:
        assert self._running is None, "a round goes on: settle first"
        return {
            "rounds": self._rounds, "sampled": self._sampled,
            "in_flight": [
                {
                    "problem_id": each.problem.problem_id, "begun": each.begun, "limit": each.limit,
                    "rollouts": list(map(rollout_to_json, each.rollouts)),
                }
                for each in self.in_flight
            ],
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        problems = {problem.problem_id: problem for problem in self._curriculum.candidates()}
        self._rounds, self._sampled = state["rounds"], state["sampled"]
        self.in_flight = [
            InFlight(
                problems[each["problem_id"]],
                each["begun"],
                each["limit"],
                tuple(map(rollout_from_json, each["rollouts"])),
            )
            for each in state["in_flight"]
        ]


def in_flight_wanted(rounds: float, prompts: int, most: int) -> int:
    """The number of prompts to have in flight in a round if groups take `rounds` on average and `most` at most."""
    return math.ceil(prompts * min(rounds + SPARE, most))


def chunk(limit: int, rounds: int) -> int:
    """Most tokens that one of `rounds` rounds adds to a response."""
    return math.ceil(limit / rounds)
