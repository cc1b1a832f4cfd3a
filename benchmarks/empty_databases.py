"""What a cached empty database saves the first run of a home: seconds until MLflow's database exists, and
until Prefect's server is up.

    python -m benchmarks.empty_databases

Each is made twice in new homes, first without the cache of `infra/tracking/sqlite_files.py`, then with it.
"""

import os
import subprocess
import sys
import tempfile

MLFLOW = """
import sys, time
from pathlib import Path
from ratchet.infra.tracking.mlflow_database import prepare_database

start = time.monotonic()
prepare_database(f"sqlite:///{sys.argv[1]}/mlflow.db", Path(sys.argv[1]))
print(f"{time.monotonic() - start:.2f}")
"""
PREFECT = """
import sys, time
from ratchet.cli.prefect_server import prefect_server
from ratchet.infra.settings import load_settings

start = time.monotonic()
with prefect_server(load_settings(sys.argv[1])):
    print(f"{time.monotonic() - start:.2f}")
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as cache:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "MLFLOW_"))
        }
        for name, program in (("MLflow", MLFLOW), ("Prefect", PREFECT)):
            for when in ("without", "with"):
                with tempfile.TemporaryDirectory() as home:
                    argv = [sys.executable, "-c", program, home]
                    run = subprocess.run(
                        argv, env=environment | {"XDG_CACHE_HOME": cache}, capture_output=True, text=True, check=True
                    )
                print(f"{name} {when} the cache: {run.stdout.split()[-1]} s")


if __name__ == "__main__":
    main()
