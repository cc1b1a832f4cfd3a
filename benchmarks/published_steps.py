"""Published times of reinforcement-learning steps beside what `ratchet plan` says of them: the table of docs/scaling.md.

    python -m benchmarks.published_steps

Each row is a run whose model, GPUs, batch and lengths are given where it was published. The rates of `training/machine.py`
were fitted to those marked `fitted`; the others were looked at afterwards. Other frameworks did the work, so what is
checked is the arithmetic of a step, not the speed of ours. Rows whose mean length is not given say what was taken.
"""

from __future__ import annotations

from dataclasses import dataclass

from ratchet.infra.recipe.training import Stage, Training
from ratchet.training.estimate import Estimate, Shape, estimate
from ratchet.training.machine import told_machine

SHAPES = {
    "Llama-3.1-8B": Shape(128256, 4096, 32, 32, 8, 128, 14336, tied=False),
    "Qwen3-32B": Shape(151936, 5120, 64, 64, 8, 128, 25600, tied=False),
    "R1-Distill-Qwen-7B": Shape(152064, 3584, 28, 28, 4, 128, 18944, tied=False),
    "R1-Distill-Qwen-1.5B": Shape(151936, 1536, 28, 12, 2, 128, 8960, tied=False),
}
NEMO = "https://github.com/NVIDIA-NeMo/RL/blob/{}/docs/about/performance-summary.md"
AREAL = "https://github.com/inclusionAI/AReaL/blob/{}/examples/README.md"
DEEPSCALER = "https://github.com/agentica-project/deepscaler"


@dataclass(frozen=True)
class Published:
    """A run. `machine` are the GPUs that train; `servers` those that sample beside them (0: the same ones), in copies of
    `tensor_parallel`. `mean` and `longest` are response tokens, `seconds` those of a step."""

    model: str
    what: str
    machine: str
    prompts: int
    rollouts: int
    longest: int
    mean: float
    seconds: tuple[float, float]
    """Least and most that was published."""
    source: str
    date: str
    fitted: bool = False
    servers: int = 0
    tensor_parallel: int = 1
    updates: int = 4
    kl: float = 0.0
    zero: int = 1
    recomputed: bool = True
    length_given: bool = True

    def estimate(self) -> Estimate:
        engine: dict = {"kind": "vllm", "memory_share": 0.6}
        if self.servers or self.tensor_parallel > 1:
            devices = tuple(range(self.servers or told_machine(self.machine).count))
            engine = {
                "kind": "vllm-server", "memory_share": 0.8, "devices": devices, "weight_transfer": "nccl",
                "tensor_parallel": self.tensor_parallel,
            }  # fmt: skip
        stage = Stage.model_validate(
            {
                "name": "s", "domain": "math", "max_response_tokens": self.longest, "steps": 1, "rollouts": self.rollouts,
                "prompts_per_batch": self.prompts, "updates_per_batch": self.updates, "kl_coefficient": self.kl,
            }
        )  # fmt: skip
        hardware = {
            "zero_stage": self.zero, "dtype": "bfloat16", "micro_batch_tokens": 32768, "rollout_batch": 512,
            "activation_checkpointing": self.recomputed, "packed": True,
        }  # fmt: skip
        training = Training.model_validate({"hardware": hardware, "engine": engine, "checkpoint_every": 10**6})
        return estimate(SHAPES[self.model], stage, training, told_machine(self.machine), self.mean / self.longest)


def _nemo(model: str, machine: str, mean: int, seconds: float, version: str, date: str, **more) -> Published:
    return Published(
        model, f"NeMo RL {version}", machine, 64, 32, 4096, mean, (seconds, seconds), NEMO.format(version), date, kl=0.01, **more
    )  # fmt: skip


def _boba(model: str, gpus: int, seconds: float, mean: int, **more) -> Published:
    """Half of the GPUs sample, half train."""
    return Published(
        model, "AReaL v0.2", f"{max(1, gpus // 16)}x{min(8, gpus // 2)}xH800", 512, 16, 27648, mean, (seconds, seconds),
        AREAL.format("aff05c254"), "2025-04-02", servers=gpus // 2, length_given=False, **more,
    )  # fmt: skip


PUBLISHED = (
    _nemo("Llama-3.1-8B", "2x8xH100", 1060, 97.7, "cff17f83b", "2025-12-01", fitted=True),
    _nemo("Llama-3.1-8B", "2x8xH100", 1019, 92.8, "v0.5.0", "2026-01-30"),
    _nemo("Llama-3.1-8B", "2x4xGB200", 1066, 91.0, "v0.5.0", "2026-01-30"),
    _nemo("Qwen3-32B", "4x8xH100", 3206, 393, "cff17f83b", "2025-12-01", tensor_parallel=4, recomputed=False, fitted=True),
    _nemo("Qwen3-32B", "4x8xH100", 3251, 376, "v0.5.0", "2026-01-30", tensor_parallel=4, recomputed=False),
    _nemo("Qwen3-32B", "4x4xGB200", 3253, 381, "v0.5.0", "2026-01-30", recomputed=False),
    Published(
        "R1-Distill-Qwen-7B", "AReaL v0.1", "8x8xH800", 1024, 16, 16384, 7834, (2122, 2406), AREAL.format("d9816c03b"),
        "2025-03-07", servers=64, tensor_parallel=4, kl=0.01,
    ),
    _boba("R1-Distill-Qwen-7B", 32, 2275, 8600, fitted=True),
    _boba("R1-Distill-Qwen-7B", 128, 815, 8600),
    _boba("R1-Distill-Qwen-1.5B", 8, 3461, 8600),
    _boba("R1-Distill-Qwen-1.5B", 32, 997, 8600),
    _boba("R1-Distill-Qwen-1.5B", 128, 391, 8600),
)  # fmt: skip


def main() -> None:
    print("| run | model | GPUs that train + sample | batch | mean of longest tokens | published s | planned s | planned / published |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    for run in PUBLISHED:
        found = run.estimate()
        published = sum(run.seconds) / 2
        gpus = run.machine + (f" + {run.servers}" if run.servers else "")
        mark = " (fitted)" if run.fitted else ""
        length = f"{run.mean:,} of {run.longest:,}" + ("" if run.length_given else " (taken)")
        print(
            f"| {run.what}{mark} | {run.model} | {gpus} | {run.prompts} x {run.rollouts} | {length} | {published:,.0f} | "
            f"{found.step_seconds:,.0f} | {found.step_seconds / published:.2f} |",
            {k: round(v) for k, v in found.seconds.items()}, f"empty {found.sampled.empty:.2f} evicted {found.sampled.evicted:.2f}",
        )


if __name__ == "__main__":
    main()
