"""What a stage needs of memory and time, before anything is run. Arithmetic on shapes: nothing heavy is imported.

Memory counts what is allocated by design (weights, gradients, optimizer, activations, cache, logits), and neither
fragmentation nor, on a GPU, the framework's own, which is some GB. Time assumes the shares of a machine's peak below;
take it as right within a factor of two. Those of a CPU were measured with a model of 135 million parameters.
"""

import math
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ratchet.infra.errors import RatchetError
from ratchet.infra.inference.engine import Needs, Work
from ratchet.infra.recipe.training import Stage, Training

GIB = 2**30
UPDATE_SHARE, DECODE_SHARE = 0.35, 0.6
"""Of peak arithmetic in the update, of peak memory bandwidth in decoding: common values for dense models."""
TYPICAL_RESPONSE = 0.5
"""Mean response, as a share of the longest. The longest one decides how long decoding takes."""
PROMPT_TOKENS = 256
"""At most the longest response's, which is what toys have."""
TILE = 4096  # columns of logits at once: `training.logprobs.VOCABULARY_TILE`


@dataclass(frozen=True)
class Machine:
    """`count` accelerators (or one CPU), each with this memory, peak FLOP/s in the training type, and bytes/s."""

    name: str
    count: int
    memory: float
    flops: float
    bandwidth: float

    def __str__(self) -> str:
        return f"{self.count} x {self.name} ({self.memory / GIB:.0f} GiB)"


KNOWN = {
    "H100": (80, 989e12, 3.35e12),
    "H200": (141, 989e12, 4.8e12),
    "B200": (180, 2250e12, 8.0e12),
    "A100": (80, 312e12, 2.0e12),
    "L40S": (48, 362e12, 0.86e12),
}
"""GiB, dense bfloat16 FLOP/s and bytes/s, from the makers' data sheets."""
CPU_CORE_FLOPS, CPU_BANDWIDTH = 90e9, 20e9
"""Of one core of a server: products of float32 matrices as large as a layer's."""
CPU_UPDATE_SHARE, CPU_DECODE_SHARE = 0.7, 0.4
"""Of those products, in the update and in decoding."""
CPU_LIBRARIES = 0.58e9
"""Bytes of a rank's process before there is a model: torch, transformers and DeepSpeed."""


def told_machine(text: str) -> Machine:
    """`128xH100` or `H100`. Raises RatchetError naming what is known."""
    found = re.fullmatch(r"(?:(\d+)\s*x\s*)?(\w+)", text.strip(), re.IGNORECASE)
    if not found or found[2].upper() not in KNOWN:
        raise RatchetError(f"--machine {text!r}: say how many of which, e.g. 8xH100; known are {', '.join(KNOWN)}.")
    gib, flops, bandwidth = KNOWN[found[2].upper()]
    return Machine(found[2].upper(), int(found[1] or 1), gib * GIB, flops, bandwidth)


def found_machine(cores: int, memory: float) -> Machine:
    """The GPUs of this machine as its driver tells, or else the CPU with these cores and bytes."""
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
        lines = subprocess.run(query, capture_output=True, text=True).stdout.splitlines()
        if lines:
            name, mebibytes = lines[0].rsplit(",", 1)
            known = next((values for key, values in KNOWN.items() if key in name.upper()), KNOWN["A100"])
            return Machine(name.strip(), len(lines), float(mebibytes) * 2**20, *known[1:])
    return Machine(f"CPU with {cores} cores", 1, memory, cores * CPU_CORE_FLOPS, CPU_BANDWIDTH)


@dataclass(frozen=True)
class Shape:
    """The sizes of a dense causal language model."""

    vocabulary: int
    hidden: int
    layers: int
    heads: int
    key_value_heads: int
    head_dim: int
    intermediate: int
    tied: bool

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Shape":
        """From a Hugging Face configuration. Raises RatchetError for one that this arithmetic does not describe."""
        try:
            hidden, heads = config["hidden_size"], config["num_attention_heads"]
            if any(name in config for name in ("num_experts", "num_local_experts", "n_routed_experts")):
                raise RatchetError("the model is a mixture of experts, which the estimate does not cover")
            return cls(
                config["vocab_size"], hidden, config["num_hidden_layers"], heads,
                config.get("num_key_value_heads") or heads, config.get("head_dim") or hidden // heads,
                config["intermediate_size"], bool(config.get("tie_word_embeddings", False)),
            )  # fmt: skip
        except KeyError as error:
            raise RatchetError(f"the model's configuration has no {error.args[0]}") from error

    @property
    def attention(self) -> int:
        return self.heads * self.head_dim

    @property
    def cache_width(self) -> int:
        """Keys and values of one token in one layer."""
        return 2 * self.key_value_heads * self.head_dim

    @property
    def parameters(self) -> int:
        attention = self.hidden * (2 * self.attention + self.cache_width)
        layer = attention + 3 * self.hidden * self.intermediate + 2 * self.hidden
        return self.layers * layer + self.vocabulary * self.hidden * (1 if self.tied else 2) + self.hidden

    @property
    def multiplied(self) -> int:
        """Parameters that each token is multiplied with: an embedding is looked up."""
        return self.parameters - (0 if self.tied else self.vocabulary * self.hidden)


@dataclass(frozen=True)
class Estimate:
    """Bytes of one rank by what holds them, in the two phases that do not overlap; seconds of a step by phase."""

    sampling: dict[str, float]
    updating: dict[str, float]
    seconds: dict[str, float]
    engine: Needs
    longest: int
    """Tokens of a prompt and its longest response."""

    @property
    def peak(self) -> float:
        return max(sum(self.sampling.values()), sum(self.updating.values()))

    @property
    def step_seconds(self) -> float:
        return sum(self.seconds.values())


def estimate(shape: Shape, stage: Stage, training: Training, machine: Machine) -> Estimate:
    """One rank of `stage` on `machine`, on all of whose accelerators a rank runs (on a CPU, `hardware.ranks`)."""
    hardware, on_cpu = training.hardware, machine.name.startswith("CPU")
    ranks = hardware.ranks if on_cpu else machine.count
    optimizer_ranks, gradient_ranks, weight_ranks = (
        ranks if hardware.zero_stage >= least else 1 for least in (1, 2, 3)
    )
    parameters, size = shape.parameters, 2 if hardware.dtype == "bfloat16" else 4
    prompt = min(PROMPT_TOKENS, stage.longest_response)
    longest, mean = (prompt + part * stage.longest_response for part in (1, TYPICAL_RESPONSE))
    responses = stage.prompts_per_batch * stage.most_rollouts

    held = {"weights": parameters * size / weight_ranks}
    if not hardware.cpu_offload:
        held["optimizer"] = parameters * (12 if size == 2 else 8) / optimizer_ranks
    if stage.kl_coefficient:
        held["reference"] = held["weights"]
    if on_cpu:
        held["libraries"] = CPU_LIBRARIES

    tokens = max(longest / hardware.sequence_ranks, min(hardware.micro_batch_tokens, longest * responses / ranks))
    layer = tokens * (8 * shape.hidden + 2 * shape.attention + 2 * shape.cache_width + 4 * shape.intermediate) * size
    checkpointed = layer + shape.layers * tokens * shape.hidden * size
    rows = min(hardware.logprob_chunk_tokens, tokens)
    updating = {
        "gradients": parameters * size / gradient_ranks,
        "activations": checkpointed if hardware.activation_checkpointing else shape.layers * layer,
        "logits, in chunks": 3 * rows * min(TILE, shape.vocabulary) * 4 + tokens * shape.hidden * 4,
    }
    again = 4 / 3 if hardware.activation_checkpointing else 1  # forward passes in the update, and for the reference
    work_of_token = (6 * shape.multiplied + 6 * shape.layers * shape.attention * mean) * again
    update_work = responses * mean * work_of_token * (4 / 3 if stage.kl_coefficient else 1)

    work = Work(
        weights=parameters * size, token=shape.layers * shape.cache_width * size, responses=responses, longest=longest,
        ranks=ranks, hardware=hardware, gpu=None if on_cpu else machine.memory,
    )  # fmt: skip
    engine = training.engine.needs(work)
    share = machine.flops / (ranks if on_cpu else 1)
    return Estimate(
        sampling={**held, **engine.memory},
        updating={**held, **updating},
        seconds={
            "sampling": _step_of_sampling(engine, work, shape, machine, stage, mean),
            "update": update_work / ranks / (share * (CPU_UPDATE_SHARE if on_cpu else UPDATE_SHARE)),
        },
        engine=engine,
        longest=int(longest),
    )


def _step_of_sampling(needs: Needs, work: Work, shape: Shape, machine: Machine, stage: Stage, mean: float) -> float:
    """Seconds: how often the caches are filled anew, times the longest response's tokens, times those of one token of
    all responses in the caches."""
    together = max(1.0, min(needs.batch, needs.room / mean))
    flops = CPU_DECODE_SHARE * machine.flops / work.ranks if work.gpu is None else machine.flops * needs.gpus
    read = work.weights + together * mean * work.token / 2
    token = max(read / (DECODE_SHARE * machine.bandwidth * needs.gpus), 2 * shape.multiplied * together / flops)
    rounds = max(1.0, work.responses / (needs.engines * together))
    return (rounds if needs.continuous else math.ceil(rounds)) * stage.longest_response * token
