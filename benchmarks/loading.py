"""Reading and handing over under ZeRO-3: memory of a rank, and how long a step waits.

    python -m benchmarks.loading [--model DIRECTORY] [--ranks 2] [--dtype float32]

Reading, each in processes of its own: every rank the whole model, of which DeepSpeed then leaves it its part; or every
rank only its part. The peak of each rank's resident memory is above what it had after its imports. Handing over:
seconds to gather all weights, as before an engine samples. Without `--model`, a random one of 228 million parameters,
whose matrices are as large as a large model's.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from ratchet.infra.recipe.model import GrownModel
from ratchet.infra.recipe.training import Hardware, Optimizer

WIDE = GrownModel(
    hidden_size=3072, layers=2, attention_heads=24, key_value_heads=24, intermediate_size=8192, vocabulary=320,
    max_positions=128,
)  # fmt: skip


def memory(field: str) -> float:
    """GB of this process, as the kernel says."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024 / 1e9


def loading(how: str, model: str, dtype: str) -> dict[str, float]:
    import deepspeed
    import torch

    from ratchet.infra.inference.models import read_model
    from ratchet.training.model import load_model

    Path("/proc/self/clear_refs").write_text("5")  # the peak is of what follows
    before = memory("VmRSS")
    if how == "whole":
        read, _ = read_model(model, dtype)
        deepspeed.zero.Init(module=read, dtype=getattr(torch, dtype))
    else:
        read, _ = load_model(model, dtype, sharded=True)
    return {"peak": memory("VmHWM") - before, "then": memory("VmRSS") - before}


def gathering(model: str, dtype: str) -> dict[str, float]:
    from ratchet.training import policy as policies

    policy = policies.Policy(model, Hardware.model_validate({"zero_stage": 3, "dtype": dtype}), Optimizer())
    seconds = {}
    for name, bucket in (("each", 1), ("buckets", policies.BUCKET)):
        policies.BUCKET = bucket
        for _ in range(2):  # the second time with what the first has allocated
            began = time.perf_counter()
            for _ in policy.weights():
                pass
            seconds[name] = time.perf_counter() - began
    return seconds


def one_rank(what: str, model: str, dtype: str) -> dict[str, float]:
    """The most that any rank has measured."""
    os.environ["OMP_NUM_THREADS"] = "1"
    from ratchet.training import ranks

    ranks.join()
    measured = gathering(model, dtype) if what == "gathering" else loading(what, model, dtype)
    everyone = ranks.gather(measured)
    ranks.leave()
    return {name: max(each[name] for each in everyone) for name in everyone[0]}


def in_ranks(number: int, *arguments: Any) -> dict[str, float]:
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        1, 1, number, run_id="ranks", rdzv_backend="c10d", rdzv_endpoint="localhost:0", start_method="spawn",
        logs_specs=DefaultLogsSpecs(log_dir=os.devnull),
    )  # fmt: skip
    return elastic_launch(config, one_rank)(*arguments)[0]


def measure(what: str, ranks: int, model: str, dtype: str) -> dict[str, float]:
    return in_ranks(ranks, what, model, dtype)


def grown(directory: Path) -> str:
    from ratchet.training.growth import grow

    grow(WIDE, ["What is 1 plus 2?"], 0, directory)
    return str(directory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="", help="directory with safetensors")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        model = arguments.model or grown(Path(scratch) / "model")
        size = sum(file.stat().st_size for file in Path(model).glob("*.safetensors")) / 1e9
        print(f"weights of {size:.2f} GB, {arguments.ranks} ranks, {arguments.dtype}")
        for how in ("whole", "shards"):
            found = measure(how, arguments.ranks, model, arguments.dtype)
            print(f"reading {how}: peak {found['peak']:.2f} GB a rank, then {found['then']:.2f} GB", flush=True)
        found = measure("gathering", arguments.ranks, model, arguments.dtype)
        print(
            f"handing all weights over: {found['each']:.2f} s gathered one by one, {found['buckets']:.2f} s in buckets"
        )


if __name__ == "__main__":
    main()
