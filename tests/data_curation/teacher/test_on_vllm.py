"""The teacher's engine against vLLM itself, where there is one: RATCHET_TEST_VLLM names an interpreter that has it."""

import importlib.util
import os
import socket
import subprocess
import sys
import time
from types import SimpleNamespace
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from ratchet.data_curation.base.openai_engine import OpenAIEngine
from ratchet.verifiers.errors import RatchetError
from tests.data_curation.teacher.test_attempts import ASKED, BAD_DAY, SUMS, ask, collect
from tests.infra.tiny_endpoint import FaultyProxy, grow_model

PYTHON = os.environ.get("RATCHET_TEST_VLLM") or (sys.executable if importlib.util.find_spec("vllm") else "")
pytestmark = pytest.mark.skipif(not PYTHON, reason="no vLLM here; RATCHET_TEST_VLLM can name an interpreter with it")


@pytest.fixture(scope="module")
def vllm(tmp_path_factory):
    """A server on a port of its own, of the tiny model, on the CPU."""
    model = grow_model(tmp_path_factory.mktemp("vllm") / "model")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = [
        "--model", str(model), "--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port), "--dtype",
        "float32", "--max-model-len", "256", "--max-num-seqs", "16", "--enforce-eager",
    ]  # fmt: skip
    settings = {
        "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    with open(model.parent / "vllm.log", "w") as log:
        server = subprocess.Popen(
            [PYTHON, "-m", "vllm.entrypoints.openai.api_server", *arguments],
            env={**os.environ, **settings}, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        while not _up(port):
            assert server.poll() is None, (model.parent / "vllm.log").read_text()[-3000:]
            time.sleep(0.5)
        yield SimpleNamespace(port=port, url=f"http://127.0.0.1:{port}/v1")
    finally:
        server.terminate()
        server.wait()


def _up(port: int) -> bool:
    try:
        return urlopen(f"http://127.0.0.1:{port}/health", timeout=2).status == 200
    except (URLError, OSError):
        return False


def test_a_bad_day_in_front_of_vllm_changes_no_answer(vllm, tmp_path):
    proxy = FaultyProxy(vllm, BAD_DAY)
    try:
        quiet = ask(vllm.url, tmp_path / "quiet.jsonl")
        assert "length" in quiet["finish_reason"].to_pylist()
        assert {*quiet["counted_by"].to_pylist()} == {"teacher"}
        assert ask(proxy.url, tmp_path / "bad.jsonl").equals(quiet)
        assert set(BAD_DAY) <= set(proxy.met)
    finally:
        proxy.close()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "another"}, r"404: The model `another` does not exist.*0 of 36 answers are in"),
        ({"max_tokens": 4096}, r"no request is accepted \(400: max_tokens=4096 cannot be greater"),
    ],
)
def test_what_vllm_will_never_do_is_said_at_once(vllm, tmp_path, settings, message):
    teacher = ASKED.model_copy(update={"base_url": vllm.url, **settings})
    engine = OpenAIEngine.for_teacher(teacher)
    try:
        with pytest.raises(RatchetError, match=message):
            collect(SUMS, engine, tmp_path / "journal.jsonl", teacher)
    finally:
        engine.close()
