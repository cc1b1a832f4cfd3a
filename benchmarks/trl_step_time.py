"""Time and memory of a GRPO step against TRL's trainer: same model, prompts, reward, rollouts, trained sequences.

    ratchet run tiny
    python -m benchmarks.trl_step_time [--home .ratchet] [--steps 20] [--threads 1 2]

The tiny recipe's warm start and its curated math problems, 16 prompts x 16 rollouts of at most 64 tokens, one update,
no KL. The reward is the parity of a response's length in characters: nearly every rollout has an advantage, and neither
side may skip any.
Contenders take steps in turns; the median is given, wall clock and CPU, and the peak of resident memory. TRL
(`pip install trl accelerate datasets`) runs with several micro-batch sizes, and its best is compared. Ratchet also
runs on two ranks of one thread, on the same batch and on one of 128 prompts, which is AceReason's.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from ratchet.infra.problems import Problem

PROMPTS, ROLLOUTS, LIMIT = 16, 16, 64
RATE = 1e-9
"""Every step samples from the warm start: a policy that learns would soon answer in five tokens."""


def passes(text: str) -> bool:
    return len(text) % 2 == 0


class Turns:
    """Waits for its turn, and tells how long a step took."""

    def begin(self) -> None:
        if not sys.stdin.readline():
            os._exit(0)
        self._started, self._busy = time.perf_counter(), time.process_time()

    def end(self) -> None:
        taken, busy = time.perf_counter() - self._started, time.process_time() - self._busy
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"seconds": taken, "cpu": busy, "bytes": peak}), flush=True)


def ratchet(model: str, prompts: list[str], threads: int, batch: int) -> None:
    import torch

    from ratchet.infra.inference.protocol import Sampling
    from ratchet.infra.inference.with_transformers import InPlace
    from ratchet.infra.recipe.model import PromptFormat
    from ratchet.infra.recipe.training import Hardware, Optimizer, Stage
    from ratchet.training import ranks
    from ratchet.training.groups import describe, group
    from ratchet.training.learner import Learner
    from ratchet.training.policy import Policy
    from ratchet.training.rollout import RolloutWorker
    from ratchet.training.sampler import Sampler
    from ratchet.verifiers.outcome import Outcome, Verdict
    from ratchet.verifiers.serving.pool import Pool

    class Parity(Pool):
        def _begin(self, submission, deliver):
            deliver(Verdict(Outcome.PASSED if passes(submission.text) else Outcome.FAILED))
            return lambda: None

        def close(self) -> None:
            pass

    ranks.join()
    torch.set_num_threads(threads)
    stage = Stage(name="s", domain="math", max_response_tokens=LIMIT, steps=1, learning_rate=RATE)
    policy = Policy(model, Hardware(), Optimizer())
    together = PROMPTS * ROLLOUTS
    judge, form = Parity(False), PromptFormat(math="{prompt}")
    worker = RolloutWorker(policy, Sampler(policy, InPlace(policy, together)), judge, form, together)
    learner = Learner(policy, stage)
    problems = [Problem(str(i), "math", text, answer="0") for i, text in enumerate(prompts)]
    turns = Turns()
    # A response that is cut is not judged, and has no advantage; here it is judged by its parity all the same.
    judge_all(worker)
    for step in range(10**6):
        turns.begin()
        chosen = [problems[(step * batch + i) % len(problems)] for i in range(batch)]
        groups = group(worker.run(chosen, ROLLOUTS, Sampling(max_tokens=LIMIT), (step,)), stage)
        learner.learn(groups, 1.0)
        describe(groups, stage)
        turns.end()


def judge_all(worker) -> None:
    from dataclasses import replace

    from ratchet.verifiers.outcome import Outcome

    plain = worker._rollout

    def judged(problem, completion, verdict):
        passed = Outcome.PASSED if passes(completion.text) else Outcome.FAILED
        return replace(plain(problem, completion, verdict), outcome=passed)

    worker._rollout = judged


def trl(model: str, prompts: list[str], threads: int, micro_batch: int) -> None:
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(threads)
    turns = Turns()

    class Steps(TrainerCallback):
        def on_step_begin(self, *arguments, **others):
            turns.begin()

        def on_step_end(self, *arguments, **others):
            turns.end()

    tokenizer = AutoTokenizer.from_pretrained(model)
    rows = [{"prompt": [{"role": "user", "content": text}]} for text in prompts]
    with tempfile.TemporaryDirectory() as scratch:
        accumulated = PROMPTS * ROLLOUTS // micro_batch
        config = GRPOConfig(
            output_dir=scratch, use_cpu=True, bf16=False, per_device_train_batch_size=micro_batch,
            gradient_accumulation_steps=accumulated, steps_per_generation=accumulated, num_generations=ROLLOUTS,
            max_completion_length=LIMIT, temperature=1.0, beta=0.0, loss_type="dapo", learning_rate=RATE,
            lr_scheduler_type="constant", adam_beta2=0.95, max_grad_norm=1.0, max_steps=10**6, save_strategy="no",
            report_to=[], disable_tqdm=True, logging_steps=10**6, gradient_checkpointing=False,
        )  # fmt: skip
        reward = lambda completions, **_: [float(passes(c[0]["content"])) for c in completions]  # noqa: E731
        GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(model), processing_class=tokenizer, args=config,
            train_dataset=Dataset.from_list(rows), reward_funcs=reward, callbacks=[Steps()],
        ).train()  # fmt: skip


class Contender:
    """One trainer: as many processes as it has ranks, stepped together."""

    def __init__(self, name: str, command: list[str], threads: int, ranks: int = 0) -> None:
        """`ranks`: of a process group; 0 is a process that is in none."""
        self.name, self.rounds = name, []
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        quiet = {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"}
        group = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        places = [{**group, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)] or [{}]
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.trl_step_time", *command, "--threads", str(threads)],
                env={**os.environ, **quiet, **place},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
            for place in places
        ]  # fmt: skip

    def step(self) -> bool:
        for process in self.processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [self._answer(process) for process in self.processes]
        if not all(answers):
            return False
        self.rounds.append(
            {"seconds": max(a["seconds"] for a in answers), "cpu": sum(a["cpu"] for a in answers),
             "bytes": sum(a["bytes"] for a in answers)}
        )  # fmt: skip
        return True

    @staticmethod
    def _answer(process) -> dict | None:
        for line in process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        return None

    def close(self) -> None:
        for process in self.processes:
            process.stdin.close()
            process.kill()
            process.wait()

    def median(self, what: str, warm_up: int) -> float:
        return statistics.median(r[what] for r in self.rounds[warm_up:])


def compare(threads: int, steps: int, contenders: list[Contender]) -> None:
    """Step all in turns and print what each took; the first is what the others are compared with."""
    warm_up = 3
    for _ in range(warm_up + steps):
        for contender in contenders:
            if not contender.step():
                raise SystemExit(f"{contender.name} did not run; its reason is above")
    print(f"{threads} thread(s) a process; median of {steps} steps")
    print(f"{'':30} {'seconds':>8} {'CPU s':>7} {'peak MB':>8}")
    for c in contenders:
        c.close()
        print(
            f"{c.name:30} {c.median('seconds', warm_up):8.3f} {c.median('cpu', warm_up):7.3f} "
            f"{c.median('bytes', warm_up) / 1e6:8.0f}"
        )
    others = [c for c in contenders if c.name.startswith("TRL")]
    for what in ("seconds", "cpu") if others else ():
        best = min(c.median(what, warm_up) for c in others)
        print(f"Ratchet / TRL's best, {what}: {contenders[0].median(what, warm_up) / best:.2f}")
    for c in contenders:
        if "2 ranks" in c.name:
            gain = contenders[0].median("seconds", warm_up) / c.median("seconds", warm_up)
            print(f"two ranks against one, steps per second: {gain:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, default=Path(".ratchet"), help="where the tiny recipe has run")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument(
        "--micro-batches", type=int, nargs="*", default=[32, 64, 256], help="TRL's, in sequences; none: without TRL"
    )
    parser.add_argument("--worker", choices=["ratchet", "trl"], help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    parser.add_argument("--prompts", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        prompts = json.loads(arguments.prompts.read_text())
        if arguments.worker == "ratchet":
            ratchet(arguments.model, prompts, arguments.threads[0], arguments.batch)
        else:
            trl(arguments.model, prompts, arguments.threads[0], arguments.micro_batches[0])
        return
    artifacts = arguments.home / "artifacts"
    models, problems = (sorted(artifacts.glob(f"{what}-*")) for what in ("checkpoint/start", "problems/math-curated"))
    if not models or not problems:
        raise SystemExit(f"{arguments.home} has no warm start of the tiny recipe: run `ratchet run tiny` first")
    with tempfile.TemporaryDirectory() as scratch:
        prompts = Path(scratch) / "prompts.json"
        table = pq.read_table(problems[-1] / "kept.parquet", columns=["prompt"])
        prompts.write_text(json.dumps(table["prompt"].to_pylist()[: 40 * PROMPTS]))
        given = ["--model", str(models[-1] / "model"), "--prompts", str(prompts)]

        def ours(batch: int, threads: int, ranks: int) -> Contender:
            name = f"Ratchet, {batch} prompts" + (", 2 ranks" if ranks == 2 else "")
            return Contender(name, ["--worker", "ratchet", *given, "--batch", str(batch)], threads, ranks)

        for threads in arguments.threads:
            contenders = [ours(PROMPTS, threads, ranks) for ranks in ((1, 2) if threads == 1 else (1,))]
            for size in arguments.micro_batches:
                command = ["--worker", "trl", *given, "--micro-batches", str(size)]
                contenders.append(Contender(f"TRL, {size} a pass", command, threads))
            compare(threads, arguments.steps, contenders)
        compare(1, arguments.steps, [ours(128, 1, ranks) for ranks in (1, 2)])


if __name__ == "__main__":
    main()
