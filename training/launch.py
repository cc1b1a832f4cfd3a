"""All ranks of a warm start or a stage on this machine: `python -m training.launch PROCESSES SPEC.json`.

As `torchrun --standalone --nproc-per-node PROCESSES -m training.main SPEC.json` does, by the same launcher of torch's,
with one difference: without a GPU, torch, transformers and DeepSpeed are loaded once, here, and the ranks are forked
with all of it in place. That halves a start-up that is a third of a tiny stage. Beside a GPU each rank starts fresh,
because CUDA does not survive a fork.
"""

from __future__ import annotations

import sys
import uuid
from pathlib import Path

from training import main as one_rank


def launch(processes: int, specification: Path) -> None:
    """Run every rank to its end. Raises torch's ChildFailedError when one fails."""
    import torch
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    from training import process  # noqa: F401  what the forked ranks find already loaded

    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        start_method="spawn" if torch.cuda.is_available() else "fork",
        max_restarts=0,  # a stage that failed is started again by its step, from its last checkpoint
    )
    elastic_launch(config, _rank)(specification)


def _rank(specification: Path) -> None:
    code = one_rank.main(specification)
    if code:
        sys.exit(code)


if __name__ == "__main__":
    launch(int(sys.argv[1]), Path(sys.argv[2]))
