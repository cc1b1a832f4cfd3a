"""Runs ranks under the stub of CUDA and NCCL: `python -m tests.training.stub_ranks RANKS JOBS.json`.

A job has a `spec` (a file for `training.main` or `benchmarks.assumptions`, or of an evaluation), a `fault` to plant or
"", and a directory for `traces`. All are forked from here, because each rank would import its libraries for seconds."""

import json
import os
import runpy
import signal
import sys
from pathlib import Path

from tests.training import stub_accelerator


def one_rank(specification: str, fault: str, traces: str) -> None:
    import torch

    from ratchet.training import main, process, ranks

    stub_accelerator.State.directory = Path(traces)
    os.environ[ranks.LAUNCHER_PID] = str(os.getppid())
    if fault:
        # With a handler in Python, a rank that hangs within C++ would end 30 s later.
        ranks.die_with_launcher = lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL)
        FAULTS[fault](torch, process, ranks)
    with stub_accelerator.Devices():
        if "store_dir" in json.loads(Path(specification).read_text()):
            from ratchet.evaluation import sampling

            sampling.sample_share(Path(specification), Path(specification).parent, int(os.environ["RANK"]))
        elif "part" in json.loads(Path(specification).read_text()):
            sys.argv = ["assumptions", specification]
            runpy.run_module("benchmarks.assumptions", run_name="__main__")
        elif code := main.main(Path(specification)):
            sys.exit(code)


# ---------------------------------------------------------------------------------- faults to be caught


def late_device(torch, process, ranks) -> None:
    """The GPU is chosen only after the group was joined."""
    choose, join = torch.cuda.set_device, ranks.join

    def joined(minutes: float) -> None:
        torch.cuda.set_device = lambda device: None
        join(minutes)
        choose(int(os.environ["LOCAL_RANK"]))

    ranks.join = joined


def other_device(torch, process, ranks) -> None:
    """All ranks gather through the first GPU, and their group is of their own."""
    choose = torch.cuda.set_device
    torch.cuda.set_device = lambda device: choose(0)


def skipped_collective(torch, process, ranks) -> None:
    """Rank 0 leaves out a barrier."""
    _before_work(process, lambda: ranks.barrier() if ranks.rank() else None)


def other_order(torch, process, ranks) -> None:
    """Two groups, which the last rank makes in the other order."""

    def groups() -> None:
        last = torch.distributed.get_world_size() - 1
        members = [[0, last], [last]]
        for each in reversed(members) if ranks.rank() == last else members:
            torch.distributed.new_group(each)

    _before_work(process, groups)


def mixed_devices(torch, process, ranks) -> None:
    """A tensor of the CPU meets one of the GPU."""
    _before_work(process, lambda: torch.ones(2) + torch.ones(2, device=ranks.device()))


def _before_work(process, fault) -> None:
    run = process._run
    process._run = lambda *args: (fault(), run(*args))[1]


FAULTS = {each.__name__: each for each in (late_device, other_device, skipped_collective, other_order, mixed_devices)}


def main(count: int, jobs: Path) -> None:
    stub_accelerator.install(count)
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    from ratchet.training import launch

    launch.preload()
    for job in json.loads(jobs.read_text()):
        Path(job["traces"]).mkdir(parents=True, exist_ok=True)
        config = LaunchConfig(
            1, 1, count, run_id="stub", rdzv_backend="c10d", rdzv_endpoint="localhost:0", start_method="fork",
            logs_specs=DefaultLogsSpecs(log_dir=os.devnull), max_restarts=0, monitor_interval=0.1,
        )  # fmt: skip
        try:
            elastic_launch(config, one_rank)(job["spec"], job["fault"], job["traces"])
        except ChildFailedError:
            continue  # its ranks' traces and status say why


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
