"""A backend of vLLM's weight transfer over gloo, for machines without GPUs: NCCL's, with another wire.

The handshake, and the order of calls on both sides, are vLLM's own (`vllm.distributed.weight_transfer.nccl_engine`).
"""

# pyright: reportMissingImports=false
# vLLM is an extra, and is not installed where types are checked.
from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import torch
from torch.distributed import BroadcastOptions, PrefixStore, ProcessGroupGloo  # pyright: ignore
from vllm.distributed.utils import create_tcp_store
from vllm.distributed.weight_transfer import WeightTransferEngineFactory, WeightTransferTrainerFactory
from vllm.distributed.weight_transfer.nccl_engine import (
    NCCLTrainerInitInfo,
    NCCLTrainerWeightTransferEngine,
    NCCLWeightTransferEngine,
)

TIMEOUT = timedelta(minutes=5)


def register() -> None:
    """Make the backend known to vLLM in this process, on either side."""
    if "gloo" not in WeightTransferEngineFactory._registry:
        WeightTransferEngineFactory.register_engine("gloo", GlooWeightTransferEngine)
        WeightTransferTrainerFactory.register_engine("gloo", GlooTrainerWeightTransferEngine)


class _Wire:
    """Trainer's rank 0 and the engine's workers."""

    def __init__(self, address: str, port: int, rank: int, world_size: int) -> None:
        # Bound by us: left to itself a store listens on every address of the machine.
        listening = socket.create_server((address, port)) if rank == 0 else None
        store = create_tcp_store(address, port, listening, world_size=world_size, is_master=rank == 0, timeout=TIMEOUT)
        self._group: Any = ProcessGroupGloo(PrefixStore("weights", store), rank, world_size, TIMEOUT)

    def broadcast(self, tensor: torch.Tensor) -> None:
        options = BroadcastOptions()
        options.rootRank = 0
        self._group.broadcast([tensor], options).wait()

    def destroy(self) -> None:
        del self._group


@dataclass
class GlooTrainerInitInfo(NCCLTrainerInitInfo):
    backend: ClassVar[str] = "gloo"


class GlooWeightTransferEngine(NCCLWeightTransferEngine):
    """The worker's side."""

    def init_transfer_engine(self, init_info: Any) -> None:
        rank = init_info.rank_offset + self.parallel_config.rank
        self.model_update_group = _Wire(init_info.master_address, init_info.master_port, rank, init_info.world_size)

    def update_weights(self, update_info: dict[str, Any]) -> None:
        self.receive_weights(self.parse_update_info(update_info))  # and no accelerator to wait for

    def receive_weights(self, update_info: Any) -> None:
        for name, dtype, shape in zip(update_info.names, update_info.dtype_names, update_info.shapes, strict=True):
            weight = torch.empty(shape, dtype=getattr(torch, dtype))
            self.model_update_group.broadcast(weight)
            self.model.load_weights([(name, weight)])


class GlooTrainerWeightTransferEngine(NCCLTrainerWeightTransferEngine):
    """The trainer's side: rank 0 sends, the others only take part in gathering what is sent."""

    @classmethod
    def trainer_init(cls, init_info: Any, *, client: Any, source: Any = None) -> GlooTrainerWeightTransferEngine:
        engine = cls(client=client, source=source, is_sender=init_info.is_sender)
        if engine.is_sender:
            address, port, world_size = init_info.master_address, init_info.master_port, init_info.world_size
            where = {"master_address": address, "master_port": port, "world_size": world_size, "rank_offset": 1}
            with ThreadPoolExecutor(1) as aside:  # both sides meet inside
                joined = aside.submit(client.init_weight_transfer_engine, where)
                engine.model_update_group = _Wire(address, port, 0, world_size)
                joined.result()
        return engine

    def _broadcast(self, source: Any, meta: Any) -> None:
        for _, tensor in self._checked_iter(source, meta):
            if self.is_sender:
                self.model_update_group.broadcast(tensor.contiguous())
