"""Time and memory of a GRPO step against TRL's trainer: same model, prompts, reward, rollouts, trained sequences.

    ratchet run tiny
    python -m benchmarks.trl_step_time [--home .ratchet] [--steps 20] [--threads 1 2]
    python -m benchmarks.trl_step_time --model DIRECTORY --problems kept.parquet --prompts 8 --rollouts 8 --threads 1

The tiny recipe's warm start and its curated math problems, 16 prompts x 16 rollouts of at most 64 tokens, one update,
no KL; or another model with the column `prompt` of a parquet file. The reward is the parity of a response's length in
characters: nearly every rollout has an advantage, and neither side may skip any.
Contenders take steps in turns; the median is given, wall clock and CPU, and the peak of resident memory. TRL
(`pip install trl accelerate datasets`) runs with several micro-batch sizes, and its best is compared. Ratchet also
runs on two ranks of one thread, on the same batch and, in the tiny recipe, on one of 128 prompts, which is AceReason's.
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

from ratchet.verifiers.problem import Problem

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


def ratchet(prompts: list[str], given: argparse.Namespace) -> None:
    import torch

    from ratchet.data_curation.base.prompts import PromptFormat
    from ratchet.data_curation.base.protocol import Sampling
    from ratchet.infra.inference.with_transformers import InPlace
    from ratchet.infra.recipe.training import Hardware, Optimizer, Stage
    from ratchet.training import ranks
    from ratchet.training.groups import group
    from ratchet.training.learner import Learner
    from ratchet.training.metrics import describe
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
    torch.set_num_threads(given.threads[0])
    stage = Stage(name="s", domain="math", max_response_tokens=given.limit, steps=1, learning_rate=RATE)
    policy = Policy(given.model, Hardware(packed=given.packed), Optimizer())
    together = given.rollout_batch
    judge, form = Parity(False), PromptFormat(math="{prompt}")
    worker = RolloutWorker(policy, Sampler(policy, InPlace(policy, together)), judge, form, together)
    learner = Learner(policy, stage)
    problems = [Problem(str(i), "math", text, answer="0") for i, text in enumerate(prompts)]
    turns = Turns()
    # A truncated response is not judged, and has no advantage; here it is judged by its parity all the same.
    judge_all(worker)
    for step in range(10**6):
        turns.begin()
        chosen = [problems[(step * given.prompts + i) % len(problems)] for i in range(given.prompts)]
        groups = group(worker.run(chosen, given.rollouts, Sampling(max_tokens=given.limit), (step,)), stage)
        learner.learn(groups, 1.0)
        describe(groups, stage)
        turns.end()


def judge_all(worker) -> None:
    from dataclasses import replace

    judged = worker.judged
    worker.judged = lambda responses: judged((p, replace(c, finish_reason="stop")) for p, c in responses)


def trl(prompts: list[str], given: argparse.Namespace) -> None:
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(given.threads[0])
    turns = Turns()

    class Steps(TrainerCallback):
        def on_step_begin(self, *arguments, **others):
            turns.begin()

        def on_step_end(self, *arguments, **others):
            turns.end()

    tokenizer = AutoTokenizer.from_pretrained(given.model)
    rows = [{"prompt": [{"role": "user", "content": text}]} for text in prompts]
    with tempfile.TemporaryDirectory() as scratch:
        micro_batch = given.micro_batches[0]
        accumulated = given.prompts * given.rollouts // micro_batch
        config = GRPOConfig(
            output_dir=scratch, use_cpu=True, bf16=False, per_device_train_batch_size=micro_batch,
            gradient_accumulation_steps=accumulated, steps_per_generation=accumulated, num_generations=given.rollouts,
            max_completion_length=given.limit, temperature=1.0, beta=0.0, loss_type="dapo", learning_rate=RATE,
            lr_scheduler_type="constant", adam_beta2=0.95, max_grad_norm=1.0, max_steps=10**6, save_strategy="no",
            report_to=[], disable_tqdm=True, logging_steps=10**6, gradient_checkpointing=False,
        )  # fmt: skip
        reward = lambda completions, **_: [float(passes(c[0]["content"])) for c in completions]  # noqa: E731
        GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(given.model), processing_class=tokenizer, args=config,
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


def compare(threads: int, steps: int, warm_up: int, contenders: list[Contender]) -> None:
    """Step all in turns and print what each took; the first is what the others are compared with."""
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
    parser.add_argument("--model", help="directory; without it the tiny recipe's warm start")
    parser.add_argument("--problems", type=Path, help="parquet file; without it the tiny recipe's curated problems")
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--rollouts", type=int, default=16)
    parser.add_argument("--limit", type=int, default=64, help="tokens of a response")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=3, help="steps before those that count")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument(
        "--micro-batches", type=int, nargs="*", default=[32, 64, 256], help="TRL's, in sequences; none: without TRL"
    )
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2], help="Ratchet's, of one thread")
    parser.add_argument("--rollout-batch", type=int, default=256, help="responses that Ratchet decodes together")
    parser.add_argument("--packed", action="store_true", help="Ratchet's micro-batches, with shared prompts once")
    parser.add_argument("--worker", choices=["ratchet", "trl"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        texts = json.loads(arguments.problems.read_text())
        (ratchet if arguments.worker == "ratchet" else trl)(texts, arguments)
        return
    artifacts = arguments.home / "artifacts"
    models = [Path(arguments.model)] if arguments.model else sorted(artifacts.glob("checkpoint/start-*/model"))
    found = (
        [arguments.problems] if arguments.problems else sorted(artifacts.glob("problems/math-curated-*/kept.parquet"))
    )
    if not models or not found:
        raise SystemExit(f"{arguments.home} has no warm start of the tiny recipe: run `ratchet run tiny` first")
    with tempfile.TemporaryDirectory() as scratch:
        texts = Path(scratch) / "prompts.json"
        texts.write_text(json.dumps(pq.read_table(found[-1], columns=["prompt"])["prompt"].to_pylist()[:640]))
        same = ("rollouts", "limit", "rollout_batch")
        given = ["--model", str(models[-1]), "--problems", str(texts)]
        given += [f"--{name.replace('_', '-')}={getattr(arguments, name)}" for name in same]
        given += ["--packed"] if arguments.packed else []

        def ours(prompts: int, threads: int, ranks: int) -> Contender:
            name = f"Ratchet, {prompts} prompts" + (", 2 ranks" if ranks == 2 else "")
            return Contender(name, ["--worker", "ratchet", *given, "--prompts", str(prompts)], threads, ranks)

        for threads in arguments.threads:
            contenders = [
                ours(arguments.prompts, threads, ranks) for ranks in (arguments.ranks if threads == 1 else [1])
            ]
            for size in arguments.micro_batches:
                command = ["--worker", "trl", *given, "--prompts", str(arguments.prompts), "--micro-batches", str(size)]
                contenders.append(Contender(f"TRL, {size} a pass", command, threads))
            compare(threads, arguments.steps, arguments.warm_up, contenders)
        if not arguments.model:
            compare(1, arguments.steps, arguments.warm_up, [ours(128, 1, ranks) for ranks in (1, 2)])


if __name__ == "__main__":
    main()
