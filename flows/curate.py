"""Curation of one domain: from raw files to training problems."""

from collections.abc import Iterable

from ratchet.data_curation.domains import plan_of
from ratchet.data_curation.settings.curation import Steps
from ratchet.flows.flow import Flow, flow
from ratchet.flows.runs import open_run
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.store.artifacts import Artifact
from ratchet.tasks import curation as step
from ratchet.tasks import teacher as teaching


@flow
def curate(recipe: Recipe, domain: str, steps: Steps = Steps()) -> Artifact:
    """Run the steps of the domain's plan in order; those that need a teacher only if there is one."""
    with open_run(recipe, f"{steps.only or 'curate'}-{domain}", steps=steps) as run:
        run.phase(f"Curate {domain}")
        plan, teacher = plan_of(domain), recipe.curation_of(domain).teacher
        raw = step.raw_files(run, domain)
        held_out = step.held_out(run, domain)

        problems = step.normalise(run, domain, raw)
        datasets = [problems]
        for name in plan.steps[1:]:
            match name:
                case "rules":
                    problems = step.filter_by_rules(run, domain, problems)
                case "decontaminate":
                    problems = step.decontaminate(run, domain, problems, held_out)
                case "deduplicate":
                    problems = step.deduplicate(run, domain, problems)
                case "validate_tests":
                    problems = step.validate_tests(run, domain, problems)
            datasets.append(problems)
        if teacher.kind == "none":
            return step.curated(run, domain, datasets, teaching.without_teacher(run, domain))

        attempts = teaching.teacher_attempts(run, domain, problems)
        for name in plan.teacher_steps:
            match name:
                case "majority_vote":
                    problems = teaching.majority_vote(run, domain, problems, attempts)
                case "difficulty":
                    problems = teaching.grade_difficulty(run, domain, problems, attempts)
                case "length":
                    problems = teaching.filter_by_length(run, domain, problems)
            datasets.append(problems)
        return step.curated(run, domain, datasets, [])


def curation_flow(domain: str) -> Flow[..., Artifact]:
    """The flow `curate-math`."""
    return curate.named(f"curate-{domain}")


def curate_each(recipe: Recipe, domains: Iterable[str]) -> dict[str, Artifact]:
    """The curated problems of each domain."""
    return {domain: curation_flow(domain)(recipe, domain) for domain in domains}
