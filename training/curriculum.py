"""Which prompts a stage trains on, in which order, with which settings, and when it ends.

Interventions may change the settings on the way: `Curriculum.stage` is the stage as it is now.

Each domain of the stage's mix is a stream with its own order and epochs. Order and settings are functions of (seed,
stage, epoch, place in the epoch); what a run has learnt about its prompts (who is easy, which validation was best) is
in the state, and the state is in every checkpoint. So an interrupted stage draws the same batches as one that was not
interrupted.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

from ratchet.infra.errors import RatchetError
from ratchet.infra.inference.protocol import derive_seed
from ratchet.infra.problems import Problem
from ratchet.infra.recipe.training import Stage
from ratchet.training.interventions import Interventions, Taken

Decision = dict[str, Any]
"""One line of `decisions.jsonl`: the step it was made after, its rule, what it was about, and the evidence."""


@dataclass(frozen=True)
class Batch:
    """What one step samples, domain by domain, and how. `epoch` is that of the first domain of the stage's own mix."""

    stage: Stage  # with its settings as they are in this step
    step: int  # counted from 0
    epoch: int
    problems: tuple[Problem, ...]
    rollouts: int
    temperature: float


@dataclass
class Stream:
    """Where one domain's prompts are."""

    active: list[str]  # problem ids still trained on
    epoch: int = 0
    place: int = 0  # prompts drawn in this epoch
    passes: dict[str, bool] = field(default_factory=dict)  # this epoch: did every rollout pass


@dataclass
class CurriculumState:
    step: int = 0
    streams: dict[str, Stream] = field(default_factory=dict)  # by domain; none before `Curriculum.start`
    tokens: dict[str, float] = field(default_factory=dict)  # of a response on average, at a problem's last attempts


class Curriculum:
    """The prompts of one stage. `problems` by domain, in any order; `fits` says whether a problem's prompt leaves
    room for the stage's longest response."""

    def __init__(
        self, stage: Stage, seed: int, problems: Mapping[str, Sequence[Problem]], fits: Callable[[Problem], bool]
    ) -> None:
        self._first, self.seed, self._fits = stage, seed, fits
        self.interventions = Interventions(stage)
        self.state = CurriculumState()
        self.decisions: list[Decision] = []
        self._problems: dict[str, Problem] = {}
        self._orders: dict[
            str, tuple[list[str], int, list[str]]
        ] = {}  # of each domain's last draw: active, epoch, order
        given = [p for domain in stage.domains for p in sorted(problems.get(domain, ()), key=lambda p: p.problem_id)]
        if given and stage.max_difficulty is not None and all(problem.difficulty is None for problem in given):
            raise RatchetError(
                f"stage {stage.name} has a max_difficulty, and no {' or '.join(stage.domains)} problem has a "
                "difficulty. Curate with a teacher, which measures it, or leave max_difficulty out."
            )
        for problem in given:
            reason = self._unsuitable(problem)
            if reason:
                self._drop(problem, *reason, step=0)
            else:
                self._problems[problem.problem_id] = problem
        self._require(self.candidates())

    @property
    def stage(self) -> Stage:
        return self.interventions.stage

    def _unsuitable(self, problem: Problem) -> tuple[str, dict[str, Any]] | None:
        """The fixed filter that refuses this problem, and the evidence."""
        limit = self._first.max_difficulty
        if not self._fits(problem):
            return "prompt_too_long", {"max_response_tokens": self._first.longest_response}
        if limit is not None and problem.difficulty is not None and problem.difficulty > limit:
            return "max_difficulty", {"difficulty": problem.difficulty, "max_difficulty": limit}
        return None

    def candidates(self) -> list[Problem]:
        """Problems that passed the fixed filters, by domain and id."""
        return list(self._problems.values())

    def held_out(self, benchmark: str, problems: Sequence[Problem]) -> list[Problem]:
        """Those to validate on: the others leave no room for the stage's longest response."""
        fitting = []
        for problem in problems:
            if self._fits(problem):
                fitting.append(problem)
                continue
            evidence = {"benchmark": benchmark, "max_response_tokens": self._first.longest_response}
            self._drop(problem, "validation_prompt_too_long", evidence, step=0)
        if not fitting:
            raise RatchetError(f"stage {self._first.name}: no problem of {benchmark} fits beside its longest response")
        return fitting

    def start(self, pass_rates: Mapping[str, float] | None = None) -> None:
        """Settle the prompts. `pass_rates` of the candidates under the present policy where the stage asks for them."""
        kept = self.candidates()
        limit = self._first.max_pass_rate
        if limit is not None:
            assert pass_rates is not None, "a stage with max_pass_rate is given its pass rates"
            for problem in kept:
                rate = pass_rates[problem.problem_id]
                if rate > limit:
                    self._drop(problem, "max_pass_rate", {"pass_rate": rate, "max_pass_rate": limit}, step=0)
            kept = [problem for problem in kept if pass_rates[problem.problem_id] <= limit]
        self._require(kept)
        for domain in self._first.domains:
            self.state.streams[domain] = Stream([p.problem_id for p in kept if p.domain == domain])

    def _require(self, kept: list[Problem]) -> None:
        for domain in self._first.domains:
            if any(problem.domain == domain for problem in kept):
                continue
            counts = Counter(decision["rule"] for decision in self.decisions if decision["domain"] == domain)
            reasons = ", ".join(f"{rule} {count}" for rule, count in counts.items()) or "none was given"
            raise RatchetError(
                f"stage {self._first.name}: no {domain} problem is left to train on ({reasons}). "
                "Relax the stage's filters, or take the domain out of its mix."
            )

    def _drop(self, problem: Problem, rule: str, evidence: dict[str, Any], step: int) -> None:
        about = {"domain": problem.domain, "problem_id": problem.problem_id}
        self.decisions.append({"step": step, "rule": rule, **about, "evidence": evidence})

    @property
    def finished(self) -> bool:
        all_too_easy = not self._places()
        return self.state.step >= self._first.steps or self.interventions.stopped or all_too_easy

    @property
    def epoch(self) -> int:
        """That of the first domain of the stage's own mix, which its schedules go by."""
        return self.state.streams[next(iter(self._first.mix))].epoch

    @property
    def active(self) -> dict[str, int]:
        """Prompts still trained on, by domain."""
        return {domain: len(stream.active) for domain, stream in self.state.streams.items()}

    def _places(self) -> dict[str, int]:
        """How many prompts of each domain a batch has: those of a domain with none left go to the others."""
        left = {domain: share for domain, share in self.stage.mix.items() if self.state.streams[domain].active}
        return allot(self._first.prompts_per_batch, left)

    def draw(self) -> Batch:
        """The batch of the present step. Does not change the state."""
        stage = self.stage
        return Batch(
            stage=stage,
            step=self.state.step,
            epoch=self.epoch,
            problems=self.draw_more(self._places()),
            rollouts=_scheduled(stage.rollouts, self.epoch),
            temperature=_scheduled(stage.temperature, self.epoch),
        )

    def draw_more(self, counts: Mapping[str, int]) -> tuple[Problem, ...]:
        """The next prompts of these domains, of each at most what a batch has. Does not change the state."""
        places = self._places()
        drawn = [i for domain, places in places.items() for i in self._next(domain, min(places, counts.get(domain, 0)))]
        return tuple(self._problems[problem_id] for problem_id in drawn)

    def _next(self, domain: str, count: int) -> list[str]:
        stream = self.state.streams[domain]
        if self._orders.get(domain, (None, -1))[:2] != (stream.active, stream.epoch):
            # These two words are in the seed of every order that was ever drawn.
            purpose = "own" if domain == next(iter(self._first.mix)) else "replay"
            shuffled = sorted(stream.active)
            Random(derive_seed(self.seed, self._first.name, purpose, stream.epoch)).shuffle(shuffled)
            self._orders[domain] = stream.active, stream.epoch, shuffled
        return self._orders[domain][2][stream.place : stream.place + count]

    def record(self, every_rollout_passed: Mapping[str, bool]) -> None:
        """Take note of the results of what was drawn, by problem id; at an epoch's end, drop the easy."""
        places = self._places()
        for domain, stream in self.state.streams.items():
            active = set(stream.active)
            own = {i: passed for i, passed in every_rollout_passed.items() if i in active}
            stream.passes.update(own)
            stream.place += len(own)
            if own:
                self._end_epoch_without(places[domain], stream)

    def _end_epoch_without(self, places: int, stream: Stream) -> None:
        """What does not fill a batch is left for another epoch's order."""
        if len(stream.active) - stream.place < places:
            self._end_epoch(stream)

    def _end_epoch(self, stream: Stream) -> None:
        if self._first.drop_easy_each_epoch:
            for problem_id in (i for i in stream.active if stream.passes.get(i)):
                easy = self._problems[problem_id]
                self._drop(easy, "easy_in_epoch", {"epoch": stream.epoch}, step=self.state.step + 1)
            stream.active = [i for i in stream.active if not stream.passes.get(i)]
        stream.epoch, stream.place, stream.passes = stream.epoch + 1, 0, {}

    def note_tokens(self, tokens: Mapping[str, float]) -> None:
        """Mean response lengths of what was drawn, by problem id."""
        self.state.tokens.update({problem_id: round(mean, 1) for problem_id, mean in tokens.items()})

    def expected_tokens(self, problems: Sequence[Problem]) -> dict[str, float]:
        """Of a response to each, by problem id: what its last attempts had, before those the teacher's, and where
        neither is known the mean of the others."""
        known = {p.problem_id: self.state.tokens.get(p.problem_id, p.teacher_tokens) for p in problems}
        found = [tokens for tokens in known.values() if tokens is not None]
        typical = sum(found) / len(found) if found else 0.0
        return {problem_id: typical if tokens is None else tokens for problem_id, tokens in known.items()}

    def advance(self) -> None:
        """The step has been learnt from."""
        self.state.step += 1

    @property
    def validation_due(self) -> bool:
        return self._first.validates and self.state.step % self._first.validate_every == 0

    def intervene(self, score: float | None, metrics: Mapping[str, float]) -> list[Taken]:
        """Take the interventions that are due after this step, which had this validation score or none and these
        metrics. Nothing is due after the last step."""
        taken = [] if self.finished else self.interventions.take(self.state.step, score, metrics)
        self.decisions += [each.decision for each in taken]
        if any("mix" in each.changed for each in taken):
            for domain, places in self._places().items():
                self._end_epoch_without(places, self.state.streams[domain])
        return taken

    def state_dict(self) -> dict[str, Any]:
        return {**asdict(self.state), "interventions": self.interventions.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.interventions.load_state_dict(state["interventions"])
        streams = {name: Stream(**s) for name, s in state["streams"].items()}
        self.state = CurriculumState(state["step"], streams, dict(state.get("tokens", {})))
        self.decisions.clear()  # those up to this state are on disk already


def allot(places: int, shares: Mapping[str, float]) -> dict[str, int]:
    """`places` in proportion to `shares`, by largest remainder, but at least one for each: each further place goes to
    who has the largest claim left. Of equal claims the first one counts."""
    whole = sum(shares.values())
    counts = dict.fromkeys(shares, 1)
    for _ in range(places - len(shares) if shares else 0):
        counts[max(shares, key=lambda domain: places * shares[domain] / whole - counts[domain])] += 1
    return counts


def _scheduled(value: Any, epoch: int) -> Any:
    """The epoch's value of a schedule; the last one holds on."""
    return value[min(epoch, len(value) - 1)] if isinstance(value, tuple | list) else value
