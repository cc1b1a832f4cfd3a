"""Run the pipeline of a rehearsal, without Prefect's server and MLflow, which no mechanism asks for, approved at each
gate.

Run as a process of its own (`python -m ratchet.rehearsal.run RECIPE HOME`), in which HF_ENDPOINT names the local Hub.
"""

import sys
from pathlib import Path

from ratchet.flows.pipeline import pipeline
from ratchet.infra.recipe import load_recipe
from ratchet.infra.settings import load_settings
from ratchet.tasks.approval import decide
from ratchet.tasks.reporter import ProgressReporter
from ratchet.verifiers.errors import RatchetError, Waiting


def run(path: Path, home: Path) -> None:
    recipe, settings = load_recipe(path), load_settings(home)
    for _ in range(len(recipe.approve) + 1):
        plan, faults = pipeline.plan(recipe, (), settings)
        if faults:
            raise RatchetError("\n".join(faults))
        if any(step.approval for step in plan):
            print(decide(plan, settings, approved=True), flush=True)
        try:
            pipeline.start(recipe, (), settings, ProgressReporter(), prefect=False, mirrored=False)
            return
        except Waiting as waiting:
            print(waiting, flush=True)


if __name__ == "__main__":
    try:
        run(*map(Path, sys.argv[1:]))
    except RatchetError as error:
        sys.exit(f"error: {error}")
