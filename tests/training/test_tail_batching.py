"""Tail batching: which prompts wait, that none is lost or favored, and that waiting selects no response."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

from ratchet.data_curation.base.prompts import PromptFormat
from ratchet.data_curation.base.protocol import Sampling, derive_seed
from ratchet.infra.inference.with_transformers import EmbeddedEngine
from ratchet.training.curriculum import Curriculum
from ratchet.training.on_policy import OnPolicySampler
from ratchet.training.rollout import RolloutWorker
from ratchet.training.sampler import Sampler
from tests.training.batch import FAILED, PASSED, rollout, stage
from tests.training.conftest import sums

LONGEST = 1000


def drawn_length(problem_id: str, step: int, sample: int) -> int:
    """Tokens of a response, a function of what seeds it: few are long, and some would be longer than allowed."""
    random = Random(derive_seed(0, "s", step, problem_id, sample))
    return min(LONGEST + 1, int(random.lognormvariate(4.0, 1.2)) + 1)


class Lengths:
    """Responses of these lengths, truncated as an engine would. `asked` has (problem, step that seeds it, limit)."""

    sampler = SimpleNamespace(separate_devices=False)

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int]] = []

    def report(self):
        return {}

    def run(self, problems, samples, sampling, seed_parts, expected, finished=None, drawn=None):
        rollouts = []
        for problem in problems:
            step = (drawn or {}).get(problem.problem_id, seed_parts[-1])
            self.asked.append((problem.problem_id, step, sampling.max_tokens))
            for sample in range(samples):
                length = drawn_length(problem.problem_id, step, sample)
                fits = length <= sampling.max_tokens
                made = rollout(0, sample, PASSED if fits and sample else FAILED, truncated=not fits)
                tokens = np.zeros(min(length, sampling.max_tokens), np.int32)
                rollouts.append(replace(made, problem_id=problem.problem_id, response=tokens))
        return rollouts


def world(prompts: int = 100, places: int = 8):
    asked = stage(max_response_tokens=LONGEST, steps=400, prompts_per_batch=places, rollouts=4, tail_batching=0.25)
    curriculum = Curriculum(asked, 0, {"math": sums(prompts)}, lambda problem: True)
    curriculum.start()
    worker = Lengths()
    return curriculum, OnPolicySampler(asked, 0, curriculum, worker, None, max_infra_errors=0.05), worker


def run(curriculum, batches, steps):
    """[(batch, what was learned)]"""
    history = []
    for _ in range(steps):
        batch = curriculum.draw()
        history.append((batch, batches.collect(batch)))
        curriculum.advance()
    return history


def test_each_draw_of_a_prompt_is_learned_from_exactly_once_and_each_epoch_has_every_prompt():
    curriculum, batches, _ = world()
    drawn, learned, of_epoch = Counter(), Counter(), defaultdict(Counter)
    for batch, collected in run(curriculum, batches, 60):
        fresh = [p.problem_id for p in batch.problems if p.problem_id not in batch.drawn]
        drawn.update((i, batch.step) for i in fresh)
        of_epoch[batch.epoch].update(fresh)
        learned.update((g.problem_id, batch.drawn.get(g.problem_id, batch.step)) for g in collected.groups)
    still = Counter(curriculum.state.waiting.items())
    assert drawn == learned + still and set(learned.values()) == {1}
    whole = [counts for epoch, counts in of_epoch.items() if epoch < curriculum.epoch]
    assert len(whole) > 3
    for counts in whole:
        assert set(counts.values()) == {1} and len(counts) > 100 - 8  # what does not fill a batch may be left


def test_no_response_is_selected_by_its_length():
    """Each group that is learned from is, response by response, the one its draw would have had without waiting, so an
    epoch's groups, and with a fixed policy the sum of their gradients, are the same."""
    curriculum, batches, _ = world()
    learned = waited = 0
    for batch, collected in run(curriculum, batches, 200):
        for group in collected.groups:
            step = batch.drawn.get(group.problem_id, batch.step)
            waited += step != batch.step
            expected = [min(LONGEST, drawn_length(group.problem_id, step, sample)) for sample in range(4)]
            assert [len(each.response) for each in group.rollouts] == expected
            truncated = [drawn_length(group.problem_id, step, sample) > LONGEST for sample in range(4)]
            assert [each.truncated for each in group.rollouts] == truncated
            learned += 1
    assert 0.1 < waited / learned < 0.3


def test_most_steps_are_short_and_have_as_many_prompts_as_asked():
    curriculum, batches, _ = world(prompts=2000, places=32)
    history = run(curriculum, batches, 100)[10:]
    short = [(batch, collected) for batch, collected in history if batch.cap]
    long = [(batch, collected) for batch, collected in history if batch.drawn]
    assert len(short) > 3 * len(long) > 0
    assert 30 <= np.mean([len(collected.groups) for _, collected in short]) <= 34
    assert np.median([batch.cap for batch, _ in short]) < LONGEST / 2
    assert {len(batch.problems) for batch, _ in short} <= {40, *range(32, 40)}  # fewer at the end of an epoch
    report = batches.report(short[-1][1])
    assert (
        report["deferred_tokens"] + sum(len(r.response) for g in short[-1][1].groups for r in g.rollouts)
        == (report["sampled_tokens"])
    )


def test_it_continues_after_any_step_as_if_nothing_had_happened():
    curriculum, batches, worker = world()
    run(curriculum, batches, 30)
    for stop in range(1, 30, 4):
        first, of_first, before = world()
        run(first, of_first, stop)
        second, of_second, after = world()
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        run(second, of_second, 30 - stop)
        assert before.asked + after.asked == worker.asked and second.state_dict() == curriculum.state_dict()


def test_a_step_whose_every_prompt_is_long_is_sampled_without_the_cap():
    curriculum, batches, worker = world()
    curriculum.state.cap = 1
    ((_, collected),) = run(curriculum, batches, 1)
    assert len(collected.groups) == 10 and not curriculum.state.waiting
    assert [limit for _, _, limit in worker.asked] == [1] * 10 + [LONGEST] * 10


def test_a_cap_above_a_lowered_limit_is_none(monkeypatch):
    curriculum, _, _ = world()
    curriculum.state.cap = LONGEST - 1
    assert curriculum.draw().cap == LONGEST - 1
    lowered = curriculum.stage.model_copy(update={"max_response_tokens": LONGEST - 2})
    monkeypatch.setattr(type(curriculum), "stage", lowered)  # by an intervention
    assert curriculum.draw().cap is None


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"dynamic_sampling_rounds": 2}, "dynamic sampling replaces groups"),
        ({"mix": {"math": 1, "code": 1}}, "domains differ in length"),
    ],
)
def test_what_excludes_it_is_refused_with_the_reason(settings, why):
    with pytest.raises(ValueError, match=why):
        stage(tail_batching=0.25, **settings)


def test_a_prompt_that_waited_is_sampled_with_the_random_numbers_of_its_draw(policy, pool):
    """By a real engine: with the same policy the response begins as it did, and goes on."""
    problems = sums(6)
    worker = RolloutWorker(policy, Sampler(policy, EmbeddedEngine(policy, 64)), pool, PromptFormat(math="{prompt}"), 64)
    short = worker.run(problems, 2, Sampling(max_tokens=20), (0, "s", 3), {})
    waiting = {r.problem_id: 3 for r in short if r.truncated}
    later = [problem for problem in problems if problem.problem_id in waiting]
    whole = worker.run(later, 2, Sampling(max_tokens=60), (0, "s", 9), {}, None, waiting)
    before = {(r.problem_id, r.sample): r.response for r in short}
    assert waiting
    for each in whole:
        begun = before[each.problem_id, each.sample]
        assert np.array_equal(each.response[: len(begun)], begun)
    assert any(len(each.response) > 20 for each in whole)
