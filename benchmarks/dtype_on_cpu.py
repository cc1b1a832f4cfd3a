"""Is a CPU faster in float32 or bfloat16? One step of training and one batch of sampling with a model, in both.

    python -m benchmarks.dtype_on_cpu MODEL [--threads 2] [--sequences 4] [--tokens 256] [--repeats 3]

Steps of the two kinds take turns. Seconds are of the process's CPU, which other programs disturb less than the clock's,
and the least of the repeats.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM


def training_step(model: torch.nn.Module, batch: torch.Tensor) -> Callable[[], object]:
    """Forward, backward, AdamW with its moments in float32, on tokens of no meaning."""
    masters = [weight.detach().float() for weight in model.parameters()]
    optimizer = torch.optim.AdamW(masters, lr=1e-6)

    def step() -> None:
        model.train()
        model(input_ids=batch, labels=batch, use_cache=False).loss.backward()
        with torch.no_grad():
            for master, weight in zip(masters, model.parameters(), strict=True):
                master.grad = weight.grad.float()
            optimizer.step()
            for master, weight in zip(masters, model.parameters(), strict=True):
                weight.copy_(master)
        model.zero_grad()

    return step


def sampling(model: torch.nn.Module, batch: torch.Tensor, tokens: int) -> Callable[[], object]:
    """Greedy, as many tokens as asked for."""

    def sample() -> None:
        model.eval()
        with torch.no_grad():
            model.generate(batch[:, :32], max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, pad_token_id=0)

    return sample


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    facts = {line.partition("\t")[0]: line.partition(": ")[2] for line in lines}
    fast = [flag for flag in ("avx512_bf16", "amx_bf16") if flag in facts.get("flags", "").split()]
    return f"{facts.get('model name', platform.processor())}, {', '.join(fast) or 'no instructions for bfloat16'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--sequences", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    batch = torch.randint(100, 1000, (arguments.sequences, arguments.tokens))
    work: dict[tuple[str, str], Callable[[], object]] = {}
    for dtype in (torch.float32, torch.bfloat16):
        model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=dtype)
        name = str(dtype).removeprefix("torch.")
        work["training", name] = training_step(model, batch)
        work["sampling", name] = sampling(model, batch, arguments.tokens // 4)
    seconds: dict[tuple[str, str], list[float]] = {place: [] for place in work}
    for repeat in range(arguments.repeats + 1):
        for place, do in work.items():
            began = time.process_time()
            do()
            if repeat:  # the first warms up
                seconds[place].append(time.process_time() - began)
    print(f"{processor()}; torch {torch.__version__}, threads: {arguments.threads}\n")
    print("| | float32 | bfloat16 | ratio |\n|---|---:|---:|---:|")
    for what in ("training", "sampling"):
        full, half = (min(seconds[what, name]) for name in ("float32", "bfloat16"))
        print(f"| {what} | {full:.2f} s | {half:.2f} s | {half / full:.2f} |")


if __name__ == "__main__":
    main()
