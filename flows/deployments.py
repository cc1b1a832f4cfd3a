"""The flows as Prefect deployments: `tiny`, the whole pipeline, then `tiny-curate`, `tiny-train` and so on.

    python -m ratchet.flows.deployments RECIPE …      (started by `ratchet ui`: runs them on this machine)

`ratchet deploy` registers the same deployments for the workers of a pool.
"""

import json
import os
import sys
from collections.abc import Iterable
from functools import reduce
from typing import Any

from prefect import Flow, serve
from prefect.deployments.runner import RunnerDeployment
from prefect.types.entrypoint import EntrypointType
from pydantic_core import to_jsonable_python

from ratchet.flows import triggered
from ratchet.flows.forms import CurationChanges, recipe_fields
from ratchet.infra.recipe import load_recipe
from ratchet.infra.recipe.domains import use_domains
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.settings import load_settings

SERVED = (
    "Runs start while `ratchet ui {recipe}` is up, one at a time. **Late** runs wait for the run before them, or for "
    "`ratchet ui`."
)


def deployments(name: str, waiting: str = SERVED, **worker: Any) -> list[RunnerDeployment]:
    """The flows of the recipe `name` as deployments; in alphabetical order, as Prefect lists them, the whole pipeline
    is the first.

    `waiting` says why a run waits. `worker` names their pool (`work_pool_name`, `job_variables`, `concurrency_limit`);
    without it, the serving process runs them. Raises RatchetError for a wrong recipe.
    """
    recipe = load_recipe(name)
    domains = use_domains(recipe)

    def deployed(flow: Flow[..., Any], title: str = "", **parameters: Any) -> RunnerDeployment:
        what = (flow.description or "").partition("\n\n")[0]  # the form says what the parameters are
        return RunnerDeployment.from_flow(
            flow,
            name=f"{recipe.name}-{title}" if title else recipe.name,
            parameters=parameters,
            description="\n\n".join([what, recipe.description, waiting.format(recipe=name)]),
            tags=["ratchet", recipe.name],
            entrypoint_type=EntrypointType.MODULE_PATH,
            **worker,
        )

    flows = [deployed(triggered.pipeline, recipe=name)] if domains else []
    flows.append(deployed(triggered.compare, "compare"))
    if domains:
        curation = deployed(triggered.curate, "curate", recipe=name, domain=next(iter(domains)))
        form = curation._parameter_openapi_schema
        form.properties["domain"]["enum"] = [*domains]
        for group, field, path in recipe_fields(CurationChanges):
            shown = form.definitions[group.__name__]["properties"][field]
            shown["description"] = f"{shown.get('description', '')} In the recipe: {_in_recipe(recipe, domains, path)}."
        flows.append(curation)
    flows += [deployed(triggered.evaluate, "evaluate", recipe=name), deployed(triggered.report, "report")]
    return [*flows, *([deployed(triggered.train, "train", recipe=name)] if recipe.training.stages else [])]


def _in_recipe(recipe: Recipe, domains: Iterable[str], path: str) -> str:
    """The value of a field for each domain, or once if all have the same."""
    shown: dict[str, str] = {}
    for domain in domains:
        _, _, below = path.partition("{domain}.")
        value = reduce(getattr, (below or path).split("."), recipe.curation_of(domain) if below else recipe)
        shown[domain] = "not set" if value in (None, "", ()) else f"`{json.dumps(to_jsonable_python(value))}`"
    same = {*shown.values()}
    return same.pop() if len(same) == 1 else ", ".join(f"{domain} {value}" for domain, value in shown.items())


if __name__ == "__main__":
    served = [deployment for name in dict.fromkeys(sys.argv[1:]) for deployment in deployments(name)]
    os.environ[triggered.FOLDER] = os.getcwd()
    neutral = load_settings().prefect_home
    neutral.mkdir(parents=True, exist_ok=True)
    os.chdir(neutral)  # where the processes of flows start
    serve(*served, limit=1, print_starting_message=False)  # one run at a time: a run fills the machine
