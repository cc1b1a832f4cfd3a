"""What judging costs: CPU for each program, many programs on all workers, and programs that never end.

    python -m benchmarks.code_judge --programs 1024 --tests 20 --workers 2

CPU is that of the judge, the fork servers and the programs together, beyond starting them; a trivial program's is
nearly all overhead. In the mix half of the programs are right, a quarter wrong on every test, a quarter wrong on some.
No two programs are the same text, so none is remembered. The peer is the obvious way, on the first `--peer` programs:
`python -I -S` for each test, stopping at the first failure. It confines nothing, and does not even load the site
packages. Verdicts of both must agree. `--profile` shows where the judge's own share goes.

    python -m benchmarks.code_judge --against REVISION --turns 15

The judge of another revision beside this one, in turns: in each both judge `--programs` programs of either form, one
after the other, and who is first changes. Medians of the turns; the ratio is the median of the turns' own ratios. CPU
time hardly depends on what else the machine does, and turns even out what is left.

    python -m benchmarks.code_judge --livecodebench DIRECTORY --turns 5

LiveCodeBench's own `check_correctness` (DIRECTORY is its repository) beside this judge in the same turns, one program
after the other: CPU time of all processes, and wall time, which is mostly waiting where the cores are busy. It starts
two processes for each program, and confines nothing.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from benchmarks import judge_worker
from benchmarks.judge_worker import FORMS, Spent, doubling, measured, trivial
from ratchet.verifiers.code.domain import inputs_and_outputs
from ratchet.verifiers.code.judge import judge
from ratchet.verifiers.code.problem import TOTAL_LIMIT_FACTOR, TOTAL_LIMIT_S
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.sandbox.server import Sandbox, demand
from ratchet.verifiers.serving.local_pool import VerifierPool
from ratchet.verifiers.submission import JudgeSettings


def sandboxes_of_this_process() -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(os.getpid())], capture_output=True, text=True).stdout
    return [int(pid) for pid in listed.split()]


def overhead(count: int, tests: int, profile: bool) -> None:
    """One program after the other in one sandbox."""
    for form in ("call", "stdin"):
        problem = doubling(tests, form)
        with Sandbox() as sandbox:
            assert judge(problem, trivial(-1, form), sandbox).passed
            profiler = cProfile.Profile()
            with measured([sandbox._process.pid]) as spent:
                if profile:
                    profiler.enable()
                for number in range(count):
                    assert judge(problem, trivial(number, form), sandbox).passed
                profiler.disable()
        each = 1000 / count
        print(
            f"{form + ':':6} {tests} trivial tests: {each * spent.cpu:.2f} ms CPU a program (judge "
            f"{each * spent.judge:.2f}, sandbox {each * spent.sandboxes:.2f}), {each * spent.wall:.2f} ms wall"
        )
        if profile:
            pstats.Stats(profiler).sort_stats("tottime").print_stats(12)


def mix(count: int, tests: int, workers: int, form: str, peer: int) -> None:
    problem = doubling(tests, form)
    results = ("2 * x", "2 * x + 0", "x", f"2 * x if x < {tests // 2} else 0")
    sources = [trivial(number, form, results[number % 4]) for number in range(count)]
    with VerifierPool(workers) as pool:
        pool.run_programs([(problem, trivial(-number - 1, form)) for number in range(workers)])  # start them
        with measured(sandboxes_of_this_process()) as spent:
            verdicts = pool.run_programs([(problem, source) for source in sources])
    print(
        f"{count} programs ({form}), {workers} workers: {spent.wall:.2f} s wall, "
        f"{1000 * spent.cpu / count:.2f} ms CPU each"
    )
    if not peer:
        return
    begin = time.perf_counter()
    with ThreadPoolExecutor(workers) as threads:
        theirs = list(threads.map(lambda source: spawned(problem, source), sources[:peer]))
    if theirs != [verdict.passed for verdict in verdicts[:peer]]:
        raise SystemExit("judge and peer disagree about a program")
    seconds = time.perf_counter() - begin
    ratio = (seconds / peer) / (spent.wall / count)
    print(f"python -I -S for each test: {1000 * seconds / peer:.1f} ms wall a program, {ratio:.1f} times the judge's")


def spawned(problem: Problem, source: str) -> bool:
    for test in problem.code_tests():
        program = f"{source}\nimport json\nprint(json.dumps(f(*{test.call['args']!r})))\n"
        done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, timeout=60)
        if done.returncode or json.loads(done.stdout) != test.output:
            return False
    return True


def endless(count: int, tests: int, workers: int) -> None:
    limit_s = 0.5
    problem = doubling(tests, "call", time_limit_s=limit_s)
    budget_s = max(TOTAL_LIMIT_S, TOTAL_LIMIT_FACTOR * limit_s)
    for fraction, bound_s in ((False, 2 * limit_s), (True, budget_s + limit_s)):
        sources = [f"def f(x):\n    while True:\n        y = {number}\n" for number in range(count)]
        with VerifierPool(workers, JudgeSettings(fraction=fraction)) as pool:
            pool.run_programs([(problem, f"def f(x): return {number}") for number in range(workers)])  # start them
            with measured(sandboxes_of_this_process()) as spent:
                verdicts = pool.run_programs([(problem, source) for source in sources])
        assert all(verdict.outcome is Outcome.TIMEOUT for verdict in verdicts)
        print(
            f"{count} endless programs, {tests} tests of {limit_s} s, {'fraction' if fraction else 'all or nothing'}: "
            f"{spent.cpu / count:.2f} s CPU each (bound {bound_s:.1f}, tests x limit {tests * limit_s:.1f}), "
            f"{spent.wall:.1f} s wall"
        )


def compare(revision: str, turns: int, count: int, tests: int) -> None:
    """CPU milliseconds a verdict of the judge of `revision` and of this one."""
    here = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as there, ExitStack() as children:
        archive = subprocess.run(["git", "archive", revision], cwd=here, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", there], input=archive, check=True)
        judges = {revision: children.enter_context(worker(Path(there), tests))}
        judges["now"] = children.enter_context(worker(here, tests))
        for form in FORMS:
            spent: dict[str, list[Spent]] = {name: [] for name in judges}
            for turn in range(turns):
                for name in [*judges] if turn % 2 else [*reversed(judges)]:
                    spent[name].append(judges[name](form, count))
            pairs = list(zip(spent["now"], spent[revision], strict=True))
            cpu = {name: 1000 * median(each.cpu for each in of) / count for name, of in spent.items()}
            print(
                f"{form + ':':6} {tests} trivial tests, {turns} turns of {count} programs: "
                + ", ".join(f"{name} {ms:.2f} ms CPU a program" for name, ms in cpu.items())
                + f"; ratio {median(ours.cpu / theirs.cpu for ours, theirs in pairs):.3f}, "
                f"wall {median(ours.wall / theirs.wall for ours, theirs in pairs):.3f}"
            )


LIVECODEBENCH = """
import gc, json, resource, sys, time
sys.path.insert(0, sys.argv[1])
from lcb_runner.evaluation.compute_code_generation_metrics import check_correctness
def cpu():
    gc.collect()  # ends its processes, whose time counts when they have been waited for
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print("ready", flush=True)
for line in sys.stdin:
    sample, sources = json.loads(line)
    started, before = time.perf_counter(), cpu()
    passed = [all(r is True for r in check_correctness(sample, source, 6, False)[0]) for source in sources]
    wall = time.perf_counter() - started
    print(json.dumps([wall, cpu() - before, passed]), flush=True)
"""


def against_livecodebench(directory: Path, turns: int, count: int, tests: int) -> None:
    command = [sys.executable, "-c", LIVECODEBENCH, str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child, Sandbox() as own:
        assert child.stdin and child.stdout
        if child.stdout.readline() != "ready\n":
            raise SystemExit(f"{directory} has no lcb_runner/evaluation, or Python lacks numpy or tqdm")
        for form in FORMS:
            problem = doubling(tests, form)
            truth = json.loads(inputs_and_outputs(problem))
            ours: list[Spent] = []
            theirs: list[Spent] = []
            for turn in range(turns + 1):
                sources = [trivial(turn * count + number, form) for number in range(count)]
                child.stdin.write(json.dumps([{"input_output": json.dumps(truth)}, sources]) + "\n")
                child.stdin.flush()
                wall, cpu, passed = json.loads(child.stdout.readline())
                own.start()
                assert own._process
                with measured([own._process.pid]) as spent:
                    right = [judge(problem, source, own).passed for source in sources]
                if not all(right) or not all(passed):
                    raise SystemExit(f"a right program fails: {right.count(False)} here, {passed.count(False)} there")
                if turn:  # both have started
                    ours.append(spent)
                    theirs.append(Spent(wall, cpu))
            for kind in ("cpu", "wall"):
                pairs = [(getattr(a, kind), getattr(b, kind)) for a, b in zip(ours, theirs, strict=True)]
                here, there = (1000 * median(side) / count for side in zip(*pairs, strict=True))
                print(
                    f"{form + ':':6} {tests} trivial tests, {turns} turns of {count} programs: {here:.1f} ms {kind} a "
                    f"program, LiveCodeBench {there:.1f}; ratio {median(b / a for a, b in pairs):.1f}", flush=True,
                )  # fmt: skip
        child.stdin.close()


@contextmanager
def worker(root: Path, tests: int) -> Iterator[Callable[[str, int], Spent]]:
    """A process with the judge of the checkout at `root`."""
    package = f"p = types.ModuleType('ratchet'); p.__path__ = [{str(root)!r}]; sys.modules['ratchet'] = p"
    program = f"import runpy, sys, types; {package}; runpy.run_path({judge_worker.__file__!r}, run_name='__main__')"
    with subprocess.Popen(
        [sys.executable, "-P", "-c", program, str(tests)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin and child.stdout
        if child.stdout.readline() != "ready\n":
            raise SystemExit(f"the judge of {root} does not start: {sys.executable} has not what it needs")

        def judged(form: str, count: int) -> Spent:
            print(form, count, file=child.stdin, flush=True)
            judge_s, sandboxes_s, wall_s = map(float, child.stdout.readline().split())
            return Spent(wall_s, judge_s, sandboxes_s)

        yield judged
        child.stdin.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=1024)
    parser.add_argument("--tests", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--endless", type=int, default=4)
    parser.add_argument("--peer", type=int, default=32)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--against", metavar="REVISION")
    parser.add_argument("--livecodebench", type=Path, metavar="DIRECTORY")
    parser.add_argument("--turns", type=int, default=15)
    options = parser.parse_args()
    print(demand())
    if options.livecodebench:
        return against_livecodebench(options.livecodebench, options.turns, min(options.programs, 32), options.tests)
    if options.against:
        return compare(options.against, options.turns, min(options.programs, 256), options.tests)
    overhead(min(options.programs, 256), options.tests, options.profile)
    if not options.profile:
        mix(options.programs, options.tests, options.workers, "stdin", 0)
        mix(options.programs, options.tests, options.workers, "call", options.peer)
        if options.endless:
            endless(options.endless, 2 * options.tests, options.workers)


if __name__ == "__main__":
    main()
