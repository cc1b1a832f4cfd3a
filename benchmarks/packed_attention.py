"""The update over responses of mixed lengths: tokens a second and peak memory, packed against padded.

    python -m benchmarks.packed_attention [--tokens 16384] [--threads 2] [--rounds 2]

The step is that of a random model (128 wide, two layers, two heads, one for keys and values): forward and backward
over the same responses, in micro-batches of at most `--tokens`. Contenders: padded to the longest of a micro-batch, as
they come, as most trainers do; padded, but sorted by length first, which is what `packed: false` does; packed behind a
mask of tokens x tokens, as transformers makes it; packed, sequence by sequence. Each runs in a process of its own;
memory is its resident peak above what it held with the model in place. Time is the least of the rounds, in turns; the
gradient's norm must be the same for all.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.chunked_logprobs import _reset_peak, _resident
from ratchet.training.model import ScoredModel
from ratchet.training.packing import MicroBatch, Sample, collate, plan_micro_batches

VOCABULARY, LONGEST = 512, 8192
CPU = torch.device("cpu")


def responses(tokens: int) -> list[Sample]:
    """Two micro-batches of responses, most of them short and a few very long, as reasoning models give them."""
    random, samples, total = np.random.default_rng(0), [], 0
    while total < 2 * tokens:
        length = int(np.clip(random.lognormal(np.log(LONGEST / 8), 1.0), 64, LONGEST))
        samples.append(Sample(len(samples), *np.split(random.integers(VOCABULARY, size=length).astype(np.int32), [32])))
        total += length
    return samples


def as_they_come(samples: list[Sample], tokens: int) -> Iterator[MicroBatch]:
    batch: list[Sample] = []
    for sample in samples:
        if batch and max(map(len, [*batch, sample])) * (len(batch) + 1) > tokens:
            yield collate(batch, CPU)
            batch = []
        batch.append(sample)
    yield collate(batch, CPU)


def planned(samples: list[Sample], tokens: int, packed: bool) -> list[MicroBatch]:
    return [collate(share, CPU, packed=packed) for share in plan_micro_batches(samples, 1, tokens, packed)[0]]


class Masked(ScoredModel):
    """What transformers does with positions that start again."""

    def forward(self, batch: MicroBatch, temperature: float):
        transformers = self.model.base_model.forward
        self.model.base_model.forward = lambda *, attention_mask, sequences, **given: transformers(**given)
        try:
            return super().forward(batch, temperature)
        finally:
            del self.model.base_model.forward


CONTENDERS = {
    "padded, as they come": lambda samples, tokens: list(as_they_come(samples, tokens)),
    "padded, by length": lambda samples, tokens: planned(samples, tokens, packed=False),
    "packed, masked": lambda samples, tokens: planned(samples, tokens, packed=True),
    "packed": lambda samples, tokens: planned(samples, tokens, packed=True),
}


def measure(name: str, tokens: int, threads: int) -> None:
    """In a process of its own: one line a round, JSON, whenever standard input asks for one."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=128, intermediate_size=352, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=LONGEST, attn_implementation="sdpa",
    )  # fmt: skip
    model = (Masked if name == "packed, masked" else ScoredModel)(LlamaForCausalLM(config))
    batches = CONTENDERS[name](responses(tokens), tokens)
    for _ in sys.stdin:
        model.zero_grad()
        held, started, busy = _reset_peak(), time.perf_counter(), time.process_time()
        for batch in batches:
            logprobs, _ = model(batch, 1.0)
            (logprobs.sum() / tokens).backward()
        spent, worked = time.perf_counter() - started, time.process_time() - busy
        bytes_above = _resident("VmHWM") - held
        norm = float(torch.stack([weight.grad.norm() for weight in model.parameters()]).norm())
        found = {"seconds": spent, "cpu": worked, "bytes": bytes_above, "norm": norm, "batches": len(batches)}
        print(json.dumps(found), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=16384)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--alone", choices=list(CONTENDERS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.alone:
        return measure(arguments.alone, arguments.tokens, arguments.threads)
    trained = sum(map(len, responses(arguments.tokens)))
    command = [sys.executable, "-m", "benchmarks.packed_attention", "--tokens", str(arguments.tokens)]
    command += ["--threads", str(arguments.threads), "--alone"]
    workers = {
        name: subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for name in CONTENDERS
    }
    found: dict[str, list[dict]] = {name: [] for name in CONTENDERS}
    for _ in range(arguments.rounds):
        for name, worker in workers.items():
            assert worker.stdin and worker.stdout
            worker.stdin.write("\n")
            worker.stdin.flush()
            found[name].append(json.loads(worker.stdout.readline()))
    for worker in workers.values():
        worker.communicate()
    norms = [rounds[0]["norm"] for rounds in found.values()]
    assert max(norms) - min(norms) < 1e-4 * max(norms), norms
    print(f"{trained:,} tokens in micro-batches of {arguments.tokens:,}, {arguments.threads} threads")
    slowest = min(each["cpu"] for each in found["padded, as they come"])
    print(f"{'':22} {'micro-batches':>13} {'tokens/s':>9} {'per CPU s':>9} {'ratio':>6} {'peak GB':>8}")
    for name, rounds in found.items():
        seconds, cpu = min(each["seconds"] for each in rounds), min(each["cpu"] for each in rounds)
        print(
            f"{name:22} {rounds[0]['batches']:13} {trained / seconds:9,.0f} {trained / cpu:9,.0f} {slowest / cpu:6.2f} "
            f"{max(each['bytes'] for each in rounds) / 1e9:8.2f}"
        )


if __name__ == "__main__":
    main()
