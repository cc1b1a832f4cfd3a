"""Curation of one domain: from raw files to training problems."""

from ratchet.data_curation.domains import plan_of
from ratchet.data_curation.settings.curation import Steps
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.store.artifacts import Artifact
from ratchet.tasks import curation as step
from ratchet.tasks import teacher as teaching
from ratchet.tasks.flow import Flow, flow
from ratchet.tasks.pipeline_run import active_run, open_run


@flow
def curate(recipe: Recipe, domain: str, steps: Steps = Steps()) -> Artifact:
    """Run the steps of the domain's plan in order; those that need a teacher only if there is one."""
    with open_run(recipe, f"{steps.only or 'curate'}-{domain}", steps=steps) as run:
        run.phase(f"Curate {domain}")
        plan, teacher = plan_of(domain), recipe.curation_of(domain).teacher
        raw = step.raw_files(recipe, domain)
        held_out = step.held_out(recipe, domain)

        problems = step.normalise(recipe, domain, raw)
        datasets = [problems]
        for name in plan.steps[1:]:
            match name:
                case "rules":
                    problems = step.filter_by_rules(recipe, domain, problems)
                case "decontaminate":
                    problems = step.decontaminate(recipe, domain, problems, held_out)
                case "deduplicate":
                    problems = step.deduplicate(recipe, domain, problems)
                case "validate_tests":
                    problems = step.validate_tests(recipe, domain, problems)
            datasets.append(problems)
        if teacher.kind == "none":
            return step.curated(recipe, domain, datasets, teaching.without_teacher(domain))

        attempts = teaching.teacher_attempts(recipe, domain, problems)
        for name in plan.teacher_steps:
            match name:
                case "majority_vote":
                    problems = teaching.majority_vote(recipe, domain, problems, attempts)
                case "difficulty":
                    problems = teaching.grade_difficulty(recipe, domain, problems, attempts)
                case "length":
                    problems = teaching.filter_by_length(recipe, domain, problems)
            datasets.append(problems)
        return step.curated(recipe, domain, datasets, [])


def curation_flow(domain: str) -> Flow[..., Artifact]:
    """The flow `curate-math`."""
    return curate.named(f"curate-{domain}")


def curate_each(recipe: Recipe) -> dict[str, Artifact]:
    """The curated problems of each domain of the recipe."""
    return {domain: curation_flow(domain)(recipe, domain) for domain in active_run().domains}
