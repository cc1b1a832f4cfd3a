"""Warnings about a recipe, from the recipe alone: shown with plans and when a run starts."""

from collections.abc import Iterator

from ratchet.infra.recipe.evaluation import Benchmark, named_path
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.recipe.training import Stage

WIDE_CLIP = 0.02
"""Distance of a clip from 1 that the ratio of a whole response hardly reaches: GSPO's are 3e-4 and 4e-4."""
SLOW_ADAPTER = 2e-6
"""Highest learning rate that suits all weights, and not an adapter, which needs about ten times as much."""


def recipe_warnings(recipe: Recipe) -> list[str]:
    """Reasons why scores of the recipe's benchmarks may be biased, or its training fail, a sentence each."""
    scores = [*_not_held_out(recipe), *_selected_on(recipe)] if recipe.evaluation.after else []
    return [*scores, *_fast_start(recipe), *_at_odds(recipe)]


def _fast_start(recipe: Recipe) -> Iterator[str]:
    """A warm start whose learning rate suits a new model, of a pretrained one."""
    start = recipe.training.warm_start
    if start and recipe.model.path and "learning_rate" not in start.model_fields_set:
        yield (
            f"training.warm_start.learning_rate is {start.learning_rate:g} by default, for new models: a pretrained "
            "one needs about 1e-5"
        )


def _at_odds(recipe: Recipe) -> Iterator[str]:
    """Settings of a stage that cancel each other, or of which each is half of a method."""
    for stage in recipe.training.stages:
        several, wide = stage.updates_per_batch > 1, min(stage.clip_low, stage.clip_high) >= WIDE_CLIP
        equal = stage.advantage == "reinforce_pp" and stage.dynamic_sampling_rounds > 0
        adapted = recipe.training.advanced.lora is not None
        for at_odds, words in (
            (stage.loss == "gspo" and several and wide,
             f"loss: gspo clips the ratio of a whole response, which hardly ever differs from 1 by {stage.clip_low:g}: "
             "the paper's clip_low is 3e-4, and clip_high 4e-4"),
            (adapted and stage.learning_rate <= SLOW_ADAPTER,
             f"learning_rate is {stage.learning_rate:g}, for all weights: an adapter (advanced.lora) needs about ten "
             "times as much"),
            (stage.loss == "dr_grpo" and stage.advantage == "grpo",
             "loss: dr_grpo is half of Dr. GRPO; advantage: grpo divides by the deviation, and it does not: give "
             "advantage: dr_grpo"),
            (equal, "advantage: reinforce_pp learns from prompts whose rewards are all equal, and "
             "dynamic_sampling_rounds replaces them: give dynamic_sampling_rounds: 0"),
        ):  # fmt: skip
            if at_odds:
                yield f"training.stages.{stage.name}: {words}"


def _not_held_out(recipe: Recipe) -> Iterator[str]:
    """Benchmarks that are scored after training on a domain whose curation does not compare with them."""
    trained = {domain for stage in recipe.training.stages for domain in stage.domains}
    if start := recipe.training.warm_start:
        trained |= {*(start.mix or recipe.curation)}
    for domain in sorted(trained & recipe.curation.keys()):
        compared = {*map(named_path, recipe.curation[domain].benchmarks)}
        names = [
            benchmark.name
            for benchmark in recipe.evaluation.benchmarks
            if benchmark.domain == domain and benchmark.path not in compared and not benchmark.advanced.not_held_out
        ]
        if names:
            yield (
                f"{', '.join(names)}: scored, and curation.{domain} is not decontaminated against it: add it to "
                f"curation.{domain}.benchmarks, or say why not in the benchmark's advanced.not_held_out"
            )


def _selected_on(recipe: Recipe) -> Iterator[str]:
    """Benchmarks that a stage stops, changes or chooses its weights by, and that are reported."""
    stages: dict[str, list[str]] = {}
    for stage in recipe.training.stages:
        for benchmark in _read_by(stage, recipe) if stage.depends_on_validation else ():
            stages.setdefault(benchmark.name, []).append(stage.name)
    if stages:
        names = ", ".join(dict.fromkeys(name for own in stages.values() for name in own))
        yield (
            f"{', '.join(stages)}: these benchmarks choose weights or stop stages ({names}), so their reported scores "
            "are optimistic. Validate on one part of the questions and report the other (docs/reference/evaluation.md)"
        )


def _read_by(stage: Stage, recipe: Recipe) -> list[Benchmark]:
    """Benchmarks with questions that the stage validates on; not a part that was set apart for it."""
    benchmarks = recipe.evaluation.benchmarks
    validated = recipe.validation_benchmarks(stage)
    return [
        b
        for b in benchmarks
        if (b in validated and not b.advanced.part) or any(_overlap(b, other) for other in validated if other != b)
    ]


def _overlap(one: Benchmark, other: Benchmark) -> bool:
    """True if two benchmarks of the same file may share questions: all but two parts of as many."""
    mine, others = one.advanced.part, other.advanced.part
    apart = mine and others and mine[1] == others[1] and mine[0] != others[0]
    windows = one.advanced.window, other.advanced.window
    disjoint = all(windows) and windows[0] != windows[1]
    return one.path == other.path and not apart and not disjoint
