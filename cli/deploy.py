"""`ratchet deploy`: register the flows with a Prefect server, for the workers of a pool."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ratchet.cli.options import Home
from ratchet.cli.options import recipe as recipe_named
from ratchet.cli.terminal import console, print_rows
from ratchet.infra.recipe import load_recipe
from ratchet.infra.settings import load_settings
from ratchet.verifiers.errors import RatchetError


def deploy(
    recipes: Annotated[list[str] | None, recipe_named("Recipes (default: tiny).", show_default=False)] = None,
    pool: Annotated[str, typer.Option("--pool", metavar="NAME", help="The work pool whose workers run them.")] = "",
    at_a_time: Annotated[
        int | None, typer.Option("--at-a-time", min=1, help="Concurrent runs of one deployment; others wait.")
    ] = 1,
    home: Home = None,
) -> None:
    """Register every flow and every curation step with the Prefect server at PREFECT_API_URL.

    A worker of the pool runs what is started from the UI, the API or a schedule: `prefect worker start --pool NAME`, in
    an environment with Ratchet. Run the command again to update the deployments.

    Example: `ratchet deploy my-recipe.yaml --pool gpus`
    """
    if not pool:
        raise RatchetError(
            "Name a work pool: --pool NAME. `prefect work-pool create NAME --type process` creates one. "
            "`ratchet ui` runs flows on this machine from a form, without a pool."
        )
    from ratchet.cli.prefect_server import SAFE_PATH, prefect_elsewhere, require_answer

    api = prefect_elsewhere()
    if not api:
        raise RatchetError(
            "PREFECT_API_URL is not set: the address of the Prefect server, such as http://127.0.0.1:4200/api. "
            "`prefect server start` starts one."
        )
    names = recipes or ["tiny"]
    for name in names:
        load_recipe(name)
    settings = load_settings(home)
    require_answer(api)
    from prefect import get_client

    from ratchet.flows.deployments import deployments
    from ratchet.flows.triggered import FOLDER

    with get_client(sync_client=True) as client:
        pools = {work_pool.name: work_pool.type for work_pool in client.read_work_pools()}
    if pool not in pools:
        raise RatchetError(
            f"{api} has no work pool {pool!r}, only {', '.join(pools) or 'none'}. "
            f"`prefect work-pool create {pool} --type process` creates it."
        )
    environment = {
        "RATCHET_HOME": str(settings.home), "MLFLOW_TRACKING_URI": settings.tracking_uri,
        "RATCHET_TRACKING": ",".join(settings.trackers), **SAFE_PATH,
    }  # fmt: skip
    if pools[pool] == "process":  # in a pod or container, paths are others
        environment[FOLDER] = str(Path.cwd())
    variables: dict[str, Any] = {"env": environment}
    rows = []
    for name in names:
        for deployment in deployments(name, work_pool_name=pool, job_variables=variables, concurrency_limit=at_a_time):
            deployment.apply()
            rows.append({"deployment": deployment.name, "flow": deployment.flow_name})
    print_rows(rows)
    console.print(f"\nStart a worker: [bold]prefect worker start --pool {pool}[/]", soft_wrap=True)
