"""Faults, each put into a small real run at a chosen moment; then the same command again.

    python -m benchmarks.fault_injection [--list] [--only NAME …] [--keep DIRECTORY] [--set KEY=VALUE]

The pipeline of the tests (`tests/flows/mini.yaml`) runs once and is left alone. For each fault its home is put back
without one artifact, and the command is given; at its moment the fault strikes, and the command ends or goes on. Then
the fault is gone, and the same command is given again. Checked: the first command ended as the table in the code says;
the second with 0; every file of every artifact and of what is stored for them is the quiet run's, by hash (but for
clocks); there is no file that the quiet run has not left, none in the directory for temporary files either, and no
process; MLflow has no run that is running, and has received all of every journal.

Linux. Mounts, namespaces and `ip` need root, the clock a C compiler: those faults are skipped without, and named.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks import faults
from benchmarks.faults import MINI, PORT, Fault, Place, Run
from ratchet.data_curation.base.files import sha256_file

PR_SET_CHILD_SUBREAPER = 36
PASSING = ("logs", "tracking", "mlflow-files", "prefect", "mlflow.db")
"""Beginnings of a home's files that tell of runs; all others are results."""
CLOCKS = ("manifest.json", "metrics.jsonl", "card.md", "report.html", "report.md")
"""Files of artifacts with seconds in them."""

DRAFTS = "artifacts/.drafts"
MATH, CODE, WHOLE = ("curate", "math", MINI), ("curate", "code", MINI), ("run", MINI)
ASKED = ("evaluate", MINI, "--model", f"http://127.0.0.1:{PORT}/v1#tiny", "--benchmark", "mini-math")
RULES = Place("problems/math-rules-*", f"{DRAFTS}/problems-math-rules-*/*", MATH)
START = Place("problems/math-rules-*", "", MATH)
TEACHER = Place("attempts/math-*", f"{DRAFTS}/attempts-math-*/*", MATH)
TESTS = Place("problems/code-validate_tests-*", f"{DRAFTS}/problems-code-validate_tests-*", CODE)
STAGE = Place("checkpoint/math-24-*", f"{DRAFTS}/checkpoint-math-24-*/metrics.jsonl", WHOLE)
STAGE_START = Place("checkpoint/math-24-*", "", WHOLE)
SAVING = Place("checkpoint/math-24-*", f"{DRAFTS}/checkpoint-math-24-*/checkpoints/.draft-*", WHOLE)
SAVED = Place("checkpoint/math-24-*", f"{DRAFTS}/checkpoint-math-24-*/checkpoints/step-*", WHOLE)
JUDGING = Place("checkpoint/code-32-*", f"{DRAFTS}/checkpoint-code-32-*/checkpoints", WHOLE)
SAMPLING = Place("evaluation/code-32-*", f"{DRAFTS}/evaluation-*/*", WHOLE)
SAMPLED = Place("evaluation/code-32-*", f"{DRAFTS}/evaluation-*/progress.jsonl", WHOLE)
ASKING = Place("evaluation/tiny-*", "generations/*/journal.jsonl", ASKED)

FAULTS = (
    Fault("flow-curating", "the flow is killed while rules judge rows", RULES, faults.killed_flow, -9),
    Fault("flow-asking", "… while the teacher answers", TEACHER, faults.killed_flow, -9),
    Fault("flow-judging", "… while programs are judged", TESTS, faults.killed_flow, -9),
    Fault("flow-training", "… after the first step of a stage", STAGE, faults.killed_flow, -9),
    Fault("flow-saving", "… while a checkpoint is written", SAVING, faults.killed_flow, -9),
    Fault("flow-sampling", "… while an evaluation samples", SAMPLING, faults.killed_flow, -9),
    Fault("launcher", "the launcher of a stage is killed", STAGE, faults.kill(faults.LAUNCHER), 2),
    Fault("rank", "one of two ranks is killed, with its engine", STAGE, faults.kill(faults.LAUNCHER, child=True), 2),
    Fault("evaluator", "the evaluator is killed", SAMPLING, faults.kill("ratchet.evaluation.main"), 2),
    Fault("sandbox", "a sandbox server is killed", TESTS, faults.kill(faults.JUDGE)),
    Fault("reward-server", "the reward server is killed; back after 3 s", JUDGING, faults.reward_server_killed, None),
    Fault("cable", "the reward server's network is cut for 25 s", JUDGING, faults.cable_pulled, None, needs="ip"),
    Fault("endpoint", "an engine behind an address is killed, and back after 5 s", ASKING, faults.endpoint_killed),
    Fault("endpoint-flow", "the flow is killed while an endpoint answers", ASKING, faults.endpoint_and_flow_killed, -9),
    Fault("mirror", "the mirror is killed", RULES, faults.kill(faults.MIRROR)),
    Fault("tracking-server", "the MLflow server is killed", RULES, faults.tracking_server_killed),
    Fault("prefect", "the command's Prefect server is killed", RULES, faults.kill(faults.PREFECT)),
    Fault("prefect-elsewhere", "a team's Prefect server is killed", RULES, faults.prefect_server_killed, 2),
    Fault("mlflow-locked", "MLflow's database is locked to the end", RULES, faults.locked("mlflow.db")),
    Fault("mlflow-corrupt", "MLflow's database is garbage", START, faults.corrupt("mlflow.db")),
    Fault("mlflow-read-only", "MLflow's store cannot be written", START, faults.store_read_only, needs="mount"),
    Fault("prefect-locked", "Prefect's database is locked for 20 s", RULES, faults.locked("prefect/prefect.db", 20)),
    Fault("prefect-corrupt", "Prefect's database is garbage", START, faults.corrupt("prefect/prefect.db")),
    Fault("disk-full", "the home's disk is full", STAGE, faults.disk_full, 2, needs="mount"),
    Fault("file-size", "no file may grow beyond 50 kB", START, faults.limited("--fsize=50000"), 2),
    Fault("home-read-only", "the home cannot be written", START, faults.home_read_only, 2, needs="mount"),
    Fault("no-tmp", "no space for temporary files", STAGE_START, faults.no_temporary_space, None, needs="mount"),
    Fault("no-descriptors", "24 open files and no more", START, faults.limited("--nofile=24"), None),
    Fault("clock-forward", "the clock jumps a day ahead", STAGE, faults.clock_jumps(86400), needs="cc"),
    Fault("clock-back", "the clock jumps a day back", STAGE, faults.clock_jumps(-86400), needs="cc"),
    Fault("two-runs", "a second run of the same home", STAGE, faults.second_run),
    Fault("terminated", "SIGTERM", RULES, faults.kill(faults.FLOW, signal.SIGTERM), 130),
    Fault("interrupted", "Ctrl-C twice", RULES, faults.interrupted_twice, 130),
    Fault("suspended", "all stopped for 10 s, then continued", RULES, faults.stopped_and_continued),
    Fault("torn-journals", "the newest lines of the run's journals are torn", SAVED,
          faults.torn("tracking/*.jsonl", STAGE.moment), -9),
    Fault("torn-checkpoint", "half of the newest checkpoint is lost", SAVED,
          faults.torn(f"{SAVED.moment}/model/*.safetensors"), -9),
    Fault("torn-attempts", "half of the teacher's answers are lost", TEACHER, faults.torn(TEACHER.moment), -9),
    Fault("torn-generations", "half of a file of stored generations is lost", SAMPLED,
          faults.torn("generations/*/*.parquet"), -9),
    Fault("torn-artifact", "most of a finished data set is lost, which is then deleted, as the message says", START,
          faults.artifact_torn, 2),
    Fault("home-moved", "the flow is killed, and the home moved", STAGE, faults.home_moved, -9),
)  # fmt: skip


def forget(home: Path, pattern: str) -> None:
    """Delete an artifact, and what is stored outside for it. What was made from it is found again if its content is."""
    for path in home.glob(f"artifacts/{pattern}"):
        if path.parent.name == "attempts":
            shutil.rmtree(home / "teacher")
        if path.parent.name == "evaluation":
            model = json.loads((path / "scores.json").read_text())["model"]["identity"]
            for settings in home.glob("generations/*/settings.json"):
                if json.loads(settings.read_text())["model"] == model:
                    shutil.rmtree(settings.parent)
        shutil.rmtree(path)


def results(home: Path) -> dict[str, str]:
    """The hash of each file, nothing for clocks, locks, and answers as they came in: those that count are artifacts. Of
    stored generations the hash of all rows: which of them share a file depends on when they came."""
    files = [
        path for path in home.rglob("*") if path.is_file() and not path.relative_to(home).parts[0].startswith(PASSING)
    ]
    parts = [file for file in files if file.suffix == ".parquet" and file.parent.parent.name == "generations"]
    stored: dict[str, set[str]] = {str(part.parent.relative_to(home)): set() for part in parts}
    for part in parts:
        stored[str(part.parent.relative_to(home))] |= set(map(str, pq.read_table(part).to_pylist()))
    excluded = {
        file for file in files if file.name in CLOCKS or file.name.endswith(".lock") or file.parent.name == "teacher"
    }
    hashes = {str(f.relative_to(home)): "" if f in excluded else sha256_file(f) for f in files if f not in parts}
    return hashes | {name: hashlib.sha256("".join(sorted(rows)).encode()).hexdigest() for name, rows in stored.items()}


def wrong(run: Run, expected: dict[str, str]) -> list[str]:
    """Differences from the quiet run, which leaves a directory of torch's too."""
    got = results(run.home)
    found = [f"{name} differs" for name in expected.keys() & got.keys() if expected[name] != got[name]]
    found += [f"{name} is missing" for name in expected.keys() - got.keys()]
    found += [f"{name} is left" for name in got.keys() - expected.keys()]
    found += [f"{path} is left" for path in run.tmp.iterdir() if not path.name.startswith("torchinductor")]
    deadline = time.monotonic() + 15
    while (left := faults.descendants()) and time.monotonic() < deadline:
        time.sleep(0.1)
    found += [f"process left: {command[:200]}" for command in left.values()]
    with sqlite3.connect(run.mlflow or run.home / "mlflow.db") as database:
        (running,) = database.execute("SELECT count(*) FROM runs WHERE status = 'RUNNING'").fetchone()
    found += [f"{running} runs RUNNING in MLflow"] if running else []
    for journal in run.home.glob("tracking/*.jsonl"):
        states = journal.parent.glob(f"{journal.stem}.*state.json")  # of the address that the run had
        if not any(json.loads(state.read_text())["complete"] for state in states):
            found.append(f"MLflow has not received {journal.name}")
    return sorted(found)


def quiet_run(directory: Path, options: list[str]) -> dict[str, str]:
    """Leave the pipeline alone, and an evaluation of an endpoint; kept as `quiet`."""
    if not (directory / "quiet").is_dir():
        run = Run(directory / "work", ["run", MINI, *options])
        run.tmp.mkdir(parents=True)
        try:
            for _ in range(2):
                if run.home.exists():
                    run.command = [*ASKED, *options]
                    faults.endpoint(run)
                if run.start().wait() != 0:
                    raise SystemExit(f"the quiet run failed: {run.log}")
        finally:
            run.end_servers()
        run.home.rename(directory / "quiet")
        shutil.rmtree(run.directory)
    return results(directory / "quiet")


def inject(fault: Fault, directory: Path, options: list[str], expected: dict[str, str]) -> tuple[str, list[str]]:
    """A table row of how the two commands ended, and the differences from the quiet run."""
    run = Run(directory / "work", [*fault.place.command, *options])
    run.tmp.mkdir(parents=True)
    shutil.copytree(directory / "quiet", run.home, symlinks=True)
    forget(run.home, fault.place.redo)
    with run.cleanup:
        try:
            act = fault.act(run)
            next(act)
            began = time.monotonic()
            run.start()
            if fault.place.moment:
                run.until(lambda: any(run.home.glob(fault.place.moment)))
            next(act, None)
            first, struck = run.process.wait(faults.LONGEST_S), time.monotonic()
            next(act, None)
            run.prefix = []
            again = run.start().wait(faults.LONGEST_S)
            run.mirror()
        except (faults.Missed, subprocess.TimeoutExpired) as error:
            return "", [f"{type(error).__name__}: {error}"]
        finally:
            run.end_servers()
        row = f"{first} | {struck - began:.0f} | {time.monotonic() - struck:.0f}"
        found = [f"the first ended with {first}"] if fault.ends not in (None, first) else []
        found += [f"the second ended with {again}"] if again else []
        return row, found + wrong(run, expected)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="name the faults and do nothing")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[fault.name for fault in FAULTS])
    parser.add_argument("--keep", type=Path, help="where the quiet run is kept, and found the next time")
    parser.add_argument("--set", dest="overrides", action="append", default=[], help="of the recipe")
    arguments = parser.parse_args()
    chosen = [fault for fault in FAULTS if not arguments.only or fault.name in arguments.only]
    if arguments.list:
        for fault in chosen:
            print(f"{fault.name:18} {fault.what}")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # what loses its parent becomes our child
    directory = (arguments.keep or Path(tempfile.mkdtemp())).absolute()
    shutil.rmtree(directory / "work", ignore_errors=True)  # of a fault injection that was killed
    options = [word for override in arguments.overrides for word in ("--set", override)]
    expected, broken = quiet_run(directory, options), 0
    print("| fault | | first command | seconds | then | |\n|---|---|---:|---:|---:|---|")
    for fault in chosen:
        if fault.needs and (not shutil.which(fault.needs) or (fault.needs != "cc" and os.geteuid())):
            print(f"| {fault.name} | {fault.what} | skipped: needs {fault.needs}, and root | | | |")
            continue
        row, found = inject(fault, directory, options, expected)
        print(f"| {fault.name} | {fault.what} | {row} | {'DIFFERENT' if found else 'the same'} |", flush=True)
        for line in found[:10]:
            print(f"    {line}", flush=True)
        if found:
            broken += 1
            shutil.rmtree(directory / fault.name, ignore_errors=True)
            (directory / "work").rename(directory / fault.name)
        else:
            shutil.rmtree(directory / "work")
    if not arguments.keep and not broken:
        shutil.rmtree(directory)
    print(f"{len(chosen)} faults, {broken} of them broken{f': {directory}' if broken else ''}")
    raise SystemExit(1 if broken else 0)


if __name__ == "__main__":
    main()
