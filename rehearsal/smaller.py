"""Reduce a recipe's lengths and counts for a rehearsal; everything else stays."""

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratchet.infra.keys import flat
from ratchet.infra.recipe import Recipe
from ratchet.infra.recipe.evaluation import CATALOG
from ratchet.infra.recipe.load import set_field, validate_recipe, with_paths
from ratchet.infra.recipe.training import Stage
from ratchet.training.interventions import OVER_STEPS, WATCHED

TOKENS = 128
"""Divisor of published lengths: 8K tokens become 64, 32K 256."""
BATCH = 8
"""Prompts of a step."""
PUZZLES, QUESTIONS = 8, 24
PACED = ("at_step", "every_steps", "plateau")


@dataclass(frozen=True)
class Rule:
    """A rule for reducing `fields`, which are patterns: `*` is one name or number of a list. A field that is null stays
    null. Without `value` the new value depends on other fields."""

    summary: str
    fields: tuple[str, ...]
    value: Callable[[Any], Any] | None = None

    def is_of(self, path: str) -> bool:
        return any(re.fullmatch(re.escape(field).replace(r"\*", "[^.]+"), path) for field in self.fields)


def _fewer(count: Any) -> Any:
    return [_fewer(each) for each in count] if isinstance(count, list) else min(8, max(2, count // 4))


RULES = (
    Rule(f"responses: a {TOKENS}th, at least 32 tokens", (
        "training.stages.*.max_response_tokens", "training.stages.*.interventions.*.do.max_response_tokens"),
         lambda tokens: max(32, tokens // TOKENS)),
    Rule("responses of evaluations: a 256th, at least 32 tokens", ("evaluation.max_tokens",),
         lambda tokens: max(32, tokens // (2 * TOKENS))),
    Rule(f"limits of length: a {TOKENS}th, at least 16 tokens", (
        "training.stages.*.advanced.overlong_buffer_tokens", "curation.*.length.drop_below_tokens",
        "curation.*.length.downsample_below_tokens"), lambda tokens: tokens and max(16, tokens // TOKENS)),
    Rule("rollouts: a quarter, from 2 to 8", (
        "training.stages.*.rollouts", "training.stages.*.interventions.*.do.rollouts",
        "training.stages.*.advanced.pass_rate_rollouts"), _fewer),
    Rule("responses in validation: 2", ("training.stages.*.advanced.validation_rollouts",),
         lambda count: min(2, count)),
    Rule(f"prompts of a step: {BATCH}", ("training.stages.*.prompts_per_batch",), lambda count: min(BATCH, count)),
    Rule("responses to a question: at most 2", ("evaluation.benchmarks.*.samples",), lambda count: min(2, count)),
    Rule("k of pass@k: up to 2", ("evaluation.pass_at", "evaluation.benchmarks.*.pass_at"),
         lambda ks: [k for k in ks if k <= 2] or [1]),
    Rule("published number of questions: none", ("evaluation.benchmarks.*.advanced.questions",), lambda _: None),
    Rule("steps between checkpoints: 2", ("training.checkpoint_every",), lambda steps: min(2, steps)),
    Rule("traces of a warm start: 256", ("training.warm_start.traces",), lambda count: min(256, count)),
    Rule("traces of an optimizer step: at most 16", ("training.warm_start.batch_size",), lambda count: min(16, count)),
    Rule("responses decoded together: 256", ("training.hardware.rollout_batch",), lambda _: 256),
    Rule("tokens of a pass: 2,048", (
        "training.hardware.micro_batch_tokens", "training.warm_start.max_tokens"), lambda count: min(2048, count)),
    Rule("machines: this one, and no reward servers", ("training.hardware.machines", "training.reward_servers"),
         lambda value: 1 if isinstance(value, int) else []),
    Rule("rows of a source that may be rejected: all (a sample has one of each kind)", (
        "curation.*.advanced.max_rejected",), lambda _: 1.0),
    Rule("the bill: none", ("curation.*.teacher.advanced.max_cost", "curation.*.teacher.advanced.prices"),
         lambda value: [0, 0] if isinstance(value, list) else None),
    Rule(f"questions of a benchmark: at most {QUESTIONS}", ("evaluation.benchmarks.*.limit",),
         lambda count: min(QUESTIONS, count)),
    Rule("ranks: as many as run here", ("training.hardware.processes", "training.engine.tensor_parallel")),
    Rule("engine: one that runs here", ("training.engine.kind",)),
    Rule(f"puzzles: {PUZZLES} in all, or 1 of each task and level", ("generate.*.train", "generate.*.test")),
    Rule("learning rate: ten times, for a small model; 500 in the last stage with several updates a batch, so that "
         "ratios are clipped", ("training.stages.*.learning_rate",)),
    Rule("steps: until each mechanism of the stage has happened", (
        "training.stages.*.steps", "training.stages.*.warmup_steps", "training.stages.*.validate_every",
        *(f"training.stages.*.interventions.*.when.{name}" for name in PACED))),
)  # fmt: skip


@dataclass(frozen=True)
class Reduction:
    field: str
    before: Any
    after: Any
    rule: str


def smaller(
    recipe: Recipe, rows: Mapping[str, int], processes: int, engine: Mapping[str, Any] | None
) -> tuple[Recipe, list[Reduction]]:
    """Reduce every length and count of the recipe. Returns the recipe and the changes. `rows`: of each domain, at most,
    for the length of an epoch; `engine`: instead of the recipe's.

    Raises RatchetError if a reduced value is not valid."""
    data = recipe.model_dump(mode="json")
    for benchmark in data["evaluation"]["benchmarks"]:
        benchmark["limit"] = benchmark["limit"] or QUESTIONS
        if generator := CATALOG.get(benchmark["name"], {}).get("generate"):
            data["generate"].setdefault(benchmark["name"], dict(generator))
    for path, value in flat(data).items():
        for rule in RULES:
            if value is not None and rule.value and rule.is_of(path):
                set_field(data, path.split("."), rule.value(value), path)
    hardware = data["training"]["hardware"]
    hardware["processes"] = min(hardware["processes"], processes) if data["training"]["stages"] else 1
    if engine is not None:
        data["training"]["engine"] = dict(engine)
    elif shared := data["training"]["engine"].get("tensor_parallel"):
        data["training"]["engine"]["tensor_parallel"] = math.gcd(shared, hardware["processes"])
    for generator in data["generate"].values():
        if generator["by"] == "reasoning-gym":
            _fewer_puzzles(generator)
    for stage, asked in zip(data["training"]["stages"], recipe.training.stages, strict=True):
        fewest = min(stage["rollouts"]) if isinstance(stage["rollouts"], list) else stage["rollouts"]
        # Each of a batch's updates has a response for every rank.
        needed = stage["updates_per_batch"] * math.ceil(hardware["processes"] / fewest)
        stage["prompts_per_batch"] = max(stage["prompts_per_batch"], needed)
        stage["learning_rate"] = _faster(stage["learning_rate"], clips(asked, recipe.training.stages))
        _pace(stage, rows)
    before, after = flat(recipe.model_dump(mode="json")), flat(data)
    changes = [
        Reduction(path, before.get(path), value, rule.summary)
        for rule in RULES
        for path, value in after.items()
        if rule.is_of(path) and before.get(path) != value
    ]
    return validate_recipe(with_paths(data, _absolute), f"the rehearsal of {recipe.name}"), changes


def _fewer_puzzles(generator: dict[str, Any]) -> None:
    tasks = generator.get("tasks")
    levels = [len(values) for grade in (generator.get("grades") or {}).values() for values in grade.values()]
    each = max(1, PUZZLES // (len(tasks) * max([1, *levels]))) if tasks else 1
    generator.update({split: min(generator[split], each) for split in ("train", "test") if generator.get(split)})


def clips(stage: Stage, stages: Sequence[Stage]) -> bool:
    """True if ratios must leave the clip range: in the last stage with several updates a batch. A policy that moves
    that far soon solves everything that it was taught, and a later stage would have nothing to filter or grade."""
    return stage.updates_per_batch > 1 and all(
        each.updates_per_batch == 1 for each in stages[stages.index(stage) + 1 :]
    )


def _faster(rate: float, clipped: bool) -> float:
    times, most = (500, 5e-4) if clipped else (10, 1e-4)
    return max(rate, min(most, times * rate))


def _pace(stage: dict[str, Any], rows: Mapping[str, int]) -> None:
    """Set the stage's steps and the steps between its validations so that every schedule reaches its last value and
    every trigger is due."""
    first = next(iter(stage["mix"]))
    share = stage["mix"][first] / sum(stage["mix"].values())
    places = max(1, round(stage["prompts_per_batch"] * share))
    epoch = max(1, rows.get(first, 2 * BATCH) // places)
    schedules = [value for value in (stage["rollouts"], stage["temperature"]) if isinstance(value, list)]
    epochs = max([len(values) - 1 for values in schedules], default=0)
    scheduled = epoch * max(epochs, int(stage["advanced"]["difficulty_filter"] is not None)) + 1
    triggers = {name for each in stage["interventions"] for name, limit in each["when"].items() if limit is not None}
    scores = "plateau" in triggers
    stops = scores and any(each["do"]["stop"] for each in stage["interventions"])
    # The first validation is a new best, unless the start is validated too: so a plateau is due with the second at the
    # earliest, and may end the stage then: all else is due.
    plateau = 2 if stage["keep"] or stage["advanced"]["result"] == "best" else 1
    every = max(2, math.ceil((scheduled + 2) / 2)) if epochs else 2
    # Counts restart after each intervention: a plateau that does not stop must come before the next periodic one.
    period = every if stops else 3 * every if scores else 2
    for each in stage["interventions"]:
        limits = dict(zip(PACED, (scheduled + 1, period, plateau), strict=True))
        each["when"].update({name: limit for name, limit in limits.items() if each["when"][name]})
    needed = {
        5 if stage["updates_per_batch"] > 1 else 3, scheduled + 2,
        10 * every if stops else 8 * every if scores else 2 * every if stage["advanced"]["result"] == "best" else 0,
        period + 2 if "every_steps" in triggers else 0, scheduled + 3 if "at_step" in triggers else 0,
        OVER_STEPS + 2 if WATCHED.keys() & triggers else 0,
    }  # fmt: skip
    stage["steps"] = min(stage["steps"], max(needed))
    if stage["lr_scheduler_type"] != "constant":  # which begins after the warm-up
        stage["warmup_steps"] = min(stage["warmup_steps"], max(1, stage["steps"] * stage["updates_per_batch"] // 4))
    stage["validate_every"] = min(every, stage["steps"])


def _absolute(path: str) -> str:
    """A file that exists: the reduced recipe is written to another directory."""
    return os.path.abspath(path) if path and Path(path).exists() else path
