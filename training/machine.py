"""Machines that a plan is made for: the maker's figures, and the share of them that training reaches.

The rates of a GPU are fitted to published step times (docs/scaling.md); those of a CPU were measured with a model of
135 million parameters. `ratchet doctor RECIPE` measures its own machines, for plans on the same accelerator.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from ratchet.infra.recipe.training import Hardware
from ratchet.infra.store.files import write_atomically
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import core_count, memory_bytes

GIB = 2**30


@dataclass(frozen=True)
class Rates:
    """What a machine reaches. Bandwidths are bytes per second."""

    update: float = 0.35
    """Share of peak arithmetic, forward and backward."""
    read: float = 0.8
    """Share of peak memory bandwidth in decoding."""
    decode: float = 0.5
    """Share of peak arithmetic in decoding, where many responses are decoded together."""
    iteration_s: float = 0.005
    """Fixed seconds per token of a decode batch: scheduling, kernel launches, sampling."""
    link: float = 25e9
    """From one accelerator to those of other machines."""
    disk: float = 2e9
    """All machines together, writing a checkpoint."""
    verdict_s: Mapping[str, float] = field(default_factory=dict)
    """Core seconds per verdict, by domain; `VERDICT_S` for the others."""
    memory: float = 1.0
    """Bytes used by the update per byte in the estimate."""


CPU = Rates(
    update=0.75, read=0.4, decode=0.48, iteration_s=0.002, link=2e9, disk=0.3e9, verdict_s={"code": 0.02},
    memory=1.3,
)  # fmt: skip
"""For toy recipes, whose programs are trivial (`benchmarks.code_judge`). The heap has holes after a few steps."""
VERDICT_S, PROGRAM_S = 0.005, 0.5
"""Assumed core seconds: of most verdicts, and of a program with dozens of tests."""
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
    """Of all machines together, for verdicts."""
    in_one: int = 8
    """Accelerators per machine, which exchange data without the network."""
    rates: Rates = Rates()

    @property
    def is_cpu(self) -> bool:
        return self.name == "CPU"

    @property
    def link(self) -> float:
        """Bytes per second between one accelerator and the others."""
        return self.rates.link if self.is_cpu or self.count > self.in_one else NVLINK

    def __str__(self) -> str:
        name = f"CPU with {self.cores} cores" if self.is_cpu else f"{self.count} x {self.name}"
        return f"{name} ({self.memory / GIB:.0f} GiB)"


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
"""Bytes per second of a collective among one machine's GPUs: a third of an H100's 450 in one direction."""
WIDE_CORE_FLOPS, CORE_FLOPS, CPU_BANDWIDTH = 190e9, 120e9, 20e9
"""Of one server core with and without 512-bit vectors: products of float32 matrices the size of a layer's."""


def parse_machine(text: str) -> Machine:
    """`16x8xH100`, `128xH100` or `H100`. Raises RatchetError naming the known GPUs."""
    match = re.fullmatch(r"(?:([1-9]\d*)x)?(?:([1-9]\d*)x)?(\w+)", text.replace(" ", ""), re.IGNORECASE)
    if not match or match[3].upper() not in KNOWN:
        raise RatchetError(
            f"--machine {text!r}: give a number and a GPU, e.g. 8xH100, or 16x8xH100 for 16 machines; known GPUs are "
            f"{', '.join(KNOWN)}."
        )
    machines, each = (int(match[1]), int(match[2])) if match[2] else (1, int(match[1] or 1))
    return _gpus(match[3].upper(), machines * each, each if match[2] else 8)


def _gpus(name: str, count: int, in_one: int) -> Machine:
    gib, flops, bandwidth = KNOWN[name]
    return Machine(name, count, gib * GIB, flops, bandwidth, CORES_PER_GPU * count, in_one)


def local_machine() -> Machine:
    """This machine's GPUs, as its driver reports them, or its CPU."""
    cores = core_count()
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
        answer = subprocess.run(query, capture_output=True, text=True)
        if answer.returncode == 0 and (lines := answer.stdout.splitlines()):
            name, mebibytes = lines[0].rsplit(",", 1)
            model = max((key for key in KNOWN if key in name.upper()), key=len, default="A100")
            return replace(_gpus(model, len(lines), len(lines)), memory=float(mebibytes) * 2**20, cores=cores)
    facts = Path("/proc/cpuinfo")
    wide = facts.exists() and "avx512f" in facts.read_text()
    each = WIDE_CORE_FLOPS if wide else CORE_FLOPS
    return Machine("CPU", 1, memory_bytes(), cores * each, CPU_BANDWIDTH, cores, rates=CPU)


def machine_of(hardware: Hardware) -> Machine:
    """What a recipe asks for: a GPU of this machine's kind for each rank. Without a GPU here it is H100s if the recipe
    computes in bfloat16, and this CPU if not."""
    here = local_machine()
    if (here.is_cpu and hardware.dtype == "float32") or (not here.is_cpu and here.count == hardware.ranks):
        return here
    asked = _gpus("H100" if here.is_cpu else here.name, hardware.ranks, hardware.processes)
    return asked if here.is_cpu else replace(asked, memory=here.memory)


LINES, KILLED = "preflight.jsonl", "killed"
"""Files of a preflight: its lines as they are found; the time (seconds since 1970) at which it killed a rank."""


def measured_file(home: Path, recipe: str) -> Path:
    """The file in which `ratchet doctor RECIPE` leaves its measurements for plans of the same recipe."""
    return home / "preflight" / recipe / "measured.json"


def write_rates(file: Path, machine: str, rates: Rates) -> None:
    write_atomically(file, json.dumps({"machine": machine, "rates": asdict(rates)}, indent=1))


def with_measured(machine: Machine, file: Path) -> Machine:
    """The machine with the rates in `file`, if they were measured on the same accelerator. Raises RatchetError for a
    file that cannot be read."""
    if not file.is_file():
        return machine
    try:
        rates = json.loads(file.read_text())
        return replace(machine, rates=Rates(**rates["rates"])) if rates["machine"] == machine.name else machine
    except (ValueError, KeyError, TypeError) as error:
        raise RatchetError(f"{file}: not a preflight's measurements ({error}). Delete it or run it again.") from error
