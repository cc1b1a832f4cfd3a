"""The work of the fork server's tests: `ordered.py CODE [SECONDS]`."""

import os
import sys
import time

LOADED: list[int] = []


def preload(*_: str) -> bool:
    LOADED[:] = [os.getpid()]
    return "ALONE" not in os.environ


def main() -> None:
    print(*LOADED, os.getpid(), flush=True)
    time.sleep(float(sys.argv[2]) if len(sys.argv) > 2 else 0)
    sys.exit(int(sys.argv[1]))
