"""Kept rollouts of a finished run: browsed, judged again, and on a page."""

import base64
import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.infra.recipe import load_recipe
from ratchet.infra.settings import load_settings
from ratchet.infra.store.artifacts import Artifact, ArtifactStore
from ratchet.infra.tracking.run_record import all_runs
from ratchet.tasks.rollouts import KeptRollouts, _sampled, rollouts_page, stages_of
from ratchet.training.rollout_log import FOLDER, SCHEMA, read_rollouts, rollout_files
from ratchet.training.specification import TrainingSpec
from ratchet.verifiers.errors import RatchetError
from tests.flows.commands import MINI, copy_home, in_process


@pytest.fixture
def stages(finished_home: Path) -> list[Artifact]:
    settings = load_settings(finished_home)
    return stages_of(settings, [*all_runs(settings)][-1].run_id)  # the pipeline, whatever other tests ran since


def test_a_run_keeps_every_rollout_and_the_command_counts_them(finished_home, stages):
    assert stages
    for stage in stages:
        metrics = [json.loads(line) for line in (stage.path / "metrics.jsonl").read_text().splitlines()]
        rows = list(read_rollouts(stage.path))
        assert [step for step, _ in rollout_files(stage.path)] == [line["step"] for line in metrics]
        assert sum(row["tokens"] for row in rows) == sum(line["sampled_tokens"] for line in metrics)
        shown = json.loads(in_process("rollouts", stage.ref, "--home", finished_home, "--limit", "3", "--json"))
        assert shown["rollouts"] == len(rows) == sum(row["rollouts"] for row in shown["by_verdict"])
        assert [row["response"] for row in shown["listed"]] == [row["response"] for row in rows[:3]]
    first = next(read_rollouts(stages[0].path))
    words = in_process("rollouts", stages[0].ref, "--step", ":1", "--problem", first["problem_id"], "--full",
                       "--home", finished_home)  # fmt: skip
    assert words.count(first["problem_id"]) >= 4
    assert f"steps 1 to {len(rollout_files(stages[0].path))}" in words
    assert in_process("rollouts", stages[0].path, "--text", "no response has this")  # a directory; nothing matches


@pytest.mark.parametrize("newer", [False, True])
def test_a_stage_that_was_made_twice_is_counted_once(finished_home, stages, tmp_path, newer):
    home = tmp_path / "home"
    copy_home(finished_home / "artifacts", home / "artifacts")
    shutil.copytree(finished_home / "tracking", home / "tracking")
    last = home / "artifacts" / stages[-1].kind / stages[-1].path.name
    again = shutil.copytree(last, last.with_name(f"{stages[-1].name}-{'f' * 12}"))
    facts = json.loads((last / "manifest.json").read_text())
    later = {"key": "f" * 64, "finished_at": facts["finished_at"] + (1 if newer else -1)}
    (again / "manifest.json").write_text(json.dumps(facts | later))
    settings, refs = load_settings(home), [stage.ref for stage in stages]
    run = [*all_runs(settings)][-1].run_id
    named = f"checkpoint/{again.name}"
    for what, expected in ((run, refs), ("report", refs), (named, [named])):
        assert [each.ref for each in stages_of(settings, what)] == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["math-24", "--step", "4-6"], "give a number or a range"),
        (["math-24", "--outcome", "right"], "give one of passed, failed"),
        (["no-such-stage"], "neither a stage nor a run"),
    ],
)
def test_mistakes_are_told(finished_home, arguments, words):
    with pytest.raises(RatchetError, match=words):
        in_process("rollouts", *arguments, "--home", finished_home)


def test_judging_again_finds_what_was_paid_for_wrongly(finished_home, stages, tmp_path):
    home = tmp_path / "home"
    copy_home(finished_home / "artifacts", home / "artifacts")
    before = json.loads(in_process("verify", "--rollouts", stages[0].ref, "--home", home, "--workers", "2", "--json"))
    assert before["changes"] == [] and sum(row["judged again"] for row in before["stages"]) > 0
    # A verifier of that time paid for one wrong response, and not for one right one.
    step, file = rollout_files(home / "artifacts" / stages[0].kind / stages[0].path.name)[-1]
    rows = pq.ParquetFile(file).read().to_pylist()
    wrong, right, *_ = [row for row in rows if not row["truncated"] and row["outcome"] != "passed"]
    files = KeptRollouts.of_artifact(stages[0], ArtifactStore(home / "artifacts")).problems
    answers = {p["problem_id"]: p["answer"] for file in files for p in pq.read_table(file).to_pylist()}
    wrong["outcome"], right["response"] = "passed", f"\\boxed{{{answers[right['problem_id']]}}}"
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), file)
    target = tmp_path / "changes.jsonl"
    found = json.loads(
        in_process(
            "verify", "--rollouts", stages[0].ref, "--step", f"{step}:", "--output", target, "--home", home, "--json"
        )
    )
    assert {(c["change"], c["problem_id"], c["sample"]) for c in found["changes"]} == {
        ("overpaid", wrong["problem_id"], wrong["sample"]), ("underpaid", right["problem_id"], right["sample"])
    }  # fmt: skip
    written = [json.loads(line) for line in target.read_text().splitlines()]
    assert {line["response"] for line in written} == {wrong["response"], right["response"]}


def test_a_stage_is_judged_again_in_its_own_directory(finished_home, stages, tmp_path):
    work = tmp_path / "work"
    shutil.copytree(stages[0].path / FOLDER, work / FOLDER)
    with pytest.raises(RatchetError, match=r"no spec\.json"):
        in_process("verify", "--rollouts", work, "--home", finished_home)
    files = KeptRollouts.of_artifact(stages[0], ArtifactStore(finished_home / "artifacts")).problems
    spec = TrainingSpec.of(
        load_recipe(MINI), kind="stage", stage=stages[0].name, work_dir=work,
        problems={str(number): file for number, file in enumerate(files)},
    )  # fmt: skip
    (work / "spec.json").write_text(spec.model_dump_json())
    found, same = (
        json.loads(in_process("verify", "--rollouts", what, "--home", finished_home, "--json"))
        for what in (work, stages[0].ref)
    )
    assert found["changes"] == [] and found["stages"][0]["judged again"] == same["stages"][0]["judged again"] > 0


def test_the_page_holds_whole_groups_and_runs_nothing_but_its_script(stages, tmp_path):
    work = tmp_path / "stage"
    shutil.copytree(stages[0].path / FOLDER, work / FOLDER)
    _, file = rollout_files(work)[0]
    rows = pq.ParquetFile(file).read().to_pylist()
    rows[0]["response"] = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), file)
    page = rollouts_page([("first", work)], "Rollouts")
    data = re.search(r'<script type="application/json" id="rollouts">(.*?)</script>', page, re.DOTALL)
    shown = json.loads(data[1])
    assert shown[0]["response"] == rows[0]["response"] and "alert(1)</script>" not in page
    groups = {(row["step"], row["problem_id"]) for row in shown}
    everything = list(read_rollouts(work))
    assert len(shown) == sum((row["step"], row["problem_id"]) in groups for row in everything)
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    allowed = re.search(r"script-src '(sha256-[^']+)'", page)
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert len(scripts) == 1 and allowed[1] == f"sha256-{digest}"


def test_the_report_and_mlflow_lead_to_the_rollouts(finished_home, stages):
    [report] = (finished_home / "artifacts" / "report").glob("mini-*")
    assert (report / "rollouts.html").is_file() and 'href="rollouts.html"' in (report / "report.html").read_text()
    copies = {
        file.name for file in finished_home.rglob(f"{FOLDER}/step-*.parquet") if "artifacts/checkpoint" not in str(file)
    }
    assert copies == {file.name for stage in stages for _, file in rollout_files(stage.path)}


def written(work: Path, step: int, *rows: dict[str, Any]) -> Path:
    """A file of made-up rollouts, one for each of `rows`."""
    plain = {"bool": False, "string": "", "large_string": "", "int32": 0, "int64": 0, "double": 0.0}
    empty = {field.name: plain.get(str(field.type)) for field in SCHEMA}
    empty |= {"stage": "s", "domain": "math", "outcome": "failed", "decided_by": "", "problem_id": "p"}
    (work / FOLDER).mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist([empty | {"step": step} | row for row in rows], SCHEMA)
    pq.write_table(table, work / FOLDER / f"step-{step:08d}.parquet")
    return work


def test_two_groups_of_one_prompt_in_a_step_are_told_apart(tmp_path):
    groups = [{"outcome": "failed", "response": "first"}, {"outcome": "passed", "response": "second"}]
    work = written(tmp_path / "work", 1, *groups, groups[0] | {"response": "third"})
    shown = json.loads(in_process("rollouts", work, "--outcome", "failed", "--json"))["listed"]
    assert [row["response"] for row in shown] == ["first", "third"]


def test_a_page_of_growing_responses_keeps_its_limit(tmp_path):
    for step in range(1, 21):
        rows = ({"problem_id": f"p{n}", "response": "x" * 500 * step} for n in range(10))
        work = written(tmp_path / "work", step, *rows)
    shown = [*_sampled(work, 100_000)]
    assert len(shown) == 9 and sum(len(row["response"]) for row in shown) <= 100_000
