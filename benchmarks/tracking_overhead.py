"""What Prefect and MLflow cost a run: the same run with them and without, alternately, each in a new home.

    python benchmarks/tracking_overhead.py tiny --repeats 2

Without: no Prefect server, tasks and flows are plain calls, and no mirror process is started; everything else is the
same, the journal included. The empty databases come from a cache of the benchmark's own, which a first, short command
fills: the cost is that of all runs of a user but the first. Prints seconds on the clock and of CPU, of all processes
of the run together, and the difference to the run without. On a machine that does other work as well, CPU is the number
to use.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent


def run_bare(recipe: str, home: str, overrides: list[str]) -> None:
    """The whole pipeline with Prefect and the mirror left out."""
    from ratchet.flows.pipeline import pipeline
    from ratchet.infra.recipe import load_recipe
    from ratchet.infra.settings import load_settings
    from ratchet.tasks.pipeline_run import Caller, Watcher, called_by

    with called_by(Caller(load_settings(home), Watcher(), prefect=False, mirrored=False)):
        pipeline(load_recipe(recipe, overrides))


def measure(recipe: str, overrides: list[str], bare: bool, command: str = "run") -> tuple[float, float]:
    """Seconds on the clock and of CPU."""
    with tempfile.TemporaryDirectory() as home:
        settings = [part for override in overrides for part in ("--set", override)]
        argv = [sys.executable, "-m", "ratchet.cli.main", *command.split(), recipe, "--home", home, *settings]
        if bare:
            argv = [sys.executable, __file__, "--bare", recipe, home, *overrides]
        began = time.monotonic()
        with open(Path(home) / "output.log", "w+b") as log:
            process = subprocess.Popen(argv, cwd=ROOT, stdout=log, stderr=log)
            _, status, used = os.wait4(process.pid, 0)
            took, cpu = time.monotonic() - began, used.ru_utime + used.ru_stime
            process.returncode = os.waitstatus_to_exitcode(status)
            while True:  # the mirror is nobody's child but ours by now
                try:
                    used = os.wait4(-1, 0)[2]
                except ChildProcessError:
                    break
                cpu += used.ru_utime + used.ru_stime
            if process.returncode:
                log.seek(0)
                raise SystemExit(f"the run failed:\n{log.read().decode()[-3000:]}")
        return took, cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="?", default="tiny")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--set", dest="overrides", action="append", default=[], help="passed on to `ratchet run`")
    arguments = parser.parse_args()
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: whom nobody waits for becomes our child
    found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    cache = tempfile.TemporaryDirectory()
    os.environ["XDG_CACHE_HOME"] = cache.name
    measure("tests/flows/mini.yaml", [], bare=False, command="curate math")
    for _ in range(arguments.repeats):
        for bare in found:
            found[bare].append(measure(arguments.recipe, arguments.overrides, bare))
            name = "without" if bare else "with"
            print(f"{name:8} {found[bare][-1][0]:7.1f} s on the clock, {found[bare][-1][1]:7.1f} s of CPU", flush=True)
    for i, what in enumerate(("clock", "CPU")):
        without, whole = (median(times[i] for times in found[bare]) for bare in (True, False))
        print(f"{what}: {whole - without:+.1f} s, {(whole - without) / without:+.1%} of the run without")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--bare"]:
        run_bare(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        main()
