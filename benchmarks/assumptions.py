"""One rank of `gpu_hour`: what a plan assumes, measured by the code that trains.

    python -m torch.distributed.run --standalone --nproc-per-node N -m benchmarks.assumptions SPEC.json

SPEC is a `MeasuredPart`: a preflight of one `part`, and when it was `launched`. Each line of
`assumptions.jsonl` is one assumption: its `name`, the values `planned` and `measured` and their `unit`, the `constant`
to change, and what `to`; or a part that could not be measured, and `why`.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ratchet.data_curation.base.journal import Journal
from ratchet.training import cluster, ranks
from ratchet.training.estimate import estimate
from ratchet.training.machine import ENGINE_START_S, PROCESS_START_S
from ratchet.training.preflight import Preflight, Skip
from ratchet.training.specification import TrainingSpec
from ratchet.training.step_time import ALL_REDUCE_S
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import GIB

LINES = "assumptions.jsonl"
WIDTHS = (1, 4, 16, 64, 256)
"""Responses decoded together."""
DECODED, PROMPT = 64, 2048
"""Tokens of a response that times decoding, and of a prompt that times reading; fewer for a small model."""
SMALL, LARGE = 2**16, 2**28
"""Bytes of an all-reduce: of a layer's activations for a few tokens, and of many gradients."""
WRITTEN = 2**28
"""Bytes of a file of weights."""
Row = tuple[str, str, float, float, str, float | str]
"""Name, unit, planned, measured, the constant, and what to change it to."""


class MeasuredPart(TrainingSpec):
    part: str
    label: str
    launched: float


class Assumptions(Preflight):
    """One part. All ranks measure; rank 0 writes."""

    def __init__(self, spec: MeasuredPart) -> None:
        self.joined, self.part = time.time(), spec
        super().__init__(spec)
        self.read = time.time()
        self.stage = max(self.training.stages, key=lambda stage: stage.longest_response)
        self.plan = estimate(self.shape, self.stage, self.training, self.machine)
        self.notes = Journal(self.work / LINES) if self.rank == 0 else None
        positions = self.policy.positions or 10**9
        self.decoded = max(2, min(DECODED, positions // 4))
        self.prompt = max(2, min(PROMPT, positions // 2))

    def note(self, **facts: Any) -> None:
        if self.notes:
            self.notes.append(facts)

    def run(self, part: str) -> None:
        parts: dict[str, Callable[[], Iterator[Row]]] = {
            "links": self.links_within, "engine": self.engine, "update": self.update,
        }  # fmt: skip
        try:
            for name, unit, planned, measured, constant, to in parts[part]():
                self.note(name=name, unit=unit, planned=planned, measured=measured, constant=constant, to=to)
        except (Skip, RatchetError, OSError, torch.OutOfMemoryError) as error:
            self.note(name=part, why=str(error).splitlines()[0])

    def slowest(self, seconds: float) -> float:
        return max(ranks.gather(seconds))

    def links_within(self) -> Iterator[Row]:
        """All-reduce, and weights by files."""
        device = self.policy.device
        if self.ranks > 1:
            small = torch.ones(SMALL // 2, device=device, dtype=torch.bfloat16)
            times = 20
            seconds = cluster.timed(lambda: [torch.distributed.all_reduce(small) for _ in range(times)]) / times
            yield "all-reduce of 64 KiB", "s", ALL_REDUCE_S, seconds, "training/step_time.py ALL_REDUCE_S", seconds
            large = torch.ones((LARGE if not self.machine.is_cpu else LARGE // 16) // 4, device=device)
            moved = 2 * large.nbytes * (self.ranks - 1) / self.ranks
            speed = moved / cluster.timed(lambda: torch.distributed.all_reduce(large))
            several = self.training.hardware.machines > 1 or self.machine.is_cpu
            constant = "training/machine.py Rates.link" if several else "training/machine.py NVLINK"
            yield "all-reduce of much", "bytes/s", self.machine.link, speed, constant, speed
        if self.rank == 0:
            for place in (self.work, Path("/dev/shm")):
                if place.is_dir() and os.access(place, os.W_OK):
                    speed = written(place, WRITTEN if not self.machine.is_cpu else WRITTEN // 16)
                    name = f"weights by a file in {'the home' if place == self.work else place}"
                    disk = self.machine.rates.disk
                    yield name, "bytes/s", disk, speed, "training/machine.py Rates.disk", speed

    def engine(self) -> Iterator[Row]:
        """Start, hand-over, decoding by width, reading prompts."""
        launched = self.part.launched
        yield (
            "start of processes", "s", PROCESS_START_S, self.slowest(self.joined - launched),
            "training/machine.py PROCESS_START_S", self.slowest(self.joined - launched),
        )  # fmt: skip
        rates, weights = self.machine.rates, self.shape.parameters * self._size
        reading = self.slowest(self.read - self.joined)
        planned = weights * self.machine.machines / rates.disk
        yield "reading the model", "s", planned, reading, "the disk that holds the model", "see Rates.disk"
        with ExitStack() as stack:
            started = time.perf_counter()
            self.weights(stack)
            taken = self.slowest(time.perf_counter() - started)
            yield "start of the engine", "s", ENGINE_START_S, taken, "training/machine.py ENGINE_START_S", taken
            if facts := getattr(self.sampler, "facts", {}):
                self._generate(self.sampler, 1, 2)  # the first hand-over also starts things
                facts = self.sampler.facts if self.sampler else facts
                moved = self.slowest(facts["weight_seconds"])
                yield (
                    "weights to the engine", "s", self.plan.seconds["weights"], moved,
                    "training/estimate.py handed_over", f"x {moved / max(1e-9, self.plan.seconds['weights']):.3g}",
                )  # fmt: skip
            yield from self._decoding()

    @property
    def _size(self) -> int:
        return 2 if self.training.hardware.dtype == "bfloat16" else 4

    def _per_token(self, rows: int) -> float:
        """Seconds of an iteration with as many responses."""
        assert self.sampler is not None
        seconds = self._generate(self.sampler, rows, self.decoded)
        return self.slowest(seconds / max(len(c.token_ids or ()) for c in self.completions))

    def _decoding(self) -> Iterator[Row]:
        decoder, rates = self.plan.decoder, self.machine.rates
        self._per_token(1)  # compiles
        most = self.training.hardware.rollout_batch * self.plan.engine.gpus
        widths = [width for width in WIDTHS if width <= most]
        measured = {width: self._per_token(width) for width in widths}
        fixed = max(0.0, measured[1] - decoder.weights)
        row = max(1e-12, (measured[widths[-1]] - fixed) / widths[-1])
        changes: dict[int, tuple[str, float | str]] = {width: ("", "") for width in widths}
        changes[widths[-1]] = ("training/machine.py Rates.decode", min(1.0, rates.decode * decoder.row / row))
        changes[1] = ("training/machine.py Rates.iteration_s", fixed)
        for width, seconds in measured.items():
            planned = decoder.iteration(width, width * (16 + self.decoded / 2))
            yield f"an iteration of {width} responses", "s", planned, seconds, *changes[width]
        count = min(8, most)
        assert self.sampler is not None
        self._generate(self.sampler, 1, 1, self.prompt)
        read = self.slowest(self._generate(self.sampler, count, 1, self.prompt)) - measured[1]
        planned, read = count * self.prompt * decoder.prompt, max(read, 1e-9)
        yield (
            f"reading {count * self.prompt:,} tokens of prompts", "s", planned, read,
            "training/step_time.py decoder_of",
            f"its rate of prompts x {planned / read:.3g}",
        )  # fmt: skip

    def update(self) -> Iterator[Row]:
        """One optimizer step and its memory, with the part's own hardware."""
        label, rates = self.part.label, self.machine.rates
        self.timed_step(self.stage)  # compiles, and fills caches
        seconds, count, longest = self.timed_step(self.stage)
        planned = self.planned_update(self.stage, count, longest, self.machine)
        rate = min(1.0, rates.update * planned / seconds)
        yield f"update, {label}", "s", planned, seconds, "training/machine.py Rates.update", rate
        peak, of_plan, of_step = self.peak(self.stage)
        scale = max(0.0, (peak - of_plan + of_step) / of_step * rates.memory)
        yield f"memory, {label}", "GiB", of_plan / GIB, peak / GIB, "training/machine.py Rates.memory", scale


def written(place: Path, size: int) -> float:
    """Bytes per second of a file, written and read."""
    file, data = place / ".ratchet-speed", os.urandom(2**20)
    try:
        started = time.perf_counter()
        with open(file, "wb") as output:
            for _ in range(size // len(data)):
                output.write(data)
            output.flush()
            os.fsync(output.fileno())
        file.read_bytes()
        return 2 * size / (time.perf_counter() - started)
    finally:
        file.unlink(missing_ok=True)


def main(specification: Path) -> int:
    ranks.die_with_launcher()
    spec = MeasuredPart.read(specification)
    hardware = spec.training.hardware
    ranks.join(hardware.advanced.timeout_minutes)
    measured = Assumptions(spec)
    measured.machine = replace(measured.machine, in_one=max(1, hardware.processes))
    measured.run(spec.part)
    ranks.leave()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
