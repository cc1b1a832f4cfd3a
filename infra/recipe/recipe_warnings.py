"""Warnings about a recipe, from the recipe alone: shown with plans and when a run starts."""

from collections.abc import Iterator

from ratchet.infra.recipe.evaluation import Benchmark, named_path
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.recipe.training import Stage


def recipe_warnings(recipe: Recipe) -> list[str]:
    """Reasons why scores of the recipe's benchmarks may be biased, or its training fail, a sentence each."""
    scores = [*_not_held_out(recipe), *_selected_on(recipe)] if recipe.evaluation.after else []
    return [*scores, *_fast_start(recipe)]


def _fast_start(recipe: Recipe) -> Iterator[str]:
    """A warm start whose learning rate suits a new model, of a pretrained one."""
    start = recipe.training.warm_start
    if start and recipe.model.path and "learning_rate" not in start.model_fields_set:
        yield (
            f"training.warm_start.learning_rate is {start.learning_rate:g} by default, for new models: a pretrained "
            "one needs about 1e-5"
        )


def _not_held_out(recipe: Recipe) -> Iterator[str]:
    """Benchmarks that are scored after training on a domain whose curation does not compare with them."""
    trained = {domain for stage in recipe.training.stages for domain in stage.domains}
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
