"""Published times of reinforcement-learning steps beside what `ratchet plan` says of them, for docs/howto/sizing.md.

    python -m tests.training.published_steps

Each row is a run whose model, GPUs, batch and lengths are given where it was published; the last table has runs that
were published with and without staleness. The rates of `training/machine.py` were fitted to those marked `fitted`, none
of them with staleness. Other frameworks did the work, so what is checked is the arithmetic of a step, not the speed of
ours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ratchet.infra.inference.engine import EngineResources, SamplingWorkload
from ratchet.infra.inference.vllm_service import ServedVllm
from ratchet.infra.recipe.training import Stage, Training
from ratchet.training.estimate import Estimate, estimate
from ratchet.training.machine import parse_machine
from ratchet.training.shape import Shape

SHAPES = {
    "Llama-3.1-8B": Shape(128256, 4096, 32, 32, 8, 128, 14336, tied=False),
    "Qwen3-32B": Shape(151936, 5120, 64, 64, 8, 128, 25600, tied=False),
    "R1-Distill-Qwen-7B": Shape(152064, 3584, 28, 28, 4, 128, 18944, tied=False),
    "R1-Distill-Qwen-1.5B": Shape(151936, 1536, 28, 12, 2, 128, 8960, tied=False),
}
NEMO = "https://github.com/NVIDIA-NeMo/RL/blob/{}/docs/about/performance-summary.md"
AREAL = "https://github.com/inclusionAI/AReaL/blob/{}/examples/README.md"
DEEPSCALER = "https://github.com/agentica-project/deepscaler"


class Beside(ServedVllm):
    """Servers that get new weights from GPU to GPU, as AReaL's do."""

    def needs(self, work: SamplingWorkload) -> EngineResources:
        return replace(super().needs(work), transfer="memory")


@dataclass(frozen=True)
class Published:
    """A run. `machine` are the GPUs that train; `servers` those that sample beside them (0: the same ones), in copies
    of `tensor_parallel`. `mean` and `longest` are response tokens, `seconds` those of a step."""

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
    staleness: int = 0

    def estimate(self) -> Estimate:
        machine = parse_machine(self.machine)
        engine: dict = {"kind": "vllm", "memory_share": 0.6, "tensor_parallel": self.tensor_parallel}
        if self.servers:
            engine |= {"kind": "tests.training.published_steps:Beside", "memory_share": 0.8}
            engine["devices"] = tuple(range(self.servers))
        stage = Stage.model_validate(
            {
                "name": "s", "domain": "math", "max_response_tokens": self.longest, "steps": 1,
                "rollouts": self.rollouts, "prompts_per_batch": self.prompts, "updates_per_batch": self.updates,
                "kl_coefficient": self.kl, "importance_cap": 2.0, "advanced": {"max_staleness": self.staleness},
            }
        )  # fmt: skip
        hardware = {
            "processes": machine.count,
            "zero_stage": self.zero, "dtype": "bfloat16", "micro_batch_tokens": 32768, "rollout_batch": 512,
            "activation_checkpointing": self.recomputed, "packed": True,
        }  # fmt: skip
        training = Training.model_validate({"hardware": hardware, "engine": engine, "checkpoint_every": 10**6})
        return estimate(SHAPES[self.model], stage, training, machine, self.mean / self.longest)


def nemo(model: str, machine: str, mean: int, seconds: float, version: str, date: str, **more) -> Published:
    one_off = ", one step off" if more.get("staleness") else ""
    what, source = f"NeMo RL {date[:7]}{one_off}", NEMO.format(version)
    return Published(model, what, machine, 64, 32, 4096, mean, (seconds, seconds), source, date, kl=0.01, **more)


def boba(model: str, gpus: int, seconds: float, **more) -> Published:
    """Half of the GPUs sample, half train. The mean length is not given: it is what that of AReaL v0.1 becomes with the
    longer limit."""
    half = gpus // 2
    return Published(
        model, "AReaL v0.2", f"{max(1, half // 8)}x{min(8, half)}xH800", 512, 16, 27648, 8600, (seconds, seconds),
        AREAL.format("aff05c254"), "2025-04-02", servers=half, length_given=False, **more,
    )  # fmt: skip


EARLIER, LATER = ("cff17f83b", "2025-12-01"), ("v0.5.0", "2026-01-30")
PUBLISHED = (
    nemo("Llama-3.1-8B", "2x8xH100", 1060, 97.7, *EARLIER, fitted=True),
    nemo("Llama-3.1-8B", "2x8xH100", 1019, 92.8, *LATER),
    nemo("Llama-3.1-8B", "2x4xGB200", 1066, 91.0, *LATER),
    nemo("Qwen3-32B", "4x8xH100", 3206, 393, *EARLIER, tensor_parallel=4, recomputed=False, fitted=True),
    nemo("Qwen3-32B", "4x8xH100", 3251, 376, *LATER, tensor_parallel=4, recomputed=False),
    nemo("Qwen3-32B", "4x4xGB200", 3253, 381, *LATER, recomputed=False),
    nemo("Llama-3.1-8B", "1x8xH100", 1129, 74.6, *EARLIER, servers=8, staleness=1),
    nemo("Qwen3-32B", "4x8xH100", 3207, 215, *EARLIER, tensor_parallel=4, recomputed=False, servers=32, staleness=1),
    boba("R1-Distill-Qwen-7B", 32, 2275, fitted=True),
    boba("R1-Distill-Qwen-7B", 128, 815),
    boba("R1-Distill-Qwen-1.5B", 8, 3461),
    boba("R1-Distill-Qwen-1.5B", 32, 997),
    boba("R1-Distill-Qwen-1.5B", 128, 391, fitted=True),
)
"""What the arithmetic should tell within a quarter."""
MISSED = (
    Published(
        "R1-Distill-Qwen-7B", "AReaL v0.1", "8x8xH800", 1024, 16, 16384, 7834, (2122, 2406), AREAL.format("d9816c03b"),
        "2025-03-07", servers=64, tensor_parallel=4, kl=0.01,
    ),
)  # fmt: skip
"""What it does not tell; docs/howto/sizing.md says why."""
STALENESS = 8
"""Of AReaL's asynchronous runs on math, assumed; with 4 the ratios are the same within 0.05."""
GAINS = (
    (boba("R1-Distill-Qwen-1.5B", 128, 0), 41.0, 14.8),
    (boba("R1-Distill-Qwen-7B", 192, 0), 57.7, 25.4),
)  # fmt: skip
"""AReaL v0.3 (https://github.com/inclusionAI/AReaL/blob/177dce56/blog/AReaL_v0_3.md): hours of as many updates,
synchronous and asynchronous. Its batch and lengths are not given: those of v0.2 are taken."""


def _header(names: str) -> None:
    columns = names.split(", ")
    print(f"| {' | '.join(columns)} |\n|---|---|---|{'---:|' * (len(columns) - 3)}")


def main() -> None:
    _header("run, model, GPUs that train, that sample, batch, mean of longest, published, planned, ratio")
    for run in (*PUBLISHED, *MISSED):
        planned, published = run.estimate().step_seconds, sum(run.seconds) / 2
        what = f"[{run.what}]({run.source}), {run.date}" + (", fitted" if run.fitted else "")
        length = f"{run.mean:,} of {run.longest:,}" + ("" if run.length_given else " (assumed)")
        beside = str(run.servers) if run.servers else "the same"
        cells = (what, run.model, run.machine, beside, f"{run.prompts} x {run.rollouts}", length)
        print(f"| {' | '.join(cells)} | {published:,.0f} s | {planned:,.0f} s | {planned / published:.2f} |")
    print()
    _header("run, model, GPUs, synchronous, asynchronous, speedup, planned")
    for run, without, hours in GAINS:
        faster = replace(run, staleness=STALENESS).estimate().step_seconds
        gain = f"{without / hours:.2f} | {run.estimate().step_seconds / faster:.2f}"
        print(f"| AReaL v0.3 | {run.model} | {2 * run.servers} | {without} h | {hours} h | {gain} |")


if __name__ == "__main__":
    main()
