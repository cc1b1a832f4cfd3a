"""One rank of `ratchet preflight RECIPE`: everything that a recipe's stages do, done once on its machines and measured.

Each check adds a line to `preflight.jsonl` when it ends: `name`, `state` (OK, FAIL, or SKIP where there is nothing to
check) and `message`: numbers, and after a failure what to do. Plans read the measured rates. At the end a checkpoint is
written and the last rank kills itself; the restarted group resumes from there, which is the last line.
"""

import hashlib
import os
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch

from ratchet.data_curation.base.journal import Journal
from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.base.protocol import Completion, Request, Sampling, derive_seed
from ratchet.infra.recipe.training import Stage
from ratchet.training import cluster, new_model, ranks
from ratchet.training.adapter import Adapter
from ratchet.training.checkpoint import KEPT, Checkpoints
from ratchet.training.checkpoint_files import CHECKPOINTS
from ratchet.training.estimate import estimate
from ratchet.training.groups import Group, Rollout, group
from ratchet.training.learner import Learner
from ratchet.training.losses.terms import mismatch
from ratchet.training.machine import KILLED, LINES, Machine, local_machine, write_rates
from ratchet.training.memory import PER_STEP_MEMORY, PROMPT_TOKENS
from ratchet.training.metrics import memory
from ratchet.training.policy import Policy
from ratchet.training.sampler import Sampler, difference, open_sampler
from ratchet.training.shape import Shape
from ratchet.training.specification import TrainingSpec
from ratchet.training.step_time import update_seconds
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.processes import GIB, core_count
from ratchet.verifiers.serving.local_pool import open_pool

JUDGED = 48
"""Problems per domain whose reference answers are judged."""
JUDGE_SLACK = 3
"""Factor by which the judge may be too slow: distinct answers are the worst case, while many answers of a real batch
are equal or empty."""
DECODED_TOKENS = 64
"""Tokens of the responses that time decoding."""
TEMPORARY = 2 * GIB
"""Bytes that compilers and sandboxes may need for temporary files on each machine."""
LESS_MEMORY = "lower training.hardware.micro_batch_tokens, or shard more (zero_stage)"


def _without_limit(stage: Stage) -> Stage:
    """The stage with one update per batch, and no limit to the mismatch of log-probabilities."""
    return stage.with_details(mismatch_limit=None).model_copy(update={"updates_per_batch": 1})


class Skip(Exception):
    """There is nothing to check; the message gives the reason."""


def run(spec: TrainingSpec) -> int:
    """Run all checks on this rank. The first start ends with a rank killed; the second returns. Collective."""
    preflight, work = Preflight(spec), spec.work_dir
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

    def __init__(self, spec: TrainingSpec) -> None:
        self.training, self.spec, self.work = spec.training, spec, spec.work_dir
        self.rank, self.ranks = ranks.rank(), torch.distributed.get_world_size()
        self.lines = Journal(self.work / LINES) if self.rank == 0 else None
        machine, self.on_each = local_machine(self.training.hardware.dtype), self.training.hardware.processes
        cores = sum(ranks.gather(machine.cores)) // self.on_each
        self.machine = replace(machine, count=1 if machine.is_cpu else self.ranks, cores=cores)
        self.share = 1 / self.ranks if machine.is_cpu else 1.0  # of the machine, for this rank
        self.sampler: Sampler | None = None
        self.completions: list[Completion] = []
        self.measured: dict[str, Any] = {}  # values for the machine's `Rates`
        texts = [template for domain in spec.domains for template in domain_of(domain).templates.values()]
        model = spec.model
        directory = self.work / "new_model"
        self.model_dir = model.path or str(new_model.create_once(model.from_config, texts, spec.seed, directory))
        reference = self.model_dir if any(stage.kl_coefficient for stage in self.training.stages) else None
        details = self.training.advanced
        adapter = Adapter.of(details.lora, model.path, spec.seed)
        self.policy = Policy(self.model_dir, self.training.hardware, details.optimizer, reference, adapter)
        self.shape = Shape.of(self.policy.model.config.to_dict())
        self.checkpoints = Checkpoints(self.work / CHECKPOINTS, self.policy)

    def check(self) -> None:
        self.line("versions", lambda: cluster.versions(self.training.hardware.machines))
        self.line("links", self.links)
        self.line("disk", self.disk)
        with ExitStack() as stack:
            if self.line("weights", lambda: self.weights(stack)) and self.line("decoding", self.decoding):
                self.line("mismatch", self.mismatch)
            for stage in self.training.stages:  # beside an engine that sleeps, as in training
                self.line(f"step {stage.name}", lambda stage=stage: self.step(stage))
        for domain in dict.fromkeys(domain for stage in self.training.stages for domain in stage.mix):
            self.line(f"judge {domain}", lambda domain=domain: self.judge(domain))
        self.line("checkpoint", self.checkpoint)
        if self.rank == 0:
            rates = replace(self.machine.rates, **self.measured)
            assert self.spec.measured is not None, "written by the flow"
            write_rates(self.spec.measured, self.machine.name, rates)

    def line(self, name: str, check: Callable[[], str]) -> bool:
        """Run one check, which returns its message, and write its line; it fails with any rank's OSError or
        RatchetError. Returns True if it did not fail. Collective."""
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
        state, message = everyone[worst]
        if self.lines:
            message = f"rank {worst}: {message}" if worst else message
            self.lines.append({"name": name, "state": state, "message": message})
        return state != "FAIL"

    def links(self) -> str:
        if self.ranks == 1:
            raise Skip("one rank")
        speed, message = cluster.links(self.policy.device, self.machine.is_cpu)
        if self.machine.is_cpu or self.training.hardware.machines > 1:  # plans know the links within one of GPUs
            self.measured["link"] = speed
        return message

    def disk(self) -> str:
        """Check the disk space for the kept checkpoints, one being written, and temporary files."""
        size = estimate(self.shape, self.training.stages[0], self.training, self.machine).checkpoint_bytes
        spaces = (
            [cluster.space("home", self.work, (max(KEPT, self.training.keep_checkpoints) + 2) * size)]
            if self.rank == 0
            else []
        )
        if self.rank % self.on_each == 0:
            spaces.append(cluster.space("TMPDIR", Path(tempfile.gettempdir()), TEMPORARY))
        return f"{', '.join(spaces)}; a checkpoint is {size / GIB:.2g} GiB"

    def _requests(self, count: int, tokens: int = 16) -> list[Request]:
        """Random tokens, different for each engine."""
        engine = self.rank // (self.sampler.ranks_per_engine if self.sampler else 1)
        random = np.random.default_rng(engine)
        prompts = random.integers(len(self.policy.tokenizer), size=(count, tokens)).tolist()
        return [Request(i, derive_seed(engine, i), prompt_ids=tuple(prompt)) for i, prompt in enumerate(prompts)]

    def _generate(self, sampler: Sampler, count: int, tokens: int, prompt: int = 16) -> float:
        """Seconds of this rank for `count` completions, without the transfer of weights."""
        started = time.perf_counter()
        self.completions = list(sampler.generate([self._requests(count, prompt)], Sampling(max_tokens=tokens)))
        sending = sampler.facts.get("weight_seconds", 0.0) + sampler.facts.get("weight_probe_seconds", 0.0)
        return time.perf_counter() - started - sending

    def weights(self, stack: ExitStack) -> str:
        stale = any(stage.advanced.max_staleness for stage in self.training.stages)
        beside = stale and self.training.engine.supports_async_sampling
        self.sampler = stack.enter_context(open_sampler(self.policy, self.training, self.model_dir, self.work, beside))
        self._generate(self.sampler, 1, 2)
        if not (facts := self.sampler.facts):
            return "the engine samples with the policy's own weights"
        return f"sent in {facts['weight_seconds']:.2g} s, log-probabilities differ by {facts['weight_probe']:.2g}"

    def decoding(self) -> str:
        assert self.sampler is not None
        self.completions = []
        tokens = min(DECODED_TOKENS, *(stage.max_response_tokens for stage in self.training.stages))
        rows = min(self.training.hardware.rollout_batch, 64 if self.machine.is_cpu else 256)
        slowest = []  # the slowest rank's seconds per token
        for count in (1, rows):
            seconds = self._generate(self.sampler, count, tokens)
            slowest.append(max(ranks.gather(seconds / max(len(c.token_ids or ()) for c in self.completions))))
        one, full = slowest
        size, share = 2 if self.training.hardware.dtype == "bfloat16" else 4, self.share
        reading = self.shape.parameters * size / (self.machine.bandwidth * share)
        fixed = max(0.0, one - reading / self.machine.rates.read)
        row = max(1e-12, (full - fixed) / rows)
        self.measured["iteration_s"] = fixed
        self.measured["decode"] = min(1.0, 2 * self.shape.multiplied / (self.machine.flops * share) / row)
        if not fixed:
            self.measured["read"] = min(1.0, reading / one)
        return f"{rows / full:,.0f} tokens/s on a rank with {rows} responses, {1 / one:,.0f} with one"

    def mismatch(self) -> str:
        prompts = [request.prompt_ids or () for request in self._requests(len(self.completions))]
        gaps = difference(self.policy, prompts, self.completions[:8]).double()
        mean = max(ranks.gather(float(mismatch(gaps, torch.zeros_like(gaps)).mean())))
        limit = min(stage.advanced.mismatch_limit or float("inf") for stage in self.training.stages)
        if mean > limit:
            raise RatchetError(
                f"engine and trainer differ by {mean:.2g} nats a token, and a stage ends above {limit:g}: are dtype, "
                "attention and weights the same? `--set training.engine=transformers` samples with the policy itself"
            )
        return f"{mean:.2g} nats a token between engine and trainer, {float(gaps.abs().max()):.2g} at most"

    def timed_step(self, stage: Stage) -> tuple[float, int, int]:
        """Time one optimizer step on a micro-batch of the stage's longest responses for each rank. Returns its seconds,
        the number of responses, and the tokens of each with its prompt."""
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
        return cluster.timed(lambda: learner.learn(groups, 1.0), times=1), count, longest

    def planned_update(self, stage: Stage, count: int, longest: int, machine: Machine) -> float:
        """Seconds that the plan gives for the step of `timed_step`."""
        return update_seconds(self.shape, _without_limit(stage), self.training, machine, self.ranks, [longest] * count)

    def peak(self, stage: Stage) -> tuple[float, float, float]:
        """The peak bytes of a rank's memory since the last step, the planned bytes, and the part of these that only a
        step holds."""
        held = memory()
        parts = estimate(self.shape, stage, self.training, self.machine).updating
        of_step = sum(parts[name] for name in PER_STEP_MEMORY)
        return held.get("gpu_memory_gb", held["memory_gb"]) * 1e9, sum(parts.values()), of_step

    def step(self, stage: Stage) -> str:
        seconds, count, longest = self.timed_step(stage)
        full = replace(self.machine, rates=replace(self.machine.rates, update=1.0, link=float("inf")))
        self.measured["update"] = min(1.0, self.planned_update(stage, count, longest, full) / seconds)
        peak, planned, of_step = self.peak(stage)
        if not self.machine.is_cpu:
            scale = min((peak - planned + of_step) / of_step, 3.0)
            self.measured["memory"] = max(self.measured.get("memory", 1.0), scale)
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
        """Check the speed of verdicts on reference answers, each for its own problem and for the next, against a step's
        need."""
        if domain not in self.spec.problems:
            raise Skip(f"no curated problems of {domain} yet: `ratchet curate {domain}` makes them")
        first = next(pq.ParquetFile(self.spec.problems[domain]).iter_batches(JUDGED), None)
        if first is None or not first.num_rows:
            raise Skip(f"{self.spec.problems[domain]} has no problems")
        problems = from_table(first)
        answers = [p.golden_solutions[0] if p.golden_solutions else domain_of(domain).reference(p) for p in problems]
        pairs = [pair for i, p in enumerate(problems) for pair in ((p, answers[i]), (p, answers[i - 1]))]
        mine = pairs[self.rank :: self.ranks] or pairs[:1]
        workers = max(1, core_count() // self.on_each)
        seconds, failure = 0.0, ""
        try:
            with open_pool(self.training.reward_servers, workers, self.spec.verification.settings()) as pool:
                pool.run_programs(mine[:1] * workers)  # starts its processes
                started = time.perf_counter()
                verdicts = pool.run_programs(mine)
                seconds = time.perf_counter() - started
            errors = [verdict.detail for verdict in verdicts if verdict.outcome is Outcome.INFRA_ERROR]
            failure = (
                f"{len(errors)} of {len(verdicts)} verdicts were infrastructure errors: {errors[0]}" if errors else ""
            )
        except (RatchetError, OSError) as error:  # raised when all ranks are here
            failure = str(error)
        times, failures = zip(*ranks.gather((workers * seconds / len(mine), failure)), strict=True)
        if any(failures):
            raise RatchetError(next(filter(None, failures)))
        verdict_s = max(times)
        before, rate = self.measured.get("verdict_s", self.machine.rates.verdict_s), self.machine.cores / verdict_s
        self.measured["verdict_s"] = {**before, domain: verdict_s}
        machine = replace(self.machine, rates=replace(self.machine.rates, **self.measured))
        for stage in (stage for stage in self.training.stages if domain in stage.mix):
            seconds_of = estimate(self.shape, stage, self.training, machine).seconds
            beside = seconds_of["sampling"] + seconds_of["update"]
            share = stage.mix[domain] / sum(stage.mix.values())
            responses = stage.prompts_per_batch * stage.most_rollouts * share
            if responses / rate > JUDGE_SLACK * beside:
                raise RatchetError(
                    f"{rate:,.3g} verdicts/s, and {stage.name} needs {responses / beside:,.3g}: judging its "
                    f"{responses:,.0f} responses takes {responses / rate:,.3g} s. Add training.reward_servers "
                    "(docs/howto/reward_servers.md), or shorten the tests' time limits"
                )
        return f"{rate:,.3g} verdicts/s on {machine.cores} cores, on reference answers, right and wrong"

    def _fingerprint(self) -> str:
        """A hash of the log-probabilities of a few tokens, for comparing weights."""
        stage = self.training.stages[0].model_copy(update={"max_response_tokens": 8, "interventions": ()})
        scored = Learner(self.policy, stage).old_logprobs(self._groups(stage, 2, 8), 1.0)
        values = np.concatenate([old for g in scored for old in g.old_logprobs or ()])
        return hashlib.sha256(values.tobytes()).hexdigest()

    def checkpoint(self) -> str:
        state = {"fingerprint": self._fingerprint()}
        started = time.perf_counter()
        self.checkpoints.save(1, state)
        seconds = time.perf_counter() - started
        ranks.barrier()  # the first rank renames the directory after the others have written
        size = sum(f.stat().st_size for f in (self.work / CHECKPOINTS).rglob("*") if f.is_file())
        self.measured["disk"] = size / seconds
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
