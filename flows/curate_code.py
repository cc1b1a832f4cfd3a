"""Code curation, as AceReason-Nemotron section 3 describes it: problems whose tests can be trusted."""

from __future__ import annotations

from prefect import flow

from ratchet.infra.recipe.model import Recipe
from ratchet.tasks import curation as step
from ratchet.tasks.pipeline_run import Steps, open_run


@flow(name="curate-code")
def curate_code(recipe: Recipe, steps: Steps = Steps()) -> step.Curated:
    """Normalise, filter by rules, decontaminate, deduplicate, validate the tests, and grade difficulty by a teacher."""
    with open_run(recipe, "curate-code", steps=steps) as run:
        run.watcher.phase("Curate code")
        settings = recipe.curation.code
        raw = step.raw_files(recipe, "code")
        held_out = step.held_out(recipe, "code")

        normalised = step.normalise(recipe, "code", raw)
        sound = step.filter_by_rules(recipe, "code", normalised)
        clean = step.decontaminate(recipe, "code", sound, held_out)
        unique = step.deduplicate(recipe, "code", clean)
        tested = step.validate_tests(recipe, unique)
        steps = [normalised, sound, clean, unique, tested]
        not_done = []
        if settings.teacher.kind == "none":
            not_done = step.without_teacher("code")
        else:
            attempts = step.teacher_attempts(recipe, "code", tested)
            steps.append(step.grade_difficulty(recipe, tested, attempts))
        return step.curated(recipe, "code", steps, not_done)
