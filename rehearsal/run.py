"""The pipeline of a rehearsal, without Prefect's server and MLflow, which no mechanism asks for, approved at each gate.

Run as a process of its own (`python -m ratchet.rehearsal.run RECIPE HOME`, with `curate` to curate only), in which
HF_ENDPOINT names the local Hub.
"""

import sys
from contextlib import suppress
from pathlib import Path

from ratchet.flows.curate import curate_each
from ratchet.flows.pipeline import pipeline
from ratchet.flows.runs import open_run
from ratchet.infra.recipe import load_recipe
from ratchet.infra.settings import load_settings
from ratchet.tasks.approval import decide
from ratchet.tasks.reporter import ProgressReporter
from ratchet.verifiers.errors import RatchetError, Waiting


def curate(path: Path, home: Path) -> None:
    """Curate each domain, as far as it goes: the pipeline finds it done, or says why it is not."""
    recipe, settings = load_recipe(path), load_settings(home)
    with suppress(RatchetError), open_run(recipe, settings, "curate", ProgressReporter()) as run:
        curate_each(run)


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
    path, home, *only = sys.argv[1:]
    try:
        (curate if only else run)(Path(path), Path(home))
    except RatchetError as error:
        sys.exit(f"error: {error}")
