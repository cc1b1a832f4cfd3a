"""Log-probabilities and entropies, forward and backward: peak memory and time against full logits, TRL and Liger.

    python -m benchmarks.chunked_logprobs [--tokens 4096 8192] [--vocabulary 151936] [--hidden 256] [--threads 2]

The step measured is what GRPO does with a head: hidden states and the head's weight to the loss over sampled tokens,
and back to the gradients of both. Every contender runs in a process of its own, on the same numbers; memory is the
process's resident peak above what it held with inputs in place, so each pays for its gradients (the weight's alone is
vocabulary x hidden x 4 bytes). Time is the least of `--rounds` rounds after a warm-up, in turns. The gradients of all
are compared with those of the first. Peers: `pip install liger-kernel trl` (Liger's chunked GRPO loss, without
entropies; TRL's chunked log-probabilities and entropies); one that is not installed is left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import torch

from ratchet.training.logprobs import ChunkedLogProbabilities

SEQUENCE = 1024  # tokens of one response, for Liger, which takes [responses, tokens]


def full(hidden, weight, targets, advantages):
    distribution = (hidden @ weight.T).log_softmax(-1)
    with torch.no_grad():
        (distribution.exp() * distribution).sum(-1)  # the entropy, which is only looked at
    return on_policy(distribution.gather(-1, targets[:, None]).squeeze(-1), advantages)


def ratchet(hidden, weight, targets, advantages):
    return on_policy(ChunkedLogProbabilities.apply(hidden, weight, None, targets, 1.0, 1024, 4096)[0], advantages)


def trl(hidden, weight, targets, advantages):
    from trl.kernels.chunked_logprob import ChunkedLogProbFunction

    found = ChunkedLogProbFunction.apply(hidden, weight, None, targets, 1.0, 8192, None, 1.0, ("entropy",))
    return on_policy(found[0], advantages)


def liger(hidden, weight, targets, advantages):
    from liger_kernel.chunked_loss import LigerFusedLinearGRPOLoss

    loss = LigerFusedLinearGRPOLoss(beta=0.0, use_ref_model=False, compiled=False, loss_type="bnpo")
    targets, advantages = targets.view(-1, SEQUENCE), advantages.view(-1, SEQUENCE)[:, 0]
    return loss(hidden.view(-1, SEQUENCE, hidden.shape[-1]), weight, targets, torch.ones_like(targets), advantages)[0]


def on_policy(logprobs, advantages):
    return -(advantages * (logprobs - logprobs.detach()).exp()).mean()


CONTENDERS = {"full logits": full, "Liger": liger, "TRL": trl, "Ratchet": ratchet}


def measure(name: str, tokens: int, vocabulary: int, width: int, threads: int) -> None:
    """In a process of its own: one line a round, JSON, whenever standard input asks for one."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    hidden = torch.randn(tokens, width).requires_grad_()
    weight = (torch.randn(vocabulary, width) / width**0.5).requires_grad_()
    targets = torch.randint(vocabulary, (tokens,))
    advantages = torch.randn(tokens // SEQUENCE).repeat_interleave(SEQUENCE)
    for _ in sys.stdin:
        hidden.grad = weight.grad = None
        held = _reset_peak()
        started, busy = time.perf_counter(), time.process_time()
        CONTENDERS[name](hidden, weight, targets, advantages).backward()
        spent, worked = time.perf_counter() - started, time.process_time() - busy
        bytes_above = _resident("VmHWM") - held
        check = [float(hidden.grad.norm()), float(weight.grad.norm())]
        print(json.dumps({"seconds": spent, "cpu": worked, "bytes": bytes_above, "check": check}), flush=True)


def _reset_peak() -> int:
    """Set the kernel's high-water mark of resident memory back to the present amount, and return it."""
    Path("/proc/self/clear_refs").write_text("5")
    return _resident("VmRSS")


def _resident(field: str) -> int:
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(field))
    return int(line.split()[1]) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=[4096, 8192])
    parser.add_argument("--vocabulary", type=int, default=151_936)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without", nargs="*", default=[], choices=list(CONTENDERS))
    parser.add_argument("--measure", choices=list(CONTENDERS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure, arguments.tokens[0], arguments.vocabulary, arguments.hidden, arguments.threads)
        return
    print(f"vocabulary {arguments.vocabulary:,}, hidden {arguments.hidden}, {arguments.threads} threads, float32")
    print(f"{'tokens':>7} {'':12} {'peak GB':>8} {'seconds':>8} {'CPU s':>7}")
    for tokens in arguments.tokens:
        compare(tokens, arguments)


def compare(tokens: int, arguments: argparse.Namespace) -> None:
    rows: dict[str, dict] = {}
    for name in CONTENDERS:
        if name in arguments.without:
            continue
        command = [sys.executable, "-m", "benchmarks.chunked_logprobs", "--measure", name, "--tokens", str(tokens)]
        command += ["--vocabulary", str(arguments.vocabulary), "--hidden", str(arguments.hidden)]
        command += ["--threads", str(arguments.threads)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        rows[name] = {"process": process, "rounds": []}
    for _ in range(arguments.rounds + 1):
        for name, row in list(rows.items()):
            row["process"].stdin.write("go\n")
            row["process"].stdin.flush()
            line = row["process"].stdout.readline()
            if not line:
                print(f"{tokens:7,} {name:12} did not run")
                del rows[name]
                continue
            row["rounds"].append(json.loads(line))
    first = next(iter(rows.values()))["rounds"][-1]["check"]
    for name, row in rows.items():
        row["process"].stdin.close()
        row["process"].wait()
        rounds = row["rounds"][1:]
        seconds, cpu = min(r["seconds"] for r in rounds), min(r["cpu"] for r in rounds)
        peak = max(r["bytes"] for r in rounds) / 1e9
        wrong = max(abs(a / b - 1) for a, b in zip(rounds[-1]["check"], first, strict=True))
        note = "" if wrong < 1e-4 else f"   gradients differ: {wrong:.0e}"
        print(f"{tokens:7,} {name:12} {peak:8.2f} {seconds:8.1f} {cpu:7.1f}{note}", flush=True)


if __name__ == "__main__":
    main()
