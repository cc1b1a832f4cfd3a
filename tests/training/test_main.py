"""The real thing: torch's launcher, two ranks, SIGKILL."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.base.problem_table import to_table
from ratchet.infra.recipe.recipe import Recipe
from ratchet.training.rollout_log import rollout_files
from ratchet.verifiers.processes import free_port
from tests.training.conftest import sums
from tests.training.processes import alive, of_no_group
from tests.waiting import happens

ROOT = Path(__file__).parents[2]
STEPS = 8
ENVIRONMENT = of_no_group() | {
    "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE",
    "TORCHINDUCTOR_CACHE_DIR": f"{gettempdir()}/torchinductor",  # else below the work directory
}  # fmt: skip
RECIPE = Recipe.model_validate(
    {
        "name": "micro",
        "model": {"prompt": {"math": "{prompt}", "code": "{prompt}"}},
        "training": {
            "checkpoint_every": 2,
            "hardware": {"processes": 2, "micro_batch_tokens": 200, "rollout_batch": 16},
            "stages": [
                {
                    "name": "math-12", "mix": {"math": 0.75, "code": 0.25}, "max_response_tokens": 12,
                    "steps": STEPS, "rollouts": 8, "prompts_per_batch": 4, "learning_rate": 1e-3,
                    "max_difficulty": 6, "advanced": {"difficulty_filter": {"easy": 1.0}},
                }
            ],
        },
    }
)  # fmt: skip


@pytest.fixture(scope="module")
def learnt_model(micro_model, alone, tmp_path_factory) -> Path:
    """The micro model after a short warm start, so that some answers are right and some are wrong."""
    from ratchet.data_curation.base.prompts import PromptFormat
    from ratchet.infra.recipe.training import Hardware, Optimizer, WarmStart
    from ratchet.training import warm_start
    from ratchet.training.checkpoint import Checkpoints
    from ratchet.training.journal import Journal
    from ratchet.training.policy import Policy

    work = tmp_path_factory.mktemp("learned")
    policy = Policy(micro_model, Hardware(), Optimizer())
    traces = [{"prompt": p.prompt, "response": f"\\boxed{{{p.answer}}}"} for p in sums(40)] * 16
    samples = warm_start.encode(traces, policy.tokenizer, PromptFormat(math="{prompt}"))[0]
    settings = WarmStart(batch_size=16, learning_rate=1e-2)
    metrics = Journal(work / "metrics.jsonl", 0, 0)
    warm_start.train(settings, 0, samples, policy, Checkpoints(work / "checkpoints", policy), metrics, 0)
    policy.save_model(work / "model")
    return work / "model"


def specification(work: Path, model: Path, **changes) -> dict[str, Any]:
    """A stage, with the files that it reads."""
    (work / "tmp").mkdir(parents=True, exist_ok=True)
    code = [replace(p, problem_id=f"code-{p.problem_id}", domain="code", difficulty=None) for p in sums(3)]
    for domain, problems in (("math", sums(40)), ("code", code)):
        pq.write_table(to_table(problems), work / f"{domain}.parquet")
    return {
        "kind": "stage", "recipe": RECIPE.model_dump(mode="json"), "stage": "math-12", "model_dir": str(model),
        "problems": {domain: str(work / f"{domain}.parquet") for domain in ("math", "code")},
        "traces": None, "validation": {}, "pass_rates": None, "work_dir": str(work / "work"), **changes,
    }  # fmt: skip


def start(work: Path, model: Path, before: tuple = (), after: tuple = (), **changes) -> subprocess.Popen:
    """A stage as a process of this test's; `before` and `after` what launches it."""
    spec = specification(work, model, **changes)
    (work / "spec.json").write_text(json.dumps(spec))
    command = [*before, sys.executable, "-m", "ratchet.training.launch", str(work / "spec.json"), *after]
    with open(work / "log", "a") as log:
        return subprocess.Popen(command, env={**ENVIRONMENT, "TMPDIR": str(work / "tmp")}, stdout=log, stderr=log)


def metrics(work: Path) -> list[dict]:
    path = work / "work" / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def timeless_part(line: dict) -> dict:
    measured = {"time", "seconds", "tokens_per_second", "memory_gb", "cpu_percent", "gpu_percent"}
    return {k: v for k, v in line.items() if k not in measured and not k.endswith("_seconds")}


def weights(work: Path) -> bytes:
    return (work / "work" / "model" / "model.safetensors").read_bytes()


def rollouts(work: Path) -> dict[str, bytes]:
    """Each step's file; together they have every sampled token once."""
    files = [file for _, file in rollout_files(work / "work")]
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    assert len({(row["step"], row["problem_id"], row["sample"]) for row in rows}) == len(rows)
    assert sum(row["tokens"] for row in rows) == sum(line["sampled_tokens"] for line in metrics(work))
    return {file.name: file.read_bytes() for file in files}


@pytest.fixture(scope="module")
def straight(learnt_model, tmp_path_factory) -> Path:
    """A stage that was left alone."""
    work = tmp_path_factory.mktemp("straight")
    assert start(work, learnt_model).wait() == 0, (work / "log").read_text()
    return work


def test_a_stage_whose_every_validation_forgot_says_that_it_returns_its_start(learnt_model, tmp_path):
    recipe = RECIPE.model_dump(mode="json")
    recipe["training"]["hardware"]["processes"] = 1
    recipe["evaluation"] = {"benchmarks": [{"name": "held-out", "domain": "math", "path": "math.parquet"}]}
    recipe["training"]["stages"][0] |= {  # at a rate that destroys the model
        "mix": {"math": 1.0}, "steps": 2, "learning_rate": 1.0, "validate_every": 1, "keep": {"math": 0.01},
    }  # fmt: skip
    recipe["training"]["stages"][0]["advanced"] |= {"result": "best"}
    held_out = {"held-out": str(tmp_path / "math.parquet")}
    assert start(tmp_path, learnt_model, recipe=recipe, validation=held_out).wait() == 0, (tmp_path / "log").read_text()
    status = json.loads((tmp_path / "work" / "status.json").read_text())
    assert status["state"] == "finished" and "every validation was below a floor" in status["message"]
    assert [line["validation"] for line in metrics(tmp_path)] == [0.0, 0.0]
    assert weights(tmp_path) == (learnt_model / "model.safetensors").read_bytes()


def start_on_machines(number: int, work: Path, model: Path, **settings) -> subprocess.Popen:
    """Launchers with one rank each, as two machines would have them, that find each other by host and port."""
    recipe = RECIPE.model_dump(mode="json")
    recipe["training"]["hardware"] |= {"machines": 2, "processes": 1, **settings}
    meeting = f"{socket.gethostname()}:{free_port('')}"
    twice = (sys.executable, str(Path(__file__).with_name("twice.py"))) if number == 2 else ()
    return start(work, model, before=twice, after=(meeting,), recipe=recipe)


@pytest.mark.slow
def test_a_killed_stage_leaves_no_process_and_ends_bit_for_bit_where_the_other_does(straight, learnt_model, tmp_path):
    """Killed twice: one rank of two machines, then the launcher of two ranks on one."""
    killed = tmp_path / "killed"
    launcher = start_on_machines(2, killed, learnt_model)
    assert happens(lambda: len(metrics(killed)) >= 3), (killed / "log").read_text()
    os.kill(max(alive(killed)), signal.SIGKILL)  # the youngest process
    assert launcher.wait() != 0
    assert happens(lambda: not alive(killed))

    launcher = start(killed, learnt_model)
    assert happens(lambda: len(metrics(killed)) >= 5), (killed / "log").read_text()
    launcher.send_signal(signal.SIGKILL)  # the launcher alone: its ranks must follow
    launcher.wait()
    assert happens(lambda: not alive(killed))
    assert not (killed / "work" / "status.json").exists()
    assert start_on_machines(2, killed, learnt_model).wait() == 0, (killed / "log").read_text()

    assert weights(straight) == weights(killed) != (learnt_model / "model.safetensors").read_bytes()
    timeless = [[timeless_part(line) for line in metrics(work)] for work in (straight, killed)]
    assert timeless[0] == timeless[1] and rollouts(straight) == rollouts(killed)
    assert [line["step"] for line in timeless[0]] == list(range(1, STEPS + 1))
    assert any(line["grad_norm"] > 0 for line in timeless[0])
    assert {"math/pass_rate", "code/pass_rate", "math/entropy"} <= timeless[0][0].keys()
    assert max(line["mismatch_largest"] for line in timeless[0]) < 1e-4
    decisions = [(work / "work" / "decisions.jsonl").read_text() for work in (straight, killed)]
    assert decisions[0] == decisions[1] and "max_difficulty" in decisions[0]
    status = json.loads((killed / "work" / "status.json").read_text())
    assert (status["state"], status["steps"]) == ("finished", STEPS)
    assert not [*(straight / "tmp").iterdir(), *(killed / "tmp").glob("torchelastic_*")]


@pytest.mark.slow
def test_a_killed_stage_with_an_adapter_ends_with_the_same_files(learnt_model, tmp_path):
    recipe = RECIPE.model_dump(mode="json")
    recipe["model"]["path"], recipe["training"]["advanced"]["lora"] = str(learnt_model), {"rank": 4}
    recipe["training"]["stages"][0] |= {"kl_coefficient": 0.01, "learning_rate": 3e-3}
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    assert start(straight, learnt_model, recipe=recipe).wait() == 0, (straight / "log").read_text()
    launcher = start(killed, learnt_model, recipe=recipe)
    assert happens(lambda: len(metrics(killed)) >= 5), (killed / "log").read_text()
    launcher.send_signal(signal.SIGKILL)
    launcher.wait()
    assert happens(lambda: not alive(killed))
    assert start(killed, learnt_model, recipe=recipe).wait() == 0, (killed / "log").read_text()
    files = [
        {str(file.relative_to(work)): file.read_bytes() for file in (work / "work" / "model").rglob("*.*")}
        for work in (straight, killed)
    ]
    assert files[0] == files[1] and "work/model/adapter/adapter_model.safetensors" in files[0]
    lines = metrics(straight)
    assert any(line["grad_norm"] > 0 for line in lines) and lines[-1]["kl"] > 0
    assert max(line["weight_probe"] for line in lines) < 1e-4
    assert weights(straight) != (learnt_model / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_a_killed_stage_of_tail_batching_ends_bit_for_bit_where_the_other_does(learnt_model, tmp_path):
    recipe = RECIPE.model_dump(mode="json")
    stage = recipe["training"]["stages"][0]
    stage |= {"mix": {"math": 1.0}, "max_response_tokens": 40, "rollouts": 4, "steps": 2 * STEPS}
    stage["advanced"] |= {"difficulty_filter": None, "tail_batching": 0.5}
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    assert start(straight, learnt_model, recipe=recipe).wait() == 0, (straight / "log").read_text()
    for steps in (3, 6, 9):
        launcher = start(killed, learnt_model, recipe=recipe)
        assert happens(lambda steps=steps: len(metrics(killed)) >= steps), (killed / "log").read_text()
        launcher.send_signal(signal.SIGKILL)
        launcher.wait()
        assert happens(lambda: not alive(killed))
    assert start(killed, learnt_model, recipe=recipe).wait() == 0, (killed / "log").read_text()
    assert weights(straight) == weights(killed) != (learnt_model / "model.safetensors").read_bytes()
    lines = [[timeless_part(line) for line in metrics(work)] for work in (straight, killed)]
    assert lines[0] == lines[1] and rollouts(straight) == rollouts(killed)
    assert any(line["deferred_tokens"] for line in lines[0]) and any(line["learned_waiting"] for line in lines[0])


@pytest.mark.slow
def test_a_machine_that_does_not_come_is_an_error_in_words(learnt_model, tmp_path):
    assert start_on_machines(1, tmp_path / "one", learnt_model, advanced={"timeout_minutes": 0.02}).wait() == 2
    status = json.loads((tmp_path / "one" / "work" / "status.json").read_text())
    assert "2 machines did not meet at" in status["message"] and "RATCHET_LAUNCHER" in status["message"]


def test_an_error_of_the_users_ends_with_code_2_and_a_message(tmp_path):
    """One rank, started without a launcher."""
    spec = {
        "kind": "stage", "recipe": RECIPE.model_dump(mode="json"), "stage": "math-12", "problems": {},
        "model_dir": str(tmp_path / "no model"), "traces": None, "validation": {}, "pass_rates": None,
        "work_dir": str(tmp_path / "work"),
    }  # fmt: skip
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    command = [sys.executable, "-m", "ratchet.training.main", str(tmp_path / "spec.json")]
    done = subprocess.run(command, env=ENVIRONMENT, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    status = json.loads((tmp_path / "work" / "status.json").read_text())
    assert status["state"] == "failed" and str(tmp_path / "no model") in status["message"]
    assert status["message"] in done.stderr and "Traceback" not in done.stderr
