"""Memory and time of a stage, by arithmetic on shapes and a simulation of one step's sampling (`simulation.py`).

Memory counts what is allocated by design (weights, gradients, optimizer, activations, cache, logits), not fragmentation
nor the few GB of a GPU framework. `machine.py` has the machines' rates; docs/howto/sizing.md compares the result with
published step times.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ratchet.infra.inference.engine import Needs, Work
from ratchet.infra.recipe.training import Lora, Stage, Training
from ratchet.training.machine import ENGINE_START_S, PROCESS_START_S, PROGRAM_S, VERDICT_S, Machine
from ratchet.training.simulation import Decoder, Engines, Sampled, response_lengths
from ratchet.verifiers.errors import RatchetError

TYPICAL_RESPONSE = 0.5
"""Mean response as a share of the longest: 0.48 in AReaL's log of a 7B model, at 16K."""
PROMPT_TOKENS = 256
"""Assumed, but no more than the longest response, for toy recipes."""
OF_A_STEP = ("gradients", "activations", "logits, in chunks")
"""Memory that only the update holds; `Rates.memory` scales it."""
TILES = {"cpu": (1024, 4096), "cuda": (4096, 16_384)}  # those of `logprobs`, which would import torch
PIECES, WHOLE = 4, 3  # those of `packing`
LIBRARIES = 0.58e9
"""Bytes of a rank's process without a model: torch, transformers and DeepSpeed."""
USABLE = 0.6
"""Assumed share of prompts whose rewards differ, under dynamic sampling; the others are replaced."""
FORWARD = 1 / 3
"""Arithmetic of a forward pass as a share of forward and backward."""
PASS_BATCHES = 8
"""Decode batches simulated at most of a pass over all prompts; the rest takes as long in proportion."""
HOST_BANDWIDTH = 200e9
"""Bytes per second of a machine's memory, for an optimizer updated there."""
ALL_REDUCE_S = 15e-6
"""Assumed, of a few bytes among GPUs that share a model: two in a layer for each token of a decode batch."""
MOVED_BY_ADAM = 28
"""Bytes read and written per parameter: two moments, the 32-bit weight and the gradient."""


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
        """From a Hugging Face configuration. Raises RatchetError for a model that this arithmetic does not describe."""
        if any(name in config for name in ("num_experts", "num_local_experts", "n_routed_experts")):
            raise RatchetError("the model is a mixture of experts, which the estimate does not cover")
        try:
            hidden, heads = config["hidden_size"], config["num_attention_heads"]
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

    @cached_property
    def parameters(self) -> int:
        attention = self.hidden * (2 * self.attention + self.cache_width)
        layer = attention + 3 * self.hidden * self.intermediate + 2 * self.hidden
        return self.layers * layer + self.vocabulary * self.hidden * (1 if self.tied else 2) + self.hidden

    @cached_property
    def multiplied(self) -> int:
        """Parameters that each token is multiplied with; an embedding is only looked up."""
        return self.parameters - (0 if self.tied else self.vocabulary * self.hidden)

    def update_flops(self, lengths: Sequence[float], adapter: int = 0) -> float:
        """Arithmetic of forward and backward over sequences; with an adapter, of that many parameters, the model's own
        weights have no gradient."""
        weights = 4 * self.multiplied + 6 * adapter if adapter else 6 * self.multiplied
        return weights * sum(lengths) + 6 * _squares(lengths) * self.layers * self.attention

    def decode_flops(self, lengths: Sequence[float]) -> float:
        """Arithmetic of sequences, token by token."""
        return 2 * self.multiplied * sum(lengths) + 2 * _squares(lengths) * self.layers * self.attention

    def adapter(self, lora: Lora | None) -> int:
        """Parameters of a LoRA adapter."""
        if lora is None:
            return 0
        sizes = {
            "q_proj": self.hidden + self.attention, "k_proj": self.hidden + self.cache_width // 2,
            "v_proj": self.hidden + self.cache_width // 2, "o_proj": self.attention + self.hidden,
            "gate_proj": self.hidden + self.intermediate, "up_proj": self.hidden + self.intermediate,
            "down_proj": self.intermediate + self.hidden,
        }  # fmt: skip
        chosen = sizes if lora.target == "all-linear" else lora.target
        return self.layers * lora.rank * sum(sizes[name] for name in chosen)


@dataclass(frozen=True)
class Estimate:
    """Bytes of one rank by purpose, in the two phases that do not overlap; seconds of a step by phase."""

    sampling: dict[str, float]
    updating: dict[str, float]
    seconds: dict[str, float]
    engine: Needs
    longest: int
    """Tokens of a prompt and its longest response."""
    cached: float
    """Mean tokens in the cache of an engine that decodes a full batch."""
    sampled: Sampled
    flops: float
    """Arithmetic that the step's responses need, sampled and learned, on all accelerators together."""
    gpus: int
    """Accelerators that train or sample; those of an engine apart are not among the machine's."""
    copied_among: int
    """Ranks that share a second copy of the weights; 1: there is none."""
    judging: float
    """Seconds that the step's verdicts keep all cores busy, per second of sampling."""
    checkpoint_bytes: float
    restart_seconds: float
    """To read the last checkpoint, without starting processes and repeating steps."""
    decoder: Decoder
    """Of one of its engines."""
    start: float
    """Seconds until a new process group samples: libraries, the model from disk, the engine."""

    @property
    def peak(self) -> float:
        return max(sum(self.sampling.values()), sum(self.updating.values()))

    @property
    def step_seconds(self) -> float:
        return sum(self.seconds.values())

    def efficiency(self, machine: Machine) -> float:
        """Share of the peak arithmetic of all GPUs that a step needs."""
        peak = machine.flops * (1 if machine.is_cpu else self.gpus)
        return self.flops / (peak * self.step_seconds)


def estimate(
    shape: Shape, stage: Stage, training: Training, machine: Machine, mean_response: float = TYPICAL_RESPONSE
) -> Estimate:
    """One rank of `stage` on `machine`, with a rank on each accelerator (on a CPU, `hardware.ranks` of them).
    `mean_response`: as a share of the longest."""
    hardware, rates = training.hardware, machine.rates
    ranks = hardware.ranks if machine.is_cpu else machine.count
    if ranks < training.engine.gpus:
        raise RatchetError(f"an engine of {training.engine.gpus} GPUs (tensor_parallel) does not fit on {machine}")
    share = 1 / ranks if machine.is_cpu else 1.0  # of the machine, for one rank
    parameters, size = shape.parameters, 2 if hardware.dtype == "bfloat16" else 4
    prompt = min(PROMPT_TOKENS, stage.longest_response)
    longest = prompt + stage.longest_response
    responses = stage.prompts_per_batch * stage.most_rollouts
    lengths = response_lengths(responses, stage.longest_response, mean_response)
    adapter, beyond = shape.adapter(training.advanced.lora), stage.advanced.tail_batching
    staleness = stage.advanced.max_staleness
    rounds = training.engine.rounds(staleness) if staleness else 1
    trained = adapter or parameters
    state = trained * (12 if size == 2 else 8)

    def sharded(size: float, from_stage: int) -> float:
        return size / ranks if hardware.sharding >= from_stage else size

    held = {"weights": sharded((parameters + adapter) * size, 3)}
    gpu, on_each = None if machine.is_cpu else machine.memory, min(machine.in_one, ranks)
    copied = hardware.copied_among(parameters * size, gpu, ranks // on_each, on_each)
    if copied > 1:
        held["a machine's copy of the weights"] = parameters * size / copied
    if not hardware.advanced.cpu_offload:
        held["optimizer"] = sharded(state, 1)
    if stage.kl_coefficient:
        held["reference"] = sharded(trained * size, 3)
    if machine.is_cpu:
        held["libraries"] = LIBRARIES
    once = 1.0  # share of the prompts that a step computes
    if hardware.packed:
        once = min(1.0, math.ceil(PIECES * ranks / stage.prompts_per_batch) / stage.most_rollouts)
    most = (prompt * once + stage.longest_response) * responses / ranks  # of one rank, if all responses are longest
    micro_batches = math.ceil(most / hardware.micro_batch_tokens) if hardware.packed else 1
    tokens = max(longest, min(hardware.micro_batch_tokens, most / micro_batches))
    # Attention sees whole sequences, also where their prompts are computed once.
    whole = tokens * min(WHOLE, longest * responses / ranks / most)
    attended = whole * (2 * shape.attention + 2 * shape.cache_width)
    layer = (tokens * (8 * shape.hidden + 4 * shape.intermediate) + attended) * size
    recomputed = layer + shape.layers * tokens * shape.hidden * size
    chunk, columns = TILES["cpu" if machine.is_cpu else "cuda"]
    of_a_step = (
        # In float32, whatever the weights are. Without ZeRO DeepSpeed copies them to average them over ranks.
        sharded(trained * 4, 2) * (2 if ranks > 1 and not hardware.sharding else 1),
        recomputed if hardware.activation_checkpointing else shape.layers * layer,
        3 * min(chunk, tokens) * min(columns, shape.vocabulary) * 4 + tokens * shape.hidden * 4,
    )
    updating = {name: held * rates.memory for name, held in zip(OF_A_STEP, of_a_step, strict=True)}

    work = Work(
        weights=parameters * size, token=shape.layers * shape.cache_width * size,
        responses=math.ceil(responses * max(1 + beyond, rounds)), longest=longest,
        ranks=ranks, hardware=hardware, gpu=gpu, adapted=adapter > 0,
        beside=staleness > 0 and training.engine.samples_beside,
        layer=(3 * shape.intermediate + 4 * shape.hidden) * size,
    )  # fmt: skip
    engine = training.engine.needs(work)
    # A response is in the cache for as many iterations as it has tokens, with half of them on average.
    each = prompt + sum(length**2 for length in lengths) / sum(lengths) / 2
    slots = max(1, min(engine.batch, int(engine.room / each)))
    decoder = _decoder(shape, work, engine, machine, share)
    engines = Engines(engine.engines, decoder, slots, prompt, stage.most_rollouts)
    if beyond:
        simulation = engines.tail_batched(stage, mean_response)
    elif staleness:
        simulation = engines.spanning(lengths, stage.longest_response, rounds)
    else:
        simulation = engines.batch(lengths)
    sampling = simulation.seconds
    if stage.dynamic_sampling_rounds:
        sampling += engines.batch(lengths[: round(len(lengths) * (1 / USABLE - 1))]).seconds
    verdict = _verdict_s(stage, machine)
    judging = responses * verdict / machine.cores
    learned = [prompt * once + length for length in lengths]
    update = update_seconds(shape, stage, training, machine, ranks, learned)
    if engine.apart and staleness:  # otherwise they share the accelerators
        update = max(0.0, update - sampling)
    checkpoint = (parameters + trained) * size + state
    written = checkpoint / rates.disk
    handed_over = {
        "": 0.0, "disk": 2 * work.weights / rates.disk,  # written and read
        "memory": work.weights / (machine.link if ranks > 1 and hardware.zero_stage == 3 else machine.bandwidth),
    }  # fmt: skip
    return Estimate(
        sampling={**held, **engine.memory},
        updating={**held, **updating, **{name: engine.memory[name] for name in engine.kept}},
        seconds={
            "sampling": sampling,
            "judge": max(0.0, judging - sampling) + verdict,
            "weights": handed_over[engine.transfer],
            "update": update,
            "checkpoints": written / training.checkpoint_every,
        },
        engine=engine,
        longest=longest,
        cached=each * min(engine.batch, responses / engine.engines),
        sampled=simulation,
        flops=shape.update_flops(learned, adapter) + shape.decode_flops(learned),
        gpus=ranks + (engine.engines * engine.gpus if engine.apart else 0),
        copied_among=copied,
        judging=judging / max(sampling, 1e-9),
        checkpoint_bytes=checkpoint,
        restart_seconds=written,
        decoder=decoder,
        start=PROCESS_START_S + ENGINE_START_S * (not machine.is_cpu) + work.weights * machine.machines / rates.disk,
    )


def _squares(lengths: Sequence[float]) -> float:
    return sum(each * each for each in lengths)


def _decoder(shape: Shape, work: Work, engine: Needs, machine: Machine, share: float) -> Decoder:
    rates = machine.rates
    flops, bandwidth = (engine.gpus * share * rate for rate in (machine.flops, machine.bandwidth * rates.read))
    product, size = 2 * shape.multiplied / flops, 2 if work.hardware.dtype == "bfloat16" else 4
    together = 2 * shape.layers * (engine.gpus > 1 and not machine.is_cpu)  # all-reduces for each token
    sent = 2 * (engine.gpus - 1) / engine.gpus * shape.hidden * size / machine.link_within
    return Decoder(
        rates.iteration_s + together * ALL_REDUCE_S, work.weights / bandwidth, work.token / bandwidth,
        product / rates.decode, product / rates.update, together * sent,
    )  # fmt: skip


def update_seconds(
    shape: Shape, stage: Stage, training: Training, machine: Machine, ranks: int, lengths: list[float]
) -> float:
    """Seconds of forward and backward on the busiest rank, of scoring before it, and of moving weights and gradients
    where arithmetic does not hide that."""
    hardware, rates, adapter = training.hardware, machine.rates, shape.adapter(training.advanced.lora)
    trained = adapter or shape.parameters
    again = hardware.activation_checkpointing + (stage.kl_coefficient > 0) + (stage.updates_per_batch > 1)
    longest = [max(lengths)]
    all_flops, one_flops = (
        shape.update_flops(each, adapter) + FORWARD * again * shape.update_flops(each) for each in (lengths, longest)
    )
    flops, tokens = max(all_flops / ranks, one_flops), max(sum(lengths) / ranks, *longest)
    seconds = flops / (machine.flops * rates.update / (ranks if machine.is_cpu else 1))
    size = 2 if hardware.dtype == "bfloat16" else 4
    moved = trained * size / machine.link
    if hardware.zero_stage == 3 and ranks > 1:  # gathered for each pass of each micro-batch, gradients scattered
        micro_batches, on_each = max(1.0, tokens / hardware.micro_batch_tokens), min(machine.in_one, ranks)
        gathered = micro_batches * (2 + again)
        gpu = None if machine.is_cpu else machine.memory
        within = 0.0
        if hardware.copied_among(trained * size, gpu, ranks // on_each, on_each) > 1:  # all but the first of an update
            within = gathered - stage.updates_per_batch
            gathered = stage.updates_per_batch
        seconds = max(seconds, (gathered + micro_batches) * moved + within * trained * size / machine.link_within)
    elif ranks > 1:
        seconds += 2 * moved * stage.updates_per_batch
    if hardware.advanced.cpu_offload:
        machines = max(1, ranks // machine.in_one)
        seconds += stage.updates_per_batch * trained * MOVED_BY_ADAM / HOST_BANDWIDTH / machines
    return seconds


def _verdict_s(stage: Stage, machine: Machine) -> float:
    from ratchet.verifiers.domains import domain_of

    seconds = machine.rates.verdict_s
    for domain in stage.mix.keys() - seconds.keys():
        seconds = {**seconds, domain: PROGRAM_S if domain_of(domain).runs_programs else VERDICT_S}
    return sum(share * seconds[domain] for domain, share in stage.mix.items()) / sum(stage.mix.values())


def pass_seconds(
    shape: Shape, stage: Stage, training: Training, machine: Machine, mean_response: float, prompts: int, rollouts: int
) -> float:
    """Seconds to sample and judge as many responses to as many prompts, without learning from them; of a large pass
    from a part of it."""
    most = max(1, PASS_BATCHES * training.hardware.rollout_batch * machine.count // rollouts)
    part = min(prompts, most)
    plain = stage.advanced.model_copy(update={"tail_batching": 0.0, "max_staleness": 0})
    fields = {"prompts_per_batch": part, "rollouts": rollouts, "interventions": (), "dynamic_sampling_rounds": 0}
    fields["advanced"] = plain
    seconds = estimate(shape, stage.model_copy(update=fields), training, machine, mean_response).seconds
    return seconds["weights"] + (seconds["sampling"] + seconds["judge"]) * prompts / part


LIMITS = {"GPU memory": 0.9, "KV cache": 1.0, "judge": 1.0, "checkpoints": 0.1, "idle decode slots": 0.4}
"""The largest acceptable values: share of memory; of the cache, by the longest response or by a full decode batch on
average; of sampling's seconds, by the judge; of a step, by checkpoints; of the decode slots' time, idle."""


def pressures(needs: Estimate, machine: Machine, ranks_here: int = 1) -> dict[str, float]:
    """The stage's values as shares of `LIMITS`; above 1 is over the limit. `ranks_here` share one memory."""
    reached = {
        "GPU memory": needs.peak * ranks_here / machine.memory,
        "KV cache": max(needs.longest, needs.cached) / max(needs.engine.room, 1e-9),
        "judge": needs.judging,
        "checkpoints": needs.seconds["checkpoints"] / needs.step_seconds,
        "idle decode slots": needs.sampled.empty,
    }
    return {name: reached[name] / limit for name, limit in LIMITS.items()}


def scaled(stage: Stage, machine: Machine, what: str, factor: int) -> tuple[Stage, Machine]:
    if what == "GPUs":
        return stage, replace(machine, count=machine.count * factor, cores=machine.cores * factor)
    field = {"prompts": "prompts_per_batch", "length": "max_response_tokens"}[what]
    return stage.model_copy(update={field: getattr(stage, field) * factor}), machine
