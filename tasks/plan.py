"""Estimate a recipe's time, cost and memory, and its first bottleneck when it grows."""

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ratchet.infra.recipe import Recipe
from ratchet.infra.recipe.evaluation import Benchmark
from ratchet.infra.recipe.recipe_warnings import recipe_warnings
from ratchet.infra.recipe.training import Stage, Training
from ratchet.infra.settings import Settings
from ratchet.infra.store.artifacts import ArtifactStore
from ratchet.tasks.inputs import is_local_model, local_model
from ratchet.training.estimate import LIMITS, Estimate, estimate, pass_seconds, pressures, scaled
from ratchet.training.machine import (
    local_machine,
    machine_of,
    measured_file,
    parse_machine,
    with_measured,
)
from ratchet.training.pass_rates import share_sampled
from ratchet.training.shape import Shape, shape_of
from ratchet.training.step_time import unconfirmed
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import GIB

GROWTH = [("as it is", 1), *((what, factor) for what in ("prompts", "GPUs", "length") for factor in (10, 100))]


PROMPTS = 40_000
"""Assumed number of a domain's prompts, for pass rates, before it is curated: AceReason's math has 49,000, its code
8,500."""
RATES = [(i + 0.5) / 20 for i in range(20)]
"""Assumed pass rates, evenly spread, of the prompts that are measured for `max_pass_rate`."""
FEWER = 4
"""Divisor of the number of machines in the smaller plan that a plan is compared with."""
WASTE = 1.5
"""Multiple of the smaller plan's GPU hours above which a plan warns."""


class Plan:
    """An estimate of one stage or all, on a machine (`16x8xH100`; by default the one that the recipe asks for). `mean`
    is the mean response length as a fraction of the maximum, `price` that of a GPU-hour, `start` a checkpoint instead
    of the recipe's model, `curated` the recipe's curated problems by domain, as far as there are any."""

    def __init__(
        self, recipe: Recipe, settings: Settings, machine: str = "", mean: float = 0.5, price: float | None = None,
        stage: str = "", start: str = "", curated: Mapping[str, Path] = {},
    ) -> None:  # fmt: skip
        named = parse_machine(machine) if machine else machine_of(recipe.training.hardware)
        self.here = local_machine(recipe.training.hardware.dtype)
        self.assumed = not machine and named != self.here
        self.machine = with_measured(named, measured_file(settings.home, recipe.name))
        self.measured = self.machine is not named
        self.recipe, self.training, self.mean, self.price = recipe, recipe.training, mean, price
        self.sharing = recipe.training.hardware.ranks if self.machine.is_cpu else 1
        """Ranks that share one memory."""
        self._settings, self._stage, self._start = settings, stage, start
        self._curated = {domain: pq.read_metadata(file).num_rows for domain, file in curated.items()}

    @cached_property
    def shape(self) -> Shape:
        return model_shape(self.recipe, self._start, self._settings)

    @cached_property
    def stages(self) -> list[tuple[Stage, Estimate]]:
        """Planned stages with their estimates. Raises RatchetError for a stage that has too few prompts."""
        chosen = [self._located(stage) for stage in self.training.stages if self._stage in ("", stage.name)]
        for stage in chosen:
            wanted, there = stage.prompts_per_batch * (1 + stage.advanced.tail_batching), self.prompts(stage)
            if stage.advanced.tail_batching and there < wanted:
                raise RatchetError(
                    f"{stage.name}: tail_batching={stage.advanced.tail_batching:g} samples {wanted:.0f} prompts a "
                    f"step, and there are {there}: lower prompts_per_batch, or give tail_batching=0"
                )
        return [(stage, estimate(self.shape, stage, self.training, self.machine, self.mean)) for stage in chosen]

    def _located(self, stage: Stage) -> Stage:
        """The stage with the directory of its `reference_model`."""
        model = stage.advanced.reference_model
        if not model or not is_local_model(model):
            return stage
        found = local_model(ArtifactStore(self._settings.artifacts), model)
        return stage.with_details(reference_model=str(found.model_directory))

    def prompts(self, stage: Stage) -> int:
        """The number of prompts that a stage may train on: those of the home's newest curated problems, otherwise
        assumed."""
        return sum(self._curated.get(domain, PROMPTS) for domain in stage.domains)

    def _pass(self, stage: Stage, prompts: int, rollouts: int, training: Training | None = None) -> float:
        if not prompts:
            return 0.0
        return pass_seconds(self.shape, stage, training or self.training, self.machine, self.mean, prompts, rollouts)

    @cached_property
    def overhead(self) -> dict[str, dict[str, float]]:
        """Seconds of each stage besides its steps, by kind: starts, pass rates of its prompts, validations."""
        return {stage.name: self._overhead(stage) for stage, _ in self.stages}

    def _overhead(self, stage: Stage) -> dict[str, float]:
        (start,) = (needs.start for each, needs in self.stages if each is stage)
        passes = {"starts": start}
        if stage.max_pass_rate is not None:
            passes["starts"] += start
            most, error = stage.advanced.pass_rate_rollouts, stage.advanced.pass_rate_error
            share, _ = share_sampled(RATES, most, stage.max_pass_rate, error)
            passes["pass rates"] = share * self._pass(stage, self.prompts(stage), most)
        if stage.validates:
            chosen = self.recipe.validation_benchmarks(stage)
            once = self._pass(stage, sum(questions(b) or 0 for b in chosen), stage.advanced.validation_rollouts)
            passes["validation"] = once * (stage.validates_start + stage.steps // stage.validate_every)
        return passes

    @cached_property
    def evaluation(self) -> float:
        """Seconds of one evaluation, without the benchmarks of `uncounted`."""
        asked = self.recipe.evaluation
        counts = {b.name: (b, (questions(b) or 0) * b.samples) for b in asked.benchmarks}
        responses = sum(count for _, count in counts.values())
        domains = {b.domain for b, _ in counts.values()}
        mix = {domain: sum(c for b, c in counts.values() if b.domain == domain) for domain in sorted(domains)}
        stage = self.training.stages[0].model_copy(update={"mix": mix, "max_response_tokens": asked.max_tokens})
        training = self.training.model_copy(update={"engine": self.training.engine.for_evaluation()})
        return self.stages[0][1].start + self._pass(stage, responses, 1, training)

    @property
    def evaluations(self) -> int:
        """Number of the recipe's evaluations that belong to the planned stages."""
        names = {"start", *(stage.name for stage in self.training.stages)}
        return sum(name in names for name in self.recipe.evaluation.after) if not self._stage else 0

    @property
    def uncounted(self) -> list[str]:
        """The benchmarks whose number of questions is unknown before they are read."""
        return [b.name for b in self.recipe.evaluation.benchmarks if questions(b) is None]

    @property
    def without_warm_start(self) -> bool:
        """True if the training begins with a warm start, of which time and cost are not estimated: nothing says how
        long its traces are."""
        return bool(self.training.warm_start and not self._stage and not self._start)

    @cached_property
    def smaller(self) -> "Plan | None":
        """The plan on a quarter of the machines; None if there are too few."""
        if self.machine.is_cpu or self.machine.count // FEWER < max(1, self.training.engine.gpus):
            return None
        plan, count, cores = copy(self), self.machine.count // FEWER, self.machine.cores // FEWER
        for name, value in vars(type(self)).items():
            if isinstance(value, cached_property) and name != "shape":  # the others depend on the machine
                plan.__dict__.pop(name, None)
        plan.machine = replace(self.machine, count=count, cores=cores, in_one=min(self.machine.in_one, count))
        return plan

    @cached_property
    def hours(self) -> float:
        steps = sum(
            needs.step_seconds * stage.steps + sum(self.overhead[stage.name].values()) for stage, needs in self.stages
        )
        return (steps + (self.evaluations and self.evaluations * self.evaluation)) / 3600

    def warnings(self) -> list[str]:
        """Warnings before a person pays for the run."""
        words = [*filter(None, [self.too_large]), *recipe_warnings(self.recipe)]
        idle = {stage.name: needs.sampled.empty for stage, needs in self.stages}
        if over := [f"{name} {share:.0%}" for name, share in idle.items() if share > LIMITS["idle decode slots"]]:
            words.append(
                f"decode slots are empty for more than {LIMITS['idle decode slots']:.0%} of sampling "
                f"({', '.join(over)}), waiting for the longest responses: more prompts or rollouts a step, fewer "
                "GPUs, or staleness (advanced.max_staleness) use them better"
            )
        if self.smaller and (ratio := self.gpu_hours / self.smaller.gpu_hours) > WASTE:
            words.append(
                f"{self.gpu_hours:,.0f} GPU hours, {ratio:.1f} times the {self.smaller.gpu_hours:,.0f} on "
                f"{self.smaller.machine.count} GPUs, which take {self.smaller.hours / self.hours:.1f} times as long"
            )
        return words

    @property
    def gpus(self) -> int:
        """The number of GPUs in use: the machine's, and those of a separate engine."""
        return self.machine.count if self.machine.is_cpu else max(needs.gpus for _, needs in self.stages)

    @property
    def gpu_hours(self) -> float:
        return self.hours * self.gpus

    @property
    def efficiency(self) -> float:
        """The share of all GPUs' peak arithmetic that the stages' steps need, over all hours, including those without
        steps."""
        work = sum(needs.flops * stage.steps for stage, needs in self.stages)
        return work / (self.machine.flops * self.gpus * self.hours * 3600)

    @property
    def too_large(self) -> str:
        """The error for stages that need more than the machine's memory; "" if none does."""
        limit = LIMITS["memory"] * self.machine.memory
        needed = {stage.name: needs.peak * self.sharing for stage, needs in self.stages}
        over = [f"{name} needs {size / GIB:.3g} GiB" for name, size in needed.items() if size > limit]
        if not over:
            return ""
        return (
            f"Not enough memory: {', '.join(over)}, and {self.machine} should give at most {limit / GIB:.3g}. Lower "
            "training.hardware.micro_batch_tokens or rollout_batch, train an adapter (training.advanced.lora={}), or "
            "name a smaller model; `ratchet plan` shows what fills it."
        )

    def summary(self) -> dict[str, Any]:
        """The plan as JSON, in seconds, bytes, hours and tokens."""
        stages = []
        for stage, needs in self.stages:
            overhead = self.overhead[stage.name]
            hours = (needs.step_seconds * stage.steps + sum(overhead.values())) / 3600
            memory = {"sampling": needs.sampling, "updating": needs.updating, "of": self.machine.memory}
            stages.append(
                {
                    "stage": stage.name, "steps": stage.steps, "step_seconds": needs.step_seconds,
                    "seconds": needs.seconds, "overhead": overhead, "hours": hours,
                    "cost": self.cost(hours), "memory": memory,
                    "cache_tokens": needs.engine.room, "longest_tokens": needs.longest,
                    "empty_decode_slots": needs.sampled.empty, "judge_load": needs.judging,
                    "efficiency": needs.efficiency(self.machine), "copied_among": needs.copied_among,
                    "checkpoint_bytes": needs.checkpoint_bytes, "restart_seconds": needs.restart_seconds,
                }
            )  # fmt: skip
        evaluation = self.evaluation / 3600 if self.evaluations else 0.0
        smaller = self.smaller
        return {
            "recipe": self.recipe.name, "machine": str(self.machine), "machine_assumed": self.assumed,
            "gpus": self.gpus, "efficiency": self.efficiency,
            "parameters": self.shape.parameters, "rates_measured": self.measured, "mean_response": self.mean,
            "stages": stages, "hours": self.hours, "cost": self.cost(self.hours),
            "evaluations": {"number": self.evaluations, "hours_each": evaluation, "not_counted": self.uncounted},
            "without_warm_start": self.without_warm_start,
            "rollout_bytes": self.rollout_bytes, "unconfirmed": unconfirmed(self.machine, self.measured),
            "gpu_hours": self.gpu_hours, "warnings": self.warnings(),
            "on_a_quarter": smaller
            and {"gpus": smaller.gpus, "hours": smaller.hours, "gpu_hours": smaller.gpu_hours},
        }  # fmt: skip

    @property
    def rollout_bytes(self) -> float:
        """Bytes of all rollouts that the stages keep (`training.keep_rollouts`)."""
        keep = self.training.keep_rollouts
        most = keep if isinstance(keep, int) else max((stage.steps for stage, _ in self.stages), default=0)
        return sum(needs.rollout_bytes * min(stage.steps, most) for stage, needs in self.stages)

    def cost(self, hours: float) -> float | None:
        return None if self.price is None else hours * self.price * self.gpus

    def growth(self) -> list[dict[str, Any]]:
        """Rows for the longest stage as it is and larger, with its share of each limit."""
        longest = max(self.stages, key=lambda each: each[0].steps * each[1].step_seconds)[0]
        rows = []
        for what, factor in GROWTH:
            if what == "GPUs" and self.machine.is_cpu:
                continue
            stage, machine = (longest, self.machine) if factor == 1 else scaled(longest, self.machine, what, factor)
            needs = estimate(self.shape, stage, self.training, machine, self.mean)
            over = pressures(needs, machine, self.sharing)
            first = max(over, key=over.__getitem__)
            rows.append(
                {
                    "stage": stage.name, "what": what, "times": factor, "step_seconds": needs.step_seconds,
                    "first_bottleneck": first, "holds": over[first] <= 1,
                    "of_limit": {name: round(value, 3) for name, value in over.items()},
                }
            )  # fmt: skip
        return rows


def questions(benchmark: Benchmark) -> int | None:
    """The number of questions of a benchmark, if it is known before the benchmark is read."""
    whole, (_, parts) = benchmark.advanced.questions, benchmark.advanced.part or (1, 1)
    whole = whole and whole // parts
    return min(benchmark.limit, whole or benchmark.limit) if benchmark.limit else whole


def model_shape(recipe: Recipe, start: str, settings: Settings) -> Shape:
    """The shape of the model to `start` from, or else of the recipe's. Raises RatchetError if it cannot be read."""
    path = recipe.model.path
    if start:
        path = str(local_model(ArtifactStore(settings.artifacts), start).model_directory)
    if path is None:
        new = recipe.model.from_config
        return Shape(
            new.vocabulary, new.hidden_size, new.layers, new.attention_heads, new.key_value_heads,
            new.head_dim, new.intermediate_size, tied=False,
        )  # fmt: skip
    return shape_of(path)
