"""What a stage does to itself on the way: each trigger, each change, and the same ones after a resume."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from ratchet.data_curation.base.problem_table import to_table
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.recipe.training import Stage
from ratchet.training.curriculum import Curriculum
from ratchet.training.interventions import AppliedIntervention, Interventions
from ratchet.training.learner import Learner
from ratchet.training.specification import TrainingSpec
from tests.training.batch import largest_difference, weights
from tests.training.conftest import sums
from tests.training.processes import timeless_part
from tests.training.test_curriculum import curriculum, ids, stage, walk

RESET_ON_PLATEAU = {"when": {"plateau": 2}, "do": "reset"}


def steps_of(taken: list[AppliedIntervention]) -> list[tuple[int, str]]:
    return [(each.step, each.title) for each in taken]


def run(
    c: Curriculum, steps: int, scores: Sequence[float] = (), metrics: Sequence[dict[str, float]] = ()
) -> list[AppliedIntervention]:
    """Steps with these validation scores and metrics, one a step, while there are any; what was taken."""
    taken = []
    for i in range(steps):
        if c.finished:
            break
        walk(c, 1)
        score = scores[i] if i < len(scores) else None
        if score is not None:
            c.interventions.record_validation(score)
        taken += c.intervene(score, metrics[i] if i < len(metrics) else {})
    return taken


def with_interventions(*interventions, **settings) -> Curriculum:
    return curriculum(stage(interventions=interventions, validate_every=1, **settings))


def test_on_schedule_but_not_after_the_last_step():
    c = with_interventions({"when": {"every_steps": 2}, "do": "reset"}, steps=6)
    assert steps_of(run(c, 9)) == [(2, "reset"), (4, "reset")]
    assert c.finished and c.interventions.resets == 2


def test_a_plateau_ends_the_stage_whatever_was_tried_before():
    c = with_interventions(RESET_ON_PLATEAU, {"when": {"plateau": 4}, "do": "stop"})
    taken = run(c, 20, [0.3, 0.5, 0.4, 0.5, 0.45, 0.45, 0.6])
    assert steps_of(taken) == [(4, "reset"), (6, "stop")], "5 and 6 are not better than 4, since the reset"
    assert taken[1].cause == {"plateau": 4, "validation": 0.45, "best": 0.5}
    assert taken[1].summary == "stop (plateau 4, validation 0.45, best 0.5)"
    assert c.finished and c.state.step == 6
    assert c.decisions == [each.decision for each in taken]
    assert [AppliedIntervention.of(json.loads(json.dumps(line))).title for line in c.decisions] == ["reset", "stop"]


def test_truncation_counts_by_its_mean_over_the_last_steps(monkeypatch):
    monkeypatch.setattr("ratchet.training.interventions.OVER_STEPS", 3)
    do = {"unfinished_penalty": 0.5, "max_response_tokens": 32}
    c = with_interventions({"when": {"truncated_above": 0.5}, "do": do})
    taken = run(c, 20, metrics=[{"truncated": value} for value in (0.9, 0.2, 0.3, 0.8, 0.6, *[0.9] * 21)])
    assert steps_of(taken) == [(5, "max_response_tokens 32, unfinished_penalty 0.5")]  # once: then it is so
    assert taken[0].changed == {"max_response_tokens": (16, 32), "unfinished_penalty": (0.0, 0.5)}
    assert (c.stage.max_response_tokens, c.stage.unfinished_penalty, c.stage.steps) == (32, 0.5, 20)
    assert all(len(seen) <= 3 for seen in c.interventions.state.recent.values())


def test_a_step_without_the_metric_is_left_out_of_the_mean(monkeypatch):
    monkeypatch.setattr("ratchet.training.interventions.OVER_STEPS", 2)
    c = with_interventions({"when": {"truncated_above": 0.1}, "do": "reset"})
    assert steps_of(run(c, 5, metrics=[{"truncated": 0.5}, {}, {}, {"truncated": 0.5}])) == [(4, "reset")]


def test_one_reset_a_step_and_what_is_so_already_is_not_done_again():
    again = {"when": {"at_step": 3}, "do": {"rollouts": 8, "reset": True}}
    c = with_interventions(
        {"when": {"every_steps": 3}, "do": "reset"}, again, {"when": {"at_step": 4}, "do": {"rollouts": 8}}
    )
    assert steps_of(run(c, 5)) == [(3, "reset"), (3, "rollouts 8")]
    assert c.draw().rollouts == 8 and c.interventions.resets == 1
    (taken,) = run(with_interventions({"when": {"at_step": 2}, "do": {"reset": "reference"}}, kl_coefficient=0.1), 3)
    assert (taken.reset, taken.title) == ("reference", "reset of the reference")


def test_a_domain_is_added_and_the_others_go_on_where_they_were():
    mix = {"logic": 0.5, "math": 0.25, "code": 0.25}
    c = with_interventions({"when": {"at_step": 3}, "do": {"mix": mix}}, mix={"math": 0.5, "code": 0.5})
    assert c._first.domains == ("code", "math", "logic") and c.active == {"code": 6, "math": 12, "logic": 8}
    plain = curriculum(stage(mix={"math": 0.5, "code": 0.5}))
    assert walk(c, 3) == walk(plain, 3)
    assert steps_of(c.intervene(None, {})) == [(3, "mix logic 0.5 code 0.25 math 0.25")]
    batch = c.draw()
    assert [problem.domain for problem in batch.problems] == ["logic", "logic", "code", "math"]
    assert ids(batch)[3] == next(i for i in ids(plain.draw()) if i.startswith("sum")), "math is in the same epoch"
    assert batch.stage.mix == mix


def test_a_larger_share_than_the_rest_of_an_epoch_begins_the_next_one():
    """Not one short batch."""
    c = with_interventions({"when": {"at_step": 2}, "do": {"mix": {"math": 3, "code": 1}}}, mix={"math": 1, "code": 3})
    c.state.streams["math"].active = c.state.streams["math"].active[:4]
    run(c, 2)
    assert (c.state.streams["math"].epoch, c.state.streams["math"].place) == (1, 0)
    assert len(c.draw().problems) == 4


def test_prompts_must_leave_room_for_the_longest_response_that_may_come():
    longer = {"when": {"at_step": 2}, "do": {"max_response_tokens": 64}}
    made = stage(interventions=[longer], mix={"math": 1})
    assert (made.longest_response, made.most_rollouts, made.validates) == (64, 16, False)
    named = stage(validation={"math500": 1})
    assert named.validates and not named.depends_on_validation
    c = Curriculum(made, 0, {"math": sums(8)}, lambda p: p.problem_id != "sum-01")
    assert c.decisions[0]["evidence"] == {"max_response_tokens": 64}
    assert stage(interventions=[RESET_ON_PLATEAU], validate_every=1).validates


def test_what_is_kept_does_not_grow_with_the_steps():
    settings = Stage(
        name="s", domain="math", max_response_tokens=16, steps=10**6,
        interventions=[{"when": {"truncated_above": 0.9}, "do": "reset"}],
    )  # fmt: skip
    seen = Interventions(settings)
    sizes = []
    for step in range(1, 2001):
        seen.record_validation(0.5)
        seen.take(step, 0.5, {"truncated": 0.1})
        sizes.append(len(json.dumps(seen.state_dict())))
    assert sizes[-1] <= sizes[20] + 8


def settings_of_every_kind() -> Recipe:
    interventions = [
        {"when": {"at_step": 1}, "do": {"max_response_tokens": 14}},
        {"when": {"at_step": 2}, "do": "reset"},
        {"when": {"truncated_above": 0.0}, "do": {"unfinished_penalty": 0.5}},
        {"when": {"at_step": 4}, "do": {"mix": {"math": 1, "code": 1}}},
        {"when": {"plateau": 2}, "do": {"rollouts": 6, "reset": True}},
        {"when": {"plateau": 7}, "do": "stop"},
    ]
    stage = {
        "name": "all-kinds", "domain": "math", "max_response_tokens": 10, "steps": 20, "rollouts": 4,
        "prompts_per_batch": 4, "learning_rate": 1e-3, "updates_per_batch": 2, "kl_coefficient": 1e-3,
        "dynamic_sampling_rounds": 1, "loss": "dr_grpo", "truncation": "soft_overlong",
        "validate_every": 1, "interventions": interventions, "keep": {"math": 0.5},
        "advanced": {"overlong_buffer_tokens": 8, "validation_rollouts": 1},
    }  # fmt: skip
    training = {"checkpoint_every": 1, "hardware": {"micro_batch_tokens": 400, "rollout_batch": 32}, "stages": [stage]}
    prompt = {"math": "{prompt}", "code": "{prompt}"}
    evaluation = {"benchmarks": [{"name": "bench", "domain": "math", "path": "bench.jsonl"}]}
    return Recipe.model_validate(
        {"name": "micro", "model": {"prompt": prompt}, "training": training, "evaluation": evaluation}
    )


def test_a_stage_interrupted_after_each_step_ends_with_the_weights_of_one_that_was_not(
    alone, micro_model, tmp_path, monkeypatch
):
    """Each interruption strikes once the step's checkpoint is there; the stage then goes on in a new policy."""
    from ratchet.training import process
    from ratchet.training.checkpoint import Checkpoints

    code = [replace(p, problem_id=f"code-{p.problem_id}", domain="code", difficulty=None) for p in sums(6)]
    files = {"math": sums(40), "code": code, "bench": sums(3)}
    for name, problems in files.items():
        pq.write_table(to_table(problems), tmp_path / f"{name}.parquet")
    spec = TrainingSpec.of(
        settings_of_every_kind(), kind="stage", stage="all-kinds", model_dir=str(micro_model), work_dir=tmp_path,
        problems={name: tmp_path / f"{name}.parquet" for name in ("math", "code")},
        validation={"bench": tmp_path / "bench.parquet"},
    )  # fmt: skip

    def go_on(work: Path, until: int = 99) -> dict[str, torch.Tensor] | None:
        """The final weights, or None where the stage was interrupted after the step `until`."""
        save = Checkpoints.save

        def save_and_die(self, step, state, score=None):
            save(self, step, state, score)
            if step == until:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Checkpoints, "save", save_and_die)
            try:
                policy, _, steps = process._stage(spec.model_copy(update={"work_dir": work}))
            except KeyboardInterrupt:
                return None
        assert steps == 7
        return weights(policy)

    def written(work: Path) -> list[list[dict]]:
        files = [(work / f"{name}.jsonl").read_text().splitlines() for name in ("metrics", "decisions", "samples")]
        return [[timeless_part(json.loads(line)) for line in lines] for lines in files]

    monkeypatch.setattr("ratchet.training.interventions.OVER_STEPS", 2)
    reset, resets = Learner.reset, []
    monkeypatch.setattr(Learner, "reset", lambda self, **given: (resets.append(given), reset(self, **given)))
    whole = go_on(tmp_path / "whole")
    decisions = [AppliedIntervention.of(line) for line in written(tmp_path / "whole")[1]]
    kinds = {each.step: each.title for each in decisions}
    assert {"reset", "stop", "max_response_tokens 14", "unfinished_penalty 0.5", "mix code 1 math 1"} <= {
        each.title for each in decisions
    } and any("rollouts" in each.changed for each in decisions), kinds
    assert len(resets) == sum(bool(each.reset) for each in decisions) > 1, "each is carried out"
    for step in range(7):  # 0: with the floors, before the first step
        assert go_on(tmp_path / "broken", until=step) is None
    assert largest_difference(whole, go_on(tmp_path / "broken")) == 0
    assert written(tmp_path / "whole") == written(tmp_path / "broken")


def guarded(*interventions, **settings) -> Curriculum:
    """Keeps math, which scored 0.9 at the start, above 0.8."""
    c = with_interventions(*interventions, keep={"math": 0.1}, **settings)
    c.interventions.record_start(0.2, {"math": 0.9})
    return c


def validated(c: Curriculum, score: float, math: float) -> tuple[bool, list[AppliedIntervention]]:
    walk(c, 1)
    is_best = c.interventions.record_validation(score, {"math": math})
    return is_best, c.intervene(score, {})


def test_when_something_is_below_its_floor_and_what_that_is():
    c = guarded({"when": {"below_floor": 2}, "do": {"learning_rate": 1e-7}})
    seen = [validated(c, 0.5, math)[1] for math in (0.79, 0.81, 0.79, 0.78, 0.7)]
    assert [bool(taken) for taken in seen] == [False, False, False, True, False]  # two in a row
    [taken] = seen[3]
    assert taken.changed["learning_rate"][1] == 1e-7 and c.stage.learning_rate == 1e-7
    assert taken.cause == {"below_floor": 2, "math": 0.78, "floor of math": pytest.approx(0.8)}


def test_a_stop_below_a_floor_counts_over_the_whole_stage():
    c = guarded({"when": {"below_floor": 1}, "do": {"rollouts": 3}}, {"when": {"below_floor": 3}, "do": "stop"})
    assert [taken[0].title for _, taken in (validated(c, 0.5, 0.7) for _ in range(3)) if taken] == [
        "rollouts 3",
        "stop",
    ]


def test_a_score_with_something_below_its_floor_is_never_the_best():
    c = guarded()
    assert [validated(c, *scores)[0] for scores in ((0.3, 0.85), (0.9, 0.5), (0.4, 0.85))] == [True, False, True]


@pytest.mark.parametrize("settings", [{"keep": {"math": 0.1}}, {"advanced": {"result": "best"}}], ids=str)
def test_a_stage_that_only_loses_is_compared_with_its_start(settings):
    """The first validation is no new best, and a plateau counts it."""
    c = with_interventions({"when": {"plateau": 2}, "do": "stop"}, **settings)
    assert c.interventions.start_due
    c.interventions.record_start(0.5, {"math": 0.9} if "keep" in settings else {})
    assert not c.interventions.start_due
    seen = []
    for score in (0.4, 0.5):
        walk(c, 1)
        best = c.interventions.record_validation(score, {"math": 0.9} if "keep" in settings else {})
        seen.append((best, [each.summary for each in c.intervene(score, {})]))
    assert seen == [(False, []), (False, ["stop (plateau 2, validation 0.5, best 0.5)"])]
    stage(interventions=({"when": {"plateau": 3}, "do": "reset"},), validate_every=5, **settings)  # of 20 steps
    with pytest.raises(ValueError, match="plateau 3 cannot happen"):
        stage(interventions=({"when": {"plateau": 3}, "do": "reset"},), validate_every=5)


def test_the_floors_are_in_the_state():
    c = guarded()
    validated(c, 0.5, 0.7)
    resumed = Interventions(c.stage)
    resumed.load_state_dict(json.loads(json.dumps(c.interventions.state_dict())))
    assert (
        c.stage.validates_start
        and not resumed.start_due
        and resumed.below_floor == {"math": 0.7}
        and resumed.state == c.interventions.state
    )


def test_a_floor_needs_something_to_keep():
    with pytest.raises(ValueError, match=r"name in keep what the stage may not forget"):
        stage(interventions=({"when": {"below_floor": 1}, "do": "stop"},))
