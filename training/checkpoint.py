"""Checkpoints, with everything that a stage needs to continue as if it had never stopped.

    checkpoints/step-00000040/
        model/                   configuration, safetensors, tokenizer: a directory that transformers and vLLM load
        engine/                  DeepSpeed's state: weights, optimizer moments, counters, one part per rank
        reference.safetensors    the reference policy, if it has been reset
        state.json               curriculum with its interventions, learner, alarms, groups carried over or in flight
        manifest.json            step, ranks, score, model shape, sha256 of every file and itself; written last

There is no generator state: every random choice is a function of (seed, step, problem, sample).
"""

import errno
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from ratchet.data_curation.base.files import disk_errors, json_hash, replace_directory, sha256_file, sync_path
from ratchet.infra.launching.group import STOP
from ratchet.training import ranks
from ratchet.training.checkpoint_files import checkpoint_steps
from ratchet.training.policy import Policy
from ratchet.verifiers.errors import RatchetError

WRITE_FAILED = ("inline_container.cc", "iostream error", "PytorchStreamWriter", "IoError")
"""Signs of a failed write in errors of torch and safetensors."""
KEPT = 2
"""Fewest checkpoints that are kept: the newest, and the one before in case the newest is unreadable; the one that
validated best is kept too."""


class Stopped(Exception):
    """A stage has saved a checkpoint and ends early, as requested."""

    def __init__(self, steps: int) -> None:
        super().__init__(f"after step {steps}")
        self.steps = steps


class Checkpoints:
    """The checkpoints of one stage, the `keep` newest. On several machines `directory` must be shared."""

    def __init__(self, directory: Path, policy: Policy, keep: int = KEPT) -> None:
        self._directory, self._policy, self._keep = directory, policy, max(KEPT, keep)
        self._seconds = 0.0  # of the last `save`

    def stop_asked(self) -> bool:
        """True if a file STOP asks the stage to save and end. Collective."""
        return ranks.broadcast(self._policy.rank == 0 and (self._directory.parent / STOP).exists())

    def save(self, step: int, state: dict[str, Any], score: float | None = None) -> None:
        """Write a checkpoint, which exists either completely or not at all; then delete those that are not kept.
        Collective. `state` is JSON; `score` is the step's validation score, if any. Raises RatchetError if the disk is
        full."""
        started, first = time.perf_counter(), self._policy.rank == 0
        draft = self._directory / f".draft-{step:08d}"
        with writing(self._directory):
            if first:
                shutil.rmtree(draft, ignore_errors=True)
                draft.mkdir(parents=True)
                (draft / "state.json").write_text(json.dumps(state))
            ranks.barrier()
            hashes = {}
            for file in self._policy.save_state(draft):
                sync_path(file)
                hashes[str(file.relative_to(draft))] = sha256_file(file)
            files = dict(sorted(chain.from_iterable(part.items() for part in ranks.gather(hashes))))
            if first:
                manifest = {"step": step, "score": score, "ranks": self._policy.ranks, "model": self._policy.shape}
                (draft / "manifest.json").write_text(_sealed({**manifest, "files": files}))
                replace_directory(draft, self._directory / f"step-{step:08d}")
                best = self._best()
                for old in self._paths()[: -self._keep]:
                    if old != best:
                        shutil.rmtree(old)
        self._seconds = time.perf_counter() - started

    def report(self) -> dict[str, float]:
        return {"checkpoint_seconds": self._seconds}

    def _paths(self) -> list[Path]:
        return list(checkpoint_steps(self._directory).values())

    def _best(self) -> Path | None:
        """The checkpoint with the best validation score, the earliest of equals."""
        scored = [(score, path) for path in self._paths() if (score := _score(path)) is not None]
        return max(scored, key=lambda pair: pair[0])[1] if scored else None

    def restore(self) -> tuple[int, dict[str, Any]] | None:
        """Load the newest undamaged checkpoint into the policy. Returns its step and state; None if there is none, and
        the stage then starts from its beginning. Collective.

        A damaged checkpoint is reported on stderr and the one before it used. Raises RatchetError for one of another
        model, or of another number of ranks.
        """
        path = self._newest()
        if path is None:
            return None
        return self._load(path), json.loads((path / "state.json").read_text())

    def restore_best(self) -> tuple[int, float | None] | None:
        """Load the checkpoint that validated best. Returns its step and score; None if none validated. Collective."""
        path = ranks.broadcast(self._best() if self._policy.rank == 0 else None)
        return None if path is None else (self._load(path), _score(path))

    def _load(self, path: Path) -> int:
        self._policy.load_state(path)
        return _manifest(path)["step"]

    def _newest(self) -> Path | None:
        steps = ranks.broadcast(self._paths())
        for path in reversed(steps):
            damage = next(filter(None, _on_each_rank(path, lambda path=path: self._damage(path))), None)
            if damage is None:
                manifest = _manifest(path)
                if manifest["model"] != self._policy.shape or manifest["ranks"] != self._policy.ranks:
                    raise RatchetError(
                        f"{path} is a checkpoint of another model or number of ranks ({manifest['model']}, ranks: "
                        f"{manifest['ranks']}; here {self._policy.shape}, ranks: {self._policy.ranks}). Delete "
                        f"{self._directory} to restart this stage, or use the same ones."
                    )
                return path
            _on_each_rank(path, lambda path=path, damage=damage: self._set_aside(path, damage))
        if steps and self._policy.rank == 0:
            print("no checkpoint can be read: the stage starts from its beginning", file=sys.stderr, flush=True)
        return None

    def _damage(self, path: Path) -> str | None:
        """Proven damage of this rank's share of a checkpoint's files; None if there is none."""
        try:
            wanted = _manifest(path)["files"]
            by_size = sorted(wanted, key=lambda name: (path / name).stat().st_size)
            mine = by_size[self._policy.rank :: self._policy.ranks]
            changed = [name for name in mine if sha256_file(path / name) != wanted[name]]
        except (FileNotFoundError, ValueError, KeyError) as error:
            if isinstance(error, OSError) and not path.is_dir():  # such as a file system not mounted yet
                raise
            return f"{type(error).__name__}: {error}"
        return f"{changed[0]} is not what was written (sha256 differs)" if changed else None

    def _set_aside(self, path: Path, damage: str) -> None:
        """Rename a damaged checkpoint: under its name it would count as one to keep."""
        if self._policy.rank == 0:
            aside = path.with_name(f"damaged-{path.name}")
            shutil.rmtree(aside, ignore_errors=True)
            path.rename(aside)
            print(f"checkpoint not used, now {aside}: {damage}", file=sys.stderr, flush=True)


@contextmanager
def writing(directory: Path) -> Iterator[None]:
    """Handle disk errors as `disk_errors` does, also those of torch and safetensors, which have their own errors for a
    full disk."""
    with disk_errors(directory):
        try:
            yield
        except (RuntimeError, SafetensorError) as error:
            if not any(sign in str(error) for sign in WRITE_FAILED):
                raise
            raise OSError(errno.ENOSPC, "the write failed; is the disk full?", str(directory)) from error


def _on_each_rank(path: Path, work: Callable[[], Any]) -> list[Any]:
    """Results of `work` on a checkpoint, one for each rank. Collective. Raises RatchetError on all ranks if one has an
    OSError."""
    result, failure = None, None
    try:
        result = work()
    except OSError as error:
        failure = str(error)
    results, failures = zip(*ranks.gather((result, failure)), strict=True)
    if any(failures):
        number, failure = next((i, failure) for i, failure in enumerate(failures) if failure)
        raise RatchetError(
            f"Rank {number} cannot read or rename {path}: {failure}. Run the same command again when it can, or "
            "delete this checkpoint."
        )
    return list(results)


def _sealed(manifest: dict[str, Any]) -> str:
    """A manifest's text, with the sha256 of the rest in it."""
    return json.dumps({**manifest, "sha256": json_hash(manifest)}, indent=1)


def _manifest(path: Path) -> dict[str, Any]:
    """The manifest of a checkpoint. Raises ValueError if a byte of it has changed."""
    text = (path / "manifest.json").read_text()
    manifest = json.loads(text)
    if not isinstance(manifest, dict) or not manifest.pop("sha256", None) or text != _sealed(manifest):
        raise ValueError("manifest.json is not what was written (sha256 differs)")
    return manifest


def _score(path: Path) -> float | None:
    try:
        return _manifest(path)["score"]
    except (OSError, ValueError):  # damaged, which `restore` reports
        return None
