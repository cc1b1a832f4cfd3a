"""Machines that a plan is made for: the maker's figures, and the share of them that training reaches.

The rates of a GPU are fitted to published step times (docs/evidence/plan.md). A CPU's arithmetic is measured, in the
recipe's type; its shares were measured with a model of 135 million parameters. `ratchet preflight RECIPE` measures its
own machines, for plans on the same accelerator.
"""

import itertools
import json
import math
import os
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path

from ratchet.data_curation.base.files import user_cache, write_atomically
from ratchet.infra.recipe.training import Hardware
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import GIB, core_count, memory_bytes


@dataclass(frozen=True)
class Rates:
    """Rates that a machine reaches. Bandwidths are bytes per second."""

    update: float = 0.35
    """Share of peak arithmetic, forward and backward."""
    read: float = 0.8
    """Share of peak memory bandwidth in decoding."""
    decode: float = 0.5
    """Share of peak arithmetic in decoding, where many responses are decoded together."""
    iteration_s: float = 0.005
    """Fixed seconds per token of a decode batch: scheduling, kernel launches, sampling."""
    link: float = 25e9
    """Bandwidth from one accelerator to those of other machines."""
    disk: float = 2e9
    """Bytes per second that all machines together write to disk."""
    verdict_s: Mapping[str, float] = field(default_factory=dict)
    """Core seconds per verdict, by domain; `VERDICT_S` for the other domains."""
    memory: float = 1.0
    """Bytes used by the update per byte in the estimate."""


CPU = Rates(
    update=0.75, read=0.4, decode=0.48, iteration_s=0.002, link=2e9, disk=0.3e9, verdict_s={"code": 0.02},
    memory=1.3,
)  # fmt: skip
"""Rates of a CPU for toy recipes, whose programs are trivial. The heap has holes after a few steps."""
VERDICT_S, PROGRAM_S = 0.005, 0.5
"""Assumed core seconds: of most verdicts, and of a program with dozens of tests."""
PROCESS_START_S, ENGINE_START_S, FORK_S = 30.0, 60.0, 3.0
"""Assumed seconds of a process group's libraries and connections; of an engine's profiling and CUDA graphs, where what
it compiles is in a cache; without a GPU, of a group that is forked from a process with its libraries."""
CORES_PER_GPU = 12
"""CPU cores per GPU: a DGX H100 has 112 for 8."""


@dataclass(frozen=True)
class Machine:
    """The machines of a plan: `count` accelerators (or one CPU), each with this memory, peak FLOP/s in the training
    type, and bytes/s."""

    name: str
    count: int
    memory: float
    flops: float
    bandwidth: float
    cores: int
    """Cores of all machines together, for verdicts."""
    in_one: int = 8
    """Accelerators per machine, which exchange data without the network."""
    rates: Rates = Rates()

    @property
    def is_cpu(self) -> bool:
        return self.name == "CPU"

    @property
    def machines(self) -> int:
        """The number of machines."""
        return 1 if self.is_cpu else math.ceil(self.count / self.in_one)

    @property
    def link(self) -> float:
        """Bytes per second between one accelerator and all others."""
        return self.rates.link if self.is_cpu or self.machines > 1 else self.link_within

    @property
    def link_within(self) -> float:
        """Bytes per second between one accelerator and the others of its machine."""
        return NVLINK if self.name in WITH_NVLINK else PCIE

    def __str__(self) -> str:
        name = f"CPU with {self.cores} cores" if self.is_cpu else f"{self.count} x {self.name}"
        return f"{name} ({self.memory / GIB:.0f} GiB)"


KNOWN = {
    "H100": (79.2, 989e12, 3.35e12),
    "H200": (139.8, 989e12, 4.8e12),
    "H800": (79.2, 989e12, 3.35e12),
    "H20": (95.1, 148e12, 4.0e12),
    "B200": (178.3, 2250e12, 8.0e12),
    "GB200": (184.3, 2500e12, 8.0e12),
    "A100": (79.2, 312e12, 2.0e12),
    "L40S": (44.4, 362e12, 0.86e12),
    "L4": (22.0, 121e12, 0.3e12),
    "A10": (22.0, 125e12, 0.6e12),
    "3090": (23.6, 71e12, 0.94e12),
    "4090": (23.5, 165e12, 1.01e12),
}
"""Memory in GiB that a program can have, less than the advertised; dense bfloat16 FLOP/s with sums in float32; and
bytes/s. From the makers' data sheets."""
WITH_NVLINK = ("H100", "H200", "H800", "H20", "B200", "GB200", "A100")
NVLINK, PCIE = 150e9, 10e9
"""Bytes per second of a collective among one machine's GPUs: a third of an H100's 450 in one direction; without NVLink
a third of PCIe 4's 32, assumed."""
PER_CLOCK = {(8, 0): 2048, (9, 0): 4096, (10, 0): 8192}
"""Dense bfloat16 FLOP of one multiprocessor in a clock cycle, by compute capability, from the same data sheets; others
from 8.0 on have at least `LEAST_PER_CLOCK`."""
LEAST_PER_CLOCK = 512
CPU_BANDWIDTH = 20e9
LAYER = 512, 1024, 4096
"""Rows, inputs and outputs of the matrix product that measures a core."""


def parse_machine(text: str) -> Machine:
    """Parse `16x8xH100`, `128xH100` or `H100`. Raises RatchetError that names the known GPUs."""
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


def local_machine(dtype: str = "float32") -> Machine:
    """This machine's GPUs as its driver reports them, or its CPU as it computes in this type. An unknown GPU is planned
    by the properties that torch reads."""
    cores = core_count()
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
        answer = subprocess.run(query, capture_output=True, text=True)
        if answer.returncode == 0 and (lines := answer.stdout.splitlines()):
            name, mebibytes = lines[0].rsplit(",", 1)
            words, count = set(re.split(r"[^A-Z0-9]+", name.upper())), _visible(len(lines))
            if count and (model := next((each for each in KNOWN if each in words), None)):
                machine = _gpus(model, count, count)
                reported = int(mebibytes) * 2**20 if mebibytes.strip().isdigit() else machine.memory  # or [N/A]
                return replace(machine, memory=min(machine.memory, reported), cores=cores)
            if count and (machine := _unknown_gpus(name.strip(), count, cores)):
                return machine
    return Machine("CPU", 1, memory_bytes(), cores * core_flops(dtype), CPU_BANDWIDTH, cores, rates=CPU)


def _visible(count: int) -> int:
    """The number of this machine's `count` GPUs that CUDA_VISIBLE_DEVICES leaves visible."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(count)))).split(",")
    before_invalid = itertools.takewhile(lambda device: device.strip() not in ("", "-1"), named)
    return min(count, len([*before_invalid]))


@cache
def core_flops(dtype: str) -> float:
    """FLOP/s of one core in this type, measured once a day: importing torch is most of a dry run's time."""
    file = user_cache() / f"core-flops-{platform.node()}-torch-{version('torch')}-{dtype}.txt"
    with suppress(OSError, ValueError):
        if time.time() - file.stat().st_mtime < 24 * 3600:
            return float(file.read_text())
    measured = _measured_core_flops(dtype)
    with suppress(OSError):  # the cache cannot be written
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, str(measured))
    return measured


def _measured_core_flops(dtype: str) -> float:
    """FLOP/s of one core in products of matrices of a layer's size, the fastest of three, by CPU time: a busy machine
    counts as a quiet one."""
    import torch  # seconds

    from ratchet.infra.inference.matmul import product

    rows, inputs, outputs = LAYER
    hidden, weight = (torch.ones(size, inputs, dtype=getattr(torch, dtype)) for size in (rows, outputs))
    threads, seconds = torch.get_num_threads(), []
    torch.set_num_threads(1)
    with torch.no_grad():
        for _ in range(4):  # the first one compiles
            start = time.process_time()
            product(hidden, weight)
            seconds.append(time.process_time() - start)
    torch.set_num_threads(threads)
    return 2 * math.prod(LAYER) / min(seconds[1:])


def _unknown_gpus(name: str, count: int, cores: int) -> Machine | None:
    """GPUs of an unknown kind as torch describes them; None if it cannot use them in bfloat16."""
    import torch  # seconds

    if not torch.cuda.is_available():
        return None
    facts = torch.cuda.get_device_properties(0)
    if facts.major < 8:
        return None
    flops = (
        facts.multi_processor_count
        * 1e3
        * facts.clock_rate
        * PER_CLOCK.get((facts.major, facts.minor), LEAST_PER_CLOCK)
    )
    bandwidth = 2 * 1e3 * facts.memory_clock_rate * facts.memory_bus_width / 8  # both edges of the clock; kHz and bits
    return Machine(name, count, facts.total_memory, flops, bandwidth, cores, count)


def machine_of(hardware: Hardware) -> Machine:
    """The machine that a recipe asks for: a GPU of this machine's kind for each rank. Without a GPU here, it is this
    CPU if the CPU has a core for each rank or the recipe computes in float32, otherwise H100s."""
    here = local_machine(hardware.dtype)
    enough = hardware.machines == 1 and hardware.ranks <= here.cores
    if (here.is_cpu and (enough or hardware.dtype == "float32")) or (not here.is_cpu and here.count == hardware.ranks):
        return here
    if here.is_cpu:
        return _gpus("H100", hardware.ranks, hardware.processes)
    cores = CORES_PER_GPU * hardware.ranks
    return replace(here, count=hardware.ranks, cores=cores, in_one=hardware.processes)


LINES, KILLED = "preflight.jsonl", "killed"
"""Files of a preflight: its lines as they are found; the time (seconds since 1970) at which it killed a rank."""


def measured_file(home: Path, recipe: str) -> Path:
    """The file in which `ratchet preflight RECIPE` leaves its measurements for plans of the same recipe."""
    return home / "preflight" / recipe / "measured.json"


def write_rates(file: Path, machine: str, rates: Rates) -> None:
    """Write measured rates for plans on the same accelerator."""
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
