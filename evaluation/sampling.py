"""Generations are sampled once and kept: shard by shard, in processes that may die at any moment.

A batch is the unit: it is decoded whole, and its shard (one Parquet file) gets its name only when it is complete and
durable. What is there is never sampled again. Because batches and seeds follow from the plan alone, an evaluation that
was killed ends with the same text as one that was not, on however many processes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from evaluation.spec import Batch, Plan, load_plan, read_spec
from infra.artifacts import disk_errors, write_atomically
from infra.errors import RatchetError
from infra.inference.prompts import prompt_ids
from infra.inference.protocol import Engine, Request
from infra.process_group import process_group

GENERATION_SCHEMA = pa.schema(
    [
        pa.field("benchmark", pa.string(), nullable=False),
        pa.field("problem_id", pa.string(), nullable=False),
        pa.field("sample", pa.int32(), nullable=False),
        pa.field("text", pa.large_string(), nullable=False),
        pa.field("finish_reason", pa.string(), nullable=False),
        pa.field("tokens", pa.int32(), nullable=False),
    ]
)

POLL_S = 0.05  # between two looks for new shards; a batch takes far longer


def shard_path(directory: Path, batch: Batch) -> Path:
    return directory / f"{batch.position:06d}-{batch.benchmark}.parquet"


def read_shard(directory: Path, batch: Batch) -> pa.Table | None:
    """The batch's generations, or None when it has to be sampled: not there, unreadable, or not of this batch."""
    try:
        table = pq.read_table(shard_path(directory, batch), schema=GENERATION_SCHEMA)
    except (FileNotFoundError, pa.ArrowInvalid, OSError):
        return None
    expected = [(problem.problem_id, sample) for problem, sample, _ in batch.requests]
    stored = list(zip(table["problem_id"].to_pylist(), table["sample"].to_pylist(), strict=True))
    return table if stored == expected else None


def sample_batch(engine: Engine, tokenizer: Any, plan: Plan, batch: Batch) -> pa.Table:
    """Decode one batch; rows in the order of its requests, whatever order they finished in."""
    prompts = {p.problem_id: prompt_ids(tokenizer, p, plan.spec.prompt) for p, _, _ in batch.requests}
    requests = [
        Request(key=(problem.problem_id, sample), seed=seed, prompt_ids=prompts[problem.problem_id])
        for problem, sample, seed in batch.requests
    ]
    completions = {completion.key: completion for completion in engine.generate(requests, plan.sampling)}
    rows = [
        {
            "benchmark": batch.benchmark,
            "problem_id": request.key[0],
            "sample": request.key[1],
            "text": completions[request.key].text,
            "finish_reason": completions[request.key].finish_reason,
            "tokens": completions[request.key].tokens,
        }
        for request in requests
    ]
    return pa.Table.from_pylist(rows, schema=GENERATION_SCHEMA)


def write_parquet(table: pa.Table, path: Path) -> None:
    """Complete and durable, or not there."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with disk_errors(path):
        with open(temporary, "wb") as file:
            pq.write_table(table, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)


def sample_everything(spec_path: Path, plan: Plan, directory: Path) -> Iterator[tuple[Batch, pa.Table]]:
    """Yield every batch with its generations, stored ones first, the others as sampling processes finish them.

    Batch i belongs to process i mod `processes`. Raises RatchetError when a process fails for a reason the user can
    mend, or is killed; the shards that are there stay.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for leftover in directory.glob("*.tmp"):
        leftover.unlink(missing_ok=True)
    missing: dict[int, Batch] = {}
    for batch in plan.batches:
        table = read_shard(directory, batch)
        if table is None:
            shard_path(directory, batch).unlink(missing_ok=True)
            missing[batch.position] = batch
        else:
            yield batch, table

    processes = plan.spec.processes
    owners = sorted({position % processes for position in missing})
    # One thread a process: more do not speed up the decoding of a small model, and the result must not depend on how
    # many processors share the sums.
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
        "TOKENIZERS_PARALLELISM": "false",
    }
    with ExitStack() as stack:
        running = {}
        for index in owners:
            argv = [sys.executable, "-m", "evaluation.sampling", str(spec_path), str(directory), str(index)]
            (directory / f"process-{index}.json").unlink(missing_ok=True)
            log = directory / f"process-{index}.log"
            running[index] = stack.enter_context(process_group(argv, log, environment))
        while missing:
            ended = {index for index, process in running.items() if process.poll() is not None}
            for position, batch in list(missing.items()):
                if shard_path(directory, batch).exists():
                    yield batch, read_shard(directory, missing.pop(position))
                elif position % processes in ended:
                    index = position % processes
                    raise _failure(directory, index, running[index].returncode)
            if missing:
                time.sleep(POLL_S)


def _failure(directory: Path, index: int, code: int) -> Exception:
    log = directory / f"process-{index}.log"
    if code < 0:
        return RatchetError(
            f"sampling process {index} was killed by signal {-code}; if memory ran out, lower "
            "training.hardware.rollout_batch. Run again to continue: what was sampled is kept."
        )
    try:
        return RatchetError(json.loads((directory / f"process-{index}.json").read_text())["message"])
    except OSError:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
        return RuntimeError(f"sampling process {index} ended with code {code}; the end of {log}:\n{tail}")


def main(spec_path: Path, directory: Path, index: int) -> None:
    """A sampling process: load the model, then every missing batch of this process, in order."""
    plan = load_plan(read_spec(spec_path))
    todo = [b for b in plan.batches[index :: plan.spec.processes] if not shard_path(directory, b).exists()]
    # Imported here: everything else in `evaluation` must load without torch.
    from infra.inference.load import load_engine

    spec = plan.spec
    engine = load_engine(spec.engine, str(spec.model_dir), spec.dtype, spec.rollout_batch, index)
    try:
        for batch in todo:
            write_parquet(sample_batch(engine, engine.tokenizer, plan, batch), shard_path(directory, batch))
    finally:
        engine.close()


if __name__ == "__main__":
    # transformers imports scikit-learn when it is there, for a decoding method not used here: a quarter of the time
    # that this process takes to start.
    sys.modules["sklearn"] = None  # type: ignore[assignment]
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
    except RatchetError as error:
        write_atomically(Path(sys.argv[2]) / f"process-{sys.argv[3]}.json", json.dumps({"message": str(error)}))
        sys.exit(2)
