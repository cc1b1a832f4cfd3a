"""`ratchet deploy`: register the flows with a Prefect server, for the workers of a pool."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ratchet.cli.options import Home
from ratchet.cli.options import recipe as recipe_named
from ratchet.cli.terminal import console, output, print_json, print_rows
from ratchet.infra.settings import load_settings
from ratchet.verifiers.errors import RatchetError

WAITING = (
    "**Late** runs wait for a worker of the pool `{pool}`, or for a place in it: `prefect worker start --pool {pool}` "
    "starts a worker. **AwaitingConcurrencySlot** runs wait for an earlier run of this deployment: {limit} run at "
    "a time (`ratchet deploy --concurrency-limit`)."
)
"""The reasons for which runs wait, in a deployment's description."""


def deploy(
    recipes: Annotated[list[str] | None, recipe_named("Recipes (default: tiny).", show_default=False)] = None,
    pool: Annotated[str, typer.Option("--pool", metavar="NAME", help="The work pool whose workers run them.")] = "",
    concurrency_limit: Annotated[
        int | None, typer.Option("--concurrency-limit", min=1, max=1000, help="Runs of one deployment at a time.")
    ] = 1,
    home: Home = None,
) -> None:
    """Register the flows with the Prefect server at PREFECT_API_URL.

    Each recipe has six: the pipeline under the recipe's name, curation, training, evaluation, comparison and report.

    A worker of the pool runs what is started from the UI, the API or a schedule: `prefect worker start --pool NAME`, in
    an environment with Ratchet. Run the command again to update the deployments.

    Example, with a Prefect server that has a pool `gpus`: `ratchet deploy tiny --pool gpus`
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
    from ratchet.infra.recipe import load_recipe

    names = recipes or ["tiny"]
    for name in names:
        load_recipe(name)
    settings = load_settings(home)
    require_answer(api)
    from prefect import get_client

    from ratchet.flows.deployments import deployments
    from ratchet.flows.triggered import FOLDER

    with get_client(sync_client=True) as client:
        pools = {work_pool.name: work_pool for work_pool in client.read_work_pools()}
        workers = client.read_workers_for_work_pool(pool) if pool in pools else []
    if pool not in pools:
        raise RatchetError(
            f"{api} has no work pool {pool!r}, only {', '.join(pools) or 'none'}. "
            f"`prefect work-pool create {pool} --type process` creates it."
        )
    environment = {
        "RATCHET_HOME": str(settings.home), "MLFLOW_TRACKING_URI": settings.tracking_uri,
        "RATCHET_TRACKING": ",".join(settings.trackers), **SAFE_PATH,
    }  # fmt: skip
    if pools[pool].type == "process":  # in a pod or container, paths are others
        environment[FOLDER] = str(Path.cwd())
    variables: dict[str, Any] = {"env": environment}
    rows, waiting = [], WAITING.format(pool=pool, limit=concurrency_limit)
    for name in names:
        for deployment in deployments(
            name, waiting, work_pool_name=pool, job_variables=variables, concurrency_limit=concurrency_limit
        ):
            deployment.apply()
            rows.append({"deployment": f"{deployment.flow_name}/{deployment.name}"})
    if output.json:
        print_json(rows)
        return
    print_rows(rows)
    start, limit = f"[bold]prefect worker start --pool {pool}[/]", pools[pool].concurrency_limit
    online = sum(worker.status == "ONLINE" for worker in workers)
    if pools[pool].is_paused:
        console.print(f"\nThe pool is paused, so runs wait: [bold]prefect work-pool resume {pool}[/]", soft_wrap=True)
    if online:
        console.print(f"\nWorkers polling the pool: {online}. Start another one: {start}", soft_wrap=True)
    else:
        console.print(f"\nNo worker polls the pool; runs stay *Late* until you start one: {start}", soft_wrap=True)
    most = f", {limit} in the whole pool" if limit is not None else ""
    console.print(f"Runs at a time: {concurrency_limit} of each deployment{most}; others wait.", soft_wrap=True)
