"""Sending the policy's weights to vLLM servers, by files or by vLLM's weight transfer."""

# pyright: reportMissingImports=false
# vLLM is an extra, and is not installed where types are checked.
import os
import shutil
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import torch
from safetensors.torch import save_file
from vllm.distributed.weight_transfer import WeightTransferTrainerFactory
from vllm.distributed.weight_transfer.base import ParamMeta, WeightSource
from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo

from ratchet.infra.inference.engine import TrainedModel
from ratchet.infra.inference.servers import Push
from ratchet.infra.inference.vllm_common import AGAIN
from ratchet.infra.store.files import disk_errors
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import free_port

if TYPE_CHECKING:
    from ratchet.infra.inference.vllm_service import ServedVllm, VllmService


def push_to(services: "Sequence[VllmService]", policy: TrainedModel, settings: "ServedVllm", work: Path) -> Push:
    """The recipe's way of sending weights. Collective."""
    if settings.weight_transfer == "disk":
        return lambda version: _push_files(policy, services, work, version)
    with _bounded(settings.timeout_s, "joining vLLM's weight transfer"):
        engines = [
            WeightTransferTrainerFactory.trainer_init(
                _init_info(service, policy), client=service, source=PolicyWeights(policy)
            )
            for service in services
        ]

    def push(version: str) -> dict[int, str]:
        for service, engine in zip(services, engines, strict=True):
            service.version = version
            with _bounded(settings.timeout_s, "sending weights to vLLM"):
                engine.send_weights()
                torch.distributed.barrier()
        return {}

    return push


def _push_files(policy: TrainedModel, services: "Sequence[VllmService]", work: Path, version: str) -> dict[int, str]:
    weights, failed = {}, {}
    for name, weight in policy.weights():
        if policy.rank == 0:
            weights[name] = weight.to("cpu", copy=True).contiguous()
    if policy.rank == 0:
        directory = work / f"weights-{version}"
        with disk_errors(directory):
            directory.mkdir(parents=True)
            save_file(weights, directory / "model.safetensors")
        with ThreadPoolExecutor(len(services)) as pool:
            loading = [pool.submit(service.load_weights_from, str(directory), version) for service in services]
        shutil.rmtree(directory)
        for number, future in enumerate(loading):
            try:
                future.result()
            except RatchetError as error:
                failed[number] = str(error)
    shared = [failed]
    torch.distributed.broadcast_object_list(shared, src=0)
    (failed,) = shared
    if len(failed) == len(services):
        raise RatchetError(failed[0])
    for service in services:
        service.version = version
    return failed


def _init_info(service: "VllmService", policy: TrainedModel) -> NCCLTrainerInitInfo:
    server = urlsplit(service.url)
    with socket.create_connection((server.hostname, server.port)) as connection:
        address = connection.getsockname()[0]  # this machine's, as the server can reach it
    return NCCLTrainerInitInfo(
        rank=policy.rank, master_address=address, master_port=free_port(address), world_size=1 + service.workers
    )


class PolicyWeights(WeightSource):
    """A DeepSpeed policy for vLLM: whole tensors, one at a time, gathered by all ranks in the same order."""

    def __init__(self, policy: TrainedModel) -> None:
        self._policy = policy

    def metadata(self) -> list[ParamMeta]:
        # `ds_shape`: under ZeRO-3 the parameter itself is empty.
        return [
            ParamMeta(name, weight.dtype, tuple(getattr(weight, "ds_shape", weight.shape)))
            for name, weight in self._policy.named_weights()
        ]

    def __iter__(self) -> Iterator[tuple[str, torch.Tensor]]:
        return self._policy.weights()


@contextmanager
def _bounded(seconds: float, what: str) -> Iterator[None]:
    """Report the failure of a collective. One that waits for a dead peer cannot be interrupted: after `seconds` the
    process exits."""

    def end() -> None:
        print(f"error: {what} took more than {seconds:g} s (training.engine.timeout_s). {AGAIN}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(2)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except RuntimeError as error:  # NCCL's
        raise RatchetError(f"{what} failed: {error}. Did the vLLM server die? {AGAIN}") from error
    finally:
        timer.cancel()
