"""How busy the machines are."""

import time
from contextlib import suppress
from statistics import fmean
from threading import Thread

import psutil
import torch

from ratchet.training import ranks

EVERY_S = 1.0


class Use:
    """Percent since the last report: `cpu_percent` of all cores of the ranks' machines, whoever uses them, and
    `gpu_percent`, the share of time in which the ranks' GPUs run a kernel (where `nvidia-ml-py` is installed)."""

    def __init__(self) -> None:
        psutil.cpu_percent()  # begins the first interval
        self._gpu: list[float] = []
        if torch.cuda.is_available():
            Thread(target=self._watch, args=(torch.cuda.current_device(),), daemon=True).start()

    def _watch(self, device: int) -> None:
        """NVML knows only the last moment."""
        with suppress(ModuleNotFoundError, RuntimeError):  # not installed, or no driver that tells
            while True:
                self._gpu.append(torch.cuda.utilization(device))
                time.sleep(EVERY_S)

    def report(self) -> dict[str, float]:
        """Collective."""
        gpu, self._gpu = self._gpu, []
        mine = {"cpu_percent": psutil.cpu_percent()} | ({"gpu_percent": fmean(gpu)} if gpu else {})
        everyone = ranks.gather(mine)
        names = dict.fromkeys(name for rank in everyone for name in rank)
        return {name: fmean(rank[name] for rank in everyone if name in rank) for name in names}
