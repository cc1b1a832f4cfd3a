"""One rank of `ratchet doctor RECIPE`: what a recipe's stages do, done once on its machines.

Each check adds a line to `preflight.jsonl` when it ends: `name`, `state` (OK, FAIL, or SKIP where there is nothing to
check) and `message`: numbers, and after a failure what to do. At the end a checkpoint is written and the last rank
kills itself; the restarted group resumes from there, which is the last line.
"""

import hashlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch

from ratchet.infra.inference.protocol import Request, Sampling, derive_seed
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.recipe.training import Stage
from ratchet.infra.store.files import disk_errors
from ratchet.infra.store.journal import Journal
from ratchet.infra.store.problem_table import from_table
from ratchet.training import growth, ranks
from ratchet.training.adapter import Adapter
from ratchet.training.checkpoint import KEPT, Checkpoints
from ratchet.training.estimate import PROMPT_TOKENS, Shape, estimate
from ratchet.training.groups import Group, Rollout, group
from ratchet.training.learner import Learner
from ratchet.training.machine import GIB, KILLED, LINES, local_machine
from ratchet.training.metrics import memory
from ratchet.training.policy import Policy
from ratchet.training.sampler import open_sampler
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.processes import core_count
from ratchet.verifiers.serving.local_pool import open_pool

JUDGED = 48
"""Problems per domain whose reference answers are judged."""
JUDGE_SLACK = 3
"""Distinct answers are the worst case: in a real batch many are equal or empty."""
TEMPORARY = 2 * GIB
"""Free space that compilers and sandboxes may need for temporary files on each machine."""
LESS_MEMORY = "lower training.hardware.micro_batch_tokens, or shard more (zero_stage)"


def _without_limit(stage: Stage) -> Stage:
    """With one update per batch, and no limit to the mismatch of log-probabilities."""
    advanced = stage.advanced.model_copy(update={"mismatch_limit": None})
    return stage.model_copy(update={"updates_per_batch": 1, "advanced": advanced})


class Skip(Exception):
    """Why there is nothing to check."""


def run(recipe: Recipe, spec: dict[str, Any], work: Path) -> int:
    """All checks on this rank. The first start ends with a rank killed, the second returns. Collective."""
    preflight = Preflight(recipe, spec, work)
    if (work / KILLED).exists():
        preflight.line("resume", preflight.resume)
        return 1
    preflight.check()
    if preflight.rank == 0:
        (work / KILLED).write_text(str(time.time()))
    ranks.barrier()
    if preflight.rank == preflight.ranks - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    ranks.barrier()  # fails when the others notice
    return 0


class Preflight:
    """The checks, all collective."""

    def __init__(self, recipe: Recipe, spec: dict[str, Any], work: Path) -> None:
        self.recipe, self.training, self.spec, self.work = recipe, recipe.training, spec, work
        self.rank, self.ranks = ranks.rank(), torch.distributed.get_world_size()
        self.lines = Journal(work / LINES) if self.rank == 0 else None
        machine, self.on_each = local_machine(), self.training.hardware.processes
        cores = sum(ranks.gather(machine.cores)) // self.on_each
        self.machine = replace(machine, count=1 if machine.is_cpu else self.ranks, cores=cores)
        texts = [template for domain in recipe.curation for template in domain_of(domain).templates.values()]
        grow = recipe.model.grow
        self.model_dir = recipe.model.path or str(growth.grown(grow, texts, recipe.seed, work / "grown"))
        reference = any(stage.kl_coefficient for stage in self.training.stages)
        adapter = Adapter.of(recipe)
        optimizer = self.training.advanced.optimizer
        self.policy = Policy(self.model_dir, self.training.hardware, optimizer, reference, adapter)
        self.shape = Shape.of(self.policy.model.config.to_dict())
        self.checkpoints = Checkpoints(work / "checkpoints", self.policy)

    def check(self) -> None:
        self.line("versions", lambda: versions(self.training.hardware.machines))
        self.line("disk", self.disk)
        with ExitStack() as stack:
            self.line("weights", lambda: self.weights(stack))
            for stage in self.training.stages:  # beside an engine that sleeps, as in training
                self.line(f"step {stage.name}", lambda stage=stage: self.step(stage))
        for domain in dict.fromkeys(domain for stage in self.training.stages for domain in stage.mix):
            self.line(f"judge {domain}", lambda domain=domain: self.judge(domain))
        self.line("checkpoint", self.checkpoint)

    def line(self, name: str, check: Callable[[], str]) -> None:
        """One check, which returns its message; it fails with any rank's OSError or RatchetError."""
        try:
            state, message = "OK", check()
        except Skip as reason:
            state, message = "SKIP", str(reason)
        except torch.OutOfMemoryError as error:
            state, message = "FAIL", f"the GPU's memory is short: {LESS_MEMORY} ({str(error).splitlines()[0]})"
        except (RatchetError, OSError) as error:
            state, message = "FAIL", str(error)
        everyone = ranks.gather((state, message))
        worst = next((i for i, (state, _) in enumerate(everyone) if state == "FAIL"), 0)
        if self.lines:
            state, message = everyone[worst]
            message = f"rank {worst}: {message}" if worst else message
            self.lines.append({"name": name, "state": state, "message": message})

    def disk(self) -> str:
        """Space for the kept checkpoints, one being written, and temporary files."""
        size = estimate(self.shape, self.training.stages[0], self.training, self.machine).checkpoint_bytes
        spaces = [space("home", self.work, (KEPT + 2) * size)] if self.rank == 0 else []
        if self.rank % self.on_each == 0:
            spaces.append(space("TMPDIR", Path(tempfile.gettempdir()), TEMPORARY))
        return f"{', '.join(spaces)}; a checkpoint is {size / GIB:.2g} GiB"

    def weights(self, stack: ExitStack) -> str:
        """The engine starts, gets the policy's weights, and answers; what it says is probed (`training.sampler`)."""
        sampler = stack.enter_context(open_sampler(self.policy, self.training, self.model_dir, self.work))
        mine = [Request(0, derive_seed("preflight"), prompt_ids=(1, 2, 3))]
        list(sampler.generate([mine], Sampling(max_tokens=2)))
        if not (facts := sampler.facts):
            return "the engine samples with the policy's own weights"
        return f"sent in {facts['weight_seconds']:.2g} s, log-probabilities differ by {facts['weight_probe']:.2g}"

    def step(self, stage: Stage) -> str:
        """One optimizer step on a micro-batch of the stage's longest responses for each rank."""
        room = (self.policy.positions or 10**9) - stage.longest_response
        if room < 1:
            raise RatchetError(f"a response of {stage.longest_response:,} tokens leaves the model no room for a prompt")
        prompt = min(PROMPT_TOKENS, stage.longest_response, room)
        longest = prompt + stage.longest_response
        count = max(2, self.ranks * max(1, self.training.hardware.micro_batch_tokens // longest))
        strict = _without_limit(stage)  # nothing was sampled
        learner = Learner(self.policy, strict)
        groups = self._groups(strict, count, prompt)
        learner.old_logprobs(groups, 1.0)  # as in a stage with several updates
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        started = time.perf_counter()
        learner.learn(groups, 1.0)
        held = memory()
        seconds = time.perf_counter() - started
        peak = held.get("gpu_memory_gb", held["memory_gb"]) * 1e9
        planned = sum(estimate(self.shape, stage, self.training, self.machine).updating.values())
        have = self.machine.memory / (self.on_each if self.machine.is_cpu else 1)
        message = (
            f"{peak / GIB:.3g} GiB a rank (planned {planned / GIB:.3g}, available {have / GIB:.3g}), "
            f"{seconds:.2g} s for {count} responses of {longest:,} tokens"
        )
        if peak > 0.95 * have:
            raise RatchetError(f"{message}: {LESS_MEMORY}")
        return message

    def _groups(self, stage: Stage, count: int, prompt: int) -> list[Group]:
        """Responses of the stage's longest length, random tokens, alternately right and wrong."""
        random, vocabulary, longest = np.random.default_rng(0), len(self.policy.tokenizer), stage.longest_response
        prompts = random.integers(vocabulary, size=(count, prompt)).astype(np.int32)
        responses = random.integers(vocabulary, size=(count, longest)).astype(np.int32)
        rollouts = [
            Rollout(
                "preflight", next(iter(stage.mix)), i, prompts[i], responses[i], np.zeros(longest, np.float32), False,
                Outcome.FAILED if i % 2 else Outcome.PASSED, 1.0 - i % 2, "", self.policy.version,
            )
            for i in range(count)
        ]  # fmt: skip
        return group(rollouts, stage)

    def judge(self, domain: str) -> str:
        """Verdicts on reference answers, each for its own problem and for the next, against what a step needs."""
        if domain not in self.spec["problems"]:
            raise Skip(f"no curated problems of {domain} yet: `ratchet curate {domain}` makes them")
        problems = from_table(next(pq.ParquetFile(self.spec["problems"][domain]).iter_batches(JUDGED)))
        answers = [p.golden_solutions[0] if p.golden_solutions else domain_of(domain).reference(p) for p in problems]
        pairs = [pair for i, p in enumerate(problems) for pair in ((p, answers[i]), (p, answers[i - 1]))]
        mine = pairs[self.rank :: self.ranks] or pairs[:1]
        workers = max(1, core_count() // self.on_each)
        seconds, failure = 0.0, ""
        try:
            with open_pool(self.training.reward_servers, workers, self.recipe.verification.settings()) as pool:
                pool.run_programs(mine[:1] * workers)  # starts its processes
                started = time.perf_counter()
                verdicts = pool.run_programs(mine)
                seconds = time.perf_counter() - started
            errors = [verdict.detail for verdict in verdicts if verdict.outcome is Outcome.INFRA_ERROR]
            failure = f"{len(errors)} of {len(verdicts)} verdicts failed on our side: {errors[0]}" if errors else ""
        except (RatchetError, OSError) as error:  # raised when all ranks are here
            failure = str(error)
        times, failures = zip(*ranks.gather((workers * seconds / len(mine), failure)), strict=True)
        if any(failures):
            raise RatchetError(next(filter(None, failures)))
        rate = self.machine.cores / max(times)
        for stage in (stage for stage in self.training.stages if domain in stage.mix):
            seconds_of = estimate(self.shape, stage, self.training, self.machine).seconds
            beside = seconds_of["sampling"] + seconds_of["update"]
            share = stage.mix[domain] / sum(stage.mix.values())
            responses = stage.prompts_per_batch * stage.most_rollouts * share
            if responses / rate > JUDGE_SLACK * beside:
                raise RatchetError(
                    f"{rate:,.3g} verdicts/s, and {stage.name} needs {responses / beside:,.3g}: judging its "
                    f"{responses:,.0f} responses takes {responses / rate:,.3g} s. Add training.reward_servers "
                    "(docs/reward_servers.md), or shorten the tests' time limits"
                )
        return f"{rate:,.3g} verdicts/s on {self.machine.cores} cores, on reference answers, right and wrong"

    def _fingerprint(self) -> str:
        """Of the weights: a hash of the log-probabilities of a few tokens."""
        stage = self.training.stages[0].model_copy(update={"max_response_tokens": 8, "interventions": ()})
        scored = Learner(self.policy, stage).old_logprobs(self._groups(stage, 2, 8), 1.0)
        values = np.concatenate([old for g in scored for old in g.old_logprobs or ()])
        return hashlib.sha256(values.tobytes()).hexdigest()

    def checkpoint(self) -> str:
        state = {"fingerprint": self._fingerprint()}
        started = time.perf_counter()
        self.checkpoints.save(1, state)
        seconds = time.perf_counter() - started
        size = sum(f.stat().st_size for f in (self.work / "checkpoints").rglob("*") if f.is_file())
        limit = 60 * self.training.hardware.advanced.timeout_minutes
        if seconds > limit:
            raise RatchetError(
                f"a checkpoint of {size / GIB:.2g} GiB takes {seconds:.0f} s, and ranks wait {limit:.0f} s "
                "(hardware.advanced.timeout_minutes): raise it, or move the home to a faster disk"
            )
        return f"{size / GIB:.2g} GiB written and hashed in {seconds:.2g} s"

    def resume(self) -> str:
        started = time.perf_counter()
        restored = self.checkpoints.restore()
        if restored is None:
            raise RatchetError("the checkpoint written before the kill is missing")
        seconds = time.perf_counter() - started
        if restored[1]["fingerprint"] != self._fingerprint():
            raise RatchetError("the weights read back are not those that were written")
        stage = _without_limit(self.training.stages[0])
        Learner(self.policy, stage).learn(self._groups(stage, 2, 1), 1.0)
        return f"read back in {seconds:.2g} s, bit for bit; the next step was taken"


def versions(machines: int) -> str:
    """Python, CUDA, GPU and every package must be equal on all ranks, and the number of machines as expected."""
    mine = {"Python": sys.version.split()[0], "CUDA": str(torch.version.cuda)}
    if torch.cuda.is_available():
        mine["GPU"] = torch.cuda.get_device_name()
    mine |= {package.name: package.version for package in distributions()}
    everyone = ranks.gather((socket.gethostname(), mine))
    host, first = everyone[0]
    for number, (where, other) in enumerate(everyone):
        if differing := sorted(name for name, _ in first.items() ^ other.items()):
            here, there = (versions_of.get(differing[0], "absent") for versions_of in (first, other))
            raise RatchetError(
                f"{differing[0]} is {here} on rank 0 ({host}) and {there} on rank {number} ({where}): install "
                "constraints.txt everywhere"
            )
    joined = len({where for where, _ in everyone})
    if joined != machines:
        raise RatchetError(f"{joined} machines joined, and training.hardware.machines is {machines}")
    return f"ranks: {len(everyone)}, machines: {joined}, torch {torch.__version__}"


def space(name: str, place: Path, needed: float) -> str:
    """Free bytes at `place`, which must be writable. Raises RatchetError if fewer than `needed` are free."""
    free = shutil.disk_usage(place).free
    if free < needed:
        raise RatchetError(
            f"{name}: {free / GIB:.2g} GiB free at {place}, and {needed / GIB:.2g} are needed: free some, or move it"
        )
    with disk_errors(place), tempfile.TemporaryFile(dir=place) as file:
        file.write(os.urandom(2**20))
        os.fsync(file.fileno())
    return f"{name} {free / GIB:.3g} GiB free"
