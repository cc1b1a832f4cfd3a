"""What Prefect and MLflow cost a run: the same run with them and without, alternately, each in a new home.

    python benchmarks/tracking_overhead.py tiny --repeats 2

Without: no Prefect server, tasks and flows are plain calls, and no mirror process is started; everything else is the
same, the journal included. Told: seconds on the clock and of CPU, of all processes of the run together, and what the
difference is of the run without. CPU is the number to go by on a machine that does other work as well.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import types
from contextlib import nullcontext
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent


def run_bare(arguments: list[str]) -> None:
    """The command line with Prefect and the mirror taken out."""
    from ratchet.cli import main as command_line
    from ratchet.cli import prefect_server
    from ratchet.infra import tracking
    from ratchet.tasks import prefect_page
    from ratchet.tasks.flow import Flow

    prefect, policies = types.ModuleType("prefect"), types.ModuleType("prefect.cache_policies")
    prefect.task = lambda **_: lambda function: function  # type: ignore
    policies.NO_CACHE = None  # type: ignore
    sys.modules |= {"prefect": prefect, "prefect.cache_policies": policies}
    Flow.__call__ = lambda self, *given, **named: self.fn(*given, **named)  # type: ignore
    prefect_server.prefect_server = lambda _: nullcontext(lambda: None)  # type: ignore
    prefect_server.without_heartbeats = nullcontext  # type: ignore
    prefect_page.name_run = lambda *_: {}  # type: ignore
    for name in ("log", "show", "link"):
        setattr(prefect_page, name, lambda *_: None)
    tracking.start_mirror = lambda _: subprocess.Popen(["true"])  # type: ignore
    command_line.app(arguments)


def measure(recipe: str, overrides: list[str], bare: bool) -> tuple[float, float]:
    """Seconds on the clock and of CPU."""
    with tempfile.TemporaryDirectory() as home:
        program = [sys.executable, __file__, "--bare"] if bare else [sys.executable, "-m", "ratchet.cli.main"]
        command = [*program, "run", recipe, "--home", home]
        for override in overrides:
            command += ["--set", override]
        began = time.monotonic()
        with open(Path(home) / "output.log", "w+b") as log:
            process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                log.seek(0)
                raise SystemExit(f"the run failed:\n{log.read().decode()[-3000:]}")
        return time.monotonic() - began, used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="?", default="tiny")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--set", dest="overrides", action="append", default=[], help="passed on to `ratchet run`")
    arguments = parser.parse_args()
    found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
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
        run_bare(sys.argv[2:])
    else:
        main()
