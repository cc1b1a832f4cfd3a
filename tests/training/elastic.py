"""Ranks in processes of their own, for the programs that `test_invariance.py` compares one rank with."""

import sys
from collections.abc import Callable
from pathlib import Path

from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from ratchet.training import launch


def run(one_rank: Callable[[str, Path], None], ranks: int) -> None:
    """With the program's arguments, MODEL_DIR and OUT_DIR, where the ranks' logs go too."""
    model, out = sys.argv[1:]
    launch.preload()  # once, not in each rank
    config = LaunchConfig(
        1, 1, ranks, run_id=one_rank.__module__, rdzv_backend="c10d", rdzv_endpoint="localhost:0", start_method="fork",
        logs_specs=DefaultLogsSpecs(log_dir=out),
    )  # fmt: skip
    elastic_launch(config, one_rank)(model, Path(out))
