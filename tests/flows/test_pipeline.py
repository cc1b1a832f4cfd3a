"""The whole way, with every real part, in miniature."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ratchet.flows.pipeline import pipeline
from ratchet.flows.runs import plan_run
from ratchet.flows.train import train
from ratchet.infra.recipe import load_recipe
from ratchet.infra.settings import load_settings
from ratchet.infra.store.artifacts import Artifact, ArtifactStore
from ratchet.infra.store.manifest import DatasetManifest
from ratchet.rehearsal.hub import hub
from ratchet.rehearsal.loopback import serving
from ratchet.tasks.inputs import local_model
from ratchet.training.rollout_log import rollout_files
from ratchet.verifiers.errors import RatchetError
from tests.flows.commands import MINI, ROOT, copy_home, in_process
from tests.waiting import happens


def store_of(home: Path) -> ArtifactStore:
    return ArtifactStore(load_settings(home).artifacts)


def by_step(home: Path) -> dict[str, Artifact]:
    """The newest artifact of each name."""
    return {artifact.name: artifact for artifact in store_of(home).all()}


def would_run(home: Path, *overrides: str) -> list[str]:
    with plan_run(load_recipe(MINI, overrides), load_settings(home)) as run:
        pipeline(run)
    return [step.title for step in run.plan if not step.cached]


def test_a_plan_tells_an_undefined_score(finished_home):
    with pytest.raises(RatchetError, match="2 responses per question, for pass@4"):
        would_run(finished_home, "evaluation.pass_at=[4]")


def test_every_raw_row_is_kept_or_rejected_with_a_reason(finished_home):
    made = by_step(finished_home)
    raw = pq.read_metadata(made["tiny-world"].path / "math_raw.parquet").num_rows
    curated = made["math-curated"]
    rejected = pq.read_table(curated.rejected).to_pylist()
    assert pq.read_metadata(curated.kept).num_rows + len(rejected) == raw
    assert all(row["rule"] and json.loads(row["evidence"]) is not None for row in rejected)


def test_one_parameter_changed_reruns_that_step_and_what_depends_on_it(finished_home):
    assert would_run(finished_home) == []
    changed = would_run(finished_home, "curation.math.length.downsample_keep=0.5")
    assert changed[:2] == ["length math", "curated math"]
    assert not {"rules math", "teacher attempts math", "curated code", "difficulty code"} & set(changed)
    assert would_run(finished_home, "evaluation.pass_at=[1]") == [
        "evaluate start",
        "evaluate code-32",
        "gate mini",
        "report mini",
    ]
    assert would_run(finished_home, "curation.math.teacher.concurrency=2") == [], "who is asked how changes nothing"
    judges = "training.reward_servers=[http://judge-1:8900]"
    assert would_run(finished_home, judges) == [], "who judges changes nothing"
    assert would_run(finished_home, "training.checkpoint_every=7") == [], "how often progress is saved changes nothing"


MORE_STEPS = "training.stages.0.steps=4"


def test_a_plan_says_from_where_a_stage_with_more_steps_continues(finished_home, tmp_path):
    made, asked = by_step(finished_home)["math-24"], ("run", MINI, "--dry-run", "--home")
    shown = " ".join(in_process(*asked, finished_home, "--set", MORE_STEPS).split())
    assert f"continues {made.ref}, this stage with 2 steps, from step 1" in shown
    for other in ("steps=1", "steps=2", "temperature=0.9", "lr_scheduler_type=linear"):
        changed = ("--set", MORE_STEPS) if "steps" not in other else ()
        shown = in_process(*asked, finished_home, *changed, "--set", f"training.stages.0.{other}")
        assert "this stage with" not in shown, other
    copied = copy_home(finished_home / "artifacts", tmp_path / "artifacts")
    shutil.rmtree(ArtifactStore(copied).open(made.ref).path / "checkpoints")
    shown = " ".join(in_process(*asked, tmp_path, "--set", MORE_STEPS).split())
    assert f"starts at step 1: {made.ref}, this stage with 2 steps, kept no checkpoint from before its end" in shown


def test_a_kept_checkpoint_is_a_model_by_its_step_or_its_directory(finished_home):
    made = by_step(finished_home)["math-24"]
    directory = made.path / "checkpoints" / "step-00000001"
    first, same, ended = (local_model(store_of(finished_home), name) for name in
                          (f"{made.ref}@1", str(directory), f"{made.ref}@2"))  # fmt: skip
    assert first == same and first.model_directory == directory / "model" and first.key != ended.key
    assert first.name == f"{made.path.name}-step-1"
    weights = "model.safetensors"
    assert (ended.path / weights).read_bytes() == (made.model_directory / weights).read_bytes()
    with pytest.raises(RatchetError, match=f"{made.ref} has no checkpoint of step 7: it kept those of steps 1, 2"):
        local_model(store_of(finished_home), f"{made.ref}@7")
    with pytest.raises(RatchetError, match=r"it kept none \(training\.keep_checkpoints\)"):
        local_model(store_of(finished_home), f"{by_step(finished_home)['start'].ref}@1")


@pytest.mark.slow
def test_a_stage_with_more_steps_ends_as_if_it_had_had_them_from_the_start(finished_home, ratchet, ready_home):
    """The weights bit for bit, and each step once in its records and rollouts; the shorter stage is as it was."""
    for part in ("artifacts", "teacher", "tracking"):
        copy_home(finished_home / part, ready_home / part)
    command = ["train", MINI, "--stage", "math-24", "--set", MORE_STEPS, "--home", ready_home]
    before = by_step(ready_home)["math-24"]
    done = ratchet(*command)
    assert done.returncode == 0 and f"continues {before.ref}" in done.stdout, done.stderr
    continued = by_step(ready_home)["math-24"]
    store_of(ready_home).check_content(before, whole=True)
    steps = [json.loads(line)["step"] for line in (continued.path / "metrics.jsonl").read_text().splitlines()]
    rollouts = {step: file.read_bytes() for step, file in rollout_files(continued.path)}
    assert steps == list(rollouts) == [1, 2, 3, 4]
    weights = (continued.model_directory / "model.safetensors").read_bytes()
    shutil.rmtree(continued.path)
    shutil.rmtree(before.path)
    assert ratchet(*command).returncode == 0
    assert (continued.model_directory / "model.safetensors").read_bytes() == weights
    assert {step: file.read_bytes() for step, file in rollout_files(continued.path)} == rollouts


@pytest.mark.slow
def test_a_step_that_comes_out_the_same_is_followed_by_nothing(finished_home, ratchet, ready_home):
    """Another threshold that drops the same rows: only what says the threshold is made again."""
    from mlflow import MlflowClient

    for part in ("artifacts", "teacher", "tracking"):
        copy_home(finished_home / part, ready_home / part)
    lower = "curation.math.decontaminate.coverage=0.35"
    assert {"decontaminate math", "deduplicate math", "train math-24"} <= set(would_run(ready_home, lower))
    plan = ["run", MINI, "--set", lower, "--home", ready_home]
    assert re.search(r"15 of 28 steps would run, 14 of them only if", " ".join(in_process(*plan, "--dry-run").split()))

    before = by_step(ready_home)["math-decontaminate"]
    done = ratchet(*plan)
    assert done.returncode == 0, done.stderr
    made = dict(re.findall(r"✓ ([^(]*) \((?!cached).*?\) (.*)", done.stdout))
    assert list(made) == ["decontaminate math", "curated math", "contamination", "report mini"]
    assert made["decontaminate math"].endswith(f"same content as {before.ref}")
    assert would_run(ready_home, lower) == would_run(ready_home) == []
    assert f"decontaminate math: same content as {before.ref}" in in_process(*plan, "--dry-run")

    after = by_step(ready_home)
    row = pq.read_table(after["math-curated"].kept).to_pylist()[0]
    story = in_process("show", f"{row['source']}:{row['source_id']}", "--home", ready_home)
    assert f"curated: it is in {after['math-curated'].ref}" in story, "the chain of this run goes through what it found"
    behind = {a.ref for a in store_of(ready_home).ancestors([after["mini"]])}
    assert {before.ref, after["math-decontaminate"].ref} <= behind
    page = (after["mini"].path / "report.html").read_text()
    assert after["math-decontaminate"].ref in page and before.ref not in page, "the page shows what this run read"

    client = MlflowClient(load_settings(ready_home).tracking_uri)
    same = "tags.`ratchet.same_content_as` = '" + before.ref + "'"
    (run,) = client.search_runs([client.get_experiment_by_name("mini").experiment_id], same)
    assert run.data.tags["ratchet.artifact"] == after["math-decontaminate"].ref
    root = client.get_run(run.data.tags["mlflow.parentRunId"])
    assert root.data.tags["ratchet.overrides"] == lower and lower in root.data.tags["mlflow.note.content"]
    again = [point.step for point in client.get_metric_history(root.info.run_id, "curriculum/reward")]
    assert sorted(again) == [1, 2, 3, 4], "stages that were found are on the curve too"

    first, second = (min(finished_home.glob("tracking/*.jsonl")).stem, root.data.tags["ratchet.run"])
    output = in_process("compare", first, second, "--home", ready_home)
    assert re.search(r"First: decontaminate math\s+A\s+B\s+coverage\s+0\.4\s+0\.35", output)
    assert "Changed only by their inputs: curated math, report mini\n" in output
    assert "With the same content in the end: decontaminate math, curated math, contamination\n" in output
    assert "24 of 28 steps are the same" in output and "code-32 mini-math pass@1" in output
    read = in_process("show", after["math-deduplicate"].ref, "--home", ready_home)
    assert before.ref in read and after["math-decontaminate"].ref in read, "it was made of what both are"
    output = in_process("show", after["math-decontaminate"].ref, "--used-by", "--home", ready_home)
    assert after["math-deduplicate"].ref in output and "evaluation/code-32" in output


def test_a_pass_rate_limit_measures_first_and_the_measurement_is_an_artifact(finished_home):
    changed = would_run(finished_home, "training.stages.1.max_pass_rate=0.5")
    assert changed == ["pass rates code-32", "train code-32", "evaluate code-32", "gate mini", "report mini"]


def test_one_stage_alone(finished_home):
    """Planned only: that it would be found says that it is the same work as in the whole run."""
    made = by_step(finished_home)

    def plan(**arguments: str) -> dict[str, bool]:
        with plan_run(load_recipe(MINI), load_settings(finished_home)) as run:
            train(run, **arguments)
        return {step.title: step.cached for step in run.plan if step.title.startswith(("train", "evaluate", "warm"))}

    assert plan(only="math-24") == {"warm start": True, "train math-24": True}
    expected = {"train code-32": True, "evaluate code-32": True}
    assert plan(only="code-32", start=made["math-24"].ref) == expected
    assert plan(only="code-32", start=str(made["math-24"].path / "model")) == expected, "the same weights"
    with pytest.raises(RatchetError, match="no stage 'code-33'; its stages are math-24, code-32"):
        plan(only="code-33")


def test_why_tells_of_every_dropped_row_what_took_it(finished_home):
    output = {}
    for domain in ("math", "code"):
        for row in pq.read_table(by_step(finished_home)[f"{domain}-curated"].rejected).to_pylist():
            output.setdefault((row["step"], row["rule"]), row)
    assert len(output) > 20
    for (step, rule), row in output.items():
        story = in_process("show", f"{row['source']}:{row['source_id']}", "--home", finished_home)
        assert f"✗ {step}: dropped by {rule}" in story and "_raw.parquet" in story
        evidence = json.loads(row["evidence"])
        if "item" in evidence and rule == "ngram":
            assert f"item {evidence['item']} of {evidence['benchmark']}" in story and "[[" in story
        if step == "deduplicate" and rule != "url":
            assert "which stays" in story and "[[" in story
        if step == "majority_vote":
            assert "the reference" in story
        if step == "rules" and "span" in evidence:
            assert "[[" in story


def test_why_finds_a_row_by_its_id_and_by_its_words(finished_home):
    curated = by_step(finished_home)["math-curated"]
    row = pq.read_table(curated.kept).to_pylist()[0]
    by_id = in_process("show", row["problem_id"][:12], "--home", finished_home)
    assert f"curated: it is in {curated.ref}" in " ".join(by_id.split()) and "teacher passes" in " ".join(by_id.split())
    by_words = in_process("show", row["prompt"].upper(), "--home", finished_home, "--recipe", "mini")
    assert f"problem {row['problem_id']}" in by_words
    for what in ("0000000000ff", "utterly unheard of phrases", "math_raw:99999999"):
        with pytest.raises(RatchetError, match=f"{what} is no row of run"):
            in_process("show", what, "--home", finished_home)


def test_a_curated_set_is_shown_with_its_funnel_and_samples_and_has_a_page(finished_home):
    from mlflow import MlflowClient

    curated = by_step(finished_home)["math-curated"]
    shown = in_process("show", curated.ref, "--home", finished_home)
    assert re.search(r"rules +figure +\d+ +\d+ +\d+", shown) and "rules: figure\nmath_raw:" in shown
    page = (curated.path / "report.html").read_text()
    assert page.count("<img") >= 4 and "<script" not in page and "Samples of dropped rows" in page
    assert (curated.path / "card.md").read_text().startswith("---\npretty_name")
    client = MlflowClient(load_settings(finished_home).tracking_uri)
    query = f"tags.`ratchet.artifact` = '{curated.ref}' and tags.`ratchet.cached` = 'false'"
    (run,) = client.search_runs([client.get_experiment_by_name("mini").experiment_id], query)
    assert {"report.html", "card.md"} <= {file.path for file in client.list_artifacts(run.info.run_id)}
    clean = by_step(finished_home)["math-decontaminate"]
    assert (
        DatasetManifest.of(clean).summary["self_test"]["recall"] >= 0.98 and clean.manifest.metrics["unprotected"] == 0
    )


@pytest.mark.slow
@pytest.mark.parametrize("on_hub", [False, True])
def test_evaluating_a_copied_model_samples_nothing_again(on_hub, finished_home, ratchet, tmp_path):
    """The last checkpoint, by hand and from a copy of its directory, here or on the Hub: the generations are those of
    the pipeline."""
    checkpoint = next(a for a in store_of(finished_home).all() if a.kind == "checkpoint" and a.name == "code-32")
    copy = shutil.copytree(checkpoint.path / "model", tmp_path / "hub" / "models" / "lab" / "small")
    generations = {f: f.stat().st_mtime_ns for f in finished_home.glob("generations/*/*.parquet")}
    evaluate = ("evaluate", MINI, "--benchmark", "mini-math", "--samples", "1", "--home", finished_home)
    with serving(hub(tmp_path / "hub")) as address:
        there = {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "cache")}
        name = "lab/small" if on_hub else copy
        planned = ratchet(*evaluate, "--model", name, "--dry-run", **there)
        assert ("fetch lab/small" in planned.stdout) == on_hub and planned.returncode == 0, planned.stderr
        done = ratchet(*evaluate, "--model", name, **there)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mini-math" in done.stdout and "mini-code" not in done.stdout
    assert {f: f.stat().st_mtime_ns for f in finished_home.glob("generations/*/*.parquet")} == generations


@pytest.mark.slow
def test_compare_pairs_what_was_asked_the_same(finished_home, ratchet):
    found = [a for a in store_of(finished_home).all() if a.kind == "evaluation" and a.name in ("start", "code-32")]
    done = ratchet("compare", *(a.ref for a in found[:2]), "--home", finished_home)
    assert done.returncode == 0, done.stdout + done.stderr
    made = next(a for a in store_of(finished_home).all() if a.name == "comparisons")
    page = (made.path / "report.html").read_text()
    assert "start → code-32" in page and "Paired differences" in page and "Recompute these numbers" in page
    assert "change of pass@2 [95 %]" in done.stdout and ", p = " in done.stdout


CURATED, TRAINED = "artifacts/problems/math-rules-*", "artifacts/.drafts/checkpoint-*/checkpoints/*"


@pytest.mark.parametrize(
    ("moments", "command_line"),
    [([TRAINED], "served"), pytest.param([CURATED, TRAINED], "ratchet", marks=pytest.mark.slow)],
)
def test_killed_and_run_again_it_ends_where_it_would_have_ended(
    moments, command_line, finished_home, ready_home, request
):
    """From where only the last stage is missing; where it is slow, from the beginning, with a Prefect server and a
    mirror of its own, which must not outlive it either."""
    run = request.getfixturevalue(command_line)
    if moments == [TRAINED]:
        copy_home(finished_home / "artifacts", ready_home / "artifacts")
        for made in ready_home.glob("artifacts/*/code-32-*"):
            shutil.rmtree(made)
    environment = {**os.environ, **getattr(run, "keywords", {}), "RATCHET_TEST_MARK": str(ready_home)}
    command = [sys.executable, "-m", "ratchet.cli.main", "run", str(MINI), "--home", str(ready_home)]
    for when_there_is in moments:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        assert happens(lambda: list(ready_home.glob(when_there_is)) or process.poll() is not None)  # noqa: B023
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert happens(lambda: not marked(ready_home)), "no process outlives the run"

    again = run("run", MINI, "--home", ready_home)
    assert again.returncode == 0, again.stdout + again.stderr
    for name, kind, file in (
        ("math-curated", "problems", "kept.parquet"),
        ("code-curated", "problems", "kept.parquet"),
        ("code-32", "checkpoint", "model/model.safetensors"),
        ("code-32", "evaluation", "generations.parquet"),
    ):
        hashes = {
            next(a for a in store_of(home).all() if (a.name, a.kind) == (name, kind)).manifest.files[file].sha256
            for home in (finished_home, ready_home)
        }
        assert len(hashes) == 1, f"{kind}/{name} differs"


def marked(mark: Path) -> list[str]:
    """Living processes that were started under this test's mark."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"RATCHET_TEST_MARK={mark}".encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_text())
        except OSError:
            continue
    return [line for line in found if line]
