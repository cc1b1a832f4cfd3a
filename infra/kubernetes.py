"""A process group on Kubernetes: `RATCHET_LAUNCHER='python -m ratchet.infra.kubernetes TEMPLATE.yaml'`.

Runs a command once in each pod of a Job or of Kubeflow's TrainJob, made of the template (docs/operations.md), and
deletes that when it is over, or when this process is ended. The flow, and with it this process, runs where `kubectl` is
and sees the same home as the pods.
"""

import hashlib
import json
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
    """What runs `command` in each pod. Its last word, where the machines of a flow meet, gives way to the first pod."""
    made, argv = deepcopy(template), list(command[:-1])
    # The same work has the same name: while it is there, Kubernetes refuses another.
    name = "ratchet-" + hashlib.sha256(json.dumps(argv).encode()).hexdigest()[:12]
    made.setdefault("metadata", {})["name"] = name
    if made["kind"] == "TrainJob":
        meet = 'exec "$@" "$PET_MASTER_ADDR:$PET_MASTER_PORT"'  # which Kubeflow's torch runtime sets
        made["spec"]["trainer"]["command"] = ["sh", "-c", meet, "sh", *argv]
    else:
        pod = made["spec"]["template"]["spec"]
        pod["containers"][0]["command"] = [*argv, f"{name}-0.{pod['subdomain']}:{PORT}"]
    return made


def run(template: Path, command: Sequence[str]) -> int:
    """0 when every pod has ended with 0, else 1."""
    wanted = manifest(yaml.safe_load(template.read_text()), command)
    space = ["--namespace", wanted["metadata"].get("namespace", "default")]
    thing = [f"{wanted['kind'].lower()}/{wanted['metadata']['name']}", *space]
    _kubectl("create", "--filename=-", given=json.dumps(wanted))
    try:
        while True:
            status = json.loads(_kubectl("get", *thing, "--output=json")).get("status", {})
            true = {each["type"] for each in status.get("conditions", ()) if each["status"] == "True"}
            if true & {"Complete", "Failed"}:
                return int("Failed" in true)
            time.sleep(POLL_S)
    finally:
        _kubectl("delete", *thing, "--cascade=foreground", "--wait")


def _kubectl(*arguments: str, given: str = "") -> str:
    return subprocess.run(["kubectl", *arguments], input=given, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(run(Path(sys.argv[1]), sys.argv[2:]))
