"""Time, neighbors, and faults of the machine or of the sandbox itself."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack

import pytest

from ratchet.verifiers.code.judge import judge
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.sandbox import server
from ratchet.verifiers.sandbox.runs import Limits, Report
from ratchet.verifiers.sandbox.server import Sandbox, SandboxFault
from ratchet.verifiers.serving.local_pool import VerifierPool
from tests.verifiers.programs import FORGE, LEGAL
from tests.verifiers.sandbox_world import CALL, NO_NAMESPACES, PROGRAM, alive, descendants, problem, without_layers
from tests.waiting import happens


def test_time_asleep_counts_and_time_waiting_for_a_core_does_not(sandbox):
    """Nothing here is near a limit: 1 s of sleep against 0.1 s, 0.1 s of work against 1 s, of which neighbors on its
    core would take more than that."""

    def run(source, limit_s):
        limits = Limits(limit_s, limit_s, 1 << 28, 1 << 16)
        tests = [{"kind": "stdin", "input": ""}]
        return sandbox.run(source, tests, limits, entry_point=None, prelude=None).runs[0].status

    assert run("import time; time.sleep(1)", 0.1) == "timed_out"
    assert run("import time; time.sleep(0.1)", 20.0) == "done"
    core, *_ = cores = os.sched_getaffinity(0)
    os.sched_setaffinity(sandbox._process.pid, {core})
    for process in descendants(sandbox._process.pid):
        os.sched_setaffinity(process, {core})
    spin = f"import os\nos.sched_setaffinity(0, {{{core}}})\nprint(flush=True)\nwhile True: pass"
    with ExitStack() as neighbors:
        for _ in range(14):
            neighbor = neighbors.enter_context(subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE))
            neighbors.callback(neighbor.kill)
            neighbor.stdout.readline()
        assert run("import time\nwhile time.process_time() < 0.1: pass", 1.0) == "done"
    for process in {sandbox._process.pid} | descendants(sandbox._process.pid):
        os.sched_setaffinity(process, cores)


def test_a_program_that_the_kernel_stops_for_its_cpu_time_has_timed_out():
    """On a busy machine the kernel's own limit may be first."""
    output, report = os.memfd_create("output"), os.memfd_create("report")
    found = Report(output, report, 1, 1 << 16)
    found.conclude({"ended": "exited", "status": signal.SIGXCPU})
    assert [run.status for run in found.runs] == ["timed_out"]


def test_bombs_of_threads_fail_no_neighbor():
    """Each sandbox has a user of its own, and so its own number of threads."""
    bombs = [Sandbox() for _ in range(3)]
    with ExitStack() as stack:
        neighbor, *_ = [stack.enter_context(sandbox) for sandbox in (Sandbox(), *bombs)]
        neighbor.start()
        if "uid" not in neighbor.isolation and "user-namespaces" not in neighbor.isolation:
            pytest.skip("this machine gives us one user only")
        bombing = [
            threading.Thread(target=judge, args=(problem(PROGRAM, memory_limit_mb=512.0), FORGE["thread bomb"], bomb))
            for bomb in bombs
        ]
        for thread in bombing:
            thread.start()
        verdicts = []
        while any(thread.is_alive() for thread in bombing):
            fields = {"time_limit_s": 9.0, "memory_limit_mb": 1024.0}
            verdicts.append(judge(problem(PROGRAM, **fields), LEGAL["dozens of threads"], neighbor))
        assert verdicts and all(verdict.passed for verdict in verdicts), verdicts


@pytest.mark.parametrize("threads", ["time.sleep(0.01) for _ in range(6000)", "time.sleep(60)"])
def test_hundreds_of_threads_earn_no_time_to_sleep(threads, sandbox):
    source = f"""
import threading, time
threading.stack_size(1 << 16)
sleepers = [threading.Thread(target=lambda: [{threads}]) for _ in range(900)]
[thread.start() for thread in sleepers]
[thread.join() for thread in sleepers]"""
    assert judge(problem(PROGRAM, time_limit_s=1.0, memory_limit_mb=512.0), source, sandbox).outcome is Outcome.TIMEOUT


@pytest.mark.parametrize("check", [False, True])
def test_a_program_that_somebody_kills_has_not_failed(check, sandbox):
    tests = [{"check": "def check(candidate):\n    for _ in range(1): assert candidate(1) == 2"}] if check else CALL

    def kill():
        assert happens(lambda: len(descendants(sandbox._process.pid)) == 2 + check)
        confined = [pid for pid in descendants(sandbox._process.pid) if not descendants(pid)]
        os.kill(confined[0], signal.SIGKILL)  # with a check, either of the two

    sandbox.start()
    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(SandboxFault, match="something killed"):
        judge(problem(tests, entry_point="f", time_limit_s=9.0), "import time\ndef f(x): time.sleep(9)", sandbox)
    thread.join()
    assert judge(problem(PROGRAM), LEGAL["plain"], sandbox).passed


def test_a_fault_of_the_server_is_ours_not_the_programs_and_a_pool_tries_again():
    sabotaged = []

    def judge_once_in_a_dying_sandbox(problem, source, sandbox):
        if not sabotaged:
            sandbox.start()
            sabotaged.append(threading.Thread(target=kill, args=(sandbox._process,)))
            sabotaged[0].start()
        return judge(problem, source, sandbox)

    def kill(process):
        assert happens(lambda: len(descendants(process.pid)) == 2)  # the server and the program
        process.kill()

    program = (problem(PROGRAM, time_limit_s=9.0), "import time; time.sleep(0.5); print(2 * int(input()))")
    with VerifierPool(workers=1) as pool:
        [verdict] = pool.map_programs(judge_once_in_a_dying_sandbox, [program])
    assert verdict.passed and sabotaged, verdict


def test_faults_that_do_not_end_are_no_verdict():
    stop = threading.Event()
    with Sandbox() as sandbox:

        def sabotage():
            while not stop.wait(0.01):
                process, channel = sandbox._process, sandbox._channel
                if process is not None and channel is not None and channel.gettimeout() != server._START_TIMEOUT_S:
                    process.kill()

        thread = threading.Thread(target=sabotage)
        thread.start()
        try:
            with pytest.raises(SandboxFault):
                judge(problem(PROGRAM, time_limit_s=5.0), "import time; time.sleep(2)", sandbox)
        finally:
            stop.set()
            thread.join()


def test_a_closed_sandbox_leaves_nothing_and_starts_again():
    with Sandbox() as sandbox:
        sandbox.start()
        processes = {sandbox._process.pid} | descendants(sandbox._process.pid)
        assert len(processes) == 2
        sandbox.close()
        assert happens(lambda: not any(map(alive, processes)))
        assert judge(problem(PROGRAM), LEGAL["plain"], sandbox).passed


@pytest.mark.parametrize("layers", ["", NO_NAMESPACES])
def test_everything_dies_with_a_judge_that_is_killed(layers):
    script = f"""
import sys
from ratchet.verifiers.sandbox import server
server.child_source = lambda module: {without_layers("ratchet.verifiers.sandbox.zygote", [layers])!r}
sandbox = server.Sandbox()
sandbox.start()
print("started", flush=True)
sandbox.run("import time; time.sleep(100)", [{{"kind": "stdin", "input": ""}}],
            server.Limits(100.0, 100.0, 1 << 28, 1 << 16), entry_point=None, prelude=None)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as victim:
        assert victim.stdout.readline() == b"started\n"
        assert happens(lambda: len(descendants(victim.pid)) == 3)  # guardian, server, solution
        processes = descendants(victim.pid)
        victim.send_signal(signal.SIGKILL)
    assert happens(lambda: not any(map(alive, processes)))
