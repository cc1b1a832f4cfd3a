"""Dynamic sampling, with a policy whose answers are written down."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from ratchet.infra.recipe.training import Hardware
from ratchet.training.curriculum import Curriculum
from ratchet.training.groups import group
from ratchet.training.metrics import describe, samples_to_read
from ratchet.training.on_policy import OnPolicySampler
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import Problem
from tests.training.batch import FAILED, INFRA, PASSED, gradient, largest_difference, learner, rollout, stage
from tests.training.conftest import sums


class Written:
    """Rollouts of a problem: half right where it is `useful`, else all right. With `separate_devices` those of the
    last problem come first."""

    def __init__(self, useful, separate_devices: bool = False) -> None:
        self.useful, self.asked, self.expected = useful, [], {}
        self.sampler = SimpleNamespace(separate_devices=separate_devices)

    def run(self, problems, count, sampling, seed_parts, expected, finished=None, drawn=None):
        self.asked.append(([p.problem_id for p in problems], seed_parts))
        self.expected |= expected
        rollouts = self.written(problems, count)
        for i in reversed(range(0, len(rollouts), count)) if finished else ():
            finished(rollouts[i : i + count])
        return rollouts

    def written(self, problems, count):
        return [
            replace(
                rollout(int(p.problem_id[-2:]), s, PASSED if s % 2 or not self.useful(p.problem_id) else FAILED),
                problem_id=p.problem_id,
                domain=p.domain,
            )
            for p in problems
            for s in range(count)
        ]


def puzzles(count: int) -> list[Problem]:
    return [replace(problem, problem_id=f"code-{i:02d}", domain="code") for i, problem in enumerate(sums(count))]


def batches(
    useful, learns=None, math: int = 40, separate_devices=False, **settings
) -> tuple[OnPolicySampler, Curriculum, Written]:
    asked = stage(**{"prompts_per_batch": 4, "rollouts": 2, "dynamic_sampling_rounds": 3, **settings})
    curriculum = Curriculum(asked, 0, {"math": sums(math), "code": puzzles(40)}, lambda problem: True)
    curriculum.start()
    worker = Written(useful, separate_devices)
    return OnPolicySampler(asked, 0, curriculum, worker, learns, max_infra_errors=0.05), curriculum, worker


def learnt_ids(collected) -> list[str]:
    return [g.problem_id for g in collected.groups]


def test_without_dynamic_sampling_every_group_is_in_the_batch():
    sampler, curriculum, worker = batches(lambda i: False, dynamic_sampling_rounds=0)
    collected = sampler.collect(curriculum.draw())
    assert len(collected.groups) == len(collected.sampled) == 4 and len(worker.asked) == 1


def test_no_step_samples_with_the_seeds_of_another():
    sampler, curriculum, worker = batches(lambda i: True, dynamic_sampling_rounds=0)
    for step in range(3):
        sampler.collect(replace(curriculum.draw(), step=step))
    assert len({seeds for _, seeds in worker.asked}) == 3


def test_groups_that_teach_nothing_are_replaced_in_bounded_rounds():
    odd = lambda i: int(i[-2:]) % 2 == 1  # noqa: E731
    sampler, curriculum, worker = batches(odd)
    collected = sampler.collect(curriculum.draw())
    assert all(map(odd, learnt_ids(collected))) and len(collected.groups) >= 4
    assert 2 <= collected.rounds <= 4
    drawn = [i for ids, _ in worker.asked for i in ids]
    assert len(drawn) == len(set(drawn)) == len(collected.sampled)
    assert len({seeds for _, seeds in worker.asked}) == len(worker.asked)  # no round repeats another's samples


def test_groups_are_replaced_by_prompts_of_their_own_domain():
    useful = lambda i: i.startswith("sum") or i in ("code-03", "code-17")  # noqa: E731
    sampler, curriculum, worker = batches(useful, prompts_per_batch=8, mix={"math": 0.75, "code": 0.25})
    collected = sampler.collect(curriculum.draw())
    first, *more = [[i.split("-")[0] for i in ids] for ids, _ in worker.asked]
    assert first == ["sum"] * 6 + ["code"] * 2
    assert more == [["code"] * 2] * 3  # never more of a domain than a batch has
    drawn = [i for ids, _ in worker.asked for i in ids] + [p.problem_id for p in curriculum.draw_more({"code": 100})]
    assert len(set(drawn)) == len(drawn) == 8 + 4 * 2, "each round goes on where the one before ended"
    code = [i for i in learnt_ids(collected) if i.startswith("code")]
    assert collected.missing == Counter({"code": 2 - len(code)}) and len(learnt_ids(collected)) == 6 + len(code)


def test_the_surplus_of_a_domain_waits_for_its_own_places(alone, micro_model):
    mix = {"math": 0.5, "code": 0.5}
    _, learns = learner(micro_model, updates_per_batch=2, mix=mix)
    few = lambda i: int(i[-2:]) % 3 == 0 or i.startswith("code")  # noqa: E731
    sampler, curriculum, worker = batches(few, learns, prompts_per_batch=8, updates_per_batch=2, mix=mix)
    waited = 0
    for _ in range(6):
        waiting = [g.problem_id for g in sampler.surplus]
        asked = len(worker.asked)
        collected = sampler.collect(curriculum.draw())
        domains = Counter(g.domain for g in collected.groups)
        assert domains + collected.missing == Counter(math=4, code=4)
        assert set(waiting) <= set(learnt_ids(collected)) | {g.problem_id for g in sampler.surplus}
        assert {i.split("-")[0] for i in worker.asked[asked][0]} == {"sum", "code"}
        waited += len(waiting)
        curriculum.advance()
    assert waited and {g.domain for g in sampler.surplus} <= {"math"}  # every code group was learned from at once


def prompts_of_steps(interrupted: bool) -> list[list[str]]:
    """What each of twenty steps samples of ten prompts; `interrupted` after every step or never."""
    sampler, curriculum, worker = batches(lambda i: int(i[-2:]) % 4 == 0, math=10)
    steps = []
    for _ in range(20):
        if interrupted:
            state = json.loads(json.dumps(curriculum.state_dict()))
            sampler, curriculum, worker = batches(worker.useful, math=10)
            curriculum.load_state_dict(state)
        asked = len(worker.asked)
        sampler.collect(curriculum.draw())
        curriculum.advance()
        steps.append([i for ids, _ in worker.asked[asked:] for i in ids])
    return steps


def test_no_step_samples_a_prompt_twice_although_epochs_end_within_steps():
    steps = prompts_of_steps(interrupted=False)
    assert all(len(step) == len(set(step)) for step in steps) and max(map(len, steps)) == 10
    counts = Counter(i for step in steps for i in step)
    assert len(counts) == 10 and max(counts.values()) - min(counts.values()) <= 4
    assert prompts_of_steps(interrupted=True) == steps


def test_when_nothing_teaches_the_rounds_end():
    sampler, curriculum, worker = batches(lambda i: False)
    collected = sampler.collect(curriculum.draw())
    assert collected.groups == [] and collected.rounds == len(worker.asked) == 4


def test_a_strictly_on_policy_step_learns_from_its_surplus_at_once():
    few = {f"sum-{i:02d}" for i in range(0, 40, 3)}
    sampler, curriculum, _ = batches(lambda i: i in few)
    sizes = []
    for _ in range(5):
        sizes.append(len(sampler.collect(curriculum.draw()).groups))
        assert not sampler.surplus
        curriculum.advance()
    assert max(sizes) > 4


def test_with_several_updates_the_surplus_waits_for_the_next_step_and_survives_a_checkpoint(alone, micro_model):
    _, learns = learner(micro_model, updates_per_batch=2)
    few = {f"sum-{i:02d}" for i in range(0, 40, 3)}
    sampler, curriculum, _ = batches(lambda i: i in few, learns, updates_per_batch=2)
    carried, waited = [], 0
    for _ in range(6):
        collected = sampler.collect(curriculum.draw())
        assert len(collected.groups) <= 4
        assert learnt_ids(collected)[: len(carried)] == carried  # what waited comes first
        assert all(g.old_logprobs is not None for g in collected.groups[: len(carried)])
        waited += len(carried)
        carried = [g.problem_id for g in sampler.surplus]
        state = json.dumps(sampler.state_dict())
        sampler.load_state_dict(json.loads(state))
        assert json.dumps(sampler.state_dict()) == state
        curriculum.advance()
    assert waited


def test_too_many_infra_errors_stop_the_run():
    sampler, curriculum, worker = batches(lambda i: True)
    whole = worker.run
    worker.run = lambda *arguments: [replace(r, outcome=INFRA, detail="gone") for r in whole(*arguments)]
    with pytest.raises(RatchetError, match="gone"):
        sampler.collect(curriculum.draw())


def test_a_batch_in_numbers_and_in_words(policy):
    sampler, curriculum, _ = batches(lambda i: int(i[-2:]) % 2 == 1, dynamic_sampling_rounds=0, rollouts=4)
    groups = sampler.collect(curriculum.draw()).sampled
    facts = describe(groups, stage())
    useful = sum(not g.advantages.zero_variance for g in groups) / 4
    assert facts["all_passed_groups"] == facts["zero_variance_groups"] == 1 - useful
    assert facts["pass_rate"] == facts["outcome_passed"] == 1 - useful / 2
    assert facts["response_tokens_p10"] <= facts["response_tokens_p50"] <= facts["response_tokens_p99"]
    rows = {row["shown"]: row for row in samples_to_read(groups, 7, policy.tokenizer)}
    assert rows.keys() == {"best", "worst"}
    assert (rows["best"]["reward"], rows["worst"]["reward"]) == (1.0, 0.0)
    assert {row["domain"] for row in rows.values()} == {"math"} and not [name for name in facts if "/" in name]
    assert rows["worst"]["advantage"] < 0 and rows["worst"]["response"] and rows["worst"]["step"] == 7


def test_a_mixed_batch_is_told_of_by_domain(policy):
    asked = stage(mix={"math": 0.5, "code": 0.5})
    groups = group(
        [rollout(0, s, FAILED, truncated=s == 0, domain="code") for s in range(4)]
        + [rollout(1, s, INFRA if s == 3 else PASSED) for s in range(4)],
        asked,
    )
    facts = describe(groups, asked)
    assert (facts["code/pass_rate"], facts["math/pass_rate"], facts["pass_rate"]) == (0.0, 1.0, 3 / 7)
    assert (facts["code/reward"], facts["math/reward"], facts["reward"]) == (0.0, 1.0, 3 / 7)
    assert (facts["code/truncated"], facts["math/truncated"], facts["truncated"]) == (0.25, 0.0, 0.125)
    assert (facts["code/infra_errors"], facts["math/infra_errors"], facts["infra_errors"]) == (0.0, 1.0, 1.0)
    lengths = {g.domain: sum(len(r.response) for r in g.rollouts) for g in groups}
    assert facts["code/response_tokens"] == lengths["code"] / 4
    assert facts["response_tokens"] == sum(lengths.values()) / 8
    shown = [(row["domain"], row["shown"]) for row in samples_to_read(groups, 7, policy.tokenizer)]
    assert shown == [*(("code", kind) for kind in ("best", "worst", "truncated")), ("math", "best"), ("math", "worst")]


def test_an_advantage_over_the_batch_is_over_what_is_learnt_from_however_many_rounds_it_took():
    sampler, curriculum, _ = batches(lambda i: int(i[-2:]) % 2 == 1, advantage="reinforce_pp")
    collected = sampler.collect(curriculum.draw())
    assert collected.rounds > 1
    both = [
        (a, len(r.response)) for g in collected.groups for a, r in zip(g.advantages.values, g.rollouts, strict=True)
    ]
    tokens = np.repeat([a for a, _ in both], [n for _, n in both])
    assert tokens.mean() == pytest.approx(0, abs=1e-9) and tokens.std() == pytest.approx(1)


@pytest.mark.parametrize("settings", [{}, {"kl_coefficient": 0.1, "dynamic_sampling_rounds": 0}], ids=str)
def test_what_is_learnt_while_others_are_sampled_is_the_batch(alone, micro_model, settings):
    """In several rounds too, where groups that teach nothing are replaced."""
    found = []
    for separate_devices in (False, True):
        policy, learns = learner(micro_model, Hardware(micro_batch_tokens=40), **settings)
        sampler, curriculum, worker = batches(
            lambda i: i[-1] in "1379", learns, separate_devices=separate_devices, **settings
        )
        before = [weight.detach().clone() for weight in policy.model.parameters()]
        collected = sampler.collect(curriculum.draw())
        assert all(map(torch.equal, before, policy.model.parameters()))
        found.append((learns.learn(collected.groups, 1.0), gradient(policy), len(worker.asked)))
    (_, at_once, rounds), (metrics, early, _) = found
    assert largest_difference(at_once, early) < 2e-5 and 0 < metrics["learned_early"] <= 1
    assert (rounds > 1) == ("dynamic_sampling_rounds" not in settings)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"updates_per_batch": 2, "dynamic_sampling_rounds": 0}, "updates_per_batch is 2"),
        (
            {"advantage": "reinforce_pp", "dynamic_sampling_rounds": 0},
            "advantage reinforce_pp may depend on all groups",
        ),
    ],
)
def test_what_needs_the_whole_batch_waits_for_it_and_says_so(alone, micro_model, settings, reason, capsys):
    _, learns = learner(micro_model, **settings)
    sampler, curriculum, _ = batches(lambda i: True, learns, separate_devices=True, **settings)
    assert f"stage s: learns only when the whole batch is sampled: {reason}" in capsys.readouterr().err
    metrics = learns.learn(sampler.collect(curriculum.draw()).groups, 1.0)
    assert "learned_early" not in metrics and metrics["grad_norm"] > 0


def test_a_problem_is_expected_to_take_what_it_took_and_before_that_what_the_teacher_took():
    sampler, curriculum, _ = batches(lambda i: True, dynamic_sampling_rounds=0)
    taught = dict(zip(curriculum._problems, (10.0, 20.0), strict=False))
    for problem_id, tokens in taught.items():
        curriculum._problems[problem_id] = replace(curriculum._problems[problem_id], teacher_tokens=tokens)
    assert set(curriculum.expected_tokens(curriculum.candidates()).values()) == {10.0, 15.0, 20.0}
    drawn = sampler.collect(curriculum.draw()).sampled
    taken = {g.problem_id: round(np.mean([len(r.response) for r in g.rollouts]), 1) for g in drawn}
    _, resumed, _ = batches(lambda i: True)
    resumed.load_state_dict(json.loads(json.dumps(curriculum.state_dict())))
    for each in (curriculum, resumed):
        assert taken.items() <= each.expected_tokens(each.candidates()).items()
