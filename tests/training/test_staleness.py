"""Bounded staleness: the schedule is decided by tokens, no token is too stale, each prompt is learned from once, and a
stage killed in any phase goes on exactly."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

from ratchet.data_curation.base.protocol import Request, completed, derive_seed
from ratchet.infra.inference.with_transformers import Transformers
from ratchet.training.asynchronous import AsyncSampler, InFlight, chunk, due
from ratchet.training.curriculum import Curriculum
from ratchet.training.groups import Rollout
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.outcome import Outcome
from tests.training.batch import groups, learner, stage
from tests.training.conftest import sums
from tests.training.processes import (
    RECIPE,
    done,
    finish,
    kill_when,
    metrics,
    rollouts,
    sampling,
    start,
    timeless_part,
    weights,
)
from tests.waiting import happens

LONGEST = 1000


class Lengths:
    """A worker whose responses have lengths drawn once, by what seeds their first token; `asked` has every request:
    (problem, sample, tokens so far, tokens to get at most)."""

    sampler = SimpleNamespace(facts={})
    tokenizer = SimpleNamespace(decode=lambda ids, **_: "")

    def __init__(self, sigma: float = 1.2) -> None:
        self.asked: list[tuple[str, int, int, int]] = []
        self._sigma = sigma

    def length(self, problem_id: str, sample: int) -> int:
        return int(Random(derive_seed(problem_id, sample)).lognormvariate(4.0, self._sigma)) + 1

    def prompts(self, problems):
        return [(1, 2)] * len(problems)

    def divided(self, items, samples):
        return [list(items)]

    def completions(self, batches, asked):
        for batch in batches:
            sampling, requests = asked(batch)
            for request in requests:
                done = len(request.prompt_ids) - 2
                self.asked.append((*request.key, done, sampling.max_tokens))
                left = self.length(*request.key) - done
                ids = [7] * min(left, sampling.max_tokens)
                yield completed(
                    Request(request.key, 0), self.tokenizer, ids, [-1.0] * len(ids), left <= sampling.max_tokens
                )

    def judged(self, responses):
        for problem, completion in responses:
            truncated = completion.finish_reason == "length"
            tokens = np.array(completion.token_ids, np.int32), np.array(completion.logprobs, np.float32)
            outcome = Outcome.FAILED if truncated or completion.key[1] % 2 else Outcome.PASSED
            prompt = np.array((1, 2), np.int32)
            yield Rollout(problem.problem_id, "math", completion.key[1], prompt, *tokens, truncated, outcome, 0.0, "")

    def report(self):
        return {}


def world(
    staleness: int, places: int = 8, problems: int = 100, steps: int = 300, sigma: float = 1.2, beside: bool = True,
    **settings,
):  # fmt: skip
    asked = stage(
        max_response_tokens=LONGEST, steps=steps, prompts_per_batch=places, rollouts=4, importance_cap=2.0,
        max_staleness=staleness, **settings,
    )  # fmt: skip
    curriculum = Curriculum(asked, 0, {"math": sums(problems)}, lambda problem: True)
    curriculum.start()
    worker = Lengths(sigma)
    engine = Transformers(kind="transformers", beside=beside)
    return curriculum, AsyncSampler(asked, 0, curriculum, worker, engine, max_infra_errors=0.05), worker


def run(curriculum, batches, steps):
    """[(batch, what was learned, metrics)]"""
    history = []
    for _ in range(steps):
        if curriculum.finished:
            break
        batch = curriculum.draw()
        collected = batches.collect(batch)
        history.append((batch, collected, batches.report(collected)))
        curriculum.advance()
    batches.settle()
    return history


@pytest.mark.parametrize("staleness", [1, 2, 3, 5])
@pytest.mark.parametrize("beside", [True, False])
def test_each_prompt_is_learned_once_an_epoch_and_no_token_is_too_stale(alone, staleness, beside):
    curriculum, batches, worker = world(staleness, steps=100, beside=beside)
    of_epoch, ages = defaultdict(Counter), []
    for batch, collected, _ in run(curriculum, batches, 1000):
        of_epoch[batch.epoch].update(g.problem_id for g in collected.groups)
        assert len(collected.groups) == 8
        for r in (r for g in collected.groups for r in g.rollouts):
            assert len(r.response) == min(LONGEST, worker.length(r.problem_id, r.sample)) == sum(n for _, n in r.spans)
            assert list(r.spans) == sorted(r.spans) and len(r.spans) <= staleness + (not beside)
            ages += [batch.step - step for step, _ in r.spans]
    assert curriculum.state.step == 100 and not curriculum.state.waiting and not batches.in_flight
    assert all(set(counts.values()) == {1} and len(counts) == 96 for counts in list(of_epoch.values())[:-1])
    assert max(ages) == staleness and min(ages[32:]) == (1 if beside and staleness == 1 else 0)


@pytest.mark.parametrize(("staleness", "beside"), [(3, True), (2, False)])
def test_what_is_asked_is_counted_in_tokens_and_each_token_is_sampled_once(alone, staleness, beside):
    curriculum, batches, worker = world(staleness, steps=40, beside=beside)
    learned = sum(len(r.response) for _, c, _ in run(curriculum, batches, 99) for g in c.groups for r in g.rollouts)
    assert {limit for *_, done, limit in worker.asked} == {334, 332} and 3 * chunk(LONGEST, 3) > LONGEST
    assert all(done % 334 == 0 for *_, done, _ in worker.asked)
    of_response = Counter((name, sample, done) for name, sample, done, _ in worker.asked)
    epochs = curriculum.epoch + 1
    assert max(of_response.values()) <= epochs
    sampled = sum(min(limit, worker.length(name, sample) - done) for name, sample, done, limit in worker.asked)
    assert sampled == learned


def test_staleness_is_what_the_lengths_ask_for_and_the_limit_holds_when_they_grow(alone):
    """Little's law: with short responses prompts are in flight for one update, with long ones for as many as allowed;
    and where lengths surprise, the round goes on instead of a token becoming too stale."""
    mean, extended = {}, {}
    for sigma in (0.3, 1.2, 3.0):
        curriculum, batches, _ = world(4, problems=4000, places=16, steps=120, sigma=sigma)
        lines = [metrics for _, _, metrics in run(curriculum, batches, 120)][60:100]
        mean[sigma] = np.mean([line["staleness"] for line in lines])
        extended[sigma] = np.mean([line["rounds_extended"] for line in lines])
        assert max(line["staleness_max"] for line in lines) <= 4
        assert max(line["complete_prompts"] + line["unfinished_prompts"] for line in lines) <= 4 * 16
    assert 1 <= mean[0.3] < 1.5 < mean[1.2] < mean[3.0] <= 4 and max(extended.values()) < 0.2


@pytest.mark.parametrize("staleness", [1, 3])
@pytest.mark.parametrize("beside", [True, False])
def test_it_continues_after_any_step_as_if_nothing_had_happened(alone, staleness, beside):
    curriculum, batches, worker = world(staleness, beside=beside)
    whole = run(curriculum, batches, 30)
    for stop in range(1, 30, 4):
        first, of_first, before = world(staleness, beside=beside)
        run(first, of_first, stop)
        second, of_second, after = world(staleness, beside=beside)
        state = json.loads(json.dumps([first.state_dict(), of_first.state_dict()]))
        second.load_state_dict(state[0])
        of_second.load_state_dict(state[1])
        rest = run(second, of_second, 30 - stop)
        assert before.asked + after.asked == worker.asked
        assert second.state_dict() == curriculum.state_dict() and of_second.state_dict() == batches.state_dict()
        for (_, was, _), (_, now, _) in zip(whole[stop:], rest, strict=True):
            for one, other in zip(was.groups, now.groups, strict=True):
                assert one.advantages == other.advantages
                for r, same in zip(one.rollouts, other.rollouts, strict=True):
                    assert r.spans == same.spans and np.array_equal(r.response, same.response)
                    assert r.logprobs.tobytes() == same.logprobs.tobytes()


def test_easy_prompts_are_dropped_when_the_last_of_their_epoch_was_learned_from(alone):
    """As without staleness: the next epoch begins without them, beside the last update of the one before."""
    curriculum, batches, worker = world(2, difficulty_filter={"easy": 1.0}, sigma=0.1)
    easy = {f"sum-{i:02d}" for i in range(0, 100, 3)}
    judged = worker.judged

    def all_pass_where_easy(responses):
        for r in judged(responses):
            yield replace(r, outcome=Outcome.PASSED) if r.problem_id in easy else r

    worker.judged = all_pass_where_easy
    history = run(curriculum, batches, 13)
    second = {g.problem_id for batch, c, _ in history if batch.epoch == 1 for g in c.groups}
    dropped = {decision["problem_id"] for decision in curriculum.decisions if decision["rule"] == "easy_in_epoch"}
    assert len(history) == 13 and second and not second & dropped and dropped <= easy and len(dropped) > 30
    assert history[12][0].epoch == 1 and history[12][2]["staleness"] > 0


def in_flight(begun: int, ended: bool) -> InFlight:
    nothing = np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.float32)
    return InFlight(sums(1)[0], begun, 10, (Rollout("p", "math", 0, *nothing, not ended, Outcome.FAILED, 0.0, ""),))


def test_a_batch_may_leave_its_order_only_if_nothing_becomes_too_stale():
    old, young, ended = in_flight(0, False), in_flight(1, True), in_flight(0, True)
    assert due([old, young], 1, 3, step=1) == [young]  # the old one is in time at step 2 or 3
    assert due([old, young], 1, 2, step=2) is None  # it would be learned at step 3
    assert due([old, old, young], 1, 3, step=1) == [young] and due([old, old, young], 1, 3, step=2) is None
    assert due([ended, young], 1, 2, step=2) == [ended] and due([old], 1, 2, step=0) is None


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"importance_cap": None}, "stale tokens need importance weights"),
        ({"dynamic_sampling_rounds": 2}, "dynamic sampling replaces groups"),
        ({"tail_batching": 0.25}, "tail batching lets long groups wait"),
        ({"mix": {"math": 1, "code": 1}}, "of one domain"),
        ({"max_staleness": 17}, "cannot span 17 rounds"),
    ],
)
def test_what_excludes_it_is_refused_with_the_reason(settings, why):
    with pytest.raises(ValueError, match=why):
        stage(**{"max_staleness": 2, "importance_cap": 2.0} | settings)


@pytest.mark.parametrize(("engine", "rounds"), [("transformers", 2), ("vllm-server", 2), ("vllm", 3)])
def test_a_response_has_a_round_more_in_the_trainer(engine, rounds):
    from ratchet.infra.recipe.training import Training

    asked = Training(stages=(stage(max_staleness=2, importance_cap=2.0),), engine={"kind": engine})
    assert asked.engine.rounds(2) == rounds and asked.engine.rounds(0) == 1


def test_stale_tokens_are_learned_from_with_truncated_weights_only_where_allowed(alone, micro_model):
    strict, stale = (learner(micro_model, importance_cap=1.1, max_staleness=k)[1] for k in (0, 1))
    batch = groups(0, version=7)
    with pytest.raises(RatchetError, match="strictly on-policy"):
        strict.learn(batch, 1.0)
    metrics = stale.learn(batch, 1.0)
    assert 0 < metrics["importance_clipped"] < 1 and metrics["importance_weight"] <= 1.1 and metrics["grad_norm"] > 0


# ------------------------------------------------------------------------------------------------ real processes


def recipe(staleness: int, **hardware) -> dict:
    asked = RECIPE.model_dump(mode="json")
    asked["training"]["hardware"] |= {"processes": 1} | hardware
    only = asked["training"]["stages"][0]
    only |= {"mix": {"math": 1.0}, "max_response_tokens": 8, "rollouts": 4, "steps": 24, "importance_cap": 2.0}
    only["advanced"] |= {"max_staleness": staleness, "mismatch_limit": None}
    return {"recipe": asked}


def assert_same(straight: Path, other: Path, model: Path, steps: int) -> list[dict]:
    """The metrics of each step of both."""
    assert weights(straight) == weights(other) != (model / "model.safetensors").read_bytes()
    lines, same = ([timeless_part(line) for line in metrics(work)] for work in (straight, other))
    assert lines == same and [line["step"] for line in lines] == list(range(1, steps + 1))
    assert lines[0]["staleness"] == 0 and lines[0]["mismatch_largest"] < 1e-4  # exact before the first update
    assert max(line.get("weight_probe", 0.0) for line in lines) < 1e-4
    assert rollouts(straight) == rollouts(other)
    for name in ("decisions", "samples"):
        assert len({(work / "work" / f"{name}.jsonl").read_text() for work in (straight, other)}) == 1
    return lines


def killed_once(work: Path, model: Path, asked: dict) -> list[dict]:
    """The metrics of a stage that was killed, after it has ended like one that was not."""
    straight, killed = work / "straight", work / "killed"
    finish(straight, model, **asked)
    kill_when(lambda: done(killed) >= 7, killed, model, **asked)
    finish(killed, model, **asked)
    return assert_same(straight, killed, model, 24)


@pytest.mark.slow
def test_a_stage_killed_in_any_phase_ends_bit_for_bit_where_the_other_does(learnt_model, tmp_path):
    asked, straight, killed = recipe(2), tmp_path / "straight", tmp_path / "killed"
    finish(straight, learnt_model, **asked)
    files = killed / "work" / "checkpoints"
    phases = {
        "learning and sampling": lambda: done(killed) >= 3,
        "weights are handed over": lambda: done(killed) >= 7 and any(files.glob("weights-*")),
        "saving": lambda: done(killed) >= 11 and any(files.glob(".draft-*")),
    }
    for seen in phases.values():
        kill_when(seen, killed, learnt_model, **asked)
    launcher = start(killed, learnt_model, **asked)  # the sampling process alone
    assert happens(lambda: done(killed) >= 15)
    os.kill(sampling(killed)[0], signal.SIGKILL)
    assert launcher.wait() != 0 and "sampling process has ended" in (killed / "log").read_text()
    finish(killed, learnt_model, **asked)
    lines = assert_same(straight, killed, learnt_model, 24)
    assert max(line["staleness_max"] for line in lines) == 2 and all(line["older_tokens"] for line in lines[1:])
    assert max(line["several_versions"] for line in lines) > 0.5 and lines[-1]["unfinished_prompts"] == 0
    assert any(line["grad_norm"] > 0 and line["importance_weight"] != 1 for line in lines)
    read = [json.loads(line) for line in (straight / "work" / "samples.jsonl").read_text().splitlines()]
    assert all(sum(tokens for _, tokens in row["versions"]) == row["tokens"] for row in read)
    assert not [*(straight / "tmp").iterdir()]


@pytest.mark.slow
@pytest.mark.parametrize("beside", [True, False])
def test_two_ranks_with_half_of_the_weights_each_end_bit_for_bit_where_they_would_have(learnt_model, tmp_path, beside):
    """Without a process that samples beside the trainer, responses span updates too."""
    asked = recipe(1, processes=2, zero_stage=3)
    asked["recipe"]["training"]["engine"] = {"kind": "transformers", "beside": beside}
    lines = killed_once(tmp_path, learnt_model, asked)
    if beside:
        assert {line["staleness"] for line in lines[1:]} == {1.0}
    else:
        assert max(line["staleness_max"] for line in lines) == 1 and min(line["older_tokens"] for line in lines[1:]) < 1
        assert max(line["several_versions"] for line in lines) > 0.5 and lines[-1]["unfinished_prompts"] == 0
