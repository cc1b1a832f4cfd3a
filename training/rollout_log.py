"""Keep every rollout of a stage as Parquet, one file for each step: `rollouts/step-00000001.parquet`.

A row is written in the step that decides its group's fate: it is learned from, or no step will learn from it. So a
group that waits for a later step (several updates a batch, bounded staleness) is written then, and one that waits at
the stage's end is written with its last step. A resumed stage first deletes the files of later steps than its
checkpoint, and writes them again.
"""

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.base.files import HALF_WRITTEN, disk_errors, replacing
from ratchet.training.groups import Group, Rollout
from ratchet.verifiers.outcome import Outcome

FOLDER = "rollouts"
LABEL = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema({
    "step": pa.int32(),  # counted from 1, as in metrics.jsonl
    "stage": LABEL,
    "domain": LABEL,
    "problem_id": LABEL,
    "sample": pa.int32(),  # number of the response to its prompt
    "outcome": LABEL,
    "decided_by": LABEL,  # what decided the verdict
    "detail": pa.string(),
    "fraction": pa.float64(),
    "reward": pa.float64(),
    "advantage": pa.float64(),
    "valid": pa.bool_(),  # false: not part of statistics and loss (infrastructure error, masked truncation)
    "learned": pa.bool_(),  # false: replaced by dynamic sampling, deferred, or left over
    "truncated": pa.bool_(),
    "tokens": pa.int32(),  # of the response
    "weights_version": pa.int64(),  # as `Rollout.version`
    "versions": pa.list_(pa.struct({"step": pa.int32(), "tokens": pa.int32()})),  # with bounded staleness, by round
    "prompt": pa.large_string(),  # with its special tokens
    "response": pa.large_string(),  # as it was judged, without a response prefix
    "prompt_ids": pa.large_list(pa.int32()),
    "response_ids": pa.large_list(pa.int32()),
    "logprobs": pa.large_list(pa.float32()),  # the engine's; null unless they are kept
})  # fmt: skip
"""Columns of a file, in order."""
TEXTS = ("detail", "prompt", "response", "prompt_ids", "response_ids", "logprobs", "versions")
"""Columns for which a dictionary does not pay."""
Keep = Literal["all", "samples"] | int
"""The values of `training.keep_rollouts`."""
ROLLOUT_BYTES, LOGPROB_BYTES = 2.5, 3.65
"""Bytes on disk for each response token, and for its log-probability (docs/reference/training.md)."""
COPIED_FILES, COPIED_BYTES = 50, 100_000_000
_STEP = re.compile(r"step-(\d{8})\.parquet")


class RolloutLog:
    """A writer of a stage's rollouts on rank 0; other ranks do nothing."""

    def __init__(self, work: Path, keep: Keep, last_step: int, rank: int, logprobs: bool = False) -> None:
        """Continue after `last_step`. `keep`: every step, none, or a number of the most recent ones."""
        self._directory, self._keep, self._logprobs = work / FOLDER, keep, logprobs
        self._writes, self._seconds = rank == 0 and keep != "samples", 0.0
        if rank == 0 and self._directory.is_dir():
            for file in self._directory.iterdir():
                step = _step(file)
                if file.name.endswith(HALF_WRITTEN) or (step is not None and step > last_step):
                    file.unlink()

    def write(
        self, step: int, stage: str, learned: Sequence[Group], unlearned: Sequence[Group], tokenizer: Any
    ) -> None:
        """Write the step's file: these groups, whose fate is decided. The file exists either completely or not at
        all."""
        if not self._writes:
            return
        started = time.perf_counter()
        groups = [(members, True) for members in learned] + [(members, False) for members in unlearned]
        table = _table(step, stage, groups, tokenizer, self._logprobs)
        with disk_errors(self._directory):
            self._directory.mkdir(exist_ok=True)
            with replacing(self._directory / f"step-{step:08d}.parquet") as draft:
                plain = [name for name in SCHEMA.names if name not in TEXTS]
                pq.write_table(table, draft, compression="zstd", use_dictionary=plain)  # pyright: ignore[reportArgumentType]
            if isinstance(self._keep, int):
                for number, file in rollout_files(self._directory.parent):
                    if number <= step - self._keep:
                        file.unlink()
        self._seconds = time.perf_counter() - started

    def report(self) -> dict[str, float]:
        """The seconds that the last step's file took, as a metric."""
        return {"rollout_log_seconds": self._seconds}


def _table(
    step: int, stage: str, groups: Iterable[tuple[Group, bool]], tokenizer: Any, with_logprobs: bool
) -> pa.Table:
    rows = []
    for members, learned in groups:
        prompt = tokenizer.decode(members.rollouts[0].prompt)
        each = zip(members.rollouts, members.rewards, members.advantages.values, members.valid, strict=True)
        for r, reward, advantage, valid in each:
            rows.append({
                "step": step, "stage": stage, "domain": r.domain, "problem_id": r.problem_id, "sample": r.sample,
                "outcome": r.outcome.value, "decided_by": r.decided_by, "detail": r.detail, "fraction": r.fraction,
                "reward": reward, "advantage": advantage, "valid": valid, "learned": learned, "truncated": r.truncated,
                "tokens": len(r.response), "weights_version": r.version, "prompt": prompt,
                "versions": [{"step": version, "tokens": tokens} for version, tokens in r.spans] or None,
                "response": judged_text(r, tokenizer), "prompt_ids": r.prompt, "response_ids": r.response,
                "logprobs": r.logprobs if with_logprobs else None,
            })  # fmt: skip
    return pa.Table.from_pylist(rows, SCHEMA)


def judged_text(rollout: Rollout, tokenizer: Any) -> str:
    """The response's text without its end-of-sequence token, in the form that an engine gives to the verifier."""
    ids = rollout.response if rollout.truncated else rollout.response[:-1]
    return tokenizer.decode(ids.astype(np.int64), skip_special_tokens=True)


def rollout_files(work: Path) -> list[tuple[int, Path]]:
    """The step and file of each step whose rollouts a stage's directory has, in order."""
    files = (work / FOLDER).iterdir() if (work / FOLDER).is_dir() else ()
    return sorted((step, file) for file in files if (step := _step(file)) is not None)


def newest_files(work: Path) -> list[Path]:
    """The files of the newest steps, of which a tracking server gets a copy."""
    chosen, room = list[Path](), COPIED_BYTES
    for _, file in reversed(rollout_files(work)[-COPIED_FILES:]):
        room -= file.stat().st_size
        if room < 0:
            break
        chosen.append(file)
    return chosen


def _step(file: Path) -> int | None:
    match = _STEP.fullmatch(file.name)
    return int(match[1]) if match else None


@dataclass(frozen=True)
class RolloutFilter:
    """A filter of rollouts to read; None and "" ask for all."""

    steps: tuple[int, int] | None = None
    """First and last step."""
    domain: str = ""
    problem: str = ""
    """The beginning of a problem_id."""
    outcome: str = ""
    """`passed`, `failed`, `unparseable`, `timeout`, `infra_error`, or `truncated`."""
    decided_by: str = ""
    rewards: tuple[float, float] | None = None
    """Least and largest reward."""
    lengths: tuple[int, int] | None = None
    """Fewest and most response tokens."""
    text: str = ""
    """Words of the response or the prompt, in any case."""

    def matches(self, row: dict[str, Any]) -> bool:
        outcome = row["truncated"] if self.outcome == "truncated" else row["outcome"] == self.outcome
        return (
            (not self.domain or row["domain"] == self.domain)
            and row["problem_id"].startswith(self.problem)
            and (not self.outcome or outcome)
            and (not self.decided_by or row["decided_by"] == self.decided_by)
            and (self.rewards is None or self.rewards[0] <= row["reward"] <= self.rewards[1])
            and (self.lengths is None or self.lengths[0] <= row["tokens"] <= self.lengths[1])
            and (not self.text or self.text.casefold() in f"{row['prompt']}\n{row['response']}".casefold())
        )


OUTCOMES = (*(outcome.value for outcome in Outcome), "truncated")
READ = tuple(name for name in SCHEMA.names if name not in ("prompt_ids", "response_ids", "logprobs"))
"""Columns that are read unless others are asked for."""
FACTS = tuple(name for name in READ if name not in TEXTS)
"""Small columns, which suffice for a filter without `text`."""


def read_rollouts(
    work: Path, wanted: RolloutFilter = RolloutFilter(), columns: Sequence[str] = READ
) -> Iterator[dict[str, Any]]:
    """The rows of a stage's directory that match, step by step; a step's file is held in memory. Files that a running
    stage deletes meanwhile are left out."""
    for step, file in rollout_files(work):
        if wanted.steps is None or wanted.steps[0] <= step <= wanted.steps[1]:
            try:
                rows = pq.ParquetFile(file).read([*columns]).to_pylist()
            except FileNotFoundError:
                continue
            yield from filter(wanted.matches, rows)
