"""Curation of one domain: from raw files to training problems."""

from collections.abc import Iterable
from pathlib import Path

from ratchet.data_curation.settings.curation import Steps
from ratchet.data_curation.steps import steps_of
from ratchet.flows.flow import Flow, flow
from ratchet.flows.runs import open_run, plan_run
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.settings import Settings
from ratchet.infra.store.artifacts import Artifact
from ratchet.tasks import curation as step
from ratchet.tasks.teacher import teacher_attempts, without_teacher
from ratchet.verifiers.errors import RatchetError


@flow
def curate(recipe: Recipe, domain: str, steps: Steps = Steps()) -> Artifact:
    """Curate a domain: read the files, then run its steps; those that need a teacher only if there is one, which is
    asked before the first of them."""
    with open_run(recipe, f"{steps.only or 'curate'}-{domain}", steps=steps) as run:
        run.phase(f"Curate {domain}")
        settings = recipe.curation_of(domain)
        listed, has_teacher = steps_of(domain, settings), settings.teacher.kind != "none"
        raw = step.raw_files(run, domain)
        held_out = step.held_out(run, domain)

        problems, attempts = step.normalise(run, domain, raw), None
        datasets = [problems]
        for each in listed:
            if each.needs_teacher and not has_teacher:
                continue
            if each.needs_teacher and attempts is None:
                attempts = teacher_attempts(run, domain, problems)
            problems = step.run_curation_step(run, domain, each, problems, held_out, attempts)
            datasets.append(problems)
        asked = [each.name for each in listed if each.needs_teacher]
        missing = [] if has_teacher else without_teacher(run, domain, asked)
        return step.curated(run, domain, datasets, missing)


def curation_flow(domain: str) -> Flow[..., Artifact]:
    """The flow `curate-math`."""
    return curate.named(f"curate-{domain}")


def curate_each(recipe: Recipe, domains: Iterable[str]) -> dict[str, Artifact]:
    """The curated problems of each domain."""
    return {domain: curation_flow(domain)(recipe, domain) for domain in domains}


def curated_problems(recipe: Recipe, settings: Settings) -> dict[str, Path]:
    """Files of the problems that this recipe's curation has made in this home, by domain; those of other recipes and
    settings are not among them."""
    try:
        with plan_run(recipe, settings) as run:
            problems = curate_each(recipe, run.domains)
    except RatchetError:
        return {}  # missing files, which the plan of a run reports
    return {domain: artifact.kept for domain, artifact in problems.items() if artifact.kept.is_file()}
