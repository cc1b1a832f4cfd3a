"""Math curation, as AceReason-Nemotron section 3 describes it: from raw files to problems worth training on."""

from __future__ import annotations

from prefect import flow

from ratchet.infra.recipe.model import Recipe
from ratchet.tasks import curation as step
from ratchet.tasks.pipeline_run import Steps, open_run


@flow(name="curate-math")
def curate_math(recipe: Recipe, steps: Steps = Steps()) -> step.Curated:
    """Normalise, filter by rules, decontaminate, deduplicate, and keep what a teacher's majority confirms."""
    with open_run(recipe, "curate-math", steps=steps) as run:
        run.watcher.phase("Curate math")
        settings = recipe.curation.math
        raw = step.raw_files(recipe, "math")
        held_out = step.held_out(recipe, "math")

        normalised = step.normalise(recipe, "math", raw)
        sound = step.filter_by_rules(recipe, "math", normalised)
        clean = step.decontaminate(recipe, "math", sound, held_out)
        unique = step.deduplicate(recipe, "math", clean)
        steps = [normalised, sound, clean, unique]
        not_done = []
        if settings.teacher.kind == "none":
            not_done = step.without_teacher("math")
        else:
            attempts = step.teacher_attempts(recipe, "math", unique)
            confirmed = step.majority_vote(recipe, unique, attempts)
            steps += [confirmed, step.filter_by_length(recipe, confirmed)]
        return step.curated(recipe, "math", steps, not_done)
