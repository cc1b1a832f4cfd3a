import json
import sys
from types import SimpleNamespace
from typing import Any, cast

import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.base.draft import Draft
from ratchet.data_curation.base.journal import read_lines
from ratchet.data_curation.base.problem_table import to_table
from ratchet.flows.pipeline import pipeline
from ratchet.flows.runs import plan_run
from ratchet.infra.recipe import load_recipe
from ratchet.infra.recipe.evaluation import Evaluation
from ratchet.infra.settings import Settings, load_settings
from ratchet.infra.store.artifacts import Artifact, ArtifactStore
from ratchet.infra.store.manifest import CheckpointResult
from ratchet.infra.tracking.events import Tracking
from ratchet.tasks import training, worker
from ratchet.tasks.run_context import RunContext
from ratchet.tasks.training import _validated, check_prompt_counts, resume_note
from ratchet.tasks.worker import CLEARED_STEPS, MetricsFollower, StageFollower
from ratchet.training.curriculum import allot
from ratchet.training.specification import TrainingSpec
from ratchet.verifiers.errors import RatchetError
from tests.flows.commands import MINI
from tests.training.conftest import sums


def test_the_questions_of_a_validation_are_in_its_key():
    """Also those that a difficulty leaves out, and how they are asked and read; a benchmark that is asked whole, and as
    the recipe's problems are, adds nothing."""
    details = ({}, {"max_difficulty": 2}, {"max_difficulty": 5}, {"part": [1, 2]}, {"answer_pattern": "####"})
    settings = [{"advanced": each} for each in details] + [
        {"prompt": {"math": text}} for text in ("{prompt}", "{prompt}:")
    ]
    keys = [
        _validated(Evaluation(benchmarks=({"name": "math500", "samples": 1, **each},)), ["math500"])
        for each in settings
    ]
    assert len({*map(str, keys)}) == len(settings) and keys[0] == {"validation_sampling": [0.6, 0.95]}


def test_a_batch_needs_as_many_problems_of_each_domain_as_it_takes(tmp_path):
    recipe = load_recipe("tiny")
    problems = {name: Artifact("problems", name, name, tmp_path / name) for name in ("math", "code")}
    check_prompt_counts(recipe.training.stages, problems)  # a plan: nothing has been curated yet
    stages = [stage.model_copy(update={"prompts_per_batch": 8}) for stage in recipe.training.stages[-1:]]
    wanted = allot(8, stages[-1].mix)["code"]
    for name in problems:
        (tmp_path / name).mkdir()
    pq.write_table(to_table(sums(8)), problems["math"].kept)
    for rows in (0, wanted - 1):
        pq.write_table(to_table(sums(rows)), problems["code"].kept)
        with pytest.raises(
            RatchetError, match=rf"takes {wanted} prompts of code, and there are {rows}: lower prompts_"
        ):
            check_prompt_counts(stages, problems)
    pq.write_table(to_table(sums(wanted)), problems["code"].kept)
    check_prompt_counts(stages, problems)


def test_each_training_step_runs_again_for_the_settings_that_it_uses(tmp_path):
    def keys(*settings: str) -> dict[str, str]:
        recipe = load_recipe(MINI, ["training.stages.0.max_pass_rate=0.5", *settings])
        with plan_run(recipe, load_settings(str(tmp_path))) as run:
            pipeline(run)
        return {step.title: step.output.key for step in run.plan}

    before = keys()
    first, *_ = [title for title in before if title.startswith("pass rates")]
    for setting, changed, same in (
        ("training.advanced.optimizer.max_gradient_norm=2", {"warm start", first}, set()),
        ("training.advanced.optimizer.weight_decay=0.1", {first.replace("pass rates", "train")}, {"warm start", first}),
        ("training.engine=vllm", {first}, {"warm start"}),
    ):
        now = keys(setting)
        assert {title for title in changed if now[title] == before[title]} == set(), setting
        assert {title for title in same if now[title] != before[title]} == set(), setting


def test_metrics_are_followed_though_a_resumed_stage_has_cut_and_outgrown_them(tmp_path):
    """Between two looks a worker may have cut the file back to its checkpoint and written beyond where it was."""
    seen: list[dict[str, Any]] = []

    class Follower(MetricsFollower):
        def _record(self, record: dict[str, Any]) -> None:
            seen.append(record)

    follower = Follower(cast(RunContext, None), "child", tmp_path / "metrics.jsonl")
    follower.poll()
    lines = [json.dumps({"step": step, "time": 1.5}) + "\n" for step in (1, 2, 3)]
    follower.tail.path.write_text("".join(lines) + '{"step": 4')
    follower.poll()
    again = [lines[0], *(json.dumps({"step": step, "time": 22.25 + step}) + "\n" for step in (2, 3, 4, 5))]
    follower.tail.path.write_text("".join(again))
    follower.poll()
    follower.poll()
    assert [record["step"] for record in seen] == [1, 2, 3, 4, 5]  # a step is reported once
    with follower.tail.path.open("a") as file:
        file.write(json.dumps({"step": 6}) + "\n")
        file.write('{"note": "the server does not answer", "time": 1.5}\n')
    follower.poll()
    assert seen[5] == {"step": 6} and len(seen) == 7
    assert seen[6]["note"] == "the server does not answer", "what waits says so"


def test_rollouts_are_shown_while_a_stage_runs(tmp_path):
    tracking = Tracking(Settings(tmp_path, "", sys.executable, trackers=()), "tiny")
    run = SimpleNamespace(tracking=tracking, domains=("math",), made_from=lambda _: ())
    start = Artifact("model", "start", "ab" * 32, tmp_path)
    follower = StageFollower(cast(RunContext, run), "child", tmp_path / "metrics.jsonl", start)
    samples = tmp_path / "samples.jsonl"
    for text in ("", '{"step": 20}\n', '{"step": 20}\n', '{"step": 20}\n{"step": 40}\n'):
        samples.write_text(text)
        follower.poll()
    tracking.close(wait_s=0)
    events = [event for _, event in read_lines(tmp_path / "tracking" / f"{tracking.run_id}.jsonl")]
    assert [(e["run"], e["path"]) for e in events if e["event"] == "table"] == [("child", str(samples))] * 2


@pytest.mark.parametrize(
    ("scores", "shown"),
    [
        ({"validation": 0.25, "validation_seconds": 3.0, "validation/pass_at_4": 0.5}, "validation 0.250"),
        ({"validation": 0.25, "validation/a": 0.5, "validation/b": 0.0, "validation/a/pass_at_4": 1.0},
         "validation 0.250 (a 0.500, b 0.000)"),
        ({"validation_seconds": 3.0}, None),
    ],
)  # fmt: skip
def test_each_validation_is_a_line(tmp_path, scores, shown):
    said: list[str] = []
    reporter = SimpleNamespace(note=said.append, progress=lambda *_: None)
    follower = MetricsFollower(cast(RunContext, SimpleNamespace(reporter=reporter, tracking=None)), "child", tmp_path)
    follower._record({"step": 50, **scores})
    assert said == ([f"after step 50: {shown}"] if shown else [])


def test_an_alarm_is_told_once_until_it_has_been_clear_for_a_while(tmp_path):
    said: list[str] = []
    reporter = SimpleNamespace(warning=said.append, progress=lambda *_: None)
    run = cast(RunContext, SimpleNamespace(reporter=reporter, tracking=None))
    follower = MetricsFollower(run, "child", tmp_path / "metrics.jsonl")
    on = {"math/entropy": [*range(3, 40, 2), 41 + CLEARED_STEPS], "code/entropy": [39]}
    lines = [
        {"step": step, "alarms": {name: name for name, steps in on.items() if step in steps}} for step in range(1, 90)
    ]
    follower.tail.path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    follower.poll()
    assert said == ["step 3: math/entropy", "step 39: code/entropy", f"step {41 + CLEARED_STEPS}: math/entropy"]


def test_a_stage_says_which_steps_weights_it_kept(tmp_path, monkeypatch):
    def finished(run, spec, draft, follow):
        lines = [{"step": 4, "rule": "best", "evidence": {"step": 2, "validation": 0.5}}]
        (draft.path / "decisions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        follow.last = {"step": 4, "loss": 0.25}

    monkeypatch.setattr(training, "_run_spec", finished)
    run = SimpleNamespace(tracking=None, domains=("math",), made_from=lambda _: ())
    draft = Draft(tmp_path, CheckpointResult())
    training._train(cast(RunContext, run), cast(Any, None), draft, Artifact("model", "start", "ab" * 32, tmp_path))
    assert draft.result.headline == "4 steps, weights of step 2, loss 0.250"
    assert draft.result.metrics["best_step"] == 2 and draft.counts["steps"] == 4


def test_a_finished_draft_is_finished_whatever_changed_outside_its_key(tmp_path, monkeypatch):
    """Killed before it became an artifact, and started again with another `checkpoint_every`."""
    monkeypatch.setattr(worker, "run_group", lambda *_: pytest.fail("it ran again"))
    draft = Draft(tmp_path / "checkpoint-math-0123", CheckpointResult())
    (draft.path / "model").mkdir(parents=True)
    (draft.path / "status.json").write_text('{"state": "finished", "message": "", "steps": 2}')
    run = SimpleNamespace(settings=Settings(tmp_path, "", sys.executable, trackers=()), fork_server=None)
    spec = TrainingSpec.of(load_recipe("tiny"), kind="warm_start", work_dir=draft.path)
    follow = SimpleNamespace(poll=lambda: None, tail=SimpleNamespace(furthest=0))
    worker.run_worker(cast(RunContext, run), "module", spec, draft, "stage", cast(MetricsFollower, follow))


def test_the_model_whose_adapter_is_trained_is_in_the_key(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_text(name)

    def base(path: str, *settings: str) -> dict[str, Any]:
        recipe = load_recipe(MINI, [f"model.path={path}", *settings])
        return training._base(cast(RunContext, SimpleNamespace(recipe=recipe, store=ArtifactStore(tmp_path / "home"))))

    adapted = [base(str(tmp_path / name), "training.advanced.lora={}") for name in ("one", "other")]
    assert adapted[0] != adapted[1] and base("org/name", "training.advanced.lora={}") == {"base": "org/name"}
    assert base(str(tmp_path / "one")) == {}


def test_a_resumed_stage_says_where_it_goes_on_and_a_changed_one_that_it_does_not(tmp_path):
    ours, theirs, other = (tmp_path / f"checkpoint-{name}" for name in ("math-8k-aaaa", "math-8k-bbbb", "math-cccc"))
    assert resume_note(ours) == ""
    (other / "checkpoints/step-00000090").mkdir(parents=True)
    assert resume_note(ours) == ""
    (theirs / "checkpoints/step-00000030").mkdir(parents=True)
    assert "starts at step 1" in resume_note(ours) and "after step 30" in resume_note(ours)
    (ours / "checkpoints/step-00000010").mkdir(parents=True)
    assert resume_note(ours) == "continues from step 10"
