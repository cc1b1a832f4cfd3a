"""Checkpoints: everything a stage needs to go on as if it had never stopped.

    checkpoints/step-00000040/
        model/           configuration, safetensors, tokenizer: a directory that transformers loads
        engine/          DeepSpeed's own state: weights, optimizer moments, counters, one part per rank
        manifest.json    step, state of the curriculum, sha256 of every file; written last

There is no generator state to keep: every random choice is a function of (seed, step, problem, sample).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.artifacts import disk_errors, sha256_file, write_atomically
from infra.errors import RatchetError
from training import ranks
from training.policy import Policy

KEPT = 2
"""The newest, and the one before it in case the newest turns out unreadable."""


@dataclass(frozen=True)
class Restored:
    step: int
    state: dict[str, Any]


class Checkpoints:
    """The checkpoints of one stage. On several machines `directory` must be shared."""

    def __init__(self, directory: Path, policy: Policy) -> None:
        self._directory, self._policy = directory, policy

    def save(self, step: int, state: dict[str, Any]) -> None:
        """Write a checkpoint that exists either whole or not at all, then delete all but the last two. Collective.

        `state` is JSON. Raises RatchetError when the disk is full.
        """
        draft = self._directory / f".draft-{step:08d}"
        final = self._directory / f"step-{step:08d}"
        with disk_errors(self._directory):
            if self._policy.rank == 0:
                for leftover in (draft, final):
                    shutil.rmtree(leftover, ignore_errors=True)
                draft.mkdir(parents=True)
            ranks.barrier()
            self._policy.save_state(draft)
            self._policy.save_model(draft / "model")
            ranks.barrier()
            if self._policy.rank == 0:
                files = sorted(path for path in draft.rglob("*") if path.is_file())
                hashes = {str(path.relative_to(draft)): sha256_file(path) for path in files}
                for path in files:
                    _sync(path)
                manifest = {"step": step, "ranks": self._policy.ranks, "state": state, "files": hashes}
                write_atomically(draft / "manifest.json", json.dumps(manifest, indent=1))
                os.replace(draft, final)
                _sync(self._directory)
                for old in _steps(self._directory)[:-KEPT]:
                    shutil.rmtree(old)

    def restore(self) -> Restored | None:
        """Load the newest checkpoint that is whole into the policy; None when there is none at all. Collective.

        A damaged one is reported on stderr and the one before it used. Raises RatchetError when all are damaged.
        """
        found = ranks.broadcast(self._newest() if self._policy.rank == 0 else None)
        if isinstance(found, RatchetError):
            raise found
        if found is None:
            return None
        path, manifest = found
        self._policy.load_state(path)
        return Restored(manifest["step"], manifest["state"])

    def _newest(self) -> tuple[Path, dict[str, Any]] | RatchetError | None:
        damaged = []
        for path in reversed(_steps(self._directory)):
            damage = _damage(path, self._policy.ranks)
            if damage is None:
                return path, json.loads((path / "manifest.json").read_text())
            damaged.append(f"{path}: {damage}")
            print(f"checkpoint not used, {damaged[-1]}", file=sys.stderr, flush=True)
        if damaged:
            return RatchetError(
                f"No checkpoint can be read ({'; '.join(damaged)}). Delete {self._directory} to start this stage again."
            )
        return None


def _steps(directory: Path) -> list[Path]:
    """Finished checkpoints, oldest first."""
    return sorted(directory.glob("step-*"))


def _damage(path: Path, ranks_now: int) -> str | None:
    """What is wrong with a checkpoint, None when it is as it was written."""
    try:
        manifest = json.loads((path / "manifest.json").read_text())
        if manifest["ranks"] != ranks_now:
            return f"written by {manifest['ranks']} processes, and there are {ranks_now} now"
        for name, wanted in manifest["files"].items():
            if sha256_file(path / name) != wanted:
                return f"{name} is not what was written (sha256 differs)"
    except (OSError, ValueError, KeyError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_directory(draft: Path, final: Path) -> None:
    """Give a finished directory its name, in place of an older one."""
    for path in draft.rglob("*"):
        if path.is_file():
            _sync(path)
    shutil.rmtree(final, ignore_errors=True)
    os.replace(draft, final)
