"""What a stage needs of memory and time, before anything is run. Arithmetic on shapes, and a simulation of one step's
sampling (`simulation.py`): nothing heavy is imported.

Memory counts what is allocated by design (weights, gradients, optimizer, activations, cache, logits), and neither
fragmentation nor, on a GPU, the framework's own, which is some GB. What is assumed of a machine is in `machine.py`; how
far published step times are from what comes out, in docs/scaling.md. Not counted: starting, validation, evaluations.
"""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ratchet.infra.errors import RatchetError
from ratchet.infra.inference.engine import Needs, Work
from ratchet.infra.recipe.training import Stage, Training
from ratchet.training.machine import PROGRAM_S, VERDICT_S, Machine
from ratchet.training.simulation import Decoder, Sampled, response_lengths, sample

TYPICAL_RESPONSE = 0.5
"""Mean response, as a share of the longest: 0.48 in AReaL's log of a 7B model, at 16K."""
PROMPT_TOKENS = 256
"""At most the longest response's, which is what toys have."""
OF_A_STEP = ("gradients", "activations", "logits, in chunks")
"""What is held in the update alone; `Rates.memory` is of these."""
TILE = 4096  # columns of logits at once: `training.logprobs.VOCABULARY_TILE`
LIBRARIES = 0.58e9
"""Bytes of a rank's process before there is a model: torch, transformers and DeepSpeed."""
USABLE = 0.6
"""Of the prompts under dynamic sampling: the share whose rewards differ, so that as many again are sampled as miss."""
FORWARD = 1 / 3
"""Arithmetic of a forward pass, of that of forward and backward."""
HOST_BANDWIDTH = 200e9
"""Bytes a second of a machine's memory, for an optimizer that is updated there."""
DEALT = 64
"""Sequences of a rank that are dealt one by one; more are dealt in bundles of like length."""
MOVED_BY_ADAM = 28
"""Bytes read and written for each parameter: two moments, the 32-bit weight and the gradient."""


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
    sampled: Sampled
    judging: float
    """Seconds that the step's verdicts take all cores, for each second of sampling."""
    checkpoint_bytes: float
    restart_seconds: float
    """To read the last checkpoint; the processes' own start, and the steps since, are not in it."""

    @property
    def peak(self) -> float:
        return max(sum(self.sampling.values()), sum(self.updating.values()))

    @property
    def step_seconds(self) -> float:
        return sum(self.seconds.values())


def estimate(
    shape: Shape, stage: Stage, training: Training, machine: Machine, mean_response: float = TYPICAL_RESPONSE
) -> Estimate:
    """One rank of `stage` on `machine`, on all of whose accelerators a rank runs (on a CPU, `hardware.ranks`).
    `mean_response`: as a share of the longest."""
    hardware, rates = training.hardware, machine.rates
    ranks = hardware.ranks if machine.is_cpu else machine.count
    optimizer_ranks, gradient_ranks, weight_ranks = (
        ranks if hardware.zero_stage >= least else 1 for least in (1, 2, 3)
    )
    parameters, size = shape.parameters, 2 if hardware.dtype == "bfloat16" else 4
    prompt = min(PROMPT_TOKENS, stage.longest_response)
    longest = prompt + stage.longest_response
    responses = stage.prompts_per_batch * stage.most_rollouts
    state = parameters * (12 if size == 2 else 8)

    held = {"weights": parameters * size / weight_ranks}
    if not hardware.cpu_offload:
        held["optimizer"] = state / optimizer_ranks
    if stage.kl_coefficient:
        held["reference"] = held["weights"]
    if machine.is_cpu:
        held["libraries"] = LIBRARIES

    tokens = max(longest / hardware.sequence_ranks, min(hardware.micro_batch_tokens, longest * responses / ranks))
    layer = tokens * (8 * shape.hidden + 2 * shape.attention + 2 * shape.cache_width + 4 * shape.intermediate) * size
    checkpointed = layer + shape.layers * tokens * shape.hidden * size
    rows = min(hardware.logprob_chunk_tokens, tokens)
    of_a_step = (
        parameters * size / gradient_ranks,
        checkpointed if hardware.activation_checkpointing else shape.layers * layer,
        3 * rows * min(TILE, shape.vocabulary) * 4 + tokens * shape.hidden * 4,
    )
    updating = {name: taken * rates.memory for name, taken in zip(OF_A_STEP, of_a_step, strict=True)}

    work = Work(
        weights=parameters * size, token=shape.layers * shape.cache_width * size, responses=responses, longest=longest,
        ranks=ranks, hardware=hardware, gpu=None if machine.is_cpu else machine.memory,
    )  # fmt: skip
    engine = training.engine.needs(work)
    lengths = response_lengths(responses, stage.longest_response, mean_response)
    sampled, seconds = _sampling(engine, work, shape, stage, machine, lengths, prompt)
    judging = responses * _verdict_s(stage, machine) / machine.cores
    checkpoint = 2 * parameters * size + state
    update = update_seconds(shape, stage, training, machine, ranks, [prompt + length for length in lengths])
    # Copied to the hosts' memory, and written beside the steps until the next one.
    written, machines = checkpoint / rates.disk, max(1, ranks // machine.in_one)
    waited = written - training.checkpoint_every * (seconds + update)
    return Estimate(
        sampling={**held, **engine.memory},
        updating={**held, **updating},
        seconds={
            "sampling": seconds,
            "judge": max(0.0, judging - seconds) + _verdict_s(stage, machine),
            "weights": _handing_over(engine, work, machine),
            "update": update,
            "checkpoints": max(checkpoint / HOST_BANDWIDTH / machines, waited) / training.checkpoint_every,
        },
        engine=engine,
        longest=longest,
        sampled=sampled,
        judging=judging / max(seconds, 1e-9),
        checkpoint_bytes=checkpoint,
        restart_seconds=written,
    )


def _sampling(
    needs: Needs, work: Work, shape: Shape, stage: Stage, machine: Machine, lengths: tuple[int, ...], prompt: int
) -> tuple[Sampled, float]:
    """A pass over the batch, and the seconds of all: dynamic sampling replaces prompts in passes of their own."""
    peak = needs.gpus * (machine.flops / work.ranks if machine.is_cpu else machine.flops)
    bandwidth = needs.gpus * machine.bandwidth * machine.rates.read / (work.ranks if machine.is_cpu else 1)
    row = 2 * shape.multiplied / (peak * machine.rates.decode)
    prompt_s = 2 * shape.multiplied / (peak * machine.rates.update)
    decoder = Decoder(machine.rates.iteration_s, work.weights / bandwidth, work.token / bandwidth, row, prompt_s)
    slots, room = max(1, needs.batch), max(needs.room, prompt + 1)

    def one_pass(part: tuple[int, ...]) -> Sampled:
        return sample(part, prompt, needs.engines, decoder, slots, room, needs.continuous)

    found = one_pass(lengths)
    seconds = found.seconds
    if stage.dynamic_sampling_rounds:
        seconds += one_pass(lengths[: round(len(lengths) * (1 / USABLE - 1))]).seconds
    return found, seconds


def update_seconds(
    shape: Shape, stage: Stage, training: Training, machine: Machine, ranks: int, lengths: list[int]
) -> float:
    """Seconds of forward and backward on the rank that has most, of what is scored before, and of moving weights and
    gradients, where arithmetic does not hide it."""
    hardware, rates = training.hardware, machine.rates
    together = hardware.sequence_ranks
    loads = [(0.0, 0.0)] * max(1, ranks // together)  # work, tokens
    each = max(1, len(lengths) // (DEALT * len(loads)))
    for length in sorted(lengths, reverse=True)[::each]:
        done, tokens = loads[0]
        work = 6 * length * (shape.multiplied + length * shape.layers * shape.attention)
        heapq.heapreplace(loads, (done + each * work / together, tokens + each * length / together))
    most, tokens = max(loads)
    passes = 1 + FORWARD * (
        hardware.activation_checkpointing + (stage.kl_coefficient > 0) + (stage.updates_per_batch > 1)
    )
    flops = machine.flops * rates.update / (ranks if machine.is_cpu else 1)
    moved, size = shape.parameters / machine.link, 2 if hardware.dtype == "bfloat16" else 4
    alone = ranks == 1
    seconds = most * passes / flops
    if hardware.zero_stage == 3 and not alone:  # gathered for each pass of each micro-batch, gradients scattered
        gathered = max(1.0, tokens / hardware.micro_batch_tokens) * (2 + passes) * moved * size
        seconds = max(seconds, gathered)
    elif not alone:
        seconds += 2 * moved * size * stage.updates_per_batch
    if hardware.cpu_offload:
        machines = max(1, ranks // machine.in_one)
        seconds += stage.updates_per_batch * shape.parameters * MOVED_BY_ADAM / HOST_BANDWIDTH / machines
    return seconds


def _handing_over(needs: Needs, work: Work, machine: Machine) -> float:
    """Seconds for the engine to get new weights."""
    if not needs.transfer:
        return 0.0
    if needs.transfer == "disk":  # written, and read
        return 2 * work.weights / machine.rates.disk
    return work.weights / (machine.link if work.ranks > 1 else machine.bandwidth)


def _verdict_s(stage: Stage, machine: Machine) -> float:
    """Seconds of a core for one of the stage's verdicts."""
    known = machine.rates.verdict_s

    def taken(domain: str) -> float:
        from ratchet.verifiers.domain import domain_of

        return PROGRAM_S if domain_of(domain).runs_programs else VERDICT_S

    seconds = [share * (known[d] if d in known else taken(d)) for d, share in stage.mix.items()]
    return sum(seconds) / sum(stage.mix.values())


LIMITS = {
    "GPU memory": 0.9, "KV cache": 1.0, "KV cache evictions": 0.1, "judge": 1.0, "checkpoints": 0.1,
    "idle decode slots": 0.75,
}  # fmt: skip
"""What each of `pressures` may be: shares of memory; of the cache that the longest response needs; evictions for each
response; of sampling that judging takes; of a step that checkpoints take; of decode slots that are empty."""


def pressures(found: Estimate, machine: Machine, ranks_here: int = 1) -> dict[str, float]:
    """How near the stage is to each of `LIMITS`; above 1 is over it. `ranks_here` share one memory."""
    room = found.engine.room
    reached = {
        "GPU memory": found.peak * ranks_here / machine.memory,
        "KV cache": found.longest / room if room else float("inf"),
        "KV cache evictions": found.sampled.evicted,
        "judge": found.judging,
        "checkpoints": found.seconds["checkpoints"] / found.step_seconds,
        "idle decode slots": found.sampled.empty,
    }
    return {name: reached[name] / limit for name, limit in LIMITS.items()}


def scaled(stage: Stage, machine: Machine, what: str, factor: int) -> tuple[Stage, Machine]:
    """With `factor` times the prompts, GPUs or response length."""
    if what == "GPUs":
        return stage, machine.times(factor)
    field = {"prompts": "prompts_per_batch", "length": "max_response_tokens"}[what]
    return stage.model_copy(update={field: getattr(stage, field) * factor}), machine
