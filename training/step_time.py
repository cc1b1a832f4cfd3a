"""Seconds of a step's phases, from a machine's rates."""

from ratchet.infra.inference.engine import EngineResources, SamplingWorkload
from ratchet.infra.recipe.training import Stage, Training
from ratchet.training.machine import ENGINE_START_S, NVLINK, PCIE, PROCESS_START_S, PROGRAM_S, VERDICT_S, Machine
from ratchet.training.shape import Shape, reference_shape
from ratchet.training.simulation import DecodingCosts

FORWARD = 1 / 3
"""Share of forward and backward arithmetic that a forward pass takes."""
HOST_BANDWIDTH = 200e9
"""Bytes per second of a machine's memory, for an optimizer updated there."""
ALL_REDUCE_S = 15e-6
"""Assumed seconds of an all-reduce of a few bytes among GPUs that share a model: two in a layer for each token of a
decode batch."""
MOVED_BY_ADAM = 28
"""Bytes read and written per parameter: two moments, the 32-bit weight and the gradient."""


def unconfirmed(machine: Machine, rates_measured: bool) -> dict[str, float]:
    """The constants of a plan on a GPU that no GPU has confirmed, by name, without the rates that a preflight
    measured."""
    if machine.is_cpu:
        return {}
    rates = machine.rates
    assumed = {
        "update, share of peak": rates.update, "decode, share of bandwidth": rates.read,
        "decode, share of peak": rates.decode, "decode, s per token of a batch": rates.iteration_s,
        "disk, GB/s": rates.disk / 1e9, "network, GB/s": rates.link / 1e9,
    }  # fmt: skip
    fixed = {
        "NVLink, GB/s": NVLINK / 1e9, "PCIe, GB/s": PCIE / 1e9, "all-reduce, s": ALL_REDUCE_S,
        "host memory, GB/s": HOST_BANDWIDTH / 1e9, "start of processes, s": PROCESS_START_S,
        "start of an engine, s": ENGINE_START_S, "a verdict, core s": VERDICT_S,
        "a program's verdict, core s": PROGRAM_S,
    }  # fmt: skip
    return fixed if rates_measured else assumed | fixed


def decoder_of(
    shape: Shape, work: SamplingWorkload, engine: EngineResources, machine: Machine, share: float
) -> DecodingCosts:
    """Seconds that one engine spends, by kind of work."""
    rates = machine.rates
    flops, bandwidth = (engine.gpus * share * rate for rate in (machine.flops, machine.bandwidth * rates.read))
    product, size = 2 * shape.multiplied / flops, 2 if work.hardware.dtype == "bfloat16" else 4
    together = 2 * shape.layers * (engine.gpus > 1 and not machine.is_cpu)  # all-reduces for each token
    sent = 2 * (engine.gpus - 1) / engine.gpus * shape.hidden * size / machine.link_within
    return DecodingCosts(
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
    scoring = reference_shape(stage)
    scored = scoring.parameters / shape.parameters if scoring else float(stage.kl_coefficient > 0)
    again = hardware.activation_checkpointing + scored + (stage.updates_per_batch > 1)
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


def verdict_seconds(stage: Stage, machine: Machine) -> float:
    """Core seconds of a verdict, on average over the stage's mix."""
    from ratchet.verifiers.domains import domain_of

    seconds = machine.rates.verdict_s
    for domain in stage.mix.keys() - seconds.keys():
        seconds = {**seconds, domain: PROGRAM_S if domain_of(domain).runs_programs else VERDICT_S}
    return sum(share * seconds[domain] for domain, share in stage.mix.items()) / sum(stage.mix.values())
