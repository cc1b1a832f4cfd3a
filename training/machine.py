"""The machines that a plan is made for: what their makers say of them, and the share of it that is reached.

The rates of a GPU are fitted to published step times (docs/scaling.md has the sources, and what they miss); those of a
CPU were measured with a model of 135 million parameters. `ratchet preflight` measures the rates of its own machines,
and a plan for the same accelerator then takes those.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from ratchet.infra.errors import RatchetError
from ratchet.infra.process_group import core_count, memory_bytes

GIB = 2**30


@dataclass(frozen=True)
class Rates:
    """What a machine reaches. Bandwidths are bytes a second."""

    update: float = 0.35
    """Of peak arithmetic, forward and backward."""
    read: float = 0.8
    """Of peak memory bandwidth, in decoding."""
    decode: float = 0.5
    """Of peak arithmetic in decoding, where many responses are decoded together."""
    iteration_s: float = 0.005
    """Of one token of a decode batch besides that: scheduling, launches of kernels, sampling."""
    link: float = 25e9
    """Of each accelerator, to those of other machines."""
    disk: float = 2e9
    """At which all machines together write a checkpoint."""
    verdict_s: Mapping[str, float] = field(default_factory=dict)
    """Of one core for one verdict, by domain; else `VERDICT_S`."""
    memory: float = 1.0
    """Bytes held in the update for each that is allocated by design."""


CPU = Rates(
    update=0.7, read=0.4, decode=0.4, iteration_s=0.002, link=2e9, disk=0.3e9, verdict_s={"code": 0.02}
)  # fmt: skip
"""Of toys, whose programs are trivial (`benchmarks.code_judge`)."""
VERDICT_S, PROGRAM_S = 0.005, 0.5
"""Seconds of a core: for most verdicts, and for a program with dozens of tests. Taken, not measured."""
CORES_PER_GPU = 12
"""A DGX H100 has 112 for 8."""


@dataclass(frozen=True)
class Machine:
    """`count` accelerators (or one CPU), each with this memory, peak FLOP/s in the training type, and bytes/s."""

    name: str
    count: int
    memory: float
    flops: float
    bandwidth: float
    cores: int
    """Of all of them, for verdicts."""
    in_one: int = 8
    """Accelerators of one machine, between which data need not travel by network."""
    rates: Rates = Rates()

    @property
    def is_cpu(self) -> bool:
        return self.name == "CPU"

    @property
    def link(self) -> float:
        """Bytes a second between one accelerator and the others."""
        return self.rates.link if self.is_cpu or self.count > self.in_one else NVLINK

    def times(self, factor: int) -> "Machine":
        return replace(self, count=self.count * factor, cores=self.cores * factor)

    def __str__(self) -> str:
        what = f"CPU with {self.cores} cores" if self.is_cpu else f"{self.count} x {self.name}"
        return f"{what} ({self.memory / GIB:.0f} GiB)"


KNOWN = {
    "H100": (80, 989e12, 3.35e12),
    "H200": (141, 989e12, 4.8e12),
    "H800": (80, 989e12, 3.35e12),
    "H20": (96, 148e12, 4.0e12),
    "B200": (180, 2250e12, 8.0e12),
    "GB200": (186, 2500e12, 8.0e12),
    "A100": (80, 312e12, 2.0e12),
    "L40S": (48, 362e12, 0.86e12),
}
"""GiB, dense bfloat16 FLOP/s and bytes/s, from the makers' data sheets."""
NVLINK = 150e9
"""Bytes a second that a collective of one machine's GPUs reaches: a third of an H100's 450 in one direction."""
CPU_CORE_FLOPS, CPU_BANDWIDTH = 90e9, 20e9
"""Of one core of a server: products of float32 matrices as large as a layer's."""


def told_machine(text: str) -> Machine:
    """`16x8xH100`, `128xH100` or `H100`. Raises RatchetError naming what is known."""
    found = re.fullmatch(r"(?:(\d+)\s*x\s*)?(?:(\d+)\s*x\s*)?(\w+)", text.strip(), re.IGNORECASE)
    if not found or found[3].upper() not in KNOWN or "0" in (found[1], found[2]):
        raise RatchetError(
            f"--machine {text!r}: say how many of which, e.g. 8xH100, or 16x8xH100 for 16 machines; known are "
            f"{', '.join(KNOWN)}."
        )
    counts = [int(count) for count in found.groups()[:2] if count]
    in_one = counts[1] if len(counts) == 2 else 8
    return _gpus(found[3].upper(), counts[0] * in_one if len(counts) == 2 else (counts or [1])[0], in_one)


def _gpus(name: str, count: int, in_one: int) -> Machine:
    gib, flops, bandwidth = KNOWN[name]
    return Machine(name, count, gib * GIB, flops, bandwidth, CORES_PER_GPU * count, in_one)


def found_machine() -> Machine:
    """The GPUs of this machine as its driver tells, or else the CPU with its cores and memory."""
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
        asked = subprocess.run(query, capture_output=True, text=True)
        if asked.returncode == 0 and (lines := asked.stdout.splitlines()):
            name, mebibytes = lines[0].rsplit(",", 1)
            known = max((key for key in KNOWN if key in name.upper()), key=len, default="A100")
            gpus = _gpus(known, len(lines), len(lines))
            return replace(gpus, memory=float(mebibytes) * 2**20, cores=core_count())
    cores = core_count()
    return Machine("CPU", 1, memory_bytes(), cores * CPU_CORE_FLOPS, CPU_BANDWIDTH, cores, rates=CPU)


LINES, KILLED = "preflight.jsonl", "killed"
"""A preflight's lines as they come; and when it killed a rank, seconds since 1970."""


def measured_file(home: Path, recipe: str) -> Path:
    """Where `ratchet preflight` leaves what it has measured, and a plan of the recipe looks for it."""
    return home / "preflight" / recipe / "measured.json"


def write_rates(file: Path, machine: str, rates: Rates) -> None:
    from ratchet.infra.artifacts import write_atomically  # brings pyarrow along, which a plan does without

    write_atomically(file, json.dumps({"machine": machine, "rates": asdict(rates)}, indent=1))


def with_measured(machine: Machine, file: Path) -> Machine:
    """The machine with the rates in `file`, where that has those of the same accelerator. Raises RatchetError for a
    file that cannot be read."""
    if not file.is_file():
        return machine
    try:
        found = json.loads(file.read_text())
        return replace(machine, rates=Rates(**found["rates"])) if found["machine"] == machine.name else machine
    except (ValueError, KeyError, TypeError) as error:
        raise RatchetError(f"{file}: not what a preflight writes ({error}). Delete it, or run it again.") from error
