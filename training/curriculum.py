"""Which prompts a stage trains on, in which order, with which settings, and when it ends.

Order and settings are functions of (seed, stage, epoch, place in the epoch); what a run has learnt about its prompts
(who is easy, which validation was best) is in the state, and the state is in every checkpoint. So an interrupted
stage draws the same batches as one that was not interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

from ratchet.infra.errors import RatchetError
from ratchet.infra.inference.protocol import derive_seed
from ratchet.infra.problems import Problem
from ratchet.infra.recipe.model import Stage

Decision = dict[str, Any]
"""One line of `decisions.jsonl`: the step it was made after, its rule, what it was about, and the evidence."""


@dataclass(frozen=True)
class Batch:
    """What one step samples: problems (replayed ones of the other domain last), and how."""

    step: int  # counted from 0
    epoch: int
    problems: tuple[Problem, ...]
    rollouts: int
    temperature: float


@dataclass
class CurriculumState:
    step: int = 0
    epoch: int = 0
    place: int = 0  # prompts drawn in this epoch
    active: list[str] | None = None  # problem ids still trained on; None before the pass rate has been measured
    passes: dict[str, bool] = field(default_factory=dict)  # this epoch: did every rollout pass
    best_score: float | None = None
    validations_without_best: int = 0
    resets: list[int] = field(default_factory=list)  # the steps after which the reference and optimizer were reset
    best_since_reset: float | None = None
    without_best_since_reset: int = 0


class Curriculum:
    """The prompts of one stage. `problems` by domain, in any order; `fits` says whether a problem's prompt leaves
    room for the stage's longest response."""

    def __init__(
        self, stage: Stage, seed: int, problems: Mapping[str, Sequence[Problem]], fits: Callable[[Problem], bool]
    ) -> None:
        self.stage, self.seed, self._fits = stage, seed, fits
        self.state = CurriculumState()
        self.decisions: list[Decision] = []
        self._problems: dict[str, Problem] = {}
        self._replayed: list[str] = []
        for domain, pool in problems.items():
            for problem in sorted(pool, key=lambda p: p.problem_id):
                reason = self._unsuitable(problem)
                if reason:
                    self._drop(problem.problem_id, *reason, step=0)
                    continue
                self._problems[problem.problem_id] = problem
                if domain != stage.domain:
                    self._replayed.append(problem.problem_id)
        if stage.replay_share and not self._replayed:
            raise RatchetError(
                f"stage {stage.name}: replay_share is {stage.replay_share}, but there is no problem of another domain "
                "to replay. Give the stage both domains' problems, or set replay_share to 0."
            )
        self._require(self.candidates())

    def _unsuitable(self, problem: Problem) -> tuple[str, dict[str, Any]] | None:
        """The fixed filter that refuses this problem, and the evidence."""
        limit = self.stage.max_difficulty
        if not self._fits(problem):
            return "prompt_too_long", {"max_response_tokens": self.stage.max_response_tokens}
        if limit is None or problem.domain != self.stage.domain:
            return None
        if problem.difficulty is None:
            return "difficulty_not_measured", {"max_difficulty": limit}
        if problem.difficulty > limit:
            return "max_difficulty", {"difficulty": problem.difficulty, "max_difficulty": limit}
        return None

    def candidates(self) -> list[Problem]:
        """Problems of the stage's own domain that passed the fixed filters, by id."""
        return [p for p in self._problems.values() if p.domain == self.stage.domain]

    def held_out(self, benchmark: str, problems: Sequence[Problem]) -> list[Problem]:
        """Those to validate on: the others leave no room for the stage's longest response."""
        fitting = []
        for problem in problems:
            if self._fits(problem):
                fitting.append(problem)
                continue
            evidence = {"benchmark": benchmark, "max_response_tokens": self.stage.max_response_tokens}
            self._drop(problem.problem_id, "validation_prompt_too_long", evidence, step=0)
        if not fitting:
            raise RatchetError(f"stage {self.stage.name}: no problem of {benchmark} fits beside its longest response")
        return fitting

    def start(self, pass_rates: Mapping[str, float] | None = None) -> None:
        """Settle the prompts. `pass_rates` of the candidates under the present policy where the stage asks for them."""
        kept = self.candidates()
        limit = self.stage.max_pass_rate
        if limit is not None:
            assert pass_rates is not None, "a stage with max_pass_rate is given its pass rates"
            for problem in kept:
                rate = pass_rates[problem.problem_id]
                if rate > limit:
                    evidence = {"pass_rate": rate, "max_pass_rate": limit}
                    self._drop(problem.problem_id, "max_pass_rate", evidence, step=0)
            kept = [problem for problem in kept if pass_rates[problem.problem_id] <= limit]
        self._require(kept)
        self.state.active = [problem.problem_id for problem in kept]

    def _require(self, kept: list[Problem]) -> None:
        if not kept:
            counts: dict[str, int] = {}
            for decision in self.decisions:
                counts[decision["rule"]] = counts.get(decision["rule"], 0) + 1
            reasons = ", ".join(f"{rule} {count}" for rule, count in counts.items()) or "none was given"
            raise RatchetError(
                f"stage {self.stage.name}: no {self.stage.domain} problem is left to train on ({reasons}). "
                "Relax the stage's filters, or drop the stage."
            )

    def _drop(self, problem_id: str, rule: str, evidence: dict[str, Any], step: int) -> None:
        self.decisions.append({"step": step, "rule": rule, "problem_id": problem_id, "evidence": evidence})

    @property
    def finished(self) -> bool:
        patience = self.stage.plateau_evaluations
        plateau = patience is not None and self.state.validations_without_best >= patience
        return self.state.step >= self.stage.steps or plateau or self.exhausted

    @property
    def exhausted(self) -> bool:
        """Every prompt has become too easy."""
        return self.state.active == []

    @property
    def _own(self) -> int:
        """Prompts of the stage's own domain in a batch."""
        return self.stage.prompts_per_batch - round(self.stage.prompts_per_batch * self.stage.replay_share)

    def draw(self) -> Batch:
        """The batch of the present step. Does not change the state."""
        stage, state = self.stage, self.state
        replayed = stage.prompts_per_batch - self._own
        # Replay has no epochs of its own: it walks through the other domain, reshuffled each time round.
        rounds = max(1, len(self._replayed) // replayed) if replayed else 1
        turn = state.step % rounds * replayed
        other = self._slice(self._replayed, turn, replayed, "replay", state.step // rounds)
        return Batch(
            step=state.step,
            epoch=state.epoch,
            problems=(*self.draw_more(self._own), *(self._problems[i] for i in other)),
            rollouts=_scheduled(stage.rollouts, state.epoch),
            temperature=_scheduled(stage.temperature, state.epoch),
        )

    def draw_more(self, count: int) -> tuple[Problem, ...]:
        """The next prompts of the stage's own domain, at most a batch of them. Does not change the state."""
        assert self.state.active is not None, "start() settles the prompts first"
        own = self._slice(self.state.active, self.state.place, min(count, self._own), "own", self.state.epoch)
        return tuple(self._problems[i] for i in own)

    def _slice(self, ids: list[str], first: int, count: int, purpose: str, epoch: int) -> list[str]:
        shuffled = sorted(ids)
        Random(derive_seed(self.seed, self.stage.name, purpose, epoch)).shuffle(shuffled)
        return shuffled[first : first + count]

    def record(self, every_rollout_passed: Mapping[str, bool]) -> None:
        """Take note of the results of what was drawn, by problem id; at an epoch's end, drop the easy."""
        state = self.state
        assert state.active is not None
        active = set(state.active)
        own = {i: passed for i, passed in every_rollout_passed.items() if i in active}
        state.passes.update(own)
        state.place += len(own)
        if len(state.active) - state.place >= self._own:
            return
        # What does not fill a batch is left for another epoch's order.
        if self.stage.drop_easy_each_epoch:
            for problem_id in (i for i in state.active if state.passes.get(i)):
                self._drop(problem_id, "easy_in_epoch", {"epoch": state.epoch}, step=state.step + 1)
            state.active = [i for i in state.active if not state.passes.get(i)]
        state.epoch, state.place, state.passes = state.epoch + 1, 0, {}

    def advance(self) -> None:
        """The step has been learnt from."""
        self.state.step += 1

    @property
    def validation_due(self) -> bool:
        return self.stage.validates and self.state.step % self.stage.validate_every == 0

    def record_validation(self, score: float) -> bool:
        """A validation's score, for the rules that depend on it; whether it is the stage's best."""
        state = self.state
        before = state.best_score
        best = before is None or score > before
        state.best_score = score if before is None or best else before
        state.validations_without_best = 0 if best else state.validations_without_best + 1
        since = state.best_since_reset
        best_since_reset = since is None or score > since
        state.best_since_reset = score if since is None or best_since_reset else since
        state.without_best_since_reset = 0 if best_since_reset else state.without_best_since_reset + 1
        patience = self.stage.plateau_evaluations
        if patience is not None and state.validations_without_best >= patience:
            evidence = {"score": score, "best": before, "patience": patience}
            self.decisions.append({"step": state.step, "rule": "plateau", "evidence": evidence})
        return best

    def reset_due(self, score: float | None) -> bool:
        """Whether reference and optimizer are to be reset after this step, which had this validation score or none.
        When so, the decision is recorded and the rules start afresh."""
        state, reset = self.state, self.stage.reset
        if self.finished:
            return False
        rule, evidence = "", {}
        if reset.every_steps is not None and state.step % reset.every_steps == 0:
            rule, evidence = "reset_on_schedule", {"every_steps": reset.every_steps}
        if score is not None and state.best_since_reset is not None:
            seen = {"score": score, "best_since_reset": state.best_since_reset}
            if reset.on_plateau is not None and state.without_best_since_reset >= reset.on_plateau:
                rule, evidence = "reset_on_plateau", {**seen, "on_plateau": reset.on_plateau}
            drop = reset.on_validation_drop
            if drop is not None and score < state.best_since_reset - drop:
                rule, evidence = "reset_on_validation_drop", {**seen, "on_validation_drop": drop}
        if not rule:
            return False
        self.decisions.append({"step": state.step, "rule": rule, "evidence": evidence})
        state.resets.append(state.step)
        state.best_since_reset, state.without_best_since_reset = score, 0
        return True

    def state_dict(self) -> dict[str, Any]:
        return asdict(self.state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.state = CurriculumState(**state)
        self.decisions.clear()  # those up to this state are on disk already


def _scheduled(value: Any, epoch: int) -> Any:
    """The epoch's value of a schedule; the last one holds on."""
    return value[min(epoch, len(value) - 1)] if isinstance(value, tuple | list) else value
