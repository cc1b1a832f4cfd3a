"""The flows as Prefect deployments: `curate-math-tiny`, `deduplicate-math-tiny`, `train-tiny`.

    python -m ratchet.flows.deployments RECIPE …      (started by `ratchet ui`: runs them on this machine)

`ratchet deploy` registers the same deployments for the workers of a pool.
"""

import os
import sys
from typing import Any

from prefect import Flow, serve
from prefect.deployments.runner import RunnerDeployment
from prefect.types.entrypoint import EntrypointType

from ratchet.data_curation.domains import plan_of
from ratchet.flows import triggered
from ratchet.infra.recipe import Recipe, load_recipe
from ratchet.infra.recipe.domains import use_domains
from ratchet.infra.settings import load_settings


def deployments(name: str, **worker: Any) -> list[RunnerDeployment]:
    """Every flow, and every single curation step, of the recipe `name`. `worker` names their pool (`work_pool_name`,
    `job_variables`, `concurrency_limit`); without it, the serving process runs them. Raises RatchetError for a wrong
    recipe."""
    recipe = load_recipe(name)

    def deployed(flow: Flow[..., Any], title: str, tags: tuple[str, ...] = (), **parameters: Any) -> RunnerDeployment:
        return RunnerDeployment.from_flow(
            flow,
            name=f"{title}-{recipe.name}",
            parameters=parameters | {"recipe": name},
            description=f"{flow.description}\n\n{recipe.description}",
            tags=["ratchet", recipe.name, *tags],
            entrypoint_type=EntrypointType.MODULE_PATH,
            **worker,
        )

    curations = [
        deployed(triggered.curate, f"{title}-{domain}", tags, domain=domain, **steps)
        for domain in use_domains(recipe)
        for title, tags, steps in [("curate", (), {}), *_single_steps(recipe, domain)]
    ]
    whole = [deployed(triggered.pipeline, "pipeline")] if curations else []
    stages = [deployed(triggered.train, "train")] if recipe.training.stages else []
    reports = [
        RunnerDeployment.from_flow(
            flow, name=title, tags=["ratchet"], entrypoint_type=EntrypointType.MODULE_PATH, **worker
        )
        for flow, title in ((triggered.compare, "compare"), (triggered.report, "report"))
    ]
    return [*whole, *curations, *stages, deployed(triggered.evaluate, "evaluate"), *reports]


def _single_steps(recipe: Recipe, domain: str) -> list[tuple[str, tuple[str, ...], dict[str, Any]]]:
    """Title, tags and parameters of each step of the domain's curation."""
    plan, section = plan_of(domain), recipe.curation_of(domain)
    taught = ("teacher_attempts", *plan.teacher_steps) if section.teacher.kind != "none" else ()
    names = [*plan.steps, *taught, "curated"]
    return [(name.replace("_", "-"), ("single step",), {"steps": {"only": name}}) for name in names]


if __name__ == "__main__":
    served = {deployment.name: deployment for name in sys.argv[1:] for deployment in deployments(name)}
    os.environ[triggered.FOLDER] = os.getcwd()
    neutral = load_settings().prefect_home
    neutral.mkdir(parents=True, exist_ok=True)
    os.chdir(neutral)  # where the processes of flows start
    serve(*served.values(), limit=1, print_starting_message=False)  # one run at a time: a run fills the machine
