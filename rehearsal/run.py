"""The pipeline of a rehearsal, without Prefect's server and MLflow, which no mechanism asks for, approved at each gate.

Run as a process of its own (`python -m ratchet.rehearsal.run RECIPE HOME`), in which HF_ENDPOINT names the local Hub.
"""

import sys
from pathlib import Path

from ratchet.flows.pipeline import pipeline
from ratchet.infra.recipe import load_recipe
from ratchet.infra.settings import load_settings
from ratchet.tasks.approval import decide
from ratchet.tasks.flow import plan_flow
from ratchet.tasks.pipeline_run import Caller, Watcher, called_by
from ratchet.verifiers.errors import RatchetError, Waiting


def run(path: Path, home: Path) -> None:
    recipe, settings = load_recipe(path), load_settings(home)
    for _ in range(len(recipe.approve) + 1):
        plan, faults = plan_flow(pipeline, recipe, (), settings)
        if faults:
            raise RatchetError("\n".join(faults))
        if any(step.approval for step in plan):
            print(decide(plan, settings, approved=True), flush=True)
        try:
            with called_by(Caller(settings, Watcher(), prefect=False, mirrored=False)):
                pipeline(recipe)
            return
        except Waiting as waiting:
            print(waiting, flush=True)


if __name__ == "__main__":
    try:
        run(Path(sys.argv[1]), Path(sys.argv[2]))
    except RatchetError as error:
        sys.exit(f"error: {error}")
