"""A soak of the judge: many verifications mixed with attacks, while its workers are killed at random moments.

    python benchmarks/soak.py --verifications 20000 --workers 2

Four kinds of work with a known verdict come in a random order: answers that the cheap tiers of math decide, answers
that need algebra, programs right and wrong, and attacks, which must never pass. A thread kills sandbox servers with
SIGKILL, every `--kill-every` seconds on average. Checked: every ticket comes out once; every verdict is the known one;
the memory of this process has hardly grown since the first quarter; no process that was started is left, no zombie
either. Prints throughput; exit code 1 when something is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress

import psutil

from ratchet.verifiers.outcome import Verdict
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.local_pool import VerifierPool

IN_FLIGHT = 256
MAX_GROWTH_MIB = 20
"""Verdicts and parsed answers are remembered, a bounded number of them; the rest must be flat."""
MALLOC = "MALLOC_MMAP_THRESHOLD_"
WORKER = "ratchet.verifiers.sandbox"
"""Words of the command line of what is killed."""

DOUBLE = Problem(
    "double", "code", "", time_limit_s=0.3, memory_limit_mb=256,
    tests=json.dumps([{"input": f"{n}\n", "output": f"{2 * n}\n"} for n in (5851, 3, 0, -7, 10**12)]),
)  # fmt: skip
ATTACKS = {
    "exit": "import os; os._exit(0)",
    "endless": "while True: pass",
    "endless, in spite of signals": (
        "import signal\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except Exception: pass\n"
        "while True:\n    try:\n        while True: pass\n    except BaseException: continue"
    ),
    "asleep": "import time; time.sleep(1000)",
    "fork bomb": "import os\nwhile True: os.fork()",
    "daemon": "import os, time\nif os.fork() == 0:\n    os.setsid(); time.sleep(1000)",
    "kill everything": "import os, signal; os.kill(-1, signal.SIGKILL)",
    "kill the parent": "import os, signal; os.kill(os.getppid(), signal.SIGKILL)",
    "stop itself": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP); signal.pause()",
    "memory": "hoard = []\nwhile True: hoard.append(bytearray(1 << 24))",
    "memory in files": "import os\nwhile True: os.write(os.memfd_create('x'), bytes(1 << 22))",
    "output": "while True: print('x' * 1000)",
    "threads": "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(99,)).start()",
    "crash": "import ctypes; ctypes.string_at(0)",
    "forge the report": (
        "import os\nfor d in range(3, 64):\n    try: os.write(d, b'{\"status\": \"done\", \"output\": \"\"}\\n' * 9)\n"
        "    except OSError: pass\nos._exit(0)"
    ),
    "read the heap": (
        "import gc\ntext = ' '.join(repr(o) for o in gc.get_objects() if isinstance(o, (str, bytes, dict, list)))\n"
        "print('11702' if '11702' in text else 'nothing')"
    ),
    "equal to all": "class Yes:\n    __eq__ = lambda self, other: True\n    __repr__ = lambda self: ''\nprint(Yes())",
    "network": "import socket; socket.create_connection(('127.0.0.1', 22), timeout=1)",
}  # fmt: skip
TOWERS = (
    "9^{9^{9^{9}}}", "(10^{10})!", "\\binom{10^9}{5\\cdot10^8}", "2^{2^{2^{2^{2^{2}}}}}", "(" * 400 + "1" + ")" * 400,
)  # fmt: skip

Case = tuple[str, Problem, str, bool]
"""Kind, problem, response, whether it passes."""


def cases(count: int, rng: random.Random, attack_share: float) -> Iterator[Case]:
    """Nearly all texts differ, so that nothing is answered from memory."""
    for number in range(count):
        kind = rng.random()
        if kind < attack_share:
            name = rng.choice([*ATTACKS, "tower"])
            if name == "tower":
                yield f"attack: {name}", _number(number), f"\\boxed{{{rng.choice(TOWERS)}}}", False
            else:
                yield f"attack: {name}", DOUBLE, _fenced(f"{ATTACKS[name]}\n# {number}"), False
        elif kind < 0.45:
            value = number if rng.random() < 0.5 else number + 1
            yield "math", _number(number), f"So it is \\boxed{{{value}.0}}.", value == number
        elif kind < 0.60:
            extra = rng.choice((0, 0, 1))
            problem = Problem(f"cosine-{number}", "math", "", answer=f"\\cos 2x+{number}")
            yield "algebra", problem, f"\\boxed{{{number + 1 + extra}-2\\sin^2 x}}", extra == 0
        else:
            wrong = rng.choice(("", "", " + (n == -7)"))
            yield "code", DOUBLE, _fenced(f"n = int(input())  # {number}\nprint(2 * n{wrong})"), not wrong


def _number(number: int) -> Problem:
    return Problem(f"number-{number}", "math", "", answer=str(number))


def _fenced(source: str) -> str:
    return f"<think>hm</think>\n```python\n{source}\n```"


class Soak:
    """One run: what was submitted, what came out, what was wrong."""

    def __init__(self, pool: VerifierPool) -> None:
        self.pool = pool
        self.out: dict[int, Case] = {}
        self.judged: Counter[str] = Counter()
        self.wrong: list[str] = []

    def run(self, todo: Iterator[Case], on_verdict: Callable[[int], None]) -> None:
        """Keep `IN_FLIGHT` tickets out until all are judged."""
        for number, case in enumerate(todo):
            self.out[number] = case
            self.pool.submit(number, *case[1:3])
            while len(self.out) >= IN_FLIGHT:
                self._take(next(self.pool.results()), on_verdict)
        for result in self.pool.results():
            self._take(result, on_verdict)

    def _take(self, result: tuple[int, Verdict], on_verdict: Callable[[int], None]) -> None:
        ticket, verdict = result
        kind, _, response, passes = self.out.pop(ticket)  # a KeyError here: answered twice
        self.judged[kind.partition(":")[0]] += 1
        if verdict.passed != passes or verdict.outcome == "infra_error":
            self.wrong.append(f"{kind}: {verdict} for {response[:200]!r}")
        on_verdict(self.judged.total())


class Killer(threading.Thread):
    """Kills one of our sandboxes at random moments, until it is stopped."""

    def __init__(self, mean_s: float, rng: random.Random) -> None:
        super().__init__(name="killer", daemon=True)
        self.mean_s, self.rng = mean_s, rng
        self.stop = threading.Event()
        self.kills = 0

    def run(self) -> None:
        while not self.stop.wait(self.rng.expovariate(1 / self.mean_s)):
            if workers := [pid for pid, command in descendants().items() if WORKER in command]:
                with suppress(ProcessLookupError):
                    os.kill(self.rng.choice(workers), signal.SIGKILL)
                    self.kills += 1


def descendants() -> dict[int, str]:
    """Command lines of our children and of theirs, by pid; a zombie's is empty.

    Solutions are one level deeper and left out: killing one is a verdict on it, and no fault of ours.
    """
    found: dict[int, str] = {}
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # it ended while we looked
            # A guardian watches its sandbox's server, its child.
            for process in (child, *child.children()):
                found[process.pid] = " ".join(process.cmdline()) if process.status() != psutil.STATUS_ZOMBIE else ""
    return found


def left_over() -> set[int]:
    """Processes below this one, and what escaped: a solution carries its server's command line, with our pid in it."""
    mark = f'"judge_pid": {os.getpid()}'
    escaped = {each.pid for each in psutil.process_iter(["cmdline"]) if mark in " ".join(each.info["cmdline"] or ())}
    return escaped | descendants().keys()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verifications", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--attacks", type=float, default=0.02, help="share of verifications")
    parser.add_argument("--kill-every", type=float, default=3.0, help="seconds between kills, on average")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if MALLOC not in os.environ:  # else glibc keeps freed outputs of megabytes, some a thread, and a leak hides in them
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, MALLOC: "131072"})
    count = arguments.verifications

    memory: dict[int, float] = {}
    marks = {count * quarter // 4 for quarter in (1, 2, 3, 4)}
    start = time.monotonic()

    def on_verdict(done: int) -> None:
        if done in marks:
            memory[done] = psutil.Process().memory_info().rss / 2**20
            seconds = time.monotonic() - start
            print(f"{done:7,} judged, {done / seconds:6.1f} a second, {memory[done]:6.1f} MiB resident", flush=True)

    killer = Killer(arguments.kill_every, random.Random(arguments.seed + 1))
    with VerifierPool(arguments.workers) as pool:
        soak = Soak(pool)
        killer.start()
        soak.run(cases(count, random.Random(arguments.seed), arguments.attacks), on_verdict)
        killer.stop.set()
        killer.join()
    seconds = time.monotonic() - start
    deadline = time.monotonic() + 10
    while left_over() and time.monotonic() < deadline:
        time.sleep(0.1)

    growth = memory[count] - memory[count // 4]
    faults = {
        "lost": count - soak.judged.total() + len(soak.out),
        "wrong": len(soak.wrong),
        "processes left": len(left_over()),
        f"memory grown more than {MAX_GROWTH_MIB} MiB": int(growth > MAX_GROWTH_MIB),
    }
    print(f"{count:,} verifications in {seconds:.0f} s with {arguments.workers} workers: {dict(soak.judged)}")
    print(f"killed meanwhile: {killer.kills}; memory grown since the first quarter: {growth:.1f} MiB")
    print(", ".join(f"{name}: {number}" for name, number in faults.items()))
    for line in soak.wrong[:10]:
        print(line)
    raise SystemExit(1 if any(faults.values()) else 0)


if __name__ == "__main__":
    main()
