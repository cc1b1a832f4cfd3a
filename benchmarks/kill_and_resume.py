"""Kill a run at random moments until it is done, and compare with one that was left alone.

    python benchmarks/kill_and_resume.py --kills 10

Two homes, one recipe and seed. The first runs through; the second is killed with SIGKILL `--kills` times at moments
drawn over the length of the first, then completed. Compared: every curated data set and every score, byte for byte,
and every checkpoint's weights by hash. Also checked after each kill: no process of the run is left. At the end: no
MLflow run is RUNNING.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MARK = "RATCHET_KILL_TEST"
STARTUP_S = 8  # until a run does its first work


def start(recipe: str, home: Path, overrides: list[str], mark: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ratchet.cli.main", "run", recipe, "--home", str(home)]
    for override in overrides:
        command += ["--set", override]
    home.mkdir(parents=True, exist_ok=True)
    with open(home / "output.log", "ab") as log:
        environment = {**os.environ, MARK: mark}
        return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, env=environment, start_new_session=True)


def survivors(mark: str) -> list[str]:
    """Command lines of living processes that inherited the mark."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # it ended while we looked, or is a zombie
    return [line for line in found if line]


def fingerprint(home: Path) -> dict[str, Any]:
    """What must not depend on kills: data sets, scores, weights."""
    compared: dict[str, Any] = {}
    for manifest_file in sorted(home.glob("artifacts/*/*/manifest.json")):
        manifest = json.loads(manifest_file.read_text())
        files = {
            name: facts["sha256"]
            for name, facts in manifest["files"].items()
            if name.endswith(("kept.parquet", "rejected.parquet", ".safetensors", "generations.parquet"))
        }
        compared[manifest_file.parent.name] = files
        if manifest["kind"] == "evaluation":
            compared[manifest_file.parent.name + " scores"] = manifest["metrics"]
    return compared


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="?", default="tiny")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--home", type=Path, default=ROOT / ".ratchet" / "kills")
    parser.add_argument("--set", dest="overrides", action="append", default=[], help="passed on to `ratchet run`")
    arguments = parser.parse_args()
    whole, broken = arguments.home / "whole", arguments.home / "broken"

    if start(arguments.recipe, whole, arguments.overrides, "whole").wait() != 0:
        raise SystemExit(f"the uninterrupted run failed: {whole / 'output.log'}")
    manifests = [json.loads(file.read_text()) for file in whole.glob("artifacts/*/*/manifest.json")]
    length = sum(manifest["seconds"] for manifest in manifests)  # the steps' own, so that a finished home can be reused
    print(f"uninterrupted: {length:.0f} s in steps")

    moments = random.Random(arguments.seed)
    for kill in range(arguments.kills):
        process = start(arguments.recipe, broken, arguments.overrides, f"kill-{kill}")
        after = moments.uniform(2, STARTUP_S + 2 * length / arguments.kills)  # all kills come before the end
        try:
            process.wait(after)
            print(f"kill {kill}: the run had finished before {after:.0f} s")
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        deadline = time.monotonic() + 15
        while survivors(f"kill-{kill}") and time.monotonic() < deadline:
            time.sleep(0.2)
        left = survivors(f"kill-{kill}")
        print(f"kill {kill}: after {after:.0f} s, {len(left)} processes left")
        if left:
            raise SystemExit("orphans:\n" + "\n".join(left))

    if start(arguments.recipe, broken, arguments.overrides, "last").wait() != 0:
        raise SystemExit(f"the run did not complete: {broken / 'output.log'}")
    expected, got = fingerprint(whole), fingerprint(broken)
    different = [name for name in expected.keys() | got.keys() if expected.get(name) != got.get(name)]
    print(f"{len(expected)} artifacts and scores compared, {len(different)} differ: {different}")

    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{broken / 'mlflow.db'}")
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    running = client.search_runs(experiments, "attributes.status = 'RUNNING'")
    print(f"MLflow runs still RUNNING: {len(running)}")
    raise SystemExit(1 if different or running else 0)


if __name__ == "__main__":
    main()
