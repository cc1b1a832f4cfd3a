import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from infra.errors import RatchetError
from infra.problems import Problem
from tests.verifiers.sandbox_programs import ATTACKS, ESCAPES, LEGAL
from verifiers.code_judge import judge
from verifiers.outcome import Outcome
from verifiers.sandbox import sandbox_isolation, server
from verifiers.sandbox.server import Sandbox, SandboxFault

ROOT = str(Path(__file__).resolve().parents[2])
PROGRAM = [{"input": "5851\n", "output": "11702"}, {"input": "1\n", "output": "2"}]
CALL = [{"call": {"args": [5851]}, "output": 11702}, {"call": {"args": [2]}, "output": 4}]

# Machines that offer less than this one, made by taking a layer away before the fork server starts.
NO_NAMESPACES = "from verifiers.sandbox import isolation\nisolation.enter_namespaces = lambda *_: ''"
NO_SECCOMP = "from verifiers.sandbox import linux\ndef refuse():\n    raise OSError\nlinux.seccomp_filter = refuse"
NO_LANDLOCK = "from verifiers.sandbox import linux\ndef refuse(*_):\n    raise OSError\nlinux.landlock_ruleset = refuse"
RUNGS = {
    "all layers": "",
    "without namespaces": NO_NAMESPACES,
    "without seccomp": NO_SECCOMP,
    "without landlock": NO_LANDLOCK,
}


def problem(tests, **fields):
    fields = {"time_limit_s": 0.25, "memory_limit_mb": 256.0} | fields
    return Problem("attacked", "code", "double it", tests=json.dumps(tests), **fields)


def start_without(layers, monkeypatch):
    prologue = f"import sys; sys.path.append({ROOT!r})\n{layers}\n"
    monkeypatch.setattr(server, "_BOOTSTRAP", prologue + server._BOOTSTRAP)
    sandbox = Sandbox()
    sandbox.start()
    return sandbox


@pytest.fixture(scope="module", params=RUNGS)
def rung(request):
    with pytest.MonkeyPatch.context() as monkeypatch:
        sandbox = start_without(RUNGS[request.param], monkeypatch)
    with sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox() as sandbox:
        yield sandbox


def descendants(pid):
    """All processes below `pid`, by their parents in /proc."""
    parents = {}
    for name in os.listdir("/proc"):
        try:
            parents[int(name)] = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
        except (ValueError, OSError):
            continue
    found, layer = set(), {pid}
    while layer:
        layer = {child for child, parent in parents.items() if parent in layer} - found
        found |= layer
    return found


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "still not so"
        time.sleep(0.02)


def test_the_isolation_of_this_machine_is_on_record():
    assert sandbox_isolation().endswith("rlimits")
    assert "seccomp" in sandbox_isolation() or "namespaces" in sandbox_isolation()


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_never_pass_and_leave_nothing_alive(name, sandbox):
    for tests, entry_point in ((PROGRAM, None), (CALL, "f")):
        verdict = judge(problem(tests, entry_point=entry_point), ATTACKS[name], sandbox)
        assert verdict.outcome in (Outcome.FAILED, Outcome.TIMEOUT), verdict
    assert len(descendants(sandbox._process.pid)) == 1  # the fork server, which is still well:
    assert judge(problem(PROGRAM), LEGAL["plain"], sandbox).passed


@pytest.mark.parametrize("name", ["fork bomb", "daemon", "subprocess", "kill everything", "thread that stays"])
def test_no_process_survives_on_weaker_machines(name, rung):
    verdict = judge(problem(PROGRAM), ATTACKS[name], rung)
    assert verdict.outcome in (Outcome.FAILED, Outcome.TIMEOUT), verdict
    assert len(descendants(rung._process.pid)) == 1
    assert judge(problem(PROGRAM), LEGAL["plain"], rung).passed


@pytest.mark.parametrize("name", ESCAPES)
def test_nothing_outside_can_be_reached(name, rung, tmp_path):
    if name == "new user namespace" and "seccomp" not in rung.isolation:
        pytest.skip("only seccomp refuses a new user namespace")
    secret, target = tmp_path / "secret", tmp_path / "target"
    secret.write_text("x")
    for directory in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        directory.chmod(0o777)  # so that it is not the file permissions that refuse
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        attempt = ESCAPES[name].format(secret=str(secret), target=str(target), port=port)
        source = (
            f"def f():\n    try:\n        {attempt}\n    except BaseException:\n        return 'no'\n    return 'out'"
        )
        tests = [{"call": {}, "output": "no"}]
        verdict = judge(problem(tests, entry_point="f", time_limit_s=3.0), source, rung)
    assert verdict.passed, verdict
    assert not target.exists()


def test_a_machine_that_cannot_confine_refuses(monkeypatch):
    with pytest.raises(RatchetError, match="neither namespaces nor seccomp"):
        start_without(NO_NAMESPACES + "\n" + NO_SECCOMP, monkeypatch)


@pytest.mark.parametrize("name", LEGAL)
def test_legal_programs_pass(name, sandbox):
    verdict = judge(problem(PROGRAM, time_limit_s=2.0), LEGAL[name], sandbox)
    assert verdict.passed, verdict


def test_time_asleep_counts_and_time_waiting_for_a_core_does_not(sandbox):
    run = {"entry_point": None, "prelude": None, "memory_bytes": 1 << 28, "output_bytes": 1 << 16}
    tests = [{"kind": "stdin", "input": ""}]
    slept = sandbox.run("import time; time.sleep(0.3)", tests, test_s=1.0, total_s=1.0, **run)
    assert slept.runs[0].status == "done"
    assert 0.28 < slept.spent_s < 0.6
    work = "import time\nwhile time.process_time() < 0.4: pass"
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        worked = sandbox.run(work, tests, test_s=0.7, total_s=0.7, **run)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert worked.runs[0].status == "done", worked


def test_a_fault_of_the_server_is_retried(sandbox):
    threading.Timer(0.15, lambda: sandbox._process.kill()).start()
    verdict = judge(
        problem(PROGRAM, time_limit_s=0.4), "import time; time.sleep(0.3); print(2 * int(input()))", sandbox
    )
    assert verdict.passed, verdict


def test_faults_that_do_not_end_are_ours_not_the_programs():
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
            verdict = judge(problem(PROGRAM, time_limit_s=5.0), "import time; time.sleep(2)", sandbox)
        finally:
            stop.set()
            thread.join()
    assert (verdict.outcome, verdict.decided_by) == (Outcome.INFRA_ERROR, "sandbox")


def test_a_closed_sandbox_leaves_nothing_and_starts_again():
    with Sandbox() as sandbox:
        sandbox.start()
        processes = {sandbox._process.pid} | descendants(sandbox._process.pid)
        assert len(processes) == 2
        sandbox.close()
        wait_until(lambda: not any(map(alive, processes)))
        assert judge(problem(PROGRAM), LEGAL["plain"], sandbox).passed


@pytest.mark.parametrize("layers", ["", NO_NAMESPACES])
def test_everything_dies_with_a_judge_that_is_killed(layers):
    script = f"""
import sys; sys.path.insert(0, {ROOT!r})
from verifiers.sandbox import server
server._BOOTSTRAP = {f"import sys; sys.path.append({ROOT!r})" + chr(10) + layers + chr(10)!r} + server._BOOTSTRAP
sandbox = server.Sandbox()
sandbox.start()
print("started", flush=True)
sandbox.run("import time; time.sleep(100)", [{{"kind": "stdin", "input": ""}}], entry_point=None, prelude=None,
            test_s=100.0, total_s=100.0, memory_bytes=1 << 28, output_bytes=1 << 16)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as victim:
        assert victim.stdout.readline() == b"started\n"
        wait_until(lambda: len(descendants(victim.pid)) == 3)  # guardian, server, solution
        processes = descendants(victim.pid)
        victim.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(map(alive, processes)))


def test_the_server_reports_its_end():
    with Sandbox() as sandbox:
        sandbox.start()
        sandbox._process.kill()
        wait_until(lambda: not descendants(sandbox._process.pid))
        with pytest.raises(SandboxFault):
            sandbox._answer()
