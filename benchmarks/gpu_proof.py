"""Ten minutes of one GPU with a model of 1.5 billion parameters: a table for docs/evidence/results.md.

    python -m benchmarks.gpu_proof [--write FILE] [--tokens 8192 16384 32768]
    python -m benchmarks.gpu_proof --tiny                # the same on a CPU, in seconds: what the tests run

Attention, packed and padded; log-probabilities beside full logits; one training step, at the lengths given, with its
memory beside the estimate's, tokens a second and the share of the arithmetic limit (6 FLOPs a parameter and token, and
attention's, recomputation not counted); one resume; and the rounding of bfloat16 against float32, and of decoding
against the trainer. Weights are random.

It needs torch, transformers, DeepSpeed, pydantic and PyYAML, and neither vLLM nor the network; the checkout need not be
installed. What fails is a row that says so, and the rest goes on; what has no time left within `--seconds` is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
import time
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

ROOT = Path(__file__).resolve().parents[1]
if importlib.util.find_spec("ratchet") is None:  # not installed: its folders are the package
    package = types.ModuleType("ratchet")
    package.__path__ = [str(ROOT)]
    sys.modules["ratchet"] = package

from ratchet.data_curation.base.protocol import Request, Sampling, derive_seed  # noqa: E402
from ratchet.infra.inference.attention import attention  # noqa: E402
from ratchet.infra.inference.matmul import product  # noqa: E402
from ratchet.infra.recipe.model import NewModelConfig  # noqa: E402
from ratchet.infra.recipe.training import Hardware, Optimizer, Stage, Training  # noqa: E402
from ratchet.training import cluster, new_model, ranks  # noqa: E402
from ratchet.training import logprobs as tiles  # noqa: E402
from ratchet.training.estimate import estimate  # noqa: E402
from ratchet.training.logprobs import ChunkedLogProbabilities  # noqa: E402
from ratchet.training.machine import local_machine  # noqa: E402
from ratchet.training.packing import Sample, collate  # noqa: E402
from ratchet.training.shape import Shape  # noqa: E402
from ratchet.verifiers.processes import GIB  # noqa: E402

BIG = NewModelConfig(
    hidden_size=1536, layers=28, attention_heads=12, key_value_heads=2, intermediate_size=8960,
    vocabulary=151_936, max_positions=40_960,
)  # fmt: skip
"""The shape of DeepSeek-R1-Distill-Qwen-1.5B."""
MIDDLE = NewModelConfig(
    hidden_size=896, layers=24, attention_heads=14, key_value_heads=2, intermediate_size=4864, vocabulary=151_936,
    max_positions=32_768,
)  # fmt: skip
"""The shape of Qwen2.5-0.5B."""
TINY = NewModelConfig(vocabulary=300, max_positions=512)
MODELS = {"1.5B": BIG, "0.5B": MIDDLE}
PROMPT, RESPONSE = 16, 256
Row = tuple[str, str, str, str, str, str]
"""Name, tokens, seconds, GiB, GiB estimated, remark."""


class Proof:
    def __init__(self, model: NewModelConfig, tokens: list[int], seconds: float, write: Path | None = None) -> None:
        self.write = write
        self.cuda = torch.cuda.is_available()
        self.device = torch.device("cuda" if self.cuda else "cpu")
        self.dtype = torch.bfloat16 if self.cuda else torch.float32
        self.model, self.tokens = model, tokens
        self.ends = time.monotonic() + seconds
        found = local_machine()
        self.machine = replace(found, rates=replace(found.rates, verdict_s={"math": 0.0}))  # nothing is judged here
        self.rows: list[Row] = []
        self.policy: Any = None

    def part(self, name: str, measure: Callable[[], Iterator[Row]]) -> None:
        if time.monotonic() > self.ends:
            self.rows.append((name, "", "", "", "", "no time was left"))
            return
        try:
            for row in measure():
                self.rows.append(row)
                if self.write:
                    self.write.write_text(table(self))
                print("  ".join(row), flush=True)
        except Exception as error:  # a part that fails must not cost the others what is left of the GPU's minutes
            traceback.print_exc()
            said = f"failed: {type(error).__name__}: {str(error).splitlines()[0][:120]}"
            self.rows.append((name, "", "", "", "", said))
        if self.cuda:
            torch.cuda.empty_cache()

    def timed(self, call: Callable[[], Any], repeat: int = 3) -> tuple[float, str]:
        """Seconds, the best of some after one more; and the peak of the GPU's memory above what was held, GiB."""
        call()
        held = torch.cuda.memory_allocated() if self.cuda else 0
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
        found = []
        for _ in range(repeat):
            cluster.synchronize()
            started = time.perf_counter()
            call()
            cluster.synchronize()
            found.append(time.perf_counter() - started)
        return min(found), f"{(torch.cuda.max_memory_allocated() - held) / GIB:.2f}" if self.cuda else ""

    def attention(self) -> Iterator[Row]:
        """Forward and backward of one layer: the longest sequence alone, and the same tokens in eight sequences."""
        heads, width = self.model.attention_heads, self.model.head_dim
        for tokens in self.tokens:
            for name, lengths in (("one sequence", (tokens,)), ("eight sequences", (tokens // 8,) * 8)):
                query, key, value = (
                    torch.randn(1, h, sum(lengths), width, device=self.device, dtype=self.dtype, requires_grad=True)
                    for h in (heads, self.model.key_value_heads, self.model.key_value_heads)
                )
                flops = 6 * sum(n * n for n in lengths) * heads * width / 1e12

                def packed(q=query, k=key, v=value, lengths=lengths) -> None:
                    attention(torch.nn.Module(), q, k, v, None, sequences=lengths)[0].sum().backward()

                def padded(q=query, k=key, v=value, lengths=lengths) -> None:
                    each = [t.view(t.shape[1], len(lengths), lengths[0], width).transpose(0, 1) for t in (q, k, v)]
                    scaled_dot_product_attention(*each, is_causal=True, enable_gqa=True).sum().backward()

                for variant, call in (("packed", packed), ("batched SDPA", padded)):
                    seconds, peak = self.timed(call)
                    yield (
                        f"attention, {variant}, {name}", f"{tokens:,}", f"{seconds:.4f}", peak, "",
                        f"{flops / seconds:.3g} TFLOP/s, {flops / seconds / self.machine.flops * 1e12:.0%} of all",
                    )  # fmt: skip

    def logprobs(self) -> Iterator[Row]:
        width, vocabulary = self.model.hidden_size, self.model.vocabulary
        tokens = min(self.tokens)
        hidden = (torch.randn(tokens, width, device=self.device) / width**0.5).to(self.dtype).requires_grad_()
        weight = torch.randn(vocabulary, width, device=self.device).to(self.dtype).requires_grad_()
        targets = torch.randint(vocabulary, (tokens,), device=self.device)
        found: dict[str, torch.Tensor] = {}

        def tiled(chunk: int, tile: int) -> None:
            found["tiled"] = ChunkedLogProbabilities.apply(hidden, weight, None, targets, 1.0, chunk, tile)[0]
            found["tiled"].sum().backward()

        def full() -> None:
            logits = (hidden @ weight.T).float().log_softmax(-1)
            found["full"] = logits.gather(-1, targets[:, None]).squeeze(-1)
            found["full"].sum().backward()

        seconds, peak = self.timed(full, repeat=2)
        yield "log-probabilities, full logits", f"{tokens:,}", f"{seconds:.4f}", peak, "", ""
        for chunk, tile in ((1024, 4096), (1024, 32_768), (4096, 16_384), (4096, 65_536)):
            seconds, peak = self.timed(lambda chunk=chunk, tile=tile: tiled(chunk, tile), repeat=2)
            said = f"differ by {(found['full'] - found['tiled']).abs().max():.2g} nats"
            yield f"log-probabilities, {chunk} x {tile} logits", f"{tokens:,}", f"{seconds:.4f}", peak, "", said

    def steps(self, directory: Path) -> Iterator[Row]:
        """One optimizer step on responses of each length, by the trainer's own policy."""
        from ratchet.training.policy import Policy

        new_model.create(self.model, ["one two three", "a proof is a number"], 0, directory)
        dtype = "bfloat16" if self.cuda else "float32"
        hardware = Hardware(
            dtype=dtype, packed=True, activation_checkpointing=True, micro_batch_tokens=max(self.tokens), zero_stage=1
        )
        self.policy = Policy(str(directory), hardware, Optimizer())
        shape = Shape.of(self.policy.model.config.to_dict())
        for tokens in self.tokens:
            batches = self.policy.micro_batches([self.sample(0, tokens)])
            if self.cuda:
                torch.cuda.reset_peak_memory_stats()
            seconds, _ = self.timed(lambda batches=batches: self.update(batches), repeat=2)
            peak = f"{torch.cuda.max_memory_allocated() / GIB:.2f}" if self.cuda else ""
            length = {"max_response_tokens": tokens - PROMPT, "prompts_per_batch": 1, "rollouts": 2}
            stage = Stage(name="s", mix={"math": 1.0}, steps=1, **length)
            training = Training(hardware=hardware.model_copy(update={"micro_batch_tokens": tokens}))
            planned = sum(estimate(shape, stage, training, self.machine).updating.values()) / GIB
            flops = 6 * tokens * (shape.multiplied + tokens * shape.layers * shape.attention)
            yield (
                "training step", f"{tokens:,}", f"{seconds:.3f}", peak, f"{planned:.2f}",
                f"{tokens / seconds:,.0f} tokens/s, {flops / seconds / self.machine.flops:.1%} of the limit (MFU)",
            )  # fmt: skip

    def sample(self, index: int, tokens: int) -> Sample:
        random = np.random.default_rng(index)
        ids = random.integers(len(self.policy.tokenizer), size=tokens).astype(np.int32)
        return Sample(index, *np.split(ids, [PROMPT]))

    def update(self, batches: list[Any]) -> None:
        self.policy.update(batches, lambda batch, logprobs, _: -logprobs.mean(), 1.0, 1e-6)

    def resume(self, directory: Path) -> Iterator[Row]:
        batch = self.policy.micro_batches([self.sample(1, min(self.tokens))])
        before = self.policy.score(batch[0], 1.0)[0].clone()
        started = time.perf_counter()
        self.policy.save_state(directory)
        saved = time.perf_counter() - started
        size, read = (_size(part) / GIB for part in (directory, directory / "engine"))
        self.update(batch)
        moved = float((self.policy.score(batch[0], 1.0)[0] - before).abs().max())
        started = time.perf_counter()
        self.policy.load_state(directory)
        loaded = time.perf_counter() - started
        same = torch.equal(self.policy.score(batch[0], 1.0)[0], before)
        said = "the same log-probabilities, bit for bit" if same else "NOT the same log-probabilities"
        yield "checkpoint written", "", f"{saved:.2f}", f"{size:.2f}", "", f"{size / saved:.2f} GiB/s"
        said += f"; a step moved them by {moved:.2g} nats"
        yield "checkpoint read", "", f"{loaded:.2f}", f"{read:.2f}", "", said

    def rounding(self) -> Iterator[Row]:
        """bfloat16 against float32, of the same weights and tokens; and an engine that decodes against the trainer,
        with logits in float32 and rounded to the model's type."""
        from ratchet.infra.inference import model_code, transformers_engine
        from ratchet.training.losses.terms import mismatch
        from ratchet.training.model import ScoredModel, load_model

        tokens = min(min(self.tokens), 4096)
        batch = collate([self.sample(2, tokens)], self.device, packed=True)
        model = self.policy.model.eval()
        prompts = np.random.default_rng(3).integers(len(self.policy.tokenizer), size=(64, PROMPT))
        requests = [
            Request((i,), derive_seed(i), prompt_ids=tuple(map(int, prompt))) for i, prompt in enumerate(prompts)
        ]
        for head in ("float32", "rounded"):
            with ExitStack() as stack:
                if head == "rounded":
                    for module in (model_code, tiles):
                        stack.enter_context(mock.patch.object(module, "logits", rounded_logits))
                engine = transformers_engine.TransformersEngine(model, self.policy.tokenizer, 64)
                started = time.perf_counter()
                found = list(engine.generate(requests, Sampling(max_tokens=RESPONSE)))
                cluster.synchronize()
                seconds = time.perf_counter() - started
                samples = [
                    Sample(i, prompts[c.key[0]], np.array(c.token_ids), sampled_logprobs=np.float32(c.logprobs))
                    for i, c in enumerate(found)
                ]
                decoded = collate(samples, self.device, packed=True)
                scored = self.policy.score(decoded, 1.0)[0]
            difference, count = decoded.sampled_logprobs - scored, sum(c.tokens for c in found)
            yield self.differences(f"decoding against the trainer, {head} logits", count, seconds, difference, mismatch)
        with torch.no_grad():
            by_type = {}
            for dtype in ("float32", "bfloat16"):
                other, _ = load_model(str(self.directory), dtype)
                by_type[dtype] = ScoredModel(other.to(self.device).eval())(batch, 1.0)[0]
        difference = by_type["bfloat16"] - by_type["float32"]
        yield self.differences("bfloat16 against float32", tokens, 0.0, difference, mismatch)

    def differences(self, name: str, tokens: int, seconds: float, difference: torch.Tensor, mismatch: Any) -> Row:
        difference = difference.double()
        mean = float(mismatch(difference, torch.zeros_like(difference)).mean())
        sizes = difference.abs()
        said = f"{tokens / seconds:,.0f} tokens/s; " if seconds else ""
        said += f"{mean:.2g} nats a token (KL), {sizes.mean():.2g} on average, {sizes.max():.2g} at most"
        return name, f"{tokens:,}", f"{seconds:.2f}" if seconds else "", "", "", said

    def run(self) -> list[Row]:
        with tempfile.TemporaryDirectory() as scratch:
            self.directory = Path(scratch) / "model"
            self.part("attention", self.attention)
            self.part("log-probabilities", self.logprobs)
            self.part("training step", lambda: self.steps(self.directory))
            if self.policy is not None:
                self.part("rounding", self.rounding)
                self.part("resume", lambda: self.resume(Path(scratch) / "state"))
        return self.rows


def rounded_logits(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, rounded: bool = True
) -> torch.Tensor:
    return product(hidden, weight, bias).float()


def table(proof: Proof) -> str:
    where = torch.cuda.get_device_name() if proof.cuda else f"{proof.machine}"
    shape = f"{proof.model.layers} layers, {proof.model.hidden_size} wide, {proof.model.vocabulary:,} words"
    lines = [
        f"{where}, torch {torch.__version__}, {str(proof.dtype).removeprefix('torch.')}; {shape}, random weights.", "",
        "| | tokens | seconds | peak GiB | estimated GiB | |", "|---|---:|---:|---:|---:|---|",
    ]  # fmt: skip
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in proof.rows)]) + "\n"


def _size(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="a small model and short responses, on any machine")
    parser.add_argument("--model", choices=list(MODELS), default="1.5B", help="whose shape; weights are random")
    parser.add_argument("--tokens", type=int, nargs="+")
    parser.add_argument("--seconds", type=float, default=480.0, help="after which no further part begins")
    parser.add_argument("--write", type=Path, help="the Markdown table's file")
    asked = parser.parse_args(arguments)
    if not (asked.tiny or torch.cuda.is_available()):
        parser.error("there is no GPU here: --tiny is what runs on a CPU")
    lone = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29541"}
    os.environ.update({name: os.environ.get(name, value) for name, value in lone.items()})
    if not torch.distributed.is_initialized():
        ranks.join()
    model, lengths = (TINY, [64, 128]) if asked.tiny else (MODELS[asked.model], [8192, 16384, 32768])
    proof = Proof(model, asked.tokens or lengths, asked.seconds, asked.write)
    proof.run()
    said = table(proof)
    print(f"\n{said}")
    if asked.write:
        asked.write.write_text(said)


if __name__ == "__main__":
    main()
