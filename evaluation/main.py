"""One evaluation as a child process: `python -m evaluation.main SPEC.json`.

Writes into the spec's `work_dir`:
    generations.parquet   one row per response, with its verdict (`evaluation.grading.GRADED_SCHEMA`)
    scores.json           one dictionary per benchmark (`evaluation.scores`)
    progress.jsonl        {"done", "total", "benchmark", "time"}, responses sampled so far
    status.json           last of all: {"state": "finished" | "failed", "message"}
Exit code 0, or 2 for what the user can mend. Killed at any moment and started again, it goes on where it was, and
`generations.parquet` and `scores.json` come out as if nothing had happened.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from evaluation.grading import GRADED_SCHEMA, Grading
from evaluation.sampling import read_shard, sample_everything
from evaluation.scores import score, without_nan
from evaluation.spec import Plan, load_plan, read_spec
from infra.artifacts import disk_errors, write_atomically
from infra.errors import RatchetError
from verifiers.pool import open_pool

GENERATIONS, SCORES, STATUS, PROGRESS = "generations.parquet", "scores.json", "status.json", "progress.jsonl"


def evaluate(spec_path: Path, plan: Plan) -> None:
    """Sample, grade, score. Raises RatchetError for what the user can mend."""
    work_dir = plan.spec.work_dir
    shards = work_dir / "shards" / plan.fingerprint[:12]
    total = sum(len(batch.requests) for batch in plan.batches)
    if not _finished(work_dir, plan):
        (work_dir / STATUS).unlink(missing_ok=True)
        done = 0
        with open_pool(
            plan.spec.reward_servers, plan.spec.processes, minimum_isolation=plan.spec.minimum_isolation
        ) as pool:
            grading = Grading(pool, plan.benchmarks, plan.spec.prompt.response_prefix)
            for batch, table in sample_everything(spec_path, plan, shards):
                grading.submit(table.to_pylist())
                done += len(table)
                _progress(work_dir, done, total, batch.benchmark)
            grading.collect()
        _write_generations(work_dir / GENERATIONS, plan, shards, grading)
        _write_scores(work_dir, plan)
    shutil.rmtree(work_dir / "shards", ignore_errors=True)
    with disk_errors(work_dir):
        _status(work_dir, "finished", f"{total} responses")


def _finished(work_dir: Path, plan: Plan) -> bool:
    """Was exactly this done before? Scores are written after everything that they come from."""
    try:
        scores = json.loads((work_dir / SCORES).read_text())
    except (OSError, ValueError):
        return False
    return (work_dir / GENERATIONS).is_file() and {name: scores.get(name) for name in _asked(plan)} == _asked(plan)


def _asked(plan: Plan) -> dict[str, Any]:
    return {
        "label": plan.spec.label,
        "fingerprint": plan.fingerprint,
        "seed": plan.spec.seed,
        "sampling": plan.spec.sampling.model_dump(),
        "pass_at": list(plan.spec.pass_at),
    }


def _write_generations(path: Path, plan: Plan, shards: Path, grading: Grading) -> None:
    """All shards in the plan's order, one row group each, so that memory never holds more than one."""
    temporary = path.with_name(path.name + ".tmp")
    with disk_errors(path):
        with open(temporary, "wb") as file:
            with pq.ParquetWriter(file, GRADED_SCHEMA, compression="zstd") as writer:
                for batch in plan.batches:
                    writer.write_table(grading.graded(read_shard(shards, batch)))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)


def _write_scores(work_dir: Path, plan: Plan) -> None:
    columns = ["benchmark", "problem_id", "sample", "finish_reason", "tokens", "outcome", "answer_class"]
    rows = pq.read_table(work_dir / GENERATIONS, columns=columns).to_pylist()
    scores = {
        **_asked(plan),
        "benchmarks": {
            benchmark.name: {
                "domain": benchmark.domain,
                "content_hash": benchmark.content_hash,
                **score(
                    [row for row in rows if row["benchmark"] == benchmark.name],
                    benchmark.problems,
                    plan.spec.pass_at,
                    vote=benchmark.domain == "math",
                ),
            }
            for benchmark in plan.benchmarks
        },
    }
    with disk_errors(work_dir):
        write_atomically(work_dir / SCORES, json.dumps(without_nan(scores), indent=1))


def _progress(work_dir: Path, done: int, total: int, benchmark: str) -> None:
    with disk_errors(work_dir), open(work_dir / PROGRESS, "a") as file:
        file.write(json.dumps({"done": done, "total": total, "benchmark": benchmark, "time": time.time()}) + "\n")


def _status(work_dir: Path, state: str, message: str) -> None:
    write_atomically(work_dir / STATUS, json.dumps({"state": state, "message": message}))


def main(spec_path: Path) -> int:
    work_dir = None
    try:
        spec = read_spec(spec_path)
        work_dir = spec.work_dir
        with disk_errors(work_dir):
            work_dir.mkdir(parents=True, exist_ok=True)
        evaluate(spec_path, load_plan(spec))
        return 0
    except Exception as error:
        expected = isinstance(error, RatchetError)
        message = str(error) if expected else traceback.format_exc()
        print(message, file=sys.stderr)
        if work_dir and work_dir.is_dir():
            try:
                _status(work_dir, "failed", message)
            except OSError as full:  # the disk that made it fail; the exit code and standard error still tell
                print(f"{work_dir / STATUS}: {full}", file=sys.stderr)
        return 2 if expected else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m evaluation.main SPEC.json")
    sys.exit(main(Path(sys.argv[1])))
