import json
from dataclasses import replace
from random import Random

import pytest

from ratchet.infra.recipe.training import Stage
from ratchet.training.curriculum import Curriculum, allot
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import Problem
from tests.training.conftest import sums


def stage(**settings) -> Stage:
    defaults = {"name": "s", "max_response_tokens": 16, "steps": 20, "prompts_per_batch": 4}
    mix = {} if "mix" in settings else {"domain": "math"}
    return Stage(**{**defaults, **mix, **settings})


def others(count: int, domain: str = "code") -> list[Problem]:
    """Problems of another domain; the teacher was not asked about them."""
    return [
        replace(problem, problem_id=f"{domain}-{i:02d}", domain=domain, difficulty=None)
        for i, problem in enumerate(sums(count))
    ]


def curriculum(
    stage: Stage, math: int = 12, code: int = 6, logic: int = 8, seed: int = 0, fits=lambda problem: True
) -> Curriculum:
    made = Curriculum(stage, seed, {"math": sums(math), "code": others(code), "logic": others(logic, "logic")}, fits)
    made.start()
    return made


def ids(batch) -> list[str]:
    return [problem.problem_id for problem in batch.problems]


def walk(c: Curriculum, steps: int, passed=lambda problem_id: False) -> list[list[str]]:
    drawn = []
    for _ in range(steps):
        drawn.append(ids(c.draw()))
        c.record({problem_id: passed(problem_id) for problem_id in drawn[-1]})
        c.advance()
    return drawn


def test_an_epoch_sees_every_prompt_once_and_the_next_has_another_order():
    drawn = walk(curriculum(stage()), 6)
    first, second = ([i for batch in drawn[start : start + 3] for i in batch] for start in (0, 3))
    assert sorted(first) == sorted(second) == [problem.problem_id for problem in sums(12)]
    assert first != second


@pytest.mark.parametrize(
    "difficulty_filter", [{"easy": 1.0}, {"easy": 0.8, "hard": 0.1, "memory": 0.3, "skip_epochs": 1}], ids=str
)
def test_a_resumed_curriculum_draws_what_the_interrupted_one_would_have(difficulty_filter):
    mix = {"math": 0.5, "code": 0.25, "logic": 0.25}
    settings = stage(steps=60, mix=mix, advanced={"difficulty_filter": difficulty_filter})

    def go_on(c: Curriculum, steps: int) -> list[list[str]]:
        drawn = []
        for _ in range(steps):
            batch = c.draw()
            drawn.append(ids(batch))
            c.record({i: Random(f"{i} {batch.step}").choice([0.0, 0.5, 1.0]) for i in ids(batch)})
            c.advance()
        return drawn

    whole = curriculum(settings)
    drawn = go_on(whole, 24)
    assert whole.decisions and any(stream.skipped for stream in whole.state.streams.values())
    for stop in range(1, 24, 2):
        first = curriculum(settings)
        go_on(first, stop)
        pools = {"logic": others(8, "logic")[::-1], "code": others(6)[::-1], "math": sums(12)[::-1]}
        second = Curriculum(settings, 0, pools, lambda problem: True)
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert go_on(second, 24 - stop) == drawn[stop:]
        assert second.state_dict() == whole.state_dict()


def test_what_does_not_fill_a_batch_waits_for_the_next_epoch():
    c = curriculum(stage(), math=10)
    walk(c, 2)
    assert c.epoch == 1


def test_easy_prompts_leave_after_the_epoch_with_a_decision():
    c = curriculum(stage(advanced={"difficulty_filter": {"easy": 1.0}}))
    walk(c, 3, passed=lambda problem_id: problem_id in ("sum-03", "sum-07"))
    assert {d["problem_id"] for d in c.decisions} == {"sum-03", "sum-07"}
    assert {(d["rule"], d["step"]) for d in c.decisions} == {("easy_in_epoch", 3)}
    assert not {"sum-03", "sum-07"} & {problem_id for batch in walk(c, 4) for problem_id in batch}


def test_without_a_filter_pass_rates_are_not_kept():
    c = curriculum(stage())
    walk(c, 3, passed=lambda problem_id: True)
    assert c.state.streams["math"].rates == {} and c.active == {"math": 12}


def walk_epochs(c: Curriculum, epochs: int, rate) -> list[set[str]]:
    """The prompts of each epoch; `rate(problem_id, epoch)` is what is measured, None where a verdict is missing."""
    drawn: list[set[str]] = [set() for _ in range(epochs)]
    while c.epoch < epochs and not c.finished:
        batch = c.draw()
        drawn[batch.epoch] |= set(ids(batch))
        c.record({i: rate(i, batch.epoch) for i in ids(batch)})
        c.advance()
    return drawn


def test_easy_and_hard_prompts_are_skipped_for_some_epochs_and_tried_again():
    filtered = {"easy": 0.9, "hard": 0.0, "skip_epochs": 2}
    settings = stage(steps=200, prompts_per_batch=1, advanced={"difficulty_filter": filtered})
    solved, unsolved, unjudged = {"sum-00", "sum-01"}, {"sum-02"}, {"sum-03"}

    def rate(problem_id: str, epoch: int) -> float | None:
        known = {**dict.fromkeys(solved, 1.0), **dict.fromkeys(unsolved, 0.0 if epoch == 0 else 0.5)}
        return None if problem_id in unjudged else known.get(problem_id, 0.5)

    c = curriculum(settings)
    everyone = {p.problem_id for p in sums(12)}
    drawn = walk_epochs(c, 7, rate)
    without = everyone - solved - unsolved
    assert drawn == [everyone, without, without, everyone, everyone - solved, everyone - solved, everyone]
    rules = {(d["problem_id"], d["rule"]) for d in c.decisions}
    assert rules == {*((i, "easy_in_epoch") for i in solved), *((i, "hard_in_epoch") for i in unsolved)}
    assert c.decisions[0]["evidence"] == {"epoch": 0, "pass_rate": 1.0, "until_epoch": 3}


def test_a_prompt_that_was_let_back_in_is_tried_before_it_is_skipped_again():
    """Also if the epoch ended without it, because the rest did not fill a batch."""
    c = curriculum(stage(steps=60, advanced={"difficulty_filter": {"easy": 1.0, "skip_epochs": 1}}), math=10)
    drawn = walk_epochs(c, 20, lambda problem_id, epoch: 1.0 if problem_id < "sum-04" else 0.5)
    assert len(c.decisions) > 10
    assert all(d["problem_id"] in drawn[d["evidence"]["epoch"]] for d in c.decisions)


def test_the_pass_rate_of_a_filter_moves_with_its_memory():
    settings = stage(steps=200, prompts_per_batch=1, advanced={"difficulty_filter": {"easy": 0.9, "memory": 0.5}})
    c = curriculum(settings)
    drawn = walk_epochs(c, 6, lambda problem_id, epoch: float(epoch > 0) if problem_id == "sum-05" else 0.5)
    assert [("sum-05" in epoch) for epoch in drawn] == [True, True, True, True, True, False]  # 0, .5, .75, .875, .9375
    assert c.decisions[-1]["evidence"]["pass_rate"] == 0.9375


def test_where_all_prompts_are_skipped_the_next_ones_come_back_at_once():
    c = curriculum(stage(steps=100, advanced={"difficulty_filter": {"skip_epochs": 3}}))
    drawn = walk_epochs(c, 4, lambda problem_id, epoch: 1.0)
    assert not c.finished and all(len(epoch) == 12 for epoch in drawn)


def test_the_stage_ends_when_nothing_is_left_to_learn():
    c = curriculum(stage(advanced={"difficulty_filter": {"easy": 1.0}}))
    walk(c, 3, passed=lambda problem_id: True)
    assert c.finished and c.state.step == 3


def test_filters_hold_for_every_domain_of_the_mix_where_the_facts_exist_and_are_explained():
    settings = stage(max_difficulty=5, max_pass_rate=0.5, mix={"math": 0.5, "logic": 0.5})
    pools = {"math": sums(8), "logic": others(4, "logic"), "code": others(4)}
    c = Curriculum(settings, 0, pools, lambda problem: problem.problem_id != "sum-01")
    of_math, of_logic = {f"sum-0{i}" for i in (0, 2, 3, 4, 5)}, {f"logic-0{i}" for i in range(4)}
    assert {problem.problem_id for problem in c.candidates()} == of_math | of_logic
    c.start({p.problem_id: 0.75 if p.problem_id in ("sum-02", "logic-03") else 0.5 for p in c.candidates()})
    assert [(d["domain"], d["problem_id"], d["rule"], d["evidence"]) for d in c.decisions] == [
        ("math", "sum-01", "prompt_too_long", {"max_response_tokens": 16}),
        ("math", "sum-06", "max_difficulty", {"difficulty": 6, "max_difficulty": 5}),
        ("math", "sum-07", "max_difficulty", {"difficulty": 7, "max_difficulty": 5}),
        ("logic", "logic-03", "max_pass_rate", {"pass_rate": 0.75, "max_pass_rate": 0.5}),
        ("math", "sum-02", "max_pass_rate", {"pass_rate": 0.75, "max_pass_rate": 0.5}),
    ]
    assert c.active == {"logic": 3, "math": 4}  # code is not in the mix
    assert "sum-02" not in c.state.streams["math"].active


def test_a_filter_that_leaves_nothing_is_an_error_that_says_why():
    unmeasured = [replace(problem, difficulty=None) for problem in sums(3)]
    with pytest.raises(RatchetError, match="no math problem has a difficulty"):
        Curriculum(stage(max_difficulty=5), 0, {"math": unmeasured}, lambda problem: True)
    with pytest.raises(RatchetError, match=r"left to train on\. Dropped by the stage: prompt_too_long 3"):
        Curriculum(stage(), 0, {"math": sums(3)}, lambda problem: False)
    with pytest.raises(RatchetError, match=r"no code problem is left to train on\. None was given"):
        Curriculum(stage(mix={"math": 0.5, "code": 0.5}), 0, {"math": sums(3)}, lambda problem: True)
    pools = {"math": sums(3), "logic": others(4, "logic")}
    c = Curriculum(stage(max_pass_rate=0.5, mix={"math": 1, "logic": 1}), 0, pools, lambda problem: True)
    with pytest.raises(RatchetError, match=r"no logic problem is left to train on\. Dropped by the stage: max_pass"):
        c.start({problem.problem_id: float(problem.domain == "logic") for problem in c.candidates()})


def test_a_filter_that_leaves_less_than_a_batch_takes_is_an_error_before_anything_is_sampled():
    """Also for the mix of an intervention."""
    with pytest.raises(RatchetError, match=r"takes 4 prompts of math, and there are 3.*Dropped by the stage: max_diff"):
        curriculum(stage(max_difficulty=2), math=8)
    with pytest.raises(RatchetError, match="takes 2 prompts of code, and there are 1"):
        curriculum(stage(interventions=({"when": {"at_step": 2}, "do": {"mix": {"math": 1, "code": 1}}},)), code=1)


def test_batches_that_the_policys_own_pass_rates_leave_short_are_counted():
    c = Curriculum(stage(max_pass_rate=0.5), 0, {"math": sums(8)}, lambda problem: True)
    c.start({problem.problem_id: float(i > 2) for i, problem in enumerate(c.candidates())})
    assert len(c.draw().problems) == 3 and c.report(c.draw())["short_batch"] == 1
    c = curriculum(stage(advanced={"difficulty_filter": {"easy": 1.0}}), math=8)
    counts = []
    for _ in range(4):
        batch = c.draw()
        walk(c, 1, passed=lambda problem_id: problem_id not in ("sum-00", "sum-01"))
        counts.append((len(batch.problems), c.report(batch).get("short_batch")))
    assert counts == [(4, None), (4, 2), (2, 2), (2, 2)]  # known once the epoch has ended


def test_every_batch_has_its_share_of_each_domain_in_an_order_of_its_own():
    mixed = stage(prompts_per_batch=8, mix={"code": 0.25, "logic": 1, "math": 2.75})
    drawn = walk(curriculum(mixed, code=6), 12)
    for batch in drawn:
        assert [i.split("-")[0] for i in batch] == ["sum"] * 5 + ["logic"] * 2 + ["code"]
    assert len({batch[7] for batch in drawn[:6]}) == 6  # once through before any comes again
    assert len({i for batch in drawn[:4] for i in batch[5:7]}) == 8
    again = walk(curriculum(mixed, math=33, code=6), 12)
    assert [batch[5:] for batch in again] == [batch[5:] for batch in drawn]


TWO_DOMAINS = [
    ["sum-07", "sum-01", "sum-06", "code-02"],
    ["sum-05", "sum-09", "sum-02", "code-00"],
    ["sum-12", "sum-04", "sum-13", "code-01"],
    ["sum-10", "sum-08", "sum-00", "code-02"],
]
ONE_DOMAIN = [
    ["sum-06", "sum-05", "sum-03", "sum-01"],
    ["sum-00", "sum-07", "sum-04", "sum-02"],
    ["sum-03", "sum-04", "sum-07", "sum-05"],
]


def test_the_batches_of_a_domain_and_another_are_those_they_always_were():
    """Drawn ids of earlier versions, a function of seed and stage: a run that is repeated learns from the same."""
    c = curriculum(stage(mix={"math": 0.75, "code": 0.25}), math=14, code=3)
    assert ids(c.draw()) == ids(c.draw()) and walk(c, 4) == TWO_DOMAINS
    assert walk(curriculum(stage(name="t"), math=9, seed=2), 3) == ONE_DOMAIN


def test_schedules_follow_the_domain_with_the_largest_share():
    c = curriculum(stage(mix={"code": 0.25, "math": 0.75}, rollouts=(8, 16)), math=9, code=2)
    seen = []
    for _ in range(4):
        seen.append(c.draw().rollouts)
        walk(c, 1)
    assert seen == [8, 8, 8, 16]
    assert {domain: stream.epoch for domain, stream in c.state.streams.items()} == {"math": 1, "code": 2}


def test_the_stage_goes_on_while_one_domain_has_something_to_learn():
    c = curriculum(stage(mix={"math": 0.5, "code": 0.5}, advanced={"difficulty_filter": {"easy": 1.0}}), math=4, code=4)
    drawn = walk(c, 4, passed=lambda problem_id: problem_id.startswith("sum"))
    assert not c.finished and c.active == {"code": 4, "math": 0}
    assert [len(batch) for batch in drawn] == [4] * 4 and sorted(drawn[3]) == [f"code-0{i}" for i in range(4)]


@pytest.mark.parametrize(
    ("places", "shares", "counts"),
    [
        (16, {"code": 0.55, "math": 0.45}, [9, 7]),
        (16, {"math": 0.7, "code": 0.3}, [11, 5]),
        (8, {"a": 0.9, "b": 0.05, "c": 0.05}, [6, 1, 1]),
        (3, {"a": 98, "b": 1, "c": 1}, [1, 1, 1]),
        (10, {"a": 1, "b": 1, "c": 1}, [4, 3, 3]),
        (128, {"a": 1.0}, [128]),
        (5, {}, []),
    ],
)
def test_places_by_largest_remainder(places, shares, counts):
    assert list(allot(places, shares).values()) == counts


def test_schedules_go_by_epoch_and_the_last_value_holds_on():
    c = curriculum(stage(rollouts=(8, 16), temperature=(0.6, 0.8, 1.0)))
    seen = []
    for _ in range(4):
        batch = c.draw()
        seen.append((batch.rollouts, batch.temperature))
        walk(c, 3)
    assert seen == [(8, 0.6), (16, 0.8), (16, 1.0), (16, 1.0)]


def test_without_a_plateau_rule_all_steps_run_and_nothing_is_validated():
    c = curriculum(stage(steps=3))
    for _ in range(3):
        assert not c.finished
        walk(c, 1)
        assert not c.validation_due
    assert c.finished


def test_held_out_prompts_that_do_not_fit_are_set_aside_and_counted():
    def fits(problem: Problem) -> bool:
        return problem.problem_id not in ("sum-01", "sum-02")

    c = Curriculum(stage(), 0, {"math": sums(8)}, fits)
    assert [p.problem_id for p in c.held_out("bench", sums(4), fits)] == ["sum-00", "sum-03"]
    aside = [d for d in c.decisions if d["rule"] == "validation_prompt_too_long"]
    assert [d["problem_id"] for d in aside] == ["sum-01", "sum-02"]
    with pytest.raises(RatchetError, match="no problem of bench fits"):
        c.held_out("bench", sums(3)[1:], fits)
