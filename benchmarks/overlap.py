"""A step with engines beside the trainer: learning after sampling or as groups finish, in several orders.

    python -m benchmarks.overlap simulate [--lengths LENGTHS.jsonl]
    python -m benchmarks.overlap measure [--lengths LENGTHS.jsonl] [--steps 5]
    python -m benchmarks.overlap shares [--lengths LENGTHS.jsonl]

`simulate` is a step of 128 prompts x 16 responses of a 14B model, 48 H100s that sample and 32 that learn, with the
constants of `training/estimate.py`. `measure` is two processes of one thread each, an engine that decodes with a model
of its own and a trainer, which take the same steps both ways in turns; lengths are scaled to at most `--longest`.

`shares` is what it brings that ranks which have finished take batches from others (`training/ranks.py`): time to the
last response, relative to fixed shares, if a batch lasts as long as its longest response.

LENGTHS.jsonl has a list of recorded response lengths in each line, those of one prompt. Half of a line is the step's,
half is the prompt's history. Without a file they are drawn: log-normal with median 6,000 and deviation 0.7, of which
the prompt decides half the variance, truncated at 32,768.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import multiprocessing
import os
import random
import socket
import statistics
import tempfile
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

LONGEST, MEDIAN, DEVIATION, PROMPTS_SHARE = 32_768, 6_000, 0.7, 0.5
PROMPTS, ROLLOUTS = 128, 16
SERVERS, PLACES = 12, 170
"""Servers of four GPUs: 0.9 of their memory without the weights, in responses of a mean length."""
TOKEN_S, PLACE_S = 3.7e-3, 0.2e-3
"""To read a quarter of the weights, and the mean key-value cache of a response, at 0.6 of the bandwidth."""
LEARNT_PER_S = 32 * 989e12 * 0.35 / (6 * 14.8e9 * 4 / 3)
"""Tokens; with activations computed again."""
WAVE_TOKENS = 32 * 16_384


def drawn_lengths(prompts: int, samples: int, seed: int) -> list[list[int]]:
    draw = random.Random(seed)
    of_prompt, of_sample = DEVIATION * PROMPTS_SHARE**0.5, DEVIATION * (1 - PROMPTS_SHARE) ** 0.5
    found = []
    for _ in range(prompts):
        center = draw.gauss(0, of_prompt)
        each = [MEDIAN * math.exp(center + draw.gauss(0, of_sample)) for _ in range(samples)]
        found.append([max(1, min(LONGEST, round(tokens))) for tokens in each])
    return found


def lengths_and_history(file: Path | None, prompts: int, rollouts: int, longest: int, seed: int) -> tuple[list, list]:
    """[prompt][response] of the step, and of what was seen of the same prompts before; scaled to `longest`."""
    if file is None:
        whole = drawn_lengths(prompts, 2 * rollouts, seed)
    else:
        whole = [json.loads(line) for line in file.read_text().splitlines()]
        random.Random(seed).shuffle(whole)
    half = min(len(line) for line in whole) // 2
    scale = longest / max(map(max, whole))
    whole = [[max(1, round(tokens * scale)) for tokens in whole[i % len(whole)]] for i in range(prompts)]
    return [(line[:half] * rollouts)[:rollouts] for line in whole], [line[half : 2 * half] for line in whole]


def sampled(lengths: Sequence[Sequence[int]], order: Sequence[int]) -> list[tuple[float, int]]:
    """(seconds at which its last response ends, prompt) for prompts begun in this order. A prompt goes to the server
    that has the most room; a server decodes what it has together, each token in a time that grows with their number."""
    waiting, ended = list(order)[::-1], []
    running: list[list[tuple[float, int]]] = [[] for _ in range(SERVERS)]  # (tokens of the server when it ends, prompt)
    clock, tokens, left = [0.0] * SERVERS, [0.0] * SERVERS, [len(line) for line in lengths]
    while waiting or any(running):
        while waiting and min(map(len, running)) < PLACES:
            server = min(range(SERVERS), key=lambda i: (len(running[i]), clock[i]))
            prompt = waiting.pop()
            for length in lengths[prompt]:
                heapq.heappush(running[server], (tokens[server] + length, prompt))
        server = min((i for i in range(SERVERS) if running[i]), key=lambda i: clock[i])
        end, prompt = heapq.heappop(running[server])
        clock[server] += (end - tokens[server]) * (TOKEN_S + PLACE_S * (len(running[server]) + 1))
        tokens[server] = end
        left[prompt] -= 1
        if not left[prompt]:
            ended.append((clock[server], prompt))
    return sorted(ended)


def learned(ended: Sequence[tuple[float, int]], lengths: Sequence[Sequence[int]], early: bool) -> float:
    """Seconds until all are learned from: as soon as there are enough, or when all have ended."""
    now, waiting = (0.0, 0) if early else (ended[-1][0], 0)
    for at, prompt in ended:
        waiting += sum(lengths[prompt])
        if waiting >= WAVE_TOKENS or at == ended[-1][0]:
            now, waiting = max(now, at) + waiting / LEARNT_PER_S, 0
    return now + waiting / LEARNT_PER_S


def simulate(file: Path | None) -> None:
    """The mean of six steps, with other lengths or in another order."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for seed in range(6):
        lengths, history = lengths_and_history(file, PROMPTS, ROLLOUTS, LONGEST, seed)
        mean, most = ([fact(line) for line in history] for fact in (statistics.fmean, max))
        keys = {"as drawn": [0] * PROMPTS, "longest mean first": mean, "longest maximum first": most}
        for name, key in keys.items():
            ended = sampled(lengths, sorted(range(PROMPTS), key=lambda i: -key[i]))
            late, soon = (learned(ended, lengths, early) for early in (False, True))
            found.setdefault(name, []).append((ended[-1][0], late, soon))
    flat = sorted(chain.from_iterable(lengths))
    print(f"{len(flat)} responses, tokens at 50, 90, 99 %: {[flat[len(flat) * p // 100] for p in (50, 90, 99)]}\n")
    print("| order | sampled, s | learned from when all is sampled, s | as groups finish, s | of the first |")
    print("|---|--:|--:|--:|--:|")
    means = {name: [statistics.fmean(column) for column in zip(*rows, strict=True)] for name, rows in found.items()}
    first = means["as drawn"][1]
    for name, (end, late, soon) in means.items():
        print(f"| {name} | {end:.0f} | {late:.0f} | {soon:.0f} | {late / first:.2f}, {soon / first:.2f} |")


def shares(file: Path | None) -> None:
    """The mean of 200 steps."""
    from ratchet.training.rollout import _decode_batches

    print("| ranks | responses a batch | batches | relative time |\n|--:|--:|--:|--:|")
    for ranks, batch_size in ((4, 32), (8, 64), (8, 256), (32, 64)):
        fixed = taking = 0.0
        batches = _decode_batches(list(range(PROMPTS)), ROLLOUTS, batch_size, ranks)  # type: ignore[arg-type]
        for seed in range(200):
            lengths, _ = lengths_and_history(file, PROMPTS, ROLLOUTS, LONGEST, seed)
            seconds = [max(max(lengths[prompt]) for prompt in batch) for batch in batches]  # type: ignore[call-overload]
            waiting = [seconds[rank::ranks] for rank in range(ranks)]
            fixed += max(map(sum, waiting))
            clock = [0.0] * ranks
            while any(waiting):
                rank = min(range(ranks), key=lambda i: clock[i])
                clock[rank] += (waiting[rank] or max(waiting, key=len)).pop(0)
            taking += max(clock)
        print(f"| {ranks} | {batch_size} | {len(batches)} | {taking / fixed:.2f} |")


# ---------------------------------------------------------------------------------------------- two processes


def engine_process(model_dir: str, lengths: dict, connection) -> None:
    """Decodes what it is asked, all together, each response to its given length."""
    import torch
    from transformers import AutoModelForCausalLM, DynamicCache

    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32).eval()
    while True:
        kind, content = connection.recv()
        if kind == "weights":
            model.load_state_dict(content, strict=False)
            connection.send(None)
            continue
        requests, limit = content
        wanted = torch.tensor([lengths.get(key, limit) for key, _ in requests])
        width = max(len(prompt) for _, prompt in requests)
        inputs = torch.tensor([[0] * (width - len(prompt)) + list(prompt) for _, prompt in requests])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for _, prompt in requests])
        rows, cache, noise = torch.arange(len(requests)), DynamicCache(), torch.Generator().manual_seed(0)
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        said: list[list[int]] = [[] for _ in requests]
        logprobs: list[list[float]] = [[] for _ in requests]
        with torch.no_grad():
            for step in range(int(wanted.max())):
                found = model(
                    input_ids=inputs, attention_mask=mask, position_ids=positions, past_key_values=cache,
                    use_cache=True, logits_to_keep=1,
                ).logits[:, -1].log_softmax(-1)  # fmt: skip
                chosen = torch.multinomial(found.exp(), 1, generator=noise)
                values = found.gather(1, chosen)[:, 0].tolist()
                for row, token, value in zip(rows.tolist(), chosen[:, 0].tolist(), values, strict=True):
                    said[row].append(token)
                    logprobs[row].append(value)
                for row in rows[wanted[rows] == step + 1].tolist():
                    connection.send((requests[row][0], said[row], logprobs[row]))
                keep = (wanted[rows] > step + 1).nonzero()[:, 0]
                if len(keep) < len(rows):
                    rows, chosen, mask, positions = rows[keep], chosen[keep], mask[keep], positions[keep]
                    cache.batch_select_indices(keep)
                inputs, positions = chosen, positions[:, -1:] + 1
                mask = torch.cat([mask, mask.new_ones(len(mask), 1)], 1)


class Beside:
    """`TrainingEngine` in another process."""

    positions, copies, beside, continuous = None, True, True, False

    def __init__(self, policy, connection) -> None:
        self._policy, self._connection = policy, connection

    def receive(self, version: str) -> None:
        self._version = version
        self._connection.send(("weights", {name: weight.clone() for name, weight in self._policy.weights()}))
        self._connection.recv()

    def generate(self, batches, sampling):
        from ratchet.data_curation.base.protocol import Completion

        requests = list(chain.from_iterable(batches))
        if requests:
            self._connection.send(("generate", ([(r.key, r.prompt_ids) for r in requests], sampling.max_tokens)))
        for _ in requests:
            key, ids, logprobs = self._connection.recv()
            said = (str(sum(ids)), "stop", len(ids), tuple(ids), tuple(logprobs))
            yield Completion(key, *said, weight_version=self._version)

    def sleep(self) -> None:
        pass


def measure(file: Path | None, steps: int, prompts: int, rollouts: int, longest: int) -> None:
    import torch

    from ratchet.data_curation.base.prompts import PromptFormat
    from ratchet.infra.recipe.model import GrownModel
    from ratchet.infra.recipe.training import Hardware, Optimizer, Stage
    from ratchet.training import ranks
    from ratchet.training.curriculum import Curriculum
    from ratchet.training.growth import grow
    from ratchet.training.learner import Learner
    from ratchet.training.policy import Policy
    from ratchet.training.rollout import Batches, RolloutWorker
    from ratchet.training.sampler import Sampler
    from ratchet.verifiers.outcome import Outcome, Verdict
    from ratchet.verifiers.problem import Problem
    from ratchet.verifiers.serving.pool import Pool

    class Parity(Pool):
        def _begin(self, submission, deliver):
            deliver(Verdict(Outcome.PASSED if int(submission.text) % 2 else Outcome.FAILED))
            return lambda: None

        def close(self) -> None:
            pass

    lengths, _ = lengths_and_history(file, prompts, rollouts, longest, seed=0)
    problems = [Problem(f"sum-{i:03d}", "math", f"What is {i} plus {i}?", answer=str(2 * i)) for i in range(prompts)]
    forced = {(p.problem_id, s): n for p, line in zip(problems, lengths, strict=True) for s, n in enumerate(line)}
    flat = sorted(forced.values())
    print(f"{len(flat)} responses, tokens at 50, 90, 99 %: {[flat[len(flat) * p // 100] for p in (50, 90, 99)]}")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.update(
        RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1"
    )
    with tempfile.TemporaryDirectory() as folder:
        shape = GrownModel(
            hidden_size=128, layers=4, attention_heads=4, key_value_heads=2, intermediate_size=384, vocabulary=320,
            max_positions=longest + 64,
        )  # fmt: skip
        model_dir = Path(folder) / "model"
        grow(shape, [p.prompt for p in problems], 0, model_dir)
        here, there = multiprocessing.get_context("spawn").Pipe()
        engine = multiprocessing.get_context("spawn").Process(
            target=engine_process, args=(str(model_dir), forced, there), daemon=True
        )
        engine.start()
        ranks.join()
        torch.set_num_threads(1)
        stage = Stage(
            name="s", domain="math", max_response_tokens=longest, steps=10**6, prompts_per_batch=prompts,
            rollouts=rollouts, learning_rate=1e-9, advanced={"mismatch_limit": 1e-3},
        )  # fmt: skip
        policy = Policy(str(model_dir), Hardware(micro_batch_tokens=1500), Optimizer())
        sampler, pool = Sampler(policy, Beside(policy, here)), Parity(settings=None)
        worker = RolloutWorker(policy, sampler, pool, PromptFormat(math="{prompt}"), prompts * rollouts)
        curriculum, learner = Curriculum(stage, 0, {"math": problems}, lambda _: True), Learner(policy, stage)
        curriculum.start()
        ways = {}
        for sampler.separate_devices in (False, True):
            ways[sampler.separate_devices] = Batches(stage, 0, curriculum, worker, learner, 0.0)
        found: dict[bool, list[tuple[float, float, float]]] = {False: [], True: []}
        for _ in range(1 + steps):  # the first is not counted
            for sampler.separate_devices, batches in ways.items():
                began = time.perf_counter()
                batch = curriculum.draw()
                collected = batches.collect(batch)
                at = time.perf_counter()
                metrics = learner.learn(collected.groups, 1.0)
                curriculum.advance()
                now = time.perf_counter()
                found[sampler.separate_devices].append((now - began, at - began, metrics.get("learned_early", 0.0)))
        print("\n| learned from | step, s | sampled, s | of its tokens before that |\n|---|--:|--:|--:|")
        for early, name in ((False, "when all is sampled"), (True, "as groups finish")):
            values = [statistics.median(column) for column in zip(*found[early][1:], strict=True)]
            print(f"| {name} | {values[0]:.2f} | {values[1]:.2f} | {values[2]:.0%} |")
        both = [statistics.median(one for one, *_ in found[early][1:]) for early in (False, True)]
        print(f"\n{both[1] / both[0]:.2f} times the step")
        engine.terminate()
        ranks.leave()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["simulate", "measure", "shares"])
    parser.add_argument("--lengths", type=Path)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--prompts", type=int, default=24)
    parser.add_argument("--rollouts", type=int, default=8)
    parser.add_argument("--longest", type=int, default=256)
    given = parser.parse_args()
    if given.what == "simulate":
        simulate(given.lengths)
    elif given.what == "shares":
        shares(given.lengths)
    else:
        measure(given.lengths, given.steps, given.prompts, given.rollouts, given.longest)


if __name__ == "__main__":
    main()
