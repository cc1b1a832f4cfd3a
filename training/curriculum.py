"""The prompts of a stage, their order, the settings of each step, and the stage's end.

Each domain of the stage's mix is a stream with its own order and epochs. Order and settings are functions of (seed,
stage, epoch, place in the epoch); what the run finds out about its prompts is in the state, which every checkpoint
holds. So an interrupted stage draws the same batches as an uninterrupted one. Interventions may change the settings:
`Curriculum.stage` has the current ones.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from random import Random
from typing import Any

from ratchet.data_curation.base.protocol import derive_seed
from ratchet.infra.recipe.stage import DifficultyFilter, Stage
from ratchet.training.interventions import AppliedIntervention, Interventions
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import Problem

NEVER = 2**31
"""An epoch that never comes."""
CAP_GROWTH = 1.25
"""Growth factor of tail batching's cap after it let fewer prompts through than a step asks for."""
Decision = dict[str, Any]
"""A line of `decisions.jsonl`: the step after which it was made, its rule, its subject, and the evidence."""


@dataclass(frozen=True)
class PromptBatch:
    """One step's prompts, domain by domain, and settings."""

    stage: Stage  # with this step's settings
    step: int  # counted from 0
    epoch: int  # of the first domain in the recipe's mix
    problems: tuple[Problem, ...]
    rollouts: int
    temperature: float
    cap: int | None = None
    """Tail batching's limit: groups with a response of more tokens wait for a step of long ones."""
    drawn: Mapping[str, int] = field(default_factory=dict)
    """The step in which a waiting problem was drawn, by id; the problem keeps that step's random numbers."""


@dataclass
class Stream:
    """The order of one domain's prompts, and its position in it."""

    active: list[str]  # problem ids still trained on
    epoch: int = 0
    place: int = 0  # prompts drawn in this epoch
    rates: dict[str, float] = field(default_factory=dict)  # moving pass rate of each prompt sampled so far
    skipped: dict[str, int] = field(default_factory=dict)  # the epoch in which a skipped prompt is drawn again
    last: list[str] = field(default_factory=list)  # end the epoch, which began in a step that had drawn them before


@dataclass
class CurriculumState:
    """The state of a curriculum, which every checkpoint holds."""

    step: int = 0
    streams: dict[str, Stream] = field(default_factory=dict)  # by domain; none before `Curriculum.start`
    tokens: dict[str, float] = field(default_factory=dict)  # mean response length when a problem was last sampled
    waiting: dict[str, int] = field(default_factory=dict)  # the step in which it was drawn, by problem id
    cap: int | None = None  # tokens; see `PromptBatch`


class Curriculum:
    """The prompts and settings of a stage. `problems` are by domain, in any order; `fits` tells whether a prompt leaves
    room for the stage's longest response."""

    def __init__(
        self, stage: Stage, seed: int, problems: Mapping[str, Sequence[Problem]], fits: Callable[[Problem], bool]
    ) -> None:
        self._first, self.seed = stage, seed
        self.interventions = Interventions(stage)
        self.state = CurriculumState()
        self.decisions: list[Decision] = []
        self._problems: dict[str, Problem] = {}
        self._drawn = set[str]()  # in this step
        # (active, epoch, last, order) of each domain's last draw
        self._orders: dict[str, tuple[list[str], int, list[str], list[str]]] = {}
        prompts = [p for domain in stage.domains for p in sorted(problems.get(domain, ()), key=lambda p: p.problem_id)]
        if prompts and stage.max_difficulty is not None and all(problem.difficulty is None for problem in prompts):
            raise RatchetError(
                f"stage {stage.name} has a max_difficulty, but no {' or '.join(stage.domains)} problem has a "
                "difficulty. Curate with a teacher, which measures it, or remove max_difficulty."
            )
        limit = stage.max_difficulty
        for problem in prompts:
            if not fits(problem):
                self._drop(problem, "prompt_too_long", {"max_response_tokens": stage.longest_response}, step=0)
            elif limit is not None and problem.difficulty is not None and problem.difficulty > limit:
                evidence = {"difficulty": problem.difficulty, "max_difficulty": limit}
                self._drop(problem, "max_difficulty", evidence, step=0)
            else:
                self._problems[problem.problem_id] = problem
        kept = self.candidates()
        self._require(kept)
        check_prompts(stage, Counter(problem.domain for problem in kept), self._dropped(stage.domains))

    @property
    def stage(self) -> Stage:
        return self.interventions.stage

    def candidates(self) -> list[Problem]:
        """All problems that the stage may draw."""
        return list(self._problems.values())

    def held_out(self, benchmark: str, problems: Sequence[Problem], fits: Callable[[Problem], bool]) -> list[Problem]:
        """The problems to validate on; those that leave no room for the stage's longest response are dropped. Raises
        RatchetError if none is left."""
        fitting = [problem for problem in problems if fits(problem)]
        evidence = {"benchmark": benchmark, "max_response_tokens": self._first.longest_response}
        for problem in (problem for problem in problems if not fits(problem)):
            self._drop(problem, "validation_prompt_too_long", evidence, step=0)
        if not fitting:
            raise RatchetError(f"stage {self._first.name}: no problem of {benchmark} fits beside its longest response")
        return fitting

    def start(self, pass_rates: Mapping[str, float] | None = None) -> None:
        """Begin the streams. `pass_rates` are those of the candidates under the starting policy, for a stage with a
        limit."""
        kept, limit = self.candidates(), self._first.max_pass_rate
        if limit is not None:
            assert pass_rates is not None, "a stage with max_pass_rate is given its pass rates"
            for problem in (problem for problem in kept if pass_rates[problem.problem_id] > limit):
                evidence = {"pass_rate": pass_rates[problem.problem_id], "max_pass_rate": limit}
                self._drop(problem, "max_pass_rate", evidence, step=0)
            kept = [problem for problem in kept if pass_rates[problem.problem_id] <= limit]
        self._require(kept)
        for domain in self._first.domains:
            self.state.streams[domain] = Stream([p.problem_id for p in kept if p.domain == domain])

    def _require(self, kept: list[Problem]) -> None:
        for domain in self._first.domains:
            if any(problem.domain == domain for problem in kept):
                continue
            raise RatchetError(
                f"stage {self._first.name}: no {domain} problem is left to train on. "
                f"{self._dropped([domain]) or 'None was given.'} Relax the stage's filters, or remove the domain from "
                "its mix."
            )

    def _dropped(self, domains: Collection[str]) -> str:
        """A sentence about the problems of these domains that the stage has dropped; "" if there are none."""
        counts = Counter(decision["rule"] for decision in self.decisions if decision["domain"] in domains)
        dropped = ", ".join(f"{rule} {count}" for rule, count in counts.items())
        return f"Dropped by the stage: {dropped}." if dropped else ""

    def _drop(self, problem: Problem, rule: str, evidence: dict[str, Any], step: int) -> None:
        about = {"domain": problem.domain, "problem_id": problem.problem_id}
        self.decisions.append({"step": step, "rule": rule, **about, "evidence": evidence})

    @property
    def finished(self) -> bool:
        return self.state.step >= self._first.steps or self.interventions.stopped or not self._places()

    @property
    def epoch(self) -> int:
        """The epoch of the first domain in the recipe's mix, for the stage's schedules."""
        return self.state.streams[next(iter(self._first.mix))].epoch

    @property
    def active(self) -> dict[str, int]:
        """The number of problems still trained on, by domain."""
        return {domain: len(stream.active) for domain, stream in self.state.streams.items()}

    def _places(self) -> dict[str, int]:
        """A batch's prompts by domain; a domain without prompts leaves its places to the others."""
        left = {domain: share for domain, share in self.stage.mix.items() if self.state.streams[domain].active}
        return allot(self._first.prompts_per_batch, left)

    def draw(self) -> PromptBatch:
        """The current step's batch. The state does not change."""
        stage = self.stage
        rollouts, temperature = (_scheduled(value, self.epoch) for value in (stage.rollouts, stage.temperature))
        batch = PromptBatch(stage, self.state.step, self.epoch, self.draw_more(self._places()), rollouts, temperature)
        return self._tail_batched(batch) if stage.advanced.tail_batching else batch

    def _tail_batched(self, batch: PromptBatch) -> PromptBatch:
        """The batch with more prompts and a cap. Or, without one, a batch of prompts that wait; at the end of the
        epoch, of all that is left."""
        ((domain, stream),) = self.state.streams.items()
        places, waiting = self._places()[domain], self.state.waiting
        if len(waiting) >= places or (waiting and len(stream.active) - stream.place < places):
            drawn = dict(list(waiting.items())[:places])
            ids = [*drawn, *self._next(domain, places - len(drawn))]
            return replace(batch, problems=tuple(self._problems[i] for i in ids), drawn=drawn)
        ids = self._next(domain, math.ceil(places * (1 + batch.stage.advanced.tail_batching)))
        cap = self.state.cap
        below = cap is not None and cap < batch.stage.max_response_tokens  # an intervention may have lowered the limit
        return replace(batch, problems=tuple(self._problems[i] for i in ids), cap=cap if below else None)

    def defer(self, batch: PromptBatch, longest: Mapping[str, int]) -> None:
        """Make the prompts wait whose longest response has more tokens than the batch's cap, and set the next cap from
        this batch's lengths, so that it keeps about `prompts_per_batch` prompts."""
        if batch.drawn:
            return
        cap = batch.cap or batch.stage.max_response_tokens
        waiting = [i for i, tokens in longest.items() if batch.cap and tokens > cap]
        self.state.waiting |= dict.fromkeys(waiting, batch.step)
        (stream,) = self.state.streams.values()
        stream.place += len(waiting)
        # The rank below which `prompts_per_batch` of as many new prompts are expected.
        rank = min(len(longest), round(self._first.prompts_per_batch * (1 + 1 / len(longest))))
        kept = sorted(longest.values())[rank - 1]
        following = kept if kept <= cap else math.ceil(CAP_GROWTH * cap)
        self.state.cap = following if following < batch.stage.max_response_tokens else None

    def draw_more(self, counts: Mapping[str, int]) -> tuple[Problem, ...]:
        """The next prompts of these domains that this step has not drawn, at most a batch's. The state does not
        change."""
        drawn = [
            problem_id
            for domain, places in self._places().items()
            for problem_id in self._next(domain, min(places, counts.get(domain, 0)))
            if problem_id not in self._drawn
        ]
        return tuple(self._problems[problem_id] for problem_id in drawn)

    @property
    def batch_prompts(self) -> int:
        """The number of prompts in a batch, for a stage with one domain."""
        ((_, stream),) = self.state.streams.items()
        return min(self._first.prompts_per_batch, len(stream.active))

    def begin(self, count: int, step: int) -> tuple[Problem, ...]:
        """Begin the epoch's next prompts, at most `count`, to learn from in `step` or later, with bounded staleness.
        They wait until `record`. Their number completes whole batches of the epoch and of the stage at most."""
        ((domain, stream),) = self.state.streams.items()
        if not (places := self.batch_prompts):
            return ()
        of_epoch = len(stream.active) // places * places - stream.place
        of_stage = places * (self._first.steps - step) - len(self.state.waiting)
        ids = self._next(domain, max(0, min(count, of_epoch, of_stage)))
        stream.place += len(ids)
        self.state.waiting |= dict.fromkeys(ids, self.state.step)
        return tuple(self._problems[i] for i in ids)

    def _next(self, domain: str, count: int) -> list[str]:
        place = self.state.streams[domain].place
        return self._order(domain)[place : place + count]

    def _order(self, domain: str) -> list[str]:
        """The domain's prompts in this epoch."""
        stream = self.state.streams[domain]
        if self._orders.get(domain, ())[:3] != (stream.active, stream.epoch, stream.last):
            # These words are part of the seed; changing them would change every order.
            purpose = "own" if domain == next(iter(self._first.mix)) else "replay"
            shuffled = sorted(stream.active)
            Random(derive_seed(self.seed, self._first.name, purpose, stream.epoch)).shuffle(shuffled)
            shuffled.sort(key={*stream.last}.__contains__)
            self._orders[domain] = stream.active, stream.epoch, stream.last, shuffled
        return self._orders[domain][3]

    def record(self, pass_rates: Mapping[str, float | None]) -> None:
        """Note the pass rates of drawn problems by id, None where a verdict is missing; at the end of an epoch, choose
        the next epoch's prompts."""
        places, wanted = self._places(), self._first.advanced.difficulty_filter
        if self._first.dynamic_sampling_rounds:  # otherwise a step draws once
            self._drawn.update(pass_rates)
        for domain, stream in self.state.streams.items():
            active = set(stream.active)
            own = {i: rate for i, rate in pass_rates.items() if i in active}
            for i, rate in own.items():
                if wanted and rate is not None:
                    stream.rates[i] = rate + wanted.memory * (stream.rates.get(i, rate) - rate)
            stream.place += sum(self.state.waiting.pop(i, None) is None for i in own)
            if own and not self.state.waiting:
                self._end_epoch_without(places[domain], domain)

    def _end_epoch_without(self, places: int, domain: str) -> None:
        """End a domain's epoch if the remaining prompts do not fill a batch."""
        stream = self.state.streams[domain]
        if len(stream.active) - stream.place >= places:
            return
        if self._first.advanced.difficulty_filter:
            self._choose(stream, {*self._order(domain)[: stream.place]}, self._first.advanced.difficulty_filter)
        stream.epoch, stream.place = stream.epoch + 1, 0
        stream.last = [i for i in stream.active if i in self._drawn]

    def _choose(self, stream: Stream, drawn: set[str], wanted: DifficultyFilter) -> None:
        """Skip the prompts of the next epoch that are too easy or too hard, by what was `drawn` in this one, and draw
        those again whose time has come; if none is left, the next ones at once."""
        following = stream.epoch + 1
        # The others' rates are of earlier epochs: one that was let back in is tried before it is skipped again.
        for problem_id in [i for i in stream.active if i in drawn]:
            rate = stream.rates.get(problem_id)
            rule = "easy_in_epoch" if rate is not None and rate >= wanted.easy else ""
            if rate is not None and wanted.hard is not None and rate <= wanted.hard:
                rule = "hard_in_epoch"
            if rule:
                until = following + wanted.skip_epochs if wanted.skip_epochs else NEVER
                stream.skipped[problem_id] = until
                evidence = {"epoch": stream.epoch, "pass_rate": rate, "until_epoch": until if until < NEVER else None}
                self._drop(self._problems[problem_id], rule, evidence, step=self.state.step + 1)
        left = [i for i in stream.active if i not in stream.skipped]
        due = min(stream.skipped.values(), default=NEVER) if not left else following
        back = [i for i, until in stream.skipped.items() if until <= due and until < NEVER]
        stream.active = left + back
        for problem_id in back:
            del stream.skipped[problem_id]

    def note_tokens(self, tokens: Mapping[str, float]) -> None:
        """Note the mean response lengths in tokens, by problem id."""
        self.state.tokens.update({problem_id: round(mean, 1) for problem_id, mean in tokens.items()})

    def expected_tokens(self, problems: Sequence[Problem]) -> dict[str, float]:
        """Expected response lengths by problem id: the last attempts', otherwise the teacher's, otherwise the mean of
        the others."""
        lengths = {p.problem_id: self.state.tokens.get(p.problem_id, p.teacher_tokens) for p in problems}
        measured = [tokens for tokens in lengths.values() if tokens is not None]
        typical = sum(measured) / len(measured) if measured else 0.0
        return {problem_id: typical if tokens is None else tokens for problem_id, tokens in lengths.items()}

    def advance(self) -> int:
        """End the step. Returns its number, counted from 1."""
        self._drawn.clear()
        for stream in self.state.streams.values():
            stream.last = stream.last if stream.place else []
        self.state.step += 1
        return self.state.step

    def report(self, batch: PromptBatch) -> dict[str, float]:
        """Metrics of the step that has ended."""
        active, history = self.active, self.interventions
        report = {
            "step": self.state.step, "steps": self._first.steps, "epoch": float(batch.epoch),
            "active_prompts": float(sum(active.values())), "temperature": batch.temperature,
            "rollouts": float(batch.rollouts),
            "max_response_tokens": float(batch.stage.max_response_tokens), "resets": float(history.resets),
        }  # fmt: skip
        if missing := sum(max(0, places - active[domain]) for domain, places in self._places().items()):
            report["short_batch"] = float(missing)
        if self._first.advanced.difficulty_filter:
            report["skipped_prompts"] = float(sum(len(stream.skipped) for stream in self.state.streams.values()))
        if self._first.interventions:
            report["interventions"] = float(len(history.state.taken))
        if self._first.advanced.tail_batching:
            report |= {"waiting_prompts": float(len(self.state.waiting)), "learned_waiting": float(len(batch.drawn))}
            report |= {"response_cap": float(batch.cap or batch.stage.max_response_tokens)}
        if len(active) > 1:
            report |= {f"{domain}/active_prompts": float(count) for domain, count in active.items()}
        return report

    @property
    def validation_due(self) -> bool:
        """True if the stage validates after this step."""
        return self._first.validates and self.state.step % self._first.validate_every == 0

    def intervene(self, score: float | None, metrics: Mapping[str, float]) -> list[AppliedIntervention]:
        """Take the interventions that are due after this step, with its validation score, if any, and metrics. None is
        due after the last step."""
        interventions = [] if self.finished else self.interventions.take(self.state.step, score, metrics)
        self.decisions += [each.decision for each in interventions]
        if any("mix" in each.changed for each in interventions):
            for domain, places in self._places().items():
                self._end_epoch_without(places, domain)
        return interventions

    def state_dict(self) -> dict[str, Any]:
        return {**asdict(self.state), "interventions": self.interventions.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.interventions.load_state_dict(state["interventions"])
        streams = {name: Stream(**s) for name, s in state["streams"].items()}
        waiting, cap = dict(state.get("waiting", {})), state.get("cap")
        self.state = CurriculumState(state["step"], streams, dict(state.get("tokens", {})), waiting, cap)
        self.decisions.clear()  # these are on disk already
        self._drawn.clear()


def allot(places: int, shares: Mapping[str, float], least: int = 1) -> dict[str, int]:
    """Distribute `places` in proportion to `shares`, at least `least` each, by largest remainder; the first of equal
    ones wins."""
    whole = sum(shares.values())
    counts = dict.fromkeys(shares, least)
    for _ in range(places - least * len(shares) if shares else 0):
        counts[max(shares, key=lambda domain: places * shares[domain] / whole - counts[domain])] += 1
    return counts


def check_prompts(stage: Stage, problems: Mapping[str, int], remedy: str = "") -> None:
    """Raises RatchetError if a batch asks for more prompts of a domain than there are `problems` (a number for each
    domain): every batch would silently be smaller."""
    for mix in (stage.mix, *(each.do.mix for each in stage.interventions if each.do.mix)):
        for domain, wanted in allot(stage.prompts_per_batch, mix).items():
            if (there := problems.get(domain, wanted)) < wanted:
                raise RatchetError(
                    f"training.stages: a batch of {stage.name} takes {wanted} prompts of {domain}, and there are "
                    f"{there}: lower prompts_per_batch, or give it more problems. {remedy}".rstrip()
                )


def _scheduled(value: Any, epoch: int) -> Any:
    """The epoch's value of a schedule, whose last value continues."""
    return value[min(epoch, len(value) - 1)] if isinstance(value, tuple | list) else value
