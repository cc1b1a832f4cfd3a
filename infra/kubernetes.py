"""A process group on Kubernetes: `RATCHET_LAUNCHER='python -m ratchet.infra.kubernetes TEMPLATE.yaml'`.

Runs a command once in each pod of a Job or of Kubeflow's TrainJob, made from the template (docs/operations.md), and
deletes the job at the end, or when this process is ended. The flow and this process need `kubectl` and the same home as
the pods. The pods get the flow's RATCHET_* variables except tokens, which belong in a Secret named by the template.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

POLL_S = 5
PORT = 29500


def manifest(template: dict[str, Any], command: Sequence[str]) -> dict[str, Any]:
    """The job that runs `command` in each pod. Its last argument, the meeting point, becomes the first pod."""
    made, argv = deepcopy(template), list(command[:-1])
    # The same work has the same name, so that a killed flow's job is found. A home runs a step once at a time.
    name = "ratchet-" + hashlib.sha256(json.dumps(argv).encode()).hexdigest()[:12]
    made.setdefault("metadata", {})["name"] = name
    if made["kind"] == "TrainJob":
        meet = 'exec "$@" "$PET_MASTER_ADDR:$PET_MASTER_PORT"'  # which Kubeflow's torch runtime sets
        container = made["spec"]["trainer"]
        container["command"] = ["sh", "-c", meet, "sh", *argv]
    else:
        pod = made["spec"]["template"]["spec"]
        container = pod["containers"][0]
        container["command"] = [*argv, f"{name}-0.{pod['subdomain']}:{PORT}"]
    given = container.setdefault("env", [])
    ours = {name for name in os.environ if name.startswith("RATCHET_") and not name.endswith("_TOKEN")}
    given += [{"name": name, "value": os.environ[name]} for name in sorted(ours - {each["name"] for each in given})]
    return made


def run(template: Path, command: Sequence[str]) -> int:
    """0 if every pod ends with 0, otherwise 1. Retries while the cluster does not answer."""
    wanted = manifest(yaml.safe_load(template.read_text()), command)
    space = ["--namespace", wanted["metadata"].get("namespace", "default")]
    job = [f"{wanted['kind'].lower()}/{wanted['metadata']['name']}", *space]
    delete = ("delete", *job, "--cascade=foreground", "--wait", "--ignore-not-found")
    _kubectl(*delete).check_returncode()  # pods of a killed flow may still write
    _kubectl("create", "--filename=-", given=json.dumps(wanted)).check_returncode()
    try:
        while True:
            found = _kubectl("get", *job, "--output=json", "--ignore-not-found")
            if found.returncode == 0 and not found.stdout.strip():
                print(f"{job[0]} was deleted while it ran.", file=sys.stderr)
                return 1
            status = json.loads(found.stdout).get("status", {}) if found.returncode == 0 else {}
            true = {each["type"] for each in status.get("conditions", ()) if each["status"] == "True"}
            if true & {"Complete", "Failed"}:
                return int("Failed" in true)
            time.sleep(POLL_S)
    finally:
        _kubectl(*delete)


def _kubectl(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Its errors go to standard error, the group's log."""
    return subprocess.run(["kubectl", *arguments], input=given, stdout=subprocess.PIPE, text=True, check=False)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(run(Path(sys.argv[1]), sys.argv[2:]))
