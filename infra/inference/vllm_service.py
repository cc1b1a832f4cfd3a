"""`vllm-server` as a recipe's engine: vLLM servers (`vllm_server.py`) beside the trainers, and their client."""

import json
import os
import secrets
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from ratchet.data_curation.base.bounds import DeviceIndex
from ratchet.data_curation.base.protocol import Completion, Request, Sampling
from ratchet.data_curation.base.section import NotInKey
from ratchet.infra.inference.engine import (
    EngineResources,
    SamplingWorkload,
    TrainedModel,
    TrainingEngine,
    write_weights,
)
from ratchet.infra.inference.servers import Servers
from ratchet.infra.inference.vllm_common import AGAIN, MORE_ROOM, START_S, exchange_fields, require_vllm, visible_gpus
from ratchet.infra.inference.with_vllm import Vllm
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import last_lines, process_group

if TYPE_CHECKING:
    from ratchet.infra.recipe.training import Hardware

TOKEN_VARIABLE = "RATCHET_ENGINE_TOKEN"
CHECK_S = 5.0
"""Seconds to wait for a running server while a run is planned."""
CONNECT_S = 10.0
SLACK_S = 15.0
"""Seconds beyond the server's own time limit, so that the server reports the reason."""
RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class ServedVllm(Vllm):
    """vLLM in separate processes, on GPUs that do not train; an evaluation runs it inside its own processes."""

    url: NotInKey[str | tuple[str, ...] | None] = None
    """One or several running servers (`python -m ratchet.infra.inference.vllm_server`); none: the trainer starts them.
    Their token is in the environment variable RATCHET_ENGINE_TOKEN."""
    devices: NotInKey[tuple[DeviceIndex, ...]] = ()
    """GPUs for the servers that the trainer starts, `tensor_parallel` for each, counted among those that
    CUDA_VISIBLE_DEVICES leaves; the trainer's processes use the first `hardware.processes` GPUs."""

    @property
    def supports_async_sampling(self) -> bool:
        return True

    def check_hardware(self, hardware: "Hardware") -> None:
        if len(set(self.devices)) < len(self.devices):
            raise ValueError(f"engine.devices names a GPU twice: {list(self.devices)}")
        if len(self.devices) % self.tensor_parallel:
            raise ValueError(
                f"engine.devices has {len(self.devices)} GPUs, and each server takes engine.tensor_parallel "
                f"({self.tensor_parallel})"
            )
        if hardware.machines > 1 and self.url is None:
            raise ValueError(
                "several machines need engine.url: a server started by the trainer answers on its own machine only"
            )

    def check(self, python: str) -> None:
        require_vllm(python)  # even with a server elsewhere: an evaluation runs vLLM itself
        for url in self.urls:
            VllmService(url, self.token(), CHECK_S).close()

    @property
    def urls(self) -> tuple[str, ...]:
        return (self.url,) if isinstance(self.url, str) else self.url or ()

    def token(self) -> str:
        """The token of the servers at `url`. Raises RatchetError if the environment lacks it."""
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        if not token:
            raise RatchetError(f"training.engine.url is set, but {TOKEN_VARIABLE} is not: it holds the server's token")
        return token

    def needs(self, work: SamplingWorkload) -> EngineResources:
        engines = len(self.urls) or self._own
        batch = min(work.hardware.rollout_batch * work.ranks, -(-work.responses // engines))
        gpus, room = self.tensor_parallel, self._room(work)
        return EngineResources({}, room, batch, engines, gpus=gpus, more_room=MORE_ROOM, apart=True, transfer="disk")

    @contextmanager
    def open_for_training(
        self, policy: TrainedModel, hardware: "Hardware", model_dir: str, work: Path
    ) -> Iterator[TrainingEngine]:
        require_vllm()
        with self._servers(policy, hardware, model_dir, work / "vllm") as (urls, token):
            services = [VllmService(url, token, self.timeout_s) for url in urls]
            for service in services:
                check_shape(service, policy.model)
            push = partial(push_files, policy, services, work / "vllm")
            yield Servers(services, push, hardware.rollout_batch, policy.rank)

    @property
    def _own(self) -> int:
        return max(1, len(self.devices) // self.tensor_parallel)

    @contextmanager
    def _servers(
        self, policy: TrainedModel, hardware: "Hardware", model_dir: str, work: Path
    ) -> Iterator[tuple[Sequence[str], str]]:
        """URLs and token of the stage's servers, on every rank; rank 0 starts them if the recipe names none."""
        if self.urls:
            yield self.urls, self.token()
            return
        import torch

        with ExitStack() as stack:
            own: list[Any] = [None]
            if policy.rank == 0:
                batch = -(-hardware.rollout_batch * policy.ranks // self._own)
                own = [stack.enter_context(own_servers(self._own, model_dir, hardware.dtype, batch, self, work))]
            torch.distributed.broadcast_object_list(own, src=0)
            yield own[0]


class VllmService:
    """Client of the server at `url`, safe for threads.

    `version` is the version of weights that the server should have, "" before the first transfer. Raises RatchetError
    if the server is unreachable, refuses, is silent for `timeout_s`, dies, or samples with other weights.
    """

    def __init__(self, url: str, token: str, timeout_s: float) -> None:
        self.url, self.version, self._timeout_s = url, "", timeout_s
        self._client = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(timeout_s + SLACK_S, connect=CONNECT_S),
            limits=httpx.Limits(max_connections=None),
            trust_env=False,
        )
        with self._reporting():
            health = self._checked(self._client.get("/health")).json()
        self.model, self.shape = health["model"], health["shape"]
        self.positions = int(health["positions"])

    def close(self) -> None:
        self._client.close()

    def answer(self, batch: Sequence[Request], sampling: Sampling, left: threading.Event) -> Iterator[Completion]:
        """Yield one completion per request, as soon as it finishes. Ends soon after `left` is set, as does the server's
        work."""
        body = {"sampling": asdict(sampling), "requests": [(request.seed, request.prompt_ids) for request in batch]}
        missing = len(batch)
        with self._reporting(), self._client.stream("POST", "/generate", json=body) as reply:
            if reply.is_error:
                reply.read()
            self._checked(reply)
            for line in reply.iter_lines():  # an empty line is a heartbeat
                if left.is_set():
                    return
                if not line:
                    continue
                facts = json.loads(line)
                if "failure" in facts:
                    raise RatchetError(facts["failure"])
                if self.version not in ("", facts["weight_version"]):
                    raise RatchetError(
                        f"the vLLM server at {self.url} samples with weights {facts['weight_version']!r} instead of "
                        f"{self.version!r}. Was it restarted, or does another run use it? {AGAIN}"
                    )
                missing -= 1
                ids, logprobs = tuple(facts["token_ids"]), tuple(facts["logprobs"])
                yield Completion(**{**facts, "key": batch[facts["key"]].key, "token_ids": ids, "logprobs": logprobs})
        if missing:
            raise RatchetError(f"the vLLM server at {self.url} stopped {missing} responses short. {AGAIN}")

    def load_weights_from(self, directory: str, version: str) -> None:
        """Replace all weights in place by the safetensors files in `directory`, a path on the server."""
        with self._reporting():
            self._checked(self._client.post("/weights", json={"directory": directory, "version": version}))

    def _checked(self, reply: httpx.Response) -> httpx.Response:
        if reply.is_error:
            raise RatchetError(f"the vLLM server at {self.url}: {reply.text[:1000]} ({reply.status_code})")
        return reply

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise RatchetError(f"no vLLM server answers at {self.url} ({error}). Is it running? {AGAIN}") from error
        except httpx.TimeoutException as error:
            raise RatchetError(
                f"the vLLM server at {self.url} hangs: silent for {self._timeout_s:g} s (training.engine.timeout_s). "
                + AGAIN
            ) from error
        except httpx.TransportError as error:
            raise RatchetError(f"the vLLM server at {self.url} died: {error!r}. {AGAIN}") from error


def check_shape(service: VllmService, model: Any) -> None:
    """Raises RatchetError if the server's model cannot take this one's weights, or computes in another type."""
    mine = exchange_fields(model.config, model.dtype)
    differing = [f"{name} {value} and not {mine[name]}" for name, value in service.shape.items() if value != mine[name]]
    if differing:
        raise RatchetError(
            f"the vLLM server at {service.url} serves another model ({service.model}): {', '.join(differing)}. Start "
            "it with the model that the stage starts from, and with --dtype as training.hardware.dtype."
        )


def push_files(policy: TrainedModel, services: Sequence[VllmService], work: Path, version: str) -> dict[int, str]:
    """Send the policy's weights by files on a shared file system, as `servers.Push`."""
    import torch

    failed, directory = {}, work / f"weights-{version}"
    write_weights(policy, directory / "model.safetensors")
    if policy.rank == 0:
        with ThreadPoolExecutor(len(services)) as pool:
            loading = [pool.submit(service.load_weights_from, str(directory), version) for service in services]
        shutil.rmtree(directory, ignore_errors=True)
        for number, future in enumerate(loading):
            try:
                future.result()
            except Exception as error:  # the other ranks wait for what is sent below
                failed[number] = str(error) or repr(error)
    shared = [failed]
    torch.distributed.broadcast_object_list(shared, src=0)
    (failed,) = shared
    if len(failed) == len(services):
        raise RatchetError(failed[0])
    for service in services:
        service.version = version
    return failed


def _visible_name(device: int) -> str:
    """CUDA's name of the `device`-th GPU that this process may use. Raises RatchetError if there are not so many."""
    if not (visible := visible_gpus()):
        return str(device)
    if device >= len(visible):
        raise RatchetError(
            f"engine.devices has GPU {device}, but CUDA_VISIBLE_DEVICES={','.join(visible)} leaves {len(visible)} "
            "GPUs, which engine.devices counts from 0."
        )
    return visible[device]


@contextmanager
def own_servers(
    count: int, model_dir: str, dtype: str, batch_size: int, settings: ServedVllm, work: Path
) -> Iterator[tuple[list[str], str]]:
    """Start servers on this machine's loopback for the block: their URLs and token. They never outlive this process.
    Raises RatchetError if one does not start."""
    token = secrets.token_urlsafe(32)
    work.mkdir(parents=True, exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name not in RANK_VARIABLES}
    environment[TOKEN_VARIABLE] = token
    starting = []
    with ExitStack() as stack:
        for number in range(count):
            ready, log = work / f"vllm-{number}.url", work / f"vllm-{number}.log"
            ready.unlink(missing_ok=True)
            gpus = settings.devices[number * settings.tensor_parallel :][: settings.tensor_parallel]
            if gpus:
                environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(_visible_name, gpus))
            argv = [
                sys.executable, "-P", "-m", "ratchet.infra.inference.vllm_server", model_dir, "--port", "0",
                "--dtype", dtype, "--batch", str(batch_size), "--engine", settings.model_dump_json(),
                "--ready", str(ready),
            ]  # fmt: skip
            starting.append((stack.enter_context(process_group(argv, log, environment)), ready, log))
        deadline = time.monotonic() + START_S
        for process, ready, log in starting:
            while not ready.is_file():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RatchetError(f"the vLLM server did not start; the end of {log}:\n{last_lines(log, 15)}")
                time.sleep(0.1)
        yield [ready.read_text() for _, ready, _ in starting], token
