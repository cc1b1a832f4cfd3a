"""One rank of `ratchet preflight`: what a recipe's stages will do on these machines, done once, and measured.

Each check is a line of `preflight.jsonl` as it ends: `name`, `state` (OK, FAIL, or SKIP where there was nothing to
check) and `says`, a number and, where it failed, what to do. What was measured is left where plans look for it. At the
end a checkpoint is written and the last rank kills itself; started again, the group goes on from there, which is the
last line.
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

from ratchet.infra.errors import RatchetError
from ratchet.infra.inference.protocol import Completion, Request, Sampling, derive_seed
from ratchet.infra.journal import Journal
from ratchet.infra.problems import from_table
from ratchet.infra.process_group import core_count
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.recipe.training import Stage
from ratchet.training import growth, machine_checks, ranks
from ratchet.training.alarms import memory
from ratchet.training.checkpoint import KEPT, Checkpoints
from ratchet.training.estimate import OF_A_STEP, PROMPT_TOKENS, Shape, estimate, update_seconds
from ratchet.training.groups import Group, group
from ratchet.training.learner import Learner
from ratchet.training.losses.terms import mismatch
from ratchet.training.machine import GIB, KILLED, LINES, found_machine, write_rates
from ratchet.training.packing import Sample, collate
from ratchet.training.policy import Policy
from ratchet.training.rollout import Rollout
from ratchet.training.sampler import open_sampler
from ratchet.verifiers.domain import domain_of
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.serving.local_pool import open_pool
from ratchet.verifiers.submission import JudgeSettings

JUDGED = 48
"""Problems of each domain whose reference is judged."""
JUDGE_SLACK = 3
"""Answers that all differ are the most that verdicts cost: in a batch many are the same, or are none."""
TRIED_TOKENS = 64
"""Of a response, to time decoding."""
LESS_MEMORY = "lower training.hardware.micro_batch_tokens, or shard more (zero_stage, sequence_ranks)"
TEMPORARY = 2 * GIB
"""Free space that temporary files of compilers and sandboxes may need on each machine."""


class NothingToCheck(Exception):
    """Why a line says SKIP."""


def run(recipe: Recipe, spec: dict[str, Any], work: Path) -> int:
    """All checks on this rank; the group's first start ends with a rank killed, its second returns. Collective."""
    found = Preflight(recipe, spec, work)
    if (work / KILLED).exists():
        found.line("resume", found.resume)
        return 1
    found.check()
    if found.rank == 0:
        (work / KILLED).write_text(str(time.time()))
    ranks.barrier()
    if found.rank == found.ranks - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    ranks.barrier()  # in which the others find that it is gone
    return 0


class Preflight:
    """The checks, in order. Collective, all of them."""

    def __init__(self, recipe: Recipe, spec: dict[str, Any], work: Path) -> None:
        self.recipe, self.training, self.spec, self.work = recipe, recipe.training, spec, work
        self.rank, self.ranks = ranks.rank(), torch.distributed.get_world_size()
        self.lines = Journal(work / LINES) if self.rank == 0 else None
        machine = found_machine()
        count = 1 if machine.is_cpu else self.ranks
        self.machine = replace(machine, count=count, cores=sum(ranks.gather(machine.cores)) // self._on_each)
        self.rates = self.machine.rates
        self.model_dir = recipe.model.path or str(self._grown())
        reference = any(stage.kl_coefficient for stage in self.training.stages)
        self.policy = Policy(self.model_dir, self.training.hardware, self.training.optimizer, reference)
        self.shape = Shape.of(self.policy.model.config.to_dict())
        self.checkpoints = Checkpoints(work / "checkpoints", self.policy)

    @property
    def _on_each(self) -> int:
        return self.training.hardware.processes

    def _grown(self) -> Path:
        """Where the recipe grows its model: one of its shape, with random weights."""
        if self.rank == 0:
            texts = [template for domain in self.recipe.curation for template in domain_of(domain).templates.values()]
            growth.grow(self.recipe.model.grow, texts, self.recipe.seed, self.work / "grown")
        ranks.barrier()
        return self.work / "grown"

    def check(self) -> None:
        self.line("versions", lambda: machine_checks.versions(self.training.hardware.machines))
        self.line("links", self.links)
        self.line("disk", self.disk)
        with ExitStack() as stack:
            try:
                engine = open_sampler(self.policy, self.training, self.model_dir, self.work)
                sampler = stack.enter_context(engine)
            except (RatchetError, OSError) as error:
                self.say("engine", "FAIL", str(error))
            else:
                found: list[Completion] = []
                self.line("weights", lambda: self._handed_over(sampler))
                self.line("decoding", lambda: self._decoding(sampler, found))
                self.line("mismatch", lambda: self._mismatch(found))
            for stage in self.training.stages:  # beside an engine that sleeps, as in training
                self.line(f"step {stage.name}", lambda stage=stage: self.step(stage))
        for domain in dict.fromkeys(domain for stage in self.training.stages for domain in stage.mix):
            self.line(f"judge {domain}", lambda domain=domain: self.judge(domain))
        self.line("checkpoint", self.checkpoint)
        if self.rank == 0:
            write_rates(Path(self.spec["measured"]), self.machine.name, self.rates)

    def line(self, name: str, check: Callable[[], str]) -> None:
        """One check, which returns what is to be said; OSError and RatchetError of any rank are its failure."""
        state, said = "OK", ""
        try:
            said = check()
        except NothingToCheck as reason:
            state, said = "SKIP", str(reason)
        except torch.OutOfMemoryError as error:
            state, said = "FAIL", f"the GPU's memory is short: {LESS_MEMORY} ({str(error).splitlines()[0]})"
        except (RatchetError, OSError) as error:
            state, said = "FAIL", str(error)
        self.say(name, state, said)

    def say(self, name: str, state: str, said: str) -> None:
        everyone = ranks.gather((state, said))
        worst = next((i for i, (state, _) in enumerate(everyone) if state == "FAIL"), 0)
        if self.lines:
            state, said = everyone[worst]
            self.lines.append({"name": name, "state": state, "says": f"rank {worst}: {said}" if worst else said})

    # ------------------------------------------------------------------------------------ machines

    def links(self) -> str:
        if self.ranks == 1:
            raise NothingToCheck("one rank")
        said, link = machine_checks.links(self.policy.device, 2**27 if self.machine.is_cpu else 2**30)
        self.rates = replace(self.rates, link=link)
        return said

    def disk(self) -> str:
        """Space for the checkpoints that are kept and one in the making, and for temporary files; and how fast."""
        size = estimate(self.shape, self.training.stages[0], self.training, self.machine).checkpoint_bytes
        said = []
        if self.rank == 0:
            said.append(machine_checks.space("home", self.work, (KEPT + 2) * size, min(size, GIB)))
        if self.rank % self._on_each == 0:
            said.append(machine_checks.space("TMPDIR", Path(tempfile.gettempdir()), TEMPORARY, 2**24))
        return f"{', '.join(said)}; a checkpoint is {size / GIB:.2g} GiB"

    # ------------------------------------------------------------------------------------ a step

    def _requests(self, count: int) -> list[Request]:
        """Of random tokens, this rank's own."""
        random = np.random.default_rng(self.rank)
        prompts = random.integers(len(self.policy.tokenizer), size=(count, 16))
        return [Request((i,), derive_seed(self.rank, i), prompt_ids=tuple(map(int, p))) for i, p in enumerate(prompts)]

    def _generate(self, sampler: Any, count: int, tokens: int) -> tuple[list[Completion], float]:
        """Completions, and seconds without those of the weights."""
        started = time.perf_counter()
        found = list(sampler.generate([self._requests(count)], Sampling(max_tokens=tokens)))
        beside = sampler.facts.get("weight_seconds", 0.0) + sampler.facts.get("weight_probe_seconds", 0.0)
        return found, time.perf_counter() - started - beside

    def _handed_over(self, sampler: Any) -> str:
        self._generate(sampler, 1, 2)
        if not (facts := sampler.facts):
            return "the engine samples with the policy's own weights"
        return (
            f"handed over in {facts['weight_seconds']:.2g} s, log-probabilities differ by {facts['weight_probe']:.2g}"
        )

    def _decoding(self, sampler: Any, found: list[Completion]) -> str:
        tokens = min(TRIED_TOKENS, *(stage.max_response_tokens for stage in self.training.stages))
        rows = min(self.training.hardware.rollout_batch, 64 if self.machine.is_cpu else 256)
        seconds = []
        for count in (1, rows):
            completions, spent = self._generate(sampler, count, tokens)
            seconds.append(max(ranks.gather(spent / max(len(c.token_ids or ()) for c in completions))))
        found += completions
        own = self.machine.flops / (self.ranks if self.machine.is_cpu else 1)
        size = 2 if self.training.hardware.dtype == "bfloat16" else 4
        read = self.shape.parameters * size / self.machine.bandwidth * (self.ranks if self.machine.is_cpu else 1)
        fixed = max(0.0, seconds[0] - read / self.rates.read)
        row = max(1e-12, (seconds[1] - fixed) / rows)
        self.rates = replace(
            self.rates, iteration_s=fixed, decode=min(1.0, 2 * self.shape.multiplied / own / row),
            read=self.rates.read if fixed else min(1.0, read / seconds[0]),
        )  # fmt: skip
        return f"{rows / seconds[1]:,.0f} tokens/s a rank of {rows} responses, {1 / seconds[0]:,.0f} of one"

    def _mismatch(self, found: list[Completion]) -> str:
        if not found:
            raise NothingToCheck("nothing was decoded")
        prompts = {request.key: request.prompt_ids for request in self._requests(len(found))}
        samples = [
            Sample(i, np.array(prompts[c.key]), np.array(c.token_ids), sampled_logprobs=np.array(c.logprobs))
            for i, c in enumerate(found[:8])
        ]
        batch = collate(samples, self.policy.device)
        scored, _ = self.policy.score(batch, 1.0)
        assert batch.sampled_logprobs is not None
        differences = (scored - batch.sampled_logprobs).double()
        mean = max(ranks.gather(float(mismatch(differences, torch.zeros_like(differences)).mean())))
        limit = min(stage.mismatch_limit or float("inf") for stage in self.training.stages)
        if mean > limit:
            raise RatchetError(
                f"engine and trainer differ by {mean:.2g} nats a token, and a stage ends above {limit:g}: are dtype, "
                "attention and weights the same? `--set training.engine=transformers` samples with the policy itself"
            )
        return f"{mean:.2g} nats a token between engine and trainer, the largest {float(differences.abs().max()):.2g}"

    def step(self, stage: Stage) -> str:
        """One optimizer step on a micro-batch of the stage's longest responses for each rank."""
        room = (self.policy.positions or 10**9) - stage.longest_response
        if room < 1:
            raise RatchetError(
                f"responses of {stage.longest_response:,} tokens, and the model has no room for a prompt"
            )
        prompt = min(PROMPT_TOKENS, stage.longest_response, room)
        longest, hardware = prompt + stage.longest_response, self.training.hardware
        together = hardware.sequence_ranks
        count = max(2, self.ranks // together * max(1, together * hardware.micro_batch_tokens // longest))
        strict = stage.model_copy(update={"updates_per_batch": 1, "mismatch_limit": None})  # nothing was sampled
        learner = Learner(self.policy, strict)
        made = self._groups(strict, count, prompt)
        learner.old_logprobs(made, 1.0)  # what a stage with several updates does before them
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        machine_checks.synchronize()
        started = time.perf_counter()
        learner.learn(made, 1.0)
        machine_checks.synchronize()
        seconds = max(ranks.gather(time.perf_counter() - started))
        full = replace(self.machine, rates=replace(self.rates, update=1.0, link=float("inf")))
        ideal = update_seconds(self.shape, strict, self.training, full, self.ranks, [longest] * count)
        self.rates = replace(self.rates, update=min(1.0, ideal / seconds))
        held = memory()
        measured = held.get("gpu_memory_gb", held["memory_gb"]) * 1e9
        parts = estimate(self.shape, stage, self.training, self.machine).updating
        planned, of_step = sum(parts.values()), sum(parts[name] for name in OF_A_STEP)
        have = self.machine.memory / (self._on_each if self.machine.is_cpu else 1)
        if not self.machine.is_cpu:
            beyond = (measured - planned + of_step) / of_step
            self.rates = replace(self.rates, memory=max(self.rates.memory, min(beyond, 3.0)))
        said = (
            f"{measured / GIB:.3g} GiB a rank (planned {planned / GIB:.3g}, there are {have / GIB:.3g}), "
            f"{seconds:.2g} s for {count} responses of {longest:,} tokens"
        )
        if measured > 0.95 * have:
            raise RatchetError(f"{said}: {LESS_MEMORY}")
        return said

    def _groups(self, stage: Stage, count: int, prompt: int) -> list[Group]:
        """Responses of the stage's longest length, of random tokens, right and wrong in turns."""
        random, vocabulary = np.random.default_rng(0), len(self.policy.tokenizer)
        domain, none = next(iter(stage.mix)), np.zeros(stage.longest_response, np.float32)
        outcomes = (Outcome.PASSED, Outcome.FAILED)

        def tokens(number: int) -> np.ndarray:
            return random.integers(vocabulary, size=number).astype(np.int32)

        made = [
            Rollout(
                "preflight", domain, i, tokens(prompt), tokens(stage.longest_response), none, False, outcomes[i % 2],
                1.0 - i % 2, "", self.policy.version,
            )
            for i in range(count)
        ]  # fmt: skip
        return group(made, stage)

    def judge(self, domain: str) -> str:
        """Verdicts of references to their own problem and to the next, against what a step has to be judged."""
        if domain not in self.spec["problems"]:
            raise NothingToCheck(f"no curated problems of {domain} yet: `ratchet curate {domain}` makes them")
        problems = from_table(next(pq.ParquetFile(self.spec["problems"][domain]).iter_batches(JUDGED)))
        texts = [p.golden_solutions[0] if p.golden_solutions else domain_of(domain).reference(p) for p in problems]
        pairs = [pair for i, p in enumerate(problems) for pair in ((p, texts[i]), (p, texts[i - 1]))]
        mine = pairs[self.rank :: self.ranks] or pairs[:1]
        workers = max(1, core_count() // self._on_each)
        settings = JudgeSettings.of(self.recipe.verification)
        seconds, fault = 0.0, ""
        try:
            with open_pool(self.training.reward_servers, workers, settings) as pool:
                pool.run_programs(mine[:1] * workers)  # its processes start
                started = time.perf_counter()
                verdicts = pool.run_programs(mine)
                seconds = time.perf_counter() - started
            broken = [verdict.detail for verdict in verdicts if verdict.outcome is Outcome.INFRA_ERROR]
            fault = f"{len(broken)} of {len(verdicts)} verdicts failed on our side: {broken[0]}" if broken else ""
        except (RatchetError, OSError) as error:  # told once all ranks are here
            fault = str(error)
        everyone = ranks.gather((workers * seconds / len(mine), fault))
        if faults := [fault for _, fault in everyone if fault]:
            raise RatchetError(faults[0])
        each = max(each for each, _ in everyone)
        self.rates = replace(self.rates, verdict_s={**self.rates.verdict_s, domain: each})
        machine = replace(self.machine, rates=self.rates)
        stages = [stage for stage in self.training.stages if domain in stage.mix]
        rate = machine.cores / each
        for stage in stages:
            found = estimate(self.shape, stage, self.training, machine)
            share = stage.mix[domain] / sum(stage.mix.values())
            responses = stage.prompts_per_batch * stage.most_rollouts * share
            beside = found.seconds["sampling"] + found.seconds["update"]
            if responses / rate > JUDGE_SLACK * beside:
                raise RatchetError(
                    f"{rate:,.3g} verdicts/s, and {stage.name} needs {responses / beside:,.3g}: its {responses:,.0f} "
                    f"responses would be judged for {responses / rate:,.3g} s. Add training.reward_servers "
                    "(docs/reward_servers.md), or shorten the tests' time limits"
                )
        return f"{rate:,.3g} verdicts/s on {machine.cores} cores, of references to their own problem and to another"

    # ------------------------------------------------------------------------------------ checkpoints

    def _fingerprint(self) -> str:
        """Of the weights: the log-probabilities of a few tokens, to the last bit."""
        stage = self.training.stages[0].model_copy(update={"max_response_tokens": 8, "interventions": ()})
        scored = Learner(self.policy, stage).old_logprobs(self._groups(stage, 2, 8), 1.0)
        values = np.concatenate([old for g in scored for old in g.old_logprobs or ()])
        return hashlib.sha256(values.tobytes()).hexdigest()

    def checkpoint(self) -> str:
        state = {"fingerprint": self._fingerprint()}
        started = time.perf_counter()
        self.checkpoints.save(1, state)
        self.checkpoints.finish()
        seconds = time.perf_counter() - started
        files = [f for f in (self.work / "checkpoints").rglob("*") if f.is_file()]
        size = sum(f.stat().st_size for f in files)
        self.rates = replace(self.rates, disk=size / seconds)
        limit = 60 * self.training.hardware.timeout_minutes
        if seconds > limit:
            raise RatchetError(
                f"a checkpoint of {size / GIB:.2g} GiB takes {seconds:.0f} s, and ranks wait {limit:.0f} s "
                "(hardware.timeout_minutes): raise it, or move the home to a faster disk"
            )
        return f"{size / GIB:.2g} GiB written and hashed in {seconds:.2g} s"

    def resume(self) -> str:
        started = time.perf_counter()
        restored = self.checkpoints.restore()
        if restored is None:
            raise RatchetError("the checkpoint that was written before the kill is not there")
        seconds = time.perf_counter() - started
        if restored[1]["fingerprint"] != self._fingerprint():
            raise RatchetError("the weights that were read back are not those that were written")
        stage = self.training.stages[0].model_copy(update={"mismatch_limit": None, "updates_per_batch": 1})
        Learner(self.policy, stage).learn(self._groups(stage, 2, 1), 1.0)
        return f"read back in {seconds:.2g} s, the same weights to the last bit; the next step was taken"
