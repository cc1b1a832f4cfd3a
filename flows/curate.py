"""Curate one domain: from raw files to training problems."""

from pathlib import Path

from ratchet.data_curation.steps import steps_of
from ratchet.flows.flow import flow
from ratchet.flows.runs import plan_run
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.settings import Settings
from ratchet.infra.store.artifacts import Artifact
from ratchet.tasks import curation as step
from ratchet.tasks.run_context import RunContext
from ratchet.tasks.teacher import teacher_attempts, without_teacher
from ratchet.verifiers.errors import RatchetError


@flow
def curate(run: RunContext, domain: str) -> Artifact:
    """Curate a domain: read the files, then run its steps. Steps that need a teacher run only if there is one, which is
    asked before the first that needs its attempts."""
    run.phase(f"Curate {domain}")
    settings = run.recipe.curation_of(domain)
    listed, has_teacher = steps_of(domain, settings), settings.teacher.kind != "none"
    raw = step.raw_files(run, domain, settings)
    held_out = step.held_out(run, domain, settings)

    problems, attempts = step.normalize(run, domain, settings, raw), None
    datasets = [problems]
    for each in listed:
        if each.needs_teacher and not has_teacher:
            continue
        if "attempts" in each.needs and attempts is None:
            attempts = teacher_attempts(run, domain, settings.teacher, problems)
        problems = step.run_curation_step(run, domain, settings, each, problems, held_out, attempts)
        datasets.append(problems)
    asked = [each.name for each in listed if each.needs_teacher]
    missing = without_teacher(run, domain, asked) if asked and not has_teacher else []
    return step.curated(run, domain, datasets, missing)


def curate_each(run: RunContext) -> dict[str, Artifact]:
    """The curated problems of each domain."""
    return {domain: curate.named(f"curate-{domain}")(run, domain) for domain in run.domains}


def curated_problems(recipe: Recipe, settings: Settings) -> dict[str, Path]:
    """The files of the problems that this recipe's curation has made in this home, by domain; those of other recipes
    and settings are not among them."""
    try:
        with plan_run(recipe, settings) as run:
            curate_each(run)
            return step.curated_files(run.plan)
    except RatchetError:
        return {}  # missing files, which the plan of a run reports
