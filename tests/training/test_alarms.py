import json

import pytest

from ratchet.training.alarms import OVER_STEPS, Alarms, alarms
from ratchet.training.metrics import memory

WELL = dict(
    pass_rate=0.5, all_failed_groups=0.2, truncated=0.1, entropy=0.4, mismatch_kl=1e-6, infra_errors=0.0,
    skipped_updates=0.0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "name", "words"),
    [
        ({}, None, ""),
        ({"pass_rate": 0.0}, "no_reward", "no response passed"),
        ({"truncated": 0.6}, "truncation", "60% of the responses were truncated"),
        ({"entropy": 0.001, "all_failed_groups": 0.51}, "entropy", "0.001 nats per token while 51% of the prompts"),
        ({"entropy": 0.001, "all_failed_groups": 0.5}, None, ""),  # a collapse only where prompts fail as a whole
        ({"mismatch_kl": 0.2}, "mismatch", "differ by 0.2 nats"),
        ({"mismatch_kl": 0.02, "staleness": 1.0}, None, ""),
        ({"mismatch_kl": 0.2, "staleness": 1.0}, "drift", "moved by 0.2 nats per token in the 1.0 batches"),
        ({"unevaluated": 0.6}, "expressions", "60% of the responses leave arithmetic to do"),
        ({"rewritten": 0.7, "unevaluated": 0.1}, "expressions", "70% of the passes"),
        ({"infra_errors": 3.0}, "infra_errors", "3 verdicts were infrastructure errors"),
        ({"missing_prompts": 5.0, "sampling_rounds": 3.0}, "missing_prompts", "5 prompts short"),
        (
            {"short_batch": 3.0, "active_prompts": 5.0},
            "short_batch",
            "3 prompts short, because the stage's filters",
        ),
        ({"skipped_updates": 1.0}, "nothing_to_learn", "nothing to learn"),
        ({"skipped_updates": 1.0, "trained_tokens": 30.0}, None, ""),  # of several updates, others learned
    ],
)
def test_each_alarm_says_what_it_saw(change, name, words):
    found = alarms({**WELL, **change})
    assert found.keys() == ({name} if name else set())
    assert words in found.get(name, "")


def test_an_alarm_names_the_domain_that_it_is_about():
    logic = {"logic/pass_rate": 0.0, "logic/truncated": 0.6, "logic/infra_errors": 0.0, "logic/missing_prompts": 1.0}
    math = {"math/pass_rate": 0.3, "math/truncated": 0.0, "math/infra_errors": 2.0, "math/entropy": 0.01}
    logic["logic/all_failed_groups"], math["math/all_failed_groups"] = 1.0, 0.6
    found = alarms({**WELL, **logic, **math, "sampling_rounds": 3.0, "skipped_updates": 1.0})
    assert found.keys() == {
        "logic/no_reward", "logic/truncation", "logic/missing_prompts", "math/infra_errors", "math/entropy",
        "nothing_to_learn",
    }  # fmt: skip
    assert found["logic/no_reward"].startswith("logic: no response passed")
    assert found["logic/missing_prompts"].startswith("logic: after 3 rounds")


def test_a_step_that_computed_nothing_has_no_entropy_to_collapse():
    assert "entropy" not in alarms({name: v for name, v in WELL.items() if name != "entropy"})


def test_memory_is_what_this_process_held(alone):
    assert 0.05 < memory()["memory_gb"] < 100


# Prompts of a step that every response failed, as recorded in runs of `tiny`: of 16 in `math-52`, seed 1, with the
# learning rate raised to 1.5e-3 after step 15; of the 7 math prompts of `code-48`, seed 0, which ended at 0.97 in math.
FAILING = [
    1, 1, 0, 0, 0, 0, 2, 0, 0, 1, 0, 0, 1, 1, 3, 3, 3, 2, 1, 0, 1, 2, 3, 0, 3, 3, 1, 2, 3, 2, 1, 2, 2, 0, 1, 2, 2, 5, 2,
]  # fmt: skip
HEALTHY = [
    0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    1, 0, 0, 0, 1, 0,
]  # fmt: skip


def alarmed(shares: list[float], domain: str = "", watch: Alarms | None = None, active: float = 100.0) -> list[int]:
    """The steps at which the watch warns of locked prompts, counted from 1."""
    prefix, watch = f"{domain}/" if domain else "", watch or Alarms()
    steps = []
    for step, share in enumerate(shares, 1):
        own = {"pass_rate": 0.5, "truncated": 0.0, "infra_errors": 0.0, "active_prompts": active}
        record = {**WELL, **{f"{prefix}{name}": value for name, value in own.items()}}
        found = watch.check({**record, f"{prefix}all_failed_groups": share})
        if f"{prefix}all_failed_groups" in found:
            steps.append(step)
            assert "locks onto wrong answers" in found[f"{prefix}all_failed_groups"]
    return steps


def test_a_recorded_stage_that_locks_onto_wrong_answers_is_noticed_and_a_healthy_one_is_not():
    assert alarmed([failed / 16 for failed in FAILING])[0] == 30
    assert alarmed([failed / 7 for failed in HEALTHY], "math") == []


def test_prompts_that_were_hard_from_the_start_and_single_bad_steps_are_no_alarm():
    assert alarmed([0.4] * 15 + [0.6] * 15) == []
    assert alarmed([0.0] * 20 + [1.0, 1.0] + [0.0] * 20) == []
    assert alarmed([0.0, 0.1] * 10 + [0.3, 0.4] * 10)[0] in range(21, 31)


def test_the_watch_begins_anew_when_prompts_leave_the_stage():
    watch = Alarms()
    assert alarmed([0.0] * 20, watch=watch) == []
    assert alarmed([0.4] * 20, watch=watch, active=50.0) == []


def test_a_resumed_watch_warns_at_the_same_steps():
    shares = [failed / 16 for failed in FAILING]
    whole = alarmed(shares)
    for cut in (3, OVER_STEPS, 25, 31):
        first, second = Alarms(), Alarms()
        before = alarmed(shares[:cut], watch=first)
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert before + [cut + step for step in alarmed(shares[cut:], watch=second)] == whole
