"""The embedded engine in a process of its own, which samples while the policy learns.

    python -P -m ratchet.infra.inference.sampling_process MODEL DTYPE DEVICE BATCH LOGITS

Each line of standard input is an order, JSON: `{"weights": FILE, "version": V}` replaces all weights by those of a
safetensors file; `{"sampling": {…}, "requests": [[seed, [token, …]], …]}` is answered by a line for each completion as
it finishes. A line `{"done": SECONDS}` ends every answer, `{"failure": WORDS}` the process.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file

from ratchet.data_curation.base.protocol import Completion, Request, Sampling
from ratchet.infra.inference import hide_unused_libraries
from ratchet.infra.inference.engine import TrainedModel, TrainingEngine, write_weights
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import last_lines, process_group

if TYPE_CHECKING:
    from ratchet.infra.recipe.training import Hardware

WEIGHTS = "weights-{}.safetensors"
"""A file with a version of the weights: written by rank 0, read by the sampling process of every rank, then deleted."""

# ---------------------------------------------------------------------------------------------- the trainer's side


@contextmanager
def opened(policy: TrainedModel, hardware: "Hardware", model_dir: str, work: Path) -> Iterator["SamplingProcess"]:
    """A sampling process for this rank, which ends with the block and with this process. Collective."""
    device = f"cuda:{torch.cuda.current_device()}" if torch.cuda.is_available() else "cpu"
    argv = [
        sys.executable, "-P", "-m", __name__, model_dir, hardware.dtype, device, str(hardware.rollout_batch),
        hardware.advanced.logits,
    ]  # fmt: skip
    log = work / f"sampling-{policy.rank}.log"
    for left in work.glob(WEIGHTS.format("*")) if policy.rank == 0 else ():  # by a stage that was killed
        left.unlink()
    with process_group(argv, log, dict(os.environ), pipes=True) as process:
        yield SamplingProcess(policy, process, log, work)


class SamplingProcess(TrainingEngine):
    """The embedded engine in a process of this rank. `generate` may be read on any thread, one at a time. Raises
    RatchetError with the end of its log if the process has ended."""

    def __init__(self, policy: TrainedModel, process: Any, log: Path, work: Path) -> None:
        self._policy, self._log, self._work = policy, log, work
        self._orders = open(process.stdin.fileno(), "w", closefd=False)
        self._replies = open(process.stdout.fileno(), "rb", closefd=False)

    def receive(self, version: str) -> None:
        file = self._work / WEIGHTS.format(version)
        write_weights(self._policy, file)
        torch.distributed.barrier()
        for _ in self._answer({"weights": str(file), "version": version}):
            pass
        torch.distributed.barrier()
        if self._policy.rank == 0:
            file.unlink()

    def generate(self, batches: Iterable[Sequence[Request]], sampling: Sampling) -> Iterator[Completion]:
        for batch in batches:  # decoded separately, so that a response does not depend on the batch before
            asked = [(request.seed, request.prompt_ids) for request in batch]
            for facts in self._answer({"sampling": asdict(sampling), "requests": asked}):
                ids, logprobs = tuple(facts["token_ids"]), tuple(facts["logprobs"])
                key = batch[facts["key"]].key
                yield Completion(**{**facts, "key": key, "token_ids": ids, "logprobs": logprobs})

    def _answer(self, order: dict[str, Any]) -> Iterator[dict[str, Any]]:
        try:
            print(json.dumps(order), file=self._orders, flush=True)
            while reply := self._replies.readline():
                facts = json.loads(reply)
                if "failure" in facts:
                    raise RatchetError(facts["failure"])
                if "done" in facts:
                    return
                yield facts
        except BrokenPipeError:
            pass
        raise RatchetError(f"the sampling process has ended; the end of {self._log}:\n{last_lines(self._log, 15)}")


# ---------------------------------------------------------------------------------------------- the process itself


def _serve(
    model_dir: str, dtype: str, device: str, batch_size: int, rounded_logits: bool, orders: Any, reply: Any
) -> None:
    hide_unused_libraries()
    from ratchet.infra.inference.transformers_engine import TransformersEngine

    if device == "cpu":
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))
    engine = TransformersEngine.load(model_dir, dtype, device, batch_size, rounded_logits)
    for line in orders:
        order = json.loads(line)
        if "weights" in order:
            _replace(engine.model, load_file(order["weights"], device))
            engine.version = order["version"]
        else:
            asked = [Request(i, seed, tuple(ids)) for i, (seed, ids) in enumerate(order["requests"])]
            for completion in engine.generate(asked, Sampling(**order["sampling"])):
                reply(vars(completion))
        reply({"done": True})


def _replace(model: Any, weights: dict[str, torch.Tensor]) -> None:
    """Every weight of the model, tied ones under each of their names. Raises RatchetError if there are others."""
    present = dict(model.named_parameters(remove_duplicate=False))
    if present.keys() != weights.keys():
        raise RatchetError(f"not this model's weights: {', '.join(sorted(present.keys() ^ weights.keys())[:5])}")
    with torch.no_grad():
        for name, weight in weights.items():
            present[name].copy_(weight)


def main() -> None:
    model_dir, dtype, device, batch_size, logits = sys.argv[1:]
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to the log

    def reply(facts: dict[str, Any]) -> None:
        print(json.dumps(facts), file=replies, flush=True)

    try:
        _serve(model_dir, dtype, device, int(batch_size), logits == "bfloat16", sys.stdin, reply)
    except RatchetError as error:
        reply({"failure": str(error)})
        sys.exit(2)


if __name__ == "__main__":
    main()
