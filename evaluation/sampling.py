"""Sampling with a model of one's own, in as many processes as asked.

    python -m ratchet.evaluation.sampling SPEC.json DIRECTORY

A batch is the unit: it is decoded whole, and its part of the store (`evaluation.generation_store`) gets its name only
when it is complete and durable. What is there is never sampled again. Because batches and seeds follow from the plan
alone, an evaluation that was killed ends with the same text as one that was not, on however many processes.
"""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.connection
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from ratchet.evaluation.generation_store import GenerationStore, Key
from ratchet.evaluation.spec import Asked, Batch, Plan, load_plan, read_spec
from ratchet.infra.artifacts import write_atomically
from ratchet.infra.errors import RatchetError
from ratchet.infra.inference.protocol import Completion, Engine, Request
from ratchet.infra.process_group import end_with_parent, process_group
from ratchet.infra.recipe.model import PromptFormat
from ratchet.verifiers.prompts import message_ids

GENERATION_SCHEMA = pa.schema(
    [
        pa.field("benchmark", pa.string(), nullable=False),
        pa.field("problem_id", pa.string(), nullable=False),
        pa.field("sample", pa.int32(), nullable=False),
        pa.field("text", pa.large_string(), nullable=False),
        pa.field("finish_reason", pa.string(), nullable=False),  # stop, length, error, or unknown (imported)
        pa.field("tokens", pa.int32()),  # null where unknown
    ]
)

POLL_S = 0.05  # between two looks for new parts; a batch takes far longer
ADVICE = "if memory ran out, lower training.hardware.rollout_batch. Run again to continue: what was sampled is kept."


def stored_row(asked: Asked, completion: Completion) -> dict[str, Any]:
    """A row of the store's schema."""
    return {
        "problem_id": asked.key[0],
        "sample": asked.key[1],
        "prompt": asked.key[2],
        "text": completion.text,
        "finish_reason": completion.finish_reason,
        "tokens": completion.tokens,
    }


def generation_table(benchmark: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The store's rows as `GENERATION_SCHEMA`."""
    rows = [{name: row.get(name, benchmark) for name in GENERATION_SCHEMA.names} for row in rows]
    return pa.Table.from_pylist(rows, schema=GENERATION_SCHEMA)


def not_stored(batch: Batch, stored: Mapping[Key, Path]) -> list[Asked]:
    return [asked for asked in batch.requests if asked.key not in stored]


class Generations:
    """What a plan asks for. Holds the stores' locks between entering and leaving."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.total = sum(len(batch.requests) for batch in plan.batches)
        self._locks = ExitStack()

    def __enter__(self) -> Self:
        for _, store in sorted(self.plan.stores.items()):
            self._locks.enter_context(store.locked())
        return self

    def __exit__(self, *_: object) -> None:
        self._locks.close()


class SampledGenerations(Generations):
    """The responses of a model in a directory."""

    def __init__(self, spec_path: Path, plan: Plan) -> None:
        super().__init__(plan)
        self.spec_path = spec_path

    def stream(self) -> Iterator[pa.Table]:
        """Every batch, stored ones first, the others as sampling processes finish them.

        Batch i belongs to process i mod `processes`. Raises RatchetError when a process fails for a reason the user can
        mend, or is killed; what was sampled stays.
        """
        stored = {name: store.stored() for name, store in self.plan.stores.items()}
        missing: dict[int, tuple[Batch, Path]] = {}
        for batch in self.plan.batches:
            todo = not_stored(batch, stored[batch.benchmark])
            if todo:
                part = self.plan.stores[batch.benchmark].part([asked.key for asked in todo])
                missing[batch.position] = (batch, part)
            else:
                yield self._table(batch, stored[batch.benchmark])
        if missing:
            yield from self._sample(missing, stored)

    def in_order(self) -> Iterator[pa.Table]:
        """Every batch again, in the plan's order."""
        stored = {name: store.stored() for name, store in self.plan.stores.items()}
        for batch in self.plan.batches:
            yield self._table(batch, stored[batch.benchmark])

    def _table(self, batch: Batch, stored: Mapping[Key, Path]) -> pa.Table:
        store = self.plan.stores[batch.benchmark]
        return generation_table(batch.benchmark, store.read([asked.key for asked in batch.requests], stored))

    def _sample(self, missing: dict[int, tuple[Batch, Path]], stored: dict[str, dict[Key, Path]]) -> Iterator[pa.Table]:
        directory = self.plan.spec.work_dir / "sampling"
        directory.mkdir(parents=True, exist_ok=True)
        for message in directory.glob("process-*.json"):
            message.unlink()
        # One thread a process: more do not speed up the decoding of a small model, and the result must not depend on
        # how many processors share the sums.
        quiet = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"}
        argv = [sys.executable, "-P", "-m", "ratchet.evaluation.sampling", str(self.spec_path), str(directory)]
        log = directory / "log"
        with process_group(argv, log, {**os.environ, **quiet}) as launcher:
            while missing:
                code = launcher.poll()  # first: what is there after it ended was there before
                for position, (batch, part) in list(missing.items()):
                    if part.exists():
                        del missing[position]
                        where = stored[batch.benchmark]
                        where |= {asked.key: part for asked in batch.requests if asked.key not in where}
                        yield self._table(batch, where)
                if missing and code is not None:
                    raise _failure(directory, log, code)
                if missing:
                    time.sleep(POLL_S)


def _failure(directory: Path, log: Path, code: int) -> Exception:
    for file in sorted(directory.glob("process-*.json")):
        return RatchetError(json.loads(file.read_text())["message"])
    if code < 0:
        return RatchetError(f"sampling was killed by signal {-code}; {ADVICE}")
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
    return RuntimeError(f"sampling ended with code {code}; the end of {log}:\n{tail}")


# --------------------------------------------------------------------------------- sampling processes


def launch(spec_path: Path, directory: Path) -> int:
    """Run all sampling processes to their end, or until one fails; 0, or its exit code.

    Where the engine bears it, its libraries are loaded once, here, and the processes are forked with them in place:
    loading them is most of what a small evaluation costs.
    """
    spec = read_spec(spec_path)
    get_context = multiprocessing.get_context
    context = get_context("fork") if spec.engine.preload() else get_context("spawn")
    arguments = [(spec_path, directory, index, os.getpid()) for index in range(spec.processes)]
    processes = [context.Process(target=_sampling_process, args=each) for each in arguments]
    for process in processes:
        process.start()
    while alive := [process.sentinel for process in processes if process.is_alive()]:
        multiprocessing.connection.wait(alive)
        for index, process in enumerate(processes):
            if process.exitcode:
                if process.exitcode < 0:
                    _say(directory, index, f"process {index} was killed by signal {-process.exitcode}; {ADVICE}")
                for other in processes:
                    other.terminate()
                return process.exitcode if process.exitcode > 0 else 2
    return 0


def _sampling_process(spec_path: Path, directory: Path, index: int, launcher: int) -> None:
    end_with_parent(launcher)
    try:
        sample_share(spec_path, index)
    except RatchetError as error:
        _say(directory, index, str(error))
        sys.exit(2)


def _say(directory: Path, index: int, message: str) -> None:
    """What a person is to read, for `_failure` to find."""
    write_atomically(directory / f"process-{index}.json", json.dumps({"message": message}))


def sample_share(spec_path: Path, index: int) -> None:
    """Every missing batch of one process, in order."""
    plan = load_plan(read_spec(spec_path))
    stored = {name: store.stored() for name, store in plan.stores.items()}
    todo = []
    for batch in plan.batches[index :: plan.spec.processes]:
        if requests := not_stored(batch, stored[batch.benchmark]):
            todo.append((batch.benchmark, requests))
    if not todo:
        return
    spec = plan.spec
    engine = spec.engine.open_for_evaluation(str(spec.model.directory), spec.dtype, spec.rollout_batch, index)
    try:
        prompts = _prompts(plan, engine.tokenizer, todo, plan.prompts)
        for benchmark, requests in todo:
            sample_batch(engine, plan, plan.stores[benchmark], requests, prompts)
    finally:
        engine.close()


def _prompts(
    plan: Plan, tokenizer: Any, todo: Sequence[tuple[str, Sequence[Asked]]], formats: Mapping[str, PromptFormat]
) -> dict[str, tuple[int, ...]]:
    """The token ids of every prompt, by its digest. Raises RatchetError before anything is sampled when one does not
    fit: it would otherwise be found out after hours."""
    config = json.loads((Path(str(plan.spec.model.directory)) / "config.json").read_text())
    positions = config.get("max_position_embeddings")
    prompts: dict[str, tuple[int, ...]] = {}
    for benchmark, requests in todo:
        for asked in requests:
            if asked.key[2] in prompts:
                continue
            ids = prompts[asked.key[2]] = message_ids(tokenizer, asked.message, formats[benchmark])
            if positions is not None and len(ids) + plan.sampling.max_tokens > positions:
                raise RatchetError(
                    f"{benchmark}, problem {asked.problem.problem_id}: a prompt of {len(ids)} tokens and a response of "
                    f"up to {plan.sampling.max_tokens} need more than the model's {positions} positions. Lower "
                    "evaluation.max_tokens, or take the problem out of the benchmark."
                )
    return prompts


def sample_batch(
    engine: Engine,
    plan: Plan,
    store: GenerationStore,
    requests: Sequence[Asked],
    prompts: Mapping[str, tuple[int, ...]],
) -> None:
    """Decode one batch and store it, in the order of its requests, whatever order they finished in."""
    asked = [Request(key=a.key, seed=a.seed, prompt_ids=prompts[a.key[2]]) for a in requests]
    completions = {completion.key: completion for completion in engine.generate(asked, plan.sampling)}
    store.write([stored_row(a, completions[a.key]) for a in requests])


if __name__ == "__main__":
    try:
        sys.exit(launch(Path(sys.argv[1]), Path(sys.argv[2])))
    except RatchetError as error:
        _say(Path(sys.argv[2]), 0, str(error))
        sys.exit(2)
