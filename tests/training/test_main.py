"""The real thing: torch's launcher, two ranks, SIGKILL."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.verifiers.processes import free_port
from tests.training.processes import (
    ENVIRONMENT,
    RECIPE,
    ROOT,
    STEPS,
    alive,
    done,
    finish,
    kill_when,
    metrics,
    rollouts,
    start,
    timeless_part,
    weights,
)
from tests.waiting import happens


@pytest.mark.parametrize(
    ("keep", "words"),
    [
        pytest.param({}, "", id="best"),
        pytest.param({"math": 0.01}, " and above all floors of `keep`", id="keep", marks=pytest.mark.slow),
    ],
)
def test_a_stage_that_only_loses_says_that_it_returns_its_start(keep, words, learnt_model, tmp_path):
    recipe = RECIPE.model_dump(mode="json")
    recipe["training"]["hardware"]["processes"] = 1
    recipe["evaluation"] = {"benchmarks": [{"name": "held-out", "domain": "math", "path": "math.parquet"}]}
    recipe["training"]["stages"][0] |= {  # at a rate that destroys the model
        "mix": {"math": 1.0}, "steps": 2, "learning_rate": 1.0, "validate_every": 1, "keep": keep,
    }  # fmt: skip
    recipe["training"]["stages"][0]["advanced"] |= {"result": "best"}
    held_out = {"held-out": str(tmp_path / "math.parquet")}
    finish(tmp_path, learnt_model, recipe=recipe, validation=held_out)
    status = json.loads((tmp_path / "work" / "status.json").read_text())
    assert status["state"] == "finished" and f"better than the stage's start{words}, so" in status["message"]
    assert [line["validation"] for line in metrics(tmp_path)] == [0.0, 0.0]
    *_, chosen = map(json.loads, (tmp_path / "work" / "decisions.jsonl").read_text().splitlines())
    assert (chosen["step"], chosen["rule"], chosen["evidence"]["step"]) == (2, "best", 0)
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

    kill_when(lambda: done(killed) >= 5, killed, learnt_model)
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
def test_a_killed_stage_with_an_adapter_and_tail_batching_ends_with_the_same_files(learnt_model, tmp_path):
    recipe = RECIPE.model_dump(mode="json")
    recipe["model"]["path"], recipe["training"]["advanced"]["lora"] = str(learnt_model), {"rank": 4}
    stage = recipe["training"]["stages"][0]
    stage |= {"mix": {"math": 1.0}, "max_response_tokens": 40, "rollouts": 4, "steps": 2 * STEPS}
    stage |= {"kl_coefficient": 0.01, "learning_rate": 3e-3}
    stage["advanced"] |= {"difficulty_filter": None, "tail_batching": 0.5}
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    finish(straight, learnt_model, recipe=recipe)
    for steps in (3, 6, 9):
        kill_when(lambda steps=steps: done(killed) >= steps, killed, learnt_model, recipe=recipe)
    finish(killed, learnt_model, recipe=recipe)
    files = [
        {str(file.relative_to(work)): file.read_bytes() for file in (work / "work" / "model").rglob("*.*")}
        for work in (straight, killed)
    ]
    assert files[0] == files[1] and "work/model/adapter/adapter_model.safetensors" in files[0]
    assert weights(straight) != (learnt_model / "model.safetensors").read_bytes()
    lines, same = ([timeless_part(line) for line in metrics(work)] for work in (straight, killed))
    assert lines == same and rollouts(straight) == rollouts(killed)
    assert any(line["grad_norm"] > 0 for line in lines) and lines[-1]["kl"] > 0
    assert max(line["weight_probe"] for line in metrics(straight)) < 1e-4
    assert any(line["deferred_tokens"] for line in lines) and any(line["learned_waiting"] for line in lines)


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
