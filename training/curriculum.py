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

from infra.errors import RatchetError
from infra.inference.protocol import derive_seed
from infra.problems import Problem
from infra.recipe.model import Stage

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
    place: int = 0  # batches drawn in this epoch
    active: list[str] | None = None  # problem ids still trained on; None before the pass rate has been measured
    passes: dict[str, bool] = field(default_factory=dict)  # this epoch: did every rollout pass
    best_score: float | None = None
    validations_without_best: int = 0


class Curriculum:
    """The prompts of one stage. `problems` by domain, in any order; `fits` says whether a problem's prompt leaves
    room for the stage's longest response."""

    def __init__(
        self, stage: Stage, seed: int, problems: Mapping[str, Sequence[Problem]], fits: Callable[[Problem], bool]
    ) -> None:
        self.stage, self.seed = stage, seed
        self.state = CurriculumState()
        self.decisions: list[Decision] = []
        self._problems: dict[str, Problem] = {}
        self._replayed: list[str] = []
        for domain, pool in problems.items():
            for problem in sorted(pool, key=lambda p: p.problem_id):
                reason = self._unsuitable(problem, fits)
                if reason:
                    self._drop(problem.problem_id, *reason)
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

    def _unsuitable(self, problem: Problem, fits: Callable[[Problem], bool]) -> tuple[str, dict[str, Any]] | None:
        """The fixed filter that refuses this problem, and the evidence."""
        limit = self.stage.max_difficulty
        if not fits(problem):
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

    @property
    def needs_pass_rates(self) -> bool:
        return self.state.active is None and self.stage.max_pass_rate is not None

    def start(self, pass_rates: Mapping[str, float] | None = None) -> None:
        """Settle the prompts. `pass_rates` of the candidates under the present policy where the stage asks for them."""
        kept = self.candidates()
        limit = self.stage.max_pass_rate
        if pass_rates is not None and limit is not None:
            for problem in kept:
                rate = pass_rates[problem.problem_id]
                if rate > limit:
                    self._drop(problem.problem_id, "max_pass_rate", {"pass_rate": rate, "max_pass_rate": limit})
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

    def _drop(self, problem_id: str, rule: str, evidence: dict[str, Any]) -> None:
        self.decisions.append({"step": self.state.step, "rule": rule, "problem_id": problem_id, "evidence": evidence})

    @property
    def finished(self) -> bool:
        patience = self.stage.plateau_evaluations
        plateau = patience is not None and self.state.validations_without_best >= patience
        return self.state.step >= self.stage.steps or plateau or self.state.active == []

    def draw(self) -> Batch:
        """The batch of the present step. Does not change the state."""
        stage, state = self.stage, self.state
        assert state.active is not None, "start() settles the prompts first"
        replayed = round(stage.prompts_per_batch * stage.replay_share)
        own = self._slice(state.active, stage.prompts_per_batch - replayed, "own", state.epoch, state.place)
        # Replay has no epochs of its own: it walks through the other domain, reshuffled each time round.
        rounds = max(1, len(self._replayed) // replayed) if replayed else 1
        other = self._slice(self._replayed, replayed, "replay", state.step // rounds, state.step % rounds)
        return Batch(
            step=state.step,
            epoch=state.epoch,
            problems=tuple(self._problems[i] for i in own + other),
            rollouts=_scheduled(stage.rollouts, state.epoch),
            temperature=_scheduled(stage.temperature, state.epoch),
        )

    def _slice(self, ids: list[str], size: int, purpose: str, epoch: int, place: int) -> list[str]:
        shuffled = sorted(ids)
        Random(derive_seed(self.seed, self.stage.name, purpose, epoch)).shuffle(shuffled)
        return shuffled[place * size : (place + 1) * size]

    def record(self, every_rollout_passed: Mapping[str, bool]) -> None:
        """Take note of a step's result by problem id, and go on to the next step; at an epoch's end, drop the easy."""
        state = self.state
        assert state.active is not None
        active = set(state.active)
        state.passes.update({i: passed for i, passed in every_rollout_passed.items() if i in active})
        state.step += 1
        state.place += 1
        own = self.stage.prompts_per_batch - round(self.stage.prompts_per_batch * self.stage.replay_share)
        if state.place < len(state.active) // own:
            return
        # What does not fill a batch is left for another epoch's order.
        if self.stage.drop_easy_each_epoch:
            easy = [i for i in state.active if state.passes.get(i)]
            for problem_id in easy:
                self._drop(problem_id, "easy_in_epoch", {"epoch": state.epoch})
            state.active = [i for i in state.active if not state.passes.get(i)]
        state.epoch, state.place, state.passes = state.epoch + 1, 0, {}

    @property
    def validation_due(self) -> bool:
        return self.stage.plateau_evaluations is not None and self.state.step % self.stage.validate_every == 0

    def record_validation(self, score: float) -> None:
        """A validation's mean pass rate, for the plateau rule."""
        best = self.state.best_score
        if best is None or score > best:
            self.state.best_score, self.state.validations_without_best = score, 0
        else:
            self.state.validations_without_best += 1
        if self.finished:
            evidence = {"score": score, "best": best, "patience": self.stage.plateau_evaluations}
            self.decisions.append({"step": self.state.step, "rule": "plateau", "evidence": evidence})

    def state_dict(self) -> dict[str, Any]:
        return asdict(self.state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.state = CurriculumState(**state)
        self.decisions.clear()  # those up to this state are on disk already


def _scheduled(value: Any, epoch: int) -> Any:
    """The epoch's value of a schedule; the last one holds on."""
    return value[min(epoch, len(value) - 1)] if isinstance(value, tuple | list) else value
