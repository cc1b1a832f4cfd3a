"""Versions of the code and the libraries that made an artifact."""

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

from ratchet.data_curation.base.files import json_hash


@cache
def code_version() -> str:
    """The version of this code: the git commit (with `+changes` when the tree differs from it) if git tracks this file;
    otherwise the installed version and, for a wheel, the first digits of the hash of its files."""
    here = Path(__file__).resolve()
    git = ["git", "-C", str(here.parents[2])]
    try:
        for question in (["ls-files", "--error-unmatch", str(here)], ["rev-parse", "HEAD"]):
            reply = subprocess.run([*git, *question], capture_output=True, text=True, check=True).stdout.strip()
        changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True)
        return reply[:12] + ("+changes" if changed.stdout.strip() else "")
    except (OSError, subprocess.CalledProcessError):
        packages = [distribution(name) for name in ("ratchet-rl", "ratchet-curation", "ratchet-verifiers")]
        files = [
            file for package in packages for file in package.files or () if file.parts[0] == "ratchet" and file.hash
        ]
        digest = json_hash(sorted(f"{file},{file.hash}" for file in files))
        installed = packages[0]
        of_wheel = Path(str(installed.locate_file("ratchet/infra/store/versions.py"))).resolve() == here
        return installed.version + (f"+wheel.{digest[:12]}" if of_wheel else "")


@cache
def library_versions() -> dict[str, str]:
    """The versions of Python and of the installed libraries that decide results, by name."""
    versions = {"python": platform.python_version()}
    for package in ("torch", "transformers", "deepspeed", "pyarrow", "datasketch", "python-flint", "py3langid",
                    "prefect", "mlflow"):  # fmt: skip
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
