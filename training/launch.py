"""This machine's ranks of a warm start or a stage: `python -m ratchet.training.launch SPEC.json [HOST:PORT]`.

As `torchrun … -m ratchet.training.main SPEC.json` does, by the same launcher of torch's, with one difference: without
a GPU, torch, transformers and DeepSpeed are loaded once, here or, for all stages of a run, in `infra.resident`, and the
ranks are forked with all of it in place. Beside a GPU each rank starts fresh, because CUDA does not survive a fork.

Where the recipe has several machines, the same command runs on each of them, and they meet at HOST:PORT, which one of
them is.
"""

import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

from ratchet.infra.launcher import STATUS
from ratchet.infra.recipe.training import Hardware
from ratchet.training import main as one_rank
from ratchet.training import ranks


def preload() -> bool:
    """Load what ranks need; whether they may be forked with it."""
    import torch
    from transformers import conversion_mapping

    from ratchet.training import process  # noqa: F401
    from ratchet.verifiers.math import domain  # noqa: F401

    conversion_mapping.get_checkpoint_conversion_mapping(
        ""
    )  # hundreds of expressions that a model's first read compiles
    return not torch.cuda.is_available()


def launch(specification: Path, meeting: str = "localhost:0") -> None:
    """Run every rank of this machine to its end. Raises torch's ChildFailedError when one fails; SystemExit, with the
    reason in `status.json`, when the machines do not meet."""
    start_method = "fork" if preload() else "spawn"
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.rendezvous import RendezvousError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    spec = json.loads(specification.read_text())
    hardware = Hardware.model_validate(spec["recipe"]["training"]["hardware"])
    config = LaunchConfig(
        min_nodes=hardware.machines,
        max_nodes=hardware.machines,
        nproc_per_node=hardware.processes,
        run_id="ratchet",
        rdzv_backend="c10d",
        rdzv_endpoint=meeting,
        rdzv_configs={"join_timeout": int(60 * hardware.timeout_minutes)},
        start_method=start_method,
        logs_specs=DefaultLogsSpecs(log_dir=os.devnull),  # ours is the task's; torch's stay behind in the system's
        max_restarts=0,  # a stage that failed is started again by its step, from its last checkpoint
    )
    if hardware.machines > 1:
        threading.Thread(target=_watch, args=(hardware.timeout_minutes,), daemon=True).start()
    os.environ[ranks.LAUNCHER_PID] = str(os.getpid())
    try:
        scratch = Path(spec["work_dir"]) / "checkpoints"  # deleted at the end, whatever is killed before
        scratch.mkdir(parents=True, exist_ok=True)
        # torch leaves a file of each rank that failed
        with tempfile.TemporaryDirectory(prefix=".launch-", dir=scratch) as tempfile.tempdir:
            elastic_launch(config, _rank)(specification)
    except RendezvousError as error:
        reason = (
            f"{hardware.machines} machines did not meet at {meeting} within {hardware.timeout_minutes:g} minutes, or "
            f"one has fallen silent since: {error or 'some did not come'}. RATCHET_LAUNCHER must run its command once "
            "on each of them, and each must reach that port."
        )
        work = Path(spec["work_dir"])
        if not (work / STATUS).is_file():  # where a rank has not said why
            one_rank.write_status(work, "failed", reason, 0)
        sys.exit(2)


def _watch(timeout_minutes: float) -> None:
    while True:  # connections are made at times that only torch knows
        ranks.give_up_silence(timeout_minutes)
        time.sleep(5)


def _rank(specification: Path) -> None:
    tempfile.tempdir = None  # the system's
    code = one_rank.main(specification)
    if code:
        sys.exit(code)


def main() -> None:
    launch(Path(sys.argv[1]), *sys.argv[2:])


if __name__ == "__main__":
    main()
