"""Checkpoints: everything a stage needs to go on as if it had never stopped.

    checkpoints/step-00000040/
        model/                   configuration, safetensors, tokenizer: a directory that transformers and vLLM load
        engine/                  DeepSpeed's own state: weights, optimizer moments, counters, one part per rank
        reference.safetensors    the reference policy, where it has been reset
        state.json               curriculum with its history of resets, learner, groups carried over
        manifest.json            step, ranks, validation score, what model it is, sha256 of every file; written last

There is no generator state to keep: every random choice is a function of (seed, step, problem, sample).
"""

import errno
import json
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from ratchet.infra.artifacts import disk_errors, replace_directory, sha256_file
from ratchet.infra.errors import RatchetError
from ratchet.infra.launcher import STOP
from ratchet.training import ranks
from ratchet.training.policy import Policy

WRITE_FAILED = ("inline_container.cc", "iostream error", "PytorchStreamWriter", "IoError")
"""In what torch and safetensors say when a file cannot be written."""
KEPT = 2
"""The newest, and the one before it in case the newest turns out unreadable; also the one that validated best."""


class Stopped(Exception):
    """A stage has saved a checkpoint and ends before its time, because it was asked to."""

    def __init__(self, steps: int) -> None:
        super().__init__(f"after step {steps}")
        self.steps = steps


class Checkpoints:
    """The checkpoints of one stage. On several machines `directory` must be shared."""

    def __init__(self, directory: Path, policy: Policy) -> None:
        self._directory, self._policy = directory, policy

    def stop_asked(self) -> bool:
        """Whether the stage is to save and end, as the file STOP beside its checkpoints says. Collective."""
        return ranks.broadcast(self._policy.rank == 0 and (self._directory.parent / STOP).exists())

    def save(self, step: int, state: dict[str, Any], score: float | None = None) -> None:
        """Write a checkpoint that exists either whole or not at all, then delete those that are not kept. Collective.

        `state` is JSON; `score` what the step validated at, where it did. Raises RatchetError when the disk is full.
        """
        draft = self._directory / f".draft-{step:08d}"
        final = self._directory / f"step-{step:08d}"
        with writing(self._directory):
            if self._policy.rank == 0:
                shutil.rmtree(draft, ignore_errors=True)
                draft.mkdir(parents=True)
            ranks.barrier()
            self._policy.save_state(draft)
            self._policy.save_model(draft / "model")
            if self._policy.rank == 0:
                (draft / "state.json").write_text(json.dumps(state))
            ranks.barrier()
            names = ranks.broadcast([str(f.relative_to(draft)) for f in draft.rglob("*") if f.is_file()])
            hashes = dict(chain.from_iterable(part.items() for part in ranks.gather(self._hashes(draft, names))))
            if self._policy.rank == 0:
                manifest = {
                    "step": step, "score": score, "ranks": self._policy.ranks, "model": self._policy.shape,
                    "files": dict(sorted(hashes.items())),
                }  # fmt: skip
                (draft / "manifest.json").write_text(json.dumps(manifest, indent=1))
                replace_directory(draft, final)
                self._prune()

    def _prune(self) -> None:
        best = self._best()
        for old in _steps(self._directory)[:-KEPT]:
            if best is None or old != best:
                shutil.rmtree(old)

    def _best(self) -> Path | None:
        """The checkpoint with the best validation score, the earliest of equals."""
        scored = [(score, path) for path in _steps(self._directory) if (score := _score(path)) is not None]
        return max(scored, key=lambda pair: pair[0])[1] if scored else None

    def restore(self) -> tuple[int, dict[str, Any]] | None:
        """Load the newest checkpoint that is whole into the policy; its step and state, None when there is none.
        Collective.

        A damaged one is reported on stderr and the one before it used. One that another number of processes wrote is
        converted, and it is said that from there on the run is no longer bit for bit the one that was interrupted.
        Raises RatchetError when all are damaged.
        """
        path = self._newest()
        if path is None:
            return None
        manifest = _manifest(path)
        self._load(path, manifest)
        return manifest["step"], json.loads((path / "state.json").read_text())

    def restore_best(self) -> int | None:
        """Load the checkpoint that validated best; its step, or None when none did. Collective."""
        path = ranks.broadcast(self._best() if self._policy.rank == 0 else None)
        if path is None:
            return None
        self._load(path, _manifest(path))
        return _manifest(path)["step"]

    def _load(self, path: Path, manifest: dict[str, Any]) -> None:
        other_ranks = manifest["ranks"] != self._policy.ranks
        if other_ranks and self._policy.rank == 0:
            print(
                f"checkpoint {path} was written by {manifest['ranks']} processes, and there are {self._policy.ranks} "
                "now: converting it. From here on the run is no longer bit for bit the one that was interrupted.",
                file=sys.stderr,
                flush=True,
            )
        self._policy.load_state(path, other_ranks)

    def _newest(self) -> Path | None:
        damaged = []
        for path in reversed(ranks.broadcast(_steps(self._directory))):
            damage = self._damage(path)
            if damage is None:
                model = _manifest(path)["model"]
                if model != self._policy.shape:
                    raise RatchetError(
                        f"{path} is a checkpoint of another model ({model}; this is {self._policy.shape}). "
                        f"Delete {self._directory} to start this stage again, or give the model it belongs to."
                    )
                return path
            damaged.append(f"{path}: {damage}")
            if self._policy.rank == 0:
                print(f"checkpoint not used, {damaged[-1]}", file=sys.stderr, flush=True)
        if damaged:
            raise RatchetError(
                f"No checkpoint can be read ({'; '.join(damaged)}). Delete {self._directory} to start this stage again."
            )
        return None

    def _damage(self, path: Path) -> str | None:
        """What is wrong with a checkpoint, None when it is as it was written. Collective."""
        try:
            wanted = _manifest(path)["files"]
            found = [name for name, hashed in self._hashes(path, wanted).items() if hashed != wanted[name]]
            damage = [f"{name} is not what was written (sha256 differs)" for name in found]
        except (OSError, ValueError, KeyError) as error:
            damage = [f"{type(error).__name__}: {error}"]
        return next(chain.from_iterable(ranks.gather(damage)), None)

    def _hashes(self, directory: Path, names: Iterable[str]) -> dict[str, str]:
        """The sha256 of this rank's share of these files. Ranks' shares are of about the same size."""
        by_size = sorted(names, key=lambda name: ((directory / name).stat().st_size, name))
        return {name: sha256_file(directory / name) for name in by_size[self._policy.rank :: self._policy.ranks]}


@contextmanager
def writing(directory: Path) -> Iterator[None]:
    """`disk_errors`, also for torch and safetensors, which have errors of their own for a disk that is full."""
    with disk_errors(directory):
        try:
            yield
        except (RuntimeError, SafetensorError) as error:
            if not any(sign in str(error) for sign in WRITE_FAILED):
                raise
            raise OSError(errno.ENOSPC, "the write failed; is the disk full?", str(directory)) from error


def _steps(directory: Path) -> list[Path]:
    """Finished checkpoints, oldest first."""
    return sorted(directory.glob("step-*"))


def _manifest(path: Path) -> dict[str, Any]:
    return json.loads((path / "manifest.json").read_text())


def _score(path: Path) -> float | None:
    try:
        return _manifest(path)["score"]
    except (OSError, ValueError):  # damaged, which is told where it is to be used
        return None
