"""What the environment of a command must not decide: how text is read, how this machine reaches itself, and
who learns of its use."""

import locale
import os
import sys

from ratchet.verifiers.errors import RatchetError

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def read_text_as_utf8() -> None:
    """Start again in Python's UTF-8 mode where the locale has another encoding, so that this process and those that it
    starts read and write files and names as UTF-8."""
    if not sys.flags.utf8_mode and locale.getencoding().lower().replace("-", "") != "utf8":
        os.environ["PYTHONUTF8"] = "1"
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def require_folder() -> None:
    """Raises RatchetError where the working directory has been deleted: every relative path would fail in its own
    way."""
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise RatchetError("The folder of this terminal has been deleted: change to another with cd.") from error


def disable_telemetry() -> None:
    """Libraries send no statistics of use: where nothing answers, each process would wait for it in silence."""
    os.environ.setdefault("DO_NOT_TRACK", "1")


def keep_loopback_off_proxies() -> None:
    """Prefect's server, MLflow, reward servers and engines of this machine are not behind the environment's proxy."""
    for name in ("no_proxy", "NO_PROXY"):
        hosts = [host for host in os.environ.get(name, "").split(",") if host]
        os.environ[name] = ",".join([*hosts, *(host for host in LOOPBACK if host not in hosts)])
