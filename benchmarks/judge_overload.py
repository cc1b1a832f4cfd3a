"""Do verdicts depend on the load? Right programs between 40 and 80 % of their limit, judged on a busy machine.

    python -m benchmarks.judge_overload --load 25 --programs 96

Programs count to numbers that take 40, 50, ... 80 % of the limit in CPU time, measured in the sandbox as the least of
some runs, so on a machine as quiet as it gets; with one thread and with three. Then as many busy processes are started
as bring the run queue to `--load`, and each program is judged once. All are right and below their limit: a verdict that
is not `passed` is a flip. Sleepers that need more than their limit are judged as well, and none may pass.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter

from ratchet.verifiers.code.judge import judge
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.sandbox.runs import Limits
from ratchet.verifiers.sandbox.server import Sandbox

SHARES = (0.4, 0.5, 0.6, 0.7, 0.8)
ONE = "n = 0\nfor _ in range({count}): n += 1\nprint(input())"
THREE = """import threading
def run():
    n = 0
    for _ in range({count} // 3): n += 1
threads = [threading.Thread(target=run) for _ in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(input())"""
SLEEPER = "import time\ntime.sleep({seconds})\nprint(input())"
FORMS = {"one thread": ONE, "three threads": THREE}


def cpu_s(sandbox: Sandbox, source: str) -> float:
    limits = Limits(60.0, 60.0, 256 << 20, 1 << 20)
    test = {"kind": "stdin", "input": "1\n"}
    return min(sandbox.run(source, [test], limits, entry_point=None, prelude=None).spent_s for _ in range(7))


def runnable() -> int:
    with open("/proc/loadavg") as file:
        return int(file.read().split()[3].split("/")[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--load", type=int, default=25)
    parser.add_argument("--programs", type=int, default=96, help="of each form")
    parser.add_argument("--limit", type=float, default=0.5, help="seconds of the programs' time limit")
    options = parser.parse_args()
    tests = json.dumps([{"input": "1\n", "output": "1\n"}])
    problem = Problem("overload", "code", "", tests=tests, time_limit_s=options.limit)
    failed = 0
    with Sandbox() as sandbox:
        counts = {}
        for form, source in FORMS.items():
            base, more = (cpu_s(sandbox, source.format(count=count)) for count in (0, 3_000_000))
            each_s = (more - base) / 3_000_000
            counts[form] = [int((share * options.limit - base) / each_s) for share in SHARES]
        busy = []
        try:
            for _ in range(max(0, options.load - runnable())):
                busy.append(subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]))
            time.sleep(2)
            print(f"run queue of {runnable()} on {len(os.sched_getaffinity(0))} cores, limit {options.limit} s")
            for form, source in FORMS.items():
                flips: Counter[str] = Counter()
                for number in range(options.programs):
                    program = source.format(count=counts[form][number % len(SHARES)]) + f"  # {number}"
                    verdict = judge(problem, program, sandbox)
                    if not verdict.passed:
                        flips[f"{SHARES[number % len(SHARES)]:.0%} {verdict.decided_by}"] += 1
                failed += flips.total()
                print(f"{form}: {flips.total()} of {options.programs} flip {dict(flips)}", flush=True)
            slept = [judge(problem, SLEEPER.format(seconds=2 * options.limit), sandbox).outcome for _ in range(5)]
            print(f"sleepers of twice the limit: {slept.count(Outcome.TIMEOUT)} of {len(slept)} time out")
            print(f"run queue of {runnable()}")
        finally:
            for process in busy:
                process.kill()
                process.wait()
    raise SystemExit(failed > 0.01 * 2 * options.programs)


if __name__ == "__main__":
    main()
