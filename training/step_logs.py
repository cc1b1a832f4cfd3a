"""A stage's files of JSON lines, which a resumed run truncates to its checkpoint, so that no step appears twice."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ratchet.data_curation.base import journal
from ratchet.data_curation.base.files import write_atomically
from ratchet.training.groups import Group
from ratchet.training.rollout_log import Keep, RolloutLog
from ratchet.verifiers.errors import RatchetError


class StepLog:
    """One file of records with a `step`. Rank 0 writes it; other ranks do nothing."""

    def __init__(self, path: Path, last_step: int, rank: int) -> None:
        """Open `path`, keeping the records up to and including `last_step`; a half-written last line is dropped."""
        self._lines = None
        if rank == 0:
            kept = 0
            for end, record in journal.read_lines(path) if path.is_file() else ():
                if record["step"] > last_step:
                    break
                kept = end
            self._lines = journal.Journal(path, keep=kept)

    def write(self, record: dict[str, Any]) -> None:
        if self._lines:
            self._lines.append(record)

    def take(self, records: list[dict[str, Any]]) -> None:
        """Write all records, and empty their list."""
        for record in records:
            self.write(record)
        records.clear()

    def sync(self) -> None:
        if self._lines:
            self._lines.sync()


class StageLogs:
    """A stage's files, continued after `last_step`."""

    def __init__(self, work: Path, last_step: int, rank: int, keep: Keep = "all", logprobs: bool = False) -> None:
        files = (work / f"{name}.jsonl" for name in ("metrics", "decisions", "samples"))
        self.metrics, self.decisions, self.samples = (StepLog(file, last_step, rank) for file in files)
        self.rollouts = RolloutLog(work, keep, last_step, rank, logprobs)
        self._bad_batch = work / "bad_batch.json" if rank == 0 else None

    def sync(self) -> None:
        for file in (self.metrics, self.decisions, self.samples):
            file.sync()

    @contextmanager
    def keep_bad_batch(self, step: int, groups: Sequence[Group]) -> Iterator[None]:
        """Write the batch to `bad_batch.json` if it cannot be learned from."""
        try:
            yield
        except RatchetError:
            if self._bad_batch:
                write_atomically(self._bad_batch, json.dumps(_rows(step, groups), indent=1))
            raise


def _rows(step: int, groups: Sequence[Group]) -> list[dict[str, Any]]:
    return [
        {
            "step": step, "problem_id": r.problem_id, "sample": r.sample, "prompt_tokens": len(r.prompt),
            "response_tokens": len(r.response), "outcome": r.outcome.value, "reward": reward, "advantage": advantage,
            "least_logprob": float(r.logprobs.min(initial=0.0)), **({"versions": r.spans} if r.spans else {}),
        }
        for g in groups
        for r, reward, advantage in zip(g.rollouts, g.rewards, g.advantages.values, strict=True)
    ]  # fmt: skip
