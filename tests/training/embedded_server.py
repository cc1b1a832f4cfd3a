"""The server of vLLM, its protocol and its client, around the embedded engine, where vLLM is not installed:
`python -P -m tests.training.embedded_server MODEL URL_FILE`. `Embedded` is the recipe's engine of its client."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import uvicorn

from ratchet.data_curation.base.files import write_atomically
from ratchet.infra.inference.sampling_process import _replace
from ratchet.infra.inference.servers import Servers
from ratchet.infra.inference.transformers_engine import TransformersEngine
from ratchet.infra.inference.vllm_common import exchange_fields
from ratchet.infra.inference.vllm_server import VllmServer
from ratchet.infra.inference.vllm_service import TOKEN_VARIABLE, ServedVllm, VllmService, check_shape, push_files
from ratchet.verifiers.processes import bound_socket


class Embedded(ServedVllm):
    """`vllm-server` at `url`, without asking whether vLLM is installed here."""

    def check(self, python: str) -> None:
        pass

    @contextmanager
    def open_for_training(self, policy, hardware, model_dir, work):
        services = [VllmService(url, self.token(), self.timeout_s) for url in self.urls]
        for service in services:
            check_shape(service, policy.model)
        yield Servers(services, partial(push_files, policy, services, work), hardware.rollout_batch, policy.rank)


class Engine:
    """What `VllmServer` asks of an engine; one request at a time."""

    def __init__(self, model_dir: str) -> None:
        self._engine, self._version, self._lock = TransformersEngine.load(model_dir), "", threading.Lock()
        self.shape = exchange_fields(self._engine.model.config, self._engine.model.dtype)
        self.positions = self._engine.model.config.max_position_embeddings

    def stream(self, asked, sampling):
        with self._lock:
            for completion in self._engine.generate(asked, sampling):
                yield replace(completion, weight_version=self._version)

    def load_weights_from(self, directory: str, version: str) -> None:
        from safetensors.torch import load_file

        with self._lock:
            _replace(self._engine.model, load_file(Path(directory) / "model.safetensors"))
            self._version = version


def main() -> None:
    torch.set_num_threads(1)
    listening: Any = bound_socket("127.0.0.1", 0, backlog=64)
    server = VllmServer(Engine(sys.argv[1]), sys.argv[1], os.environ[TOKEN_VARIABLE])
    write_atomically(Path(sys.argv[2]), f"http://127.0.0.1:{listening.getsockname()[1]}")
    config = uvicorn.Config(server.application, log_level="warning", access_log=False, lifespan="off")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
