"""Sample with a model in a directory, in several processes on one or several machines.

    python -m ratchet.evaluation.sampling SPEC.json DIRECTORY

On several machines the same command runs on each of them, with DIRECTORY on a shared file system.

A batch is decoded as a whole, and its part of the store (`evaluation.generation_store`) gets its name when it is
complete and durable; stored batches are not sampled again. A process that is done takes the next batch that nobody has
taken. Batches and seeds follow from the plan alone: an evaluation that was killed and continued has the same text, on
any number of processes.
"""

import json
import math
import multiprocessing
import os
import secrets
import shutil
import sys
import threading
import time
import traceback
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any, NoReturn, Self

import pyarrow as pa

from ratchet.data_curation.base.files import write_atomically
from ratchet.data_curation.base.prompts import message_ids
from ratchet.data_curation.base.protocol import Completion, Request
from ratchet.evaluation.benchmarks import require_room
from ratchet.evaluation.generation_store import STORED_SCHEMA, Key, read_part
from ratchet.evaluation.spec import EvaluationPlan, GenerationRequest, RequestBatch, load_plan, read_spec
from ratchet.infra.launching.launcher import on_each_machine
from ratchet.infra.launching.preload import load_libraries
from ratchet.infra.recipe.training import Hardware, Training
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import core_count, end_with_parent, last_lines, memory_bytes, process_group

GENERATION_SCHEMA = pa.schema(
    [pa.field("benchmark", pa.string(), nullable=False), *(f for f in STORED_SCHEMA if f.name != "prompt")]
)

FAILURE = "failure.txt"
"""File in DIRECTORY with the error that the user should see."""
MACHINE = "machine-"
TAKEN = "batch-"
"""File in DIRECTORY for each batch that a process has taken, with a byte for each finished response."""
POLL_S = 0.05  # between checks for new parts; a batch takes far longer
REPORT_S = 2.0  # between reports of progress within batches
ADVICE = "if memory ran out, lower training.hardware.rollout_batch. Run again to continue: what was sampled is kept."


Stored = dict[str, dict[Key, Path]]
"""The part that holds each generation, by benchmark."""


def stored_row(asked: GenerationRequest, completion: Completion) -> dict[str, Any]:
    """A row of the store's schema."""
    columns = (completion.text, completion.finish_reason, completion.tokens)
    return dict(zip(STORED_SCHEMA.names, (*asked.key, *columns), strict=True))


class Generations(ExitStack):
    """All responses of a plan. As a context manager it holds the locks of the stores. `report` is called with the name
    of a benchmark while its batches are sampled, when `done` has grown; `waiting` with a message for the user while
    nothing can be sampled."""

    def __init__(
        self, plan: EvaluationPlan, report: Callable[[str], None] = lambda benchmark: None,
        waiting: Callable[[str], None] = lambda note: None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.plan, self.report, self.waiting = plan, report, waiting
        self.done, self.total = 0, sum(len(batch.requests) for batch in plan.batches)
        """Numbers of responses: finished, and of the plan."""
        self.given_up: dict[str, dict[Key, dict[str, Any]]] = {}
        """Rows of failed requests, by benchmark, which are not stored."""

    def __enter__(self) -> Self:
        for _, store in sorted(self.plan.stores.items()):
            self.enter_context(store.locked(self.waiting))
        return self

    def stream(self) -> Iterator[pa.Table]:
        """Every batch, as `GENERATION_SCHEMA`: stored ones first, the others as they are sampled. Raises RatchetError
        for errors that the user can fix; finished batches are kept."""
        stored = self._stored()
        missing: list[RequestBatch] = []
        for batch in self.plan.batches:
            if missing_of(batch, stored):
                missing.append(batch)
            else:
                self.done += len(batch.requests)
                yield self._table(batch, stored)
        if missing:
            yield from self._sample(missing, stored)

    def in_order(self) -> Iterator[pa.Table]:
        """Every batch again, in the plan's order."""
        stored = self._stored()
        for batch in self.plan.batches:
            yield self._table(batch, stored)

    @abstractmethod
    def _sample(self, missing: Sequence[RequestBatch], stored: Stored) -> Iterator[pa.Table]:
        """The batches that are not stored, as each is complete; their parts are added to `stored`."""

    def _stored(self) -> Stored:
        return {name: store.stored() for name, store in self.plan.stores.items()}

    def _table(self, batch: RequestBatch, stored: Stored) -> pa.Table:
        parts, samples = stored[batch.benchmark], dict(self.given_up.get(batch.benchmark, {}))
        keys_of: dict[Path, list[Key]] = defaultdict(list)  # with more samples than before, parts alternate in a batch
        for asked in batch.requests:
            if asked.key in parts:
                keys_of[parts[asked.key]].append(asked.key)
        for part, keys in keys_of.items():
            rows_of = read_part(part)
            samples |= {key: rows_of[key] for key in keys}
        rows = [{"benchmark": batch.benchmark, **samples[asked.key]} for asked in batch.requests]
        return pa.Table.from_pylist(rows, schema=GENERATION_SCHEMA)


def missing_of(batch: RequestBatch, stored: Stored) -> list[GenerationRequest]:
    """The requests of a batch whose responses are not stored."""
    return [asked for asked in batch.requests if asked.key not in stored[batch.benchmark]]


class SampledGenerations(Generations):
    """The responses of a model in a directory."""

    def __init__(
        self, spec_path: Path, plan: EvaluationPlan, report: Callable[[str], None] = lambda benchmark: None,
        waiting: Callable[[str], None] = lambda note: None,
    ) -> None:  # fmt: skip
        super().__init__(plan, report, waiting)
        self.spec_path = spec_path

    def _sample(self, missing: Sequence[RequestBatch], stored: Stored) -> Iterator[pa.Table]:
        shutil.rmtree(root := self.plan.spec.work_dir / "sampling", ignore_errors=True)
        directory = root / secrets.token_hex(8)  # where no process of a killed launch can claim a number
        directory.mkdir(parents=True)
        parts: dict[int, tuple[RequestBatch, list[GenerationRequest], Path]] = {}
        for batch in missing:
            requests = missing_of(batch, stored)
            part = self.plan.stores[batch.benchmark].part([asked.key for asked in requests])
            parts[batch.position] = (batch, requests, part)
        argv = [sys.executable, "-P", "-m", "ratchet.evaluation.sampling", str(self.spec_path), str(directory)]
        hardware, log = self.plan.hardware, directory / "log"
        argv = on_each_machine(os.environ.get("RATCHET_LAUNCHER", ""), argv, hardware.machines)
        deadline, next_report = time.monotonic() + 60 * hardware.advanced.timeout_minutes, 0.0
        alone = hardware.machines == 1 and LOADED and threading.active_count() == 1
        with forked(self.spec_path, directory, log) if alone else process_group(argv, log, environment()) as launcher:
            while parts:
                code = launcher.poll()  # before looking for parts: the last ones are written before it ends
                for position, (batch, requests, part) in list(parts.items()):
                    if part.exists():
                        del parts[position]
                        stored[batch.benchmark] |= {asked.key: part for asked in requests}
                        self._count(directory, parts)
                        yield self._table(batch, stored)
                if parts and time.monotonic() > next_report and self._count(directory, parts):
                    self.report(next(iter(parts.values()))[0].benchmark)
                    next_report = time.monotonic() + REPORT_S
                if parts and code is not None:
                    raise _failure(directory, log, code, hardware)
                if parts and time.monotonic() > deadline:
                    if not _arrived(directory):
                        raise _absent(directory, hardware)
                    deadline = math.inf
                time.sleep(POLL_S if parts else 0)

    def _count(self, directory: Path, parts: Mapping[int, tuple[RequestBatch, list[GenerationRequest], Path]]) -> bool:
        """Count a finished response; True if `done` has grown."""
        taken = [(len(requests), directory / f"{TAKEN}{position}") for position, (_, requests, _) in parts.items()]
        missing = sum(requests - (file.stat().st_size if file.exists() else 0) for requests, file in taken)
        before, self.done = self.done, self.total - missing
        return self.done > before


def _failure(directory: Path, log: Path, code: int, hardware: Hardware) -> Exception:
    if (message := directory / FAILURE).is_file():
        return RatchetError(message.read_text())
    if code < 0:
        return RatchetError(f"sampling was killed by signal {-code}; {ADVICE}")
    if code == 0 and not _arrived(directory):
        return _absent(directory, hardware)
    return RuntimeError(f"sampling ended with code {code}; the end of {log}:\n{last_lines(log, 20)}")


def _arrived(directory: Path) -> int:
    return len(list(directory.glob(f"{MACHINE}*")))


def _absent(directory: Path, hardware: Hardware) -> RatchetError:
    return RatchetError(
        f"no machine of {hardware.machines} came to sample. Within {hardware.advanced.timeout_minutes:g} minutes "
        "(training.hardware.advanced.timeout_minutes), RATCHET_LAUNCHER must run its command once on each of them, and "
        f"each must see {directory}."
    )


# --------------------------------------------------------------------------------- sampling processes


LOADED = False
"""True if this process, or the one it was forked from, has loaded the libraries for sampling, and may be forked."""


def preload() -> bool:
    global LOADED
    from ratchet.infra.inference import transformers_engine  # noqa: F401

    LOADED = load_libraries()
    return LOADED


def environment() -> dict[str, str]:
    """The environment of sampling processes: one thread each, because more do not speed up decoding a small model, and
    rounding must not depend on their number."""
    quiet = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"}
    return {**os.environ, **quiet}


class Forked(ForkProcess):
    def poll(self) -> int | None:
        return self.exitcode


@contextmanager
def forked(spec_path: Path, directory: Path, log: Path) -> Iterator[Forked]:
    """Fork the sampling processes of this machine from this process, which has loaded their libraries. None of them
    survives the block."""
    launcher = Forked(target=_forked, args=(os.getpid(), spec_path, directory, log))
    launcher.start()
    try:
        yield launcher
    finally:
        launcher.kill()  # those below it end with it
        launcher.join()


def _forked(parent: int, spec_path: Path, directory: Path, log: Path) -> None:
    import torch

    end_with_parent(parent)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.environ.update(environment())
    torch.set_num_threads(1)
    main(spec_path, directory)


def launch(spec_path: Path, directory: Path) -> None:
    """Run all sampling processes of this machine. Raises the error of the first that fails, or RatchetError if it was
    killed.

    If the engine allows it, its libraries are loaded once, here, and the processes are forked: loading them is most of
    the cost of a small evaluation.
    """
    spec = read_spec(spec_path)
    training, processes = spec.training, _processes(spec.training, str(spec.model.directory))
    _claim_number(directory, training.hardware.machines)
    context = multiprocessing.get_context("fork" if training.engine.preload() else "spawn")
    pool = ProcessPoolExecutor(processes, context, _begin, (os.getpid(), context.Barrier(processes)))
    try:
        for share in as_completed([pool.submit(sample_share, spec_path, directory, i) for i in range(processes)]):
            share.result()
    except BrokenProcessPool as error:
        raise RatchetError(f"a sampling process was killed; {ADVICE}") from error


def _processes(training: Training, model: Path | str) -> int:
    """Sampling processes of a machine, one for each engine. On a CPU as many as there are cores, if half of the memory
    holds them: beside no trainer, each has the weights, a float32 head and a cache."""
    engine, processes = training.engine, training.hardware.processes
    if not engine.single_threaded:
        return max(1, processes // engine.gpus)
    weights = sum(file.stat().st_size for file in Path(model).glob("*.safetensors"))
    return max(processes, min(core_count(), memory_bytes() // 2 // (2 * weights + 2**30)))


def _claim_number(directory: Path, machines: int) -> None:
    """Take the first of the machines' numbers that is free. Raises RatchetError if all are taken."""
    for number in range(machines):
        with suppress(FileExistsError):
            (directory / f"{MACHINE}{number}").touch(exist_ok=False)
            return
    raise RatchetError(
        f"RATCHET_LAUNCHER ran its command more than {machines} times (training.hardware.machines): it must run it "
        "once on each machine."
    )


def _begin(launcher: int, everyone: Any) -> None:
    """Wait until all processes have started: each takes one share, on its own GPUs."""
    end_with_parent(launcher)
    everyone.wait()


def sample_share(spec_path: Path, directory: Path, index: int) -> None:
    """Decode missing batches that no other process has taken, in order, until none is left. `index` is the process's
    number on its machine."""
    plan = load_plan(read_spec(spec_path))
    training, stored = plan.spec.training, {name: store.stored() for name, store in plan.stores.items()}
    todo = [(batch, requests) for batch in plan.batches if (requests := missing_of(batch, stored))]
    mine = ((*task, file) for task in todo if (file := _take(directory, task[0])))
    if (first := next(mine, None)) is None:
        return
    engine = training.engine.open_for_evaluation(
        str(plan.spec.model.directory), training.hardware.dtype, training.hardware.rollout_batch, index
    )
    try:
        prompts = _prompts(plan, engine.tokenizer, todo)
        for batch, requests, file in chain([first], mine):
            asked = [Request(key=a.key, seed=a.seed, prompt_ids=prompts[a.key[2]]) for a in requests]
            completions: dict[Key, Completion] = {}
            with open(file, "ab", buffering=0) as finished:
                for completion in engine.generate(asked, plan.sampling):
                    completions[completion.key] = completion
                    finished.write(b".")
            rows = [stored_row(a, completions[a.key]) for a in requests]  # in the plan's order
            plan.stores[batch.benchmark].write(rows)
    finally:
        engine.close()


def _take(directory: Path, batch: RequestBatch) -> Path | None:
    """The batch's file if this process has taken it, None if another had."""
    file = directory / f"{TAKEN}{batch.position}"
    try:
        file.touch(exist_ok=False)
    except FileExistsError:
        return None
    return file


def _prompts(
    plan: EvaluationPlan, tokenizer: Any, todo: Sequence[tuple[RequestBatch, Sequence[GenerationRequest]]]
) -> dict[str, tuple[int, ...]]:
    """The token ids of every prompt, by its digest. Raises RatchetError, before sampling starts, if one is too long."""
    config = json.loads((Path(str(plan.spec.model.directory)) / "config.json").read_text())
    positions = config.get("text_config", config).get("max_position_embeddings")
    prompts: dict[str, tuple[int, ...]] = {}
    for batch, requests in todo:
        new = {asked.key[2]: asked for asked in requests if asked.key[2] not in prompts}
        texts = [asked.message for asked in new.values()]
        prompts |= zip(new, message_ids(tokenizer, texts, plan.prompts[batch.benchmark]), strict=True)
        for digest, asked in new.items():
            require_room(batch.benchmark, asked.problem, len(prompts[digest]), plan.sampling.max_tokens, positions)
    return prompts


def main(spec_path: Path, directory: Path) -> NoReturn:
    code = 0
    try:
        launch(spec_path, directory)
    except RatchetError as error:
        write_atomically(directory / FAILURE, str(error))
        code = 2
    except BaseException:
        traceback.print_exc()
        code = 1
    os._exit(code)  # a regular exit would wait for the remaining processes; these end with their parent


if __name__ == "__main__":
    end_with_parent(os.getppid())
    main(Path(sys.argv[1]), Path(sys.argv[2]))
