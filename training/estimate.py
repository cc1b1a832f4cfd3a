"""Estimate memory and time of a stage, by arithmetic on shapes and a simulation of one step's sampling.

`shape.py` has the model's arithmetic, `memory.py` a rank's memory, `step_time.py` and `simulation.py` the seconds of a
step, `machine.py` the machines' rates. docs/howto/sizing.md compares the result with published step times.
"""

import math
from dataclasses import dataclass, replace

from ratchet.infra.inference.engine import EngineResources, SamplingWorkload
from ratchet.infra.recipe.training import Stage, Training
from ratchet.training.machine import ENGINE_START_S, FORK_S, PROCESS_START_S, Machine
from ratchet.training.memory import RankMemory
from ratchet.training.rollout_log import LOGPROB_BYTES, ROLLOUT_BYTES
from ratchet.training.shape import Shape
from ratchet.training.simulation import DecodingCosts, Engines, Sampled, response_lengths
from ratchet.training.step_time import decoder_of, update_seconds, verdict_seconds
from ratchet.verifiers.errors import RatchetError

TYPICAL_RESPONSE = 0.5
"""Mean response as a share of the longest: 0.48 in AReaL's log of a 7B model, at 16K."""
USABLE = 0.6
"""Assumed share of prompts whose rewards differ, under dynamic sampling; the others are replaced."""
PASS_BATCHES = 8
"""Most decode batches that are simulated of a pass over all prompts; the rest takes proportional time."""


@dataclass(frozen=True)
class Estimate:
    """An estimate: bytes of one rank by purpose, in the two phases that do not overlap; seconds of a step by phase."""

    sampling: dict[str, float]
    updating: dict[str, float]
    seconds: dict[str, float]
    engine: EngineResources
    longest: int
    """Tokens of a prompt and its longest response."""
    cached: float
    """Mean tokens in the cache of an engine that decodes a full batch."""
    sampled: Sampled
    flops: float
    """Arithmetic that the step's responses need, sampled and learned, on all accelerators together."""
    gpus: int
    """Accelerators that train or sample; those of a separate engine are not among the machine's."""
    copied_among: int
    """Ranks that share a second copy of the weights; 1 if there is none."""
    judging: float
    """Seconds that the step's verdicts keep all cores busy, per second of sampling."""
    checkpoint_bytes: float
    rollout_bytes: float
    """Bytes on disk of a step's kept rollouts."""
    restart_seconds: float
    """Seconds to read the last checkpoint, without starting processes and repeating steps."""
    decoder: DecodingCosts
    """Rates of one of the stage's engines."""
    start: float
    """Seconds until a new process group samples: loading libraries, the model from disk, the engine."""

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
    """Estimate one rank of `stage` on `machine`, with a rank on each accelerator (on a CPU, `hardware.ranks` of them).
    `mean_response` is a share of the longest."""
    hardware, rates = training.hardware, machine.rates
    ranks = hardware.ranks if machine.is_cpu else machine.count
    if ranks < training.engine.gpus:
        raise RatchetError(f"an engine of {training.engine.gpus} GPUs (tensor_parallel) does not fit on {machine}")
    memory = RankMemory(shape, stage, training, machine, ranks)
    held, prompt, once, size = memory.held(), memory.prompt, memory.once, memory.size
    responses = stage.prompts_per_batch * stage.most_rollouts
    lengths = response_lengths(responses, stage.longest_response, mean_response)
    staleness, beyond = stage.advanced.max_staleness, stage.advanced.tail_batching
    rounds = training.engine.rounds(staleness) if staleness else 1

    work = SamplingWorkload(
        weights=shape.parameters * size, token=shape.layers * shape.cache_width * size,
        responses=math.ceil(responses * max(1 + beyond, rounds)), longest=prompt + stage.longest_response,
        ranks=ranks, hardware=hardware, gpu=None if machine.is_cpu else machine.memory, adapted=memory.adapter > 0,
        beside=staleness > 0 and training.engine.supports_async_sampling,
        layer=(3 * shape.intermediate + 4 * shape.hidden) * size,
    )  # fmt: skip
    engine = training.engine.needs(work)
    # A response is in the cache for as many iterations as it has tokens, with half of them on average.
    each = prompt + sum(length**2 for length in lengths) / sum(lengths) / 2
    slots = max(1, min(engine.batch, int(engine.room / each)))
    decoder = decoder_of(shape, work, engine, machine, 1 / ranks if machine.is_cpu else 1.0)
    engines = Engines(engine.engines, decoder, slots, prompt, stage.most_rollouts)
    simulation = _sampled(engines, stage, mean_response, rounds)
    sampling = simulation.seconds
    if stage.dynamic_sampling_rounds:
        sampling += engines.batch(lengths[: round(len(lengths) * (1 / USABLE - 1))]).seconds
    verdict = verdict_seconds(stage, machine)
    judging = responses * verdict / machine.cores
    learned = [prompt * once + length for length in lengths]
    update = update_seconds(shape, stage, training, machine, ranks, learned)
    if engine.apart and staleness:  # otherwise they share the accelerators
        update = max(0.0, update - sampling)
    checkpoint = (shape.parameters + memory.trained) * size + memory.state
    written = checkpoint / rates.disk
    handed_over = {
        "": 0.0, "disk": 2 * work.weights / rates.disk,  # written and read
        "memory": work.weights / (machine.link if ranks > 1 and hardware.zero_stage == 3 else machine.bandwidth),
    }  # fmt: skip
    return Estimate(
        sampling={**held, **engine.memory},
        updating={**held, **memory.updating(), **{name: engine.memory[name] for name in engine.kept}},
        seconds={
            "sampling": sampling,
            "judge": max(0.0, judging - sampling) + verdict,
            "weights": handed_over[engine.transfer],
            "update": update,
            "checkpoints": written / training.checkpoint_every,
        },
        engine=engine,
        longest=int(work.longest),
        cached=each * min(engine.batch, responses / engine.engines),
        sampled=simulation,
        flops=shape.update_flops(learned, memory.adapter) + shape.decode_flops(learned),
        gpus=ranks + (engine.engines * engine.gpus if engine.apart else 0),
        copied_among=memory.copied_among,
        judging=judging / max(sampling, 1e-9),
        checkpoint_bytes=checkpoint,
        rollout_bytes=_rollout_bytes(stage, training, sum(lengths)),
        restart_seconds=written,
        decoder=decoder,
        start=(FORK_S if machine.is_cpu else PROCESS_START_S + ENGINE_START_S)
        + work.weights * machine.machines / rates.disk,
    )


def _sampled(engines: Engines, stage: Stage, mean_response: float, rounds: int) -> Sampled:
    """A step's sampling, simulated."""
    if stage.advanced.tail_batching:
        return engines.tail_batched(stage, mean_response)
    responses = stage.prompts_per_batch * stage.most_rollouts
    lengths = response_lengths(responses, stage.longest_response, mean_response)
    if stage.advanced.max_staleness:
        return engines.spanning(lengths, stage.longest_response, rounds)
    return engines.batch(lengths)


def _rollout_bytes(stage: Stage, training: Training, tokens: int) -> float:
    """A step's rollouts as Parquet, if they are kept: response tokens and texts; prompts are written once a group."""
    if training.keep_rollouts == "samples":
        return 0.0
    each = ROLLOUT_BYTES + LOGPROB_BYTES * training.advanced.keep_logprobs
    return each * tokens * (1 / USABLE if stage.dynamic_sampling_rounds else 1.0)


def pass_seconds(
    shape: Shape, stage: Stage, training: Training, machine: Machine, mean_response: float, prompts: int, rollouts: int
) -> float:
    """Seconds to sample and judge responses to prompts without learning from them; a large pass is extrapolated from a
    part of it."""
    most = max(1, PASS_BATCHES * training.hardware.rollout_batch * machine.count // rollouts)
    part = min(prompts, most)
    plain = stage.with_details(tail_batching=0.0, max_staleness=0)
    fields = {"prompts_per_batch": part, "rollouts": rollouts, "interventions": (), "dynamic_sampling_rounds": 0}
    seconds = estimate(shape, plain.model_copy(update=fields), training, machine, mean_response).seconds
    return seconds["weights"] + (seconds["sampling"] + seconds["judge"]) * prompts / part


LIMITS = {"memory": 0.9, "KV cache": 1.0, "judge": 1.0, "checkpoints": 0.1, "idle decode slots": 0.4}
"""The largest acceptable values: share of memory; of the cache, by the longest response or by a full decode batch on
average; of sampling's seconds, by the judge; of a step, by checkpoints; of the decode slots' time, idle."""


def pressures(needs: Estimate, machine: Machine, ranks_here: int = 1) -> dict[str, float]:
    """The stage's values as shares of `LIMITS`; above 1 is over the limit. `ranks_here` share one memory."""
    reached = {
        "memory": needs.peak * ranks_here / machine.memory,
        "KV cache": max(needs.longest, needs.cached) / max(needs.engine.room, 1e-9),
        "judge": needs.judging,
        "checkpoints": needs.seconds["checkpoints"] / needs.step_seconds,
        "idle decode slots": needs.sampled.empty,
    }
    return {name: reached[name] / limit for name, limit in LIMITS.items()}


def scaled(stage: Stage, machine: Machine, what: str, factor: int) -> tuple[Stage, Machine]:
    """The stage and the machine with `what` (GPUs, prompts or length) multiplied by `factor`."""
    if what == "GPUs":
        return stage, replace(machine, count=machine.count * factor, cores=machine.cores * factor)
    field = {"prompts": "prompts_per_batch", "length": "max_response_tokens"}[what]
    return stage.model_copy(update={field: getattr(stage, field) * factor}), machine
