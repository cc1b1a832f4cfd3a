"""`ratchet plan` and `ratchet preflight` as a person calls them."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.flows.preflight import endpoints
from ratchet.infra.recipe import load_recipe
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.settings import load_settings
from ratchet.tasks.plan import Plan
from ratchet.verifiers.errors import RatchetError
from tests.flows.commands import MINI, ROOT, in_process

CONFIG = {
    "model_type": "qwen2", "vocab_size": 151936, "hidden_size": 1536, "num_hidden_layers": 28,
    "num_attention_heads": 12, "num_key_value_heads": 2, "intermediate_size": 8960, "tie_word_embeddings": False,
}  # fmt: skip


@pytest.fixture
def model(tmp_path) -> str:
    """A model's configuration, which is all that a plan reads of it."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(CONFIG))
    return f"model.path={tmp_path / 'model'}"


def test_a_plan_is_told_in_words_and_as_json(model, tmp_path):
    asked = ("plan", "1.5b-1gpu", "--machine", "2x8xH100", "--price", "2", "--set", model, "--home", tmp_path)
    said = in_process(*asked)
    assert "1,777,030,656 parameters on 16 x H100" in said and "total" in said and "published" in said
    assert "GPU hours" in said and ", MFU " in said
    for line in ("as it is", "10 x prompts", "100 x GPUs", "100 x length", "KV cache"):
        assert line in said
    found = json.loads(in_process(*asked, "--json"))
    assert [stage["stage"] for stage in found["stages"]] == ["math-4k", "math-8k"]
    steps = sum(stage["step_seconds"] * stage["steps"] for stage in found["stages"]) / 3600
    overhead = sum(sum(stage["overhead"].values()) for stage in found["stages"]) / 3600
    assert all(stage["overhead"].keys() == {"starts", "validation"} for stage in found["stages"])
    evaluations = found["evaluations"]
    assert evaluations["number"] == 3 and evaluations["hours_each"] > 0 and overhead > 0
    hours = steps + overhead + 3 * evaluations["hours_each"]
    assert found["hours"] == pytest.approx(hours) and found["cost"] == pytest.approx(hours * 2 * 16)
    for stage in found["stages"]:
        assert stage["step_seconds"] == pytest.approx(sum(stage["seconds"].values()))
    assert not found["rates_measured"] and len(found["growth"]) == 7
    longer = json.loads(in_process(*asked, "--json", "--mean", "0.9"))
    assert longer["hours"] > found["hours"]


@pytest.mark.parametrize(("gib", "code"), [(24, 0), (1, 2)])
def test_a_dry_run_says_how_long_training_takes_here_and_ends_if_memory_is_short(
    typed, tmp_path, monkeypatch, gib, code
):
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("ratchet.training.machine.memory_bytes", lambda: gib * 2**30)
    asked = ("run", "tiny", "--dry-run", "--home", tmp_path, "--set", "training.hardware.processes=2")
    done = typed(*asked)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == code, said
    assert "Training, without the warm start, and evaluation: about" in said and f"cores ({gib} GiB)" in said
    steps = ("decontaminate math", "majority vote math", "validate tests code", "train math-60", "report tiny")
    assert all(step in said for step in steps) and not (tmp_path / "artifacts").exists()
    assert ("Not enough memory: math-36 needs" in said) == bool(code)
    plan = in_process("plan", "tiny", "--home", tmp_path, "--set", "training.hardware.processes=2")
    assert ("Not enough memory" in plan) == bool(code) and "Not counted: the warm start, " in " ".join(plan.split())


def problems(directory, count):
    """A file of as many curated problems."""
    path = directory / "kept.parquet"
    pq.write_table(pa.table({"problem_id": range(count)}), path)
    return path


def test_a_plan_warns_before_gpus_wait(tmp_path):
    """7B on the paper's 128 GPUs: they wait for the longest responses, and a quarter of them does it for half."""
    seven = {"hidden_size": 3584, "num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944}
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | seven))
    recipe, settings = load_recipe("acereason-7b", [f"model.path={tmp_path}"]), load_settings(tmp_path)
    many = Plan(recipe, settings, "16x8xH100")
    selected, waiting, wasted = many.warnings()
    assert selected.startswith(
        "aime24, aime25, livecodebench-v5: these benchmarks choose weights or stop stages (math-8k"
    )
    assert "empty for more than 40%" in waiting and all(stage.name in waiting for stage in recipe.training.stages)
    assert f"times the {many.smaller.gpu_hours:,.0f} on 32 GPUs" in wasted
    assert many.gpu_hours == many.hours * 128 > 1.5 * many.smaller.gpu_hours
    assert many.smaller.machine.count == 32 and many.smaller.gpu_hours == Plan(recipe, settings, "4x8xH100").gpu_hours
    measured = {name: passes.get("pass rates", 0) / 3600 for name, passes in many.overhead.items()}
    assert {name for name, hours in measured.items() if hours > 1} == {"math-24k", "math-32k"}
    assert many.uncounted == ["codeforces"] and many.evaluations == 4
    few = Plan(recipe, settings, "2x8xH100")
    assert not any("GPU hours" in words for words in few.warnings())
    curated = {"math": problems(tmp_path, 4000)}
    assert (
        Plan(recipe, settings, "16x8xH100", curated=curated).overhead["math-24k"]["pass rates"]
        < 3600 * measured["math-24k"] / 2
    )
    assert Plan(recipe, settings, "H100").smaller is None


def test_a_plan_counts_the_problems_of_its_own_curation_only(model, finished_home):
    """The home has a small recipe's few problems of both domains, which another recipe does not train on."""
    home, tail = ("--home", finished_home), ("--set", "training.stages.0.advanced.tail_batching=0.25")
    many = ("--set", "training.stages.0.prompts_per_batch=4000", "--set", "training.stages.0.updates_per_batch=1")
    with pytest.raises(RatchetError, match=r"samples 5000 prompts a step, and there are \d{1,3}:"):
        in_process("plan", MINI, *home, *tail, *many)
    assert "steps" in in_process("plan", "1.5b-1gpu", *home, *tail, "--set", model)


def test_gpus_that_only_sample_are_paid_for(model, tmp_path):
    """Eight servers' GPUs beside those that train; a copy of the weights is said."""
    served = "training.engine={kind: vllm-server, url: [http://a:1, http://b:1], tensor_parallel: 4}"
    asked = ("plan", "1.5b-1gpu", "--machine", "1x8xH100", "--set", model, "--set", served, "--home", tmp_path)
    found = json.loads(in_process(*asked, "--json"))
    assert found["gpus"] == 16 and found["gpu_hours"] == pytest.approx(16 * found["hours"])
    assert "8 x H100 (79 GiB) and 8 that only sample" in in_process(*asked)
    many = ("plan", "acereason-7b", "--machine", "16x8xH100", "--set", model, "--home", tmp_path)
    assert "ZeRO 3 with a copy of the weights on every 8 GPUs" in " ".join(in_process(*many).split())


def test_without_a_machine_the_recipes_is_assumed_and_said(model, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    said = in_process("plan", "prorl-1.5b", "--set", model, "--home", tmp_path)
    assert "on 32 x H100" in said and "each of the 4 x 8 ranks" in " ".join(said.split())
    small = in_process("plan", MINI, "--home", tmp_path)
    assert "on CPU with" in small and "assumed;" not in small


def test_one_stage_is_planned_alone(tmp_path):
    asked = ("plan", MINI, "--machine", "1xH100", "--json", "--home", tmp_path)
    whole, one = (json.loads(in_process(*asked, *option)) for option in ((), ("--stage", "code-32")))
    assert [row["stage"] for row in one["stages"]] == ["code-32"] and one["stages"][0] in whole["stages"]


def test_a_dead_endpoint_is_red_beside_one_that_answers(tmp_path):
    teacher = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "attempts": 1}
    tiny = {"kind": "ratchet.examples.tiny_world.teacher", "model": "careful"}
    recipe = Recipe.model_validate({"name": "r", "curation": {"math": {"teacher": teacher}, "code": {"teacher": tiny}}})
    settings = load_settings(tmp_path)
    found = list(endpoints(recipe, replace(settings, tracking_uri="http://127.0.0.1:9")))
    assert [(name, state) for name, state, _ in found] == [
        ("teacher math", "FAIL"), ("teacher code", "OK"), ("tracking", "FAIL"),
    ]  # fmt: skip
    assert "127.0.0.1:9" in found[0][2] and "127.0.0.1:9" in found[2][2]
    assert [name for name, _, _ in endpoints(recipe, settings)] == ["teacher math", "teacher code"]  # MLflow is a file
    for files, asked in ([], ["teacher warm start"]), (["mine.jsonl"], []):
        training = {"warm_start": {"teacher": tiny, "files": files}}
        own = Recipe.model_validate({"name": "r", "training": training})
        assert [name for name, _, _ in endpoints(own, settings)] == asked


def read(output: str) -> dict[str, str]:
    words = [line.split() for line in output.splitlines() if line.startswith(("OK ", "FAIL ", "SKIP "))]
    return {" ".join(line[1:3]) if line[1] in ("step", "judge", "teacher") else line[1]: line[0] for line in words}


@pytest.mark.slow
def test_two_ranks_from_the_command_line(finished_home, ratchet, tmp_path):
    """The launcher, a kill and a resume, and the plan that follows; then a rank with another torch."""
    done = ratchet("preflight", MINI, "--home", finished_home)
    assert done.returncode == 0, done.stdout + done.stderr
    found = read(done.stdout)
    assert set(found.values()) == {"OK"} and {"links", "kill", "resume", "judge math", "judge code"} <= set(found)
    planned = json.loads(ratchet("plan", MINI, "--home", finished_home, "--json").stdout)
    assert planned["rates_measured"] and planned["hours"] > 0

    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.metadata as m, os, types\n"
        "real, old = m.distributions, types.SimpleNamespace(name='torch', version='0.1')\n"
        "def found():\n    for each in real():\n"
        "        yield old if (each.name, os.environ.get('RANK')) == ('torch', '1') else each\n"
        "m.distributions = found\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = ratchet("preflight", MINI, "--home", tmp_path / "home", PYTHONPATH=path)
    assert done.returncode == 1
    assert [name for name, state in read(done.stdout).items() if state == "FAIL"] == ["versions"], done.stdout
    assert str(ROOT) not in done.stderr
