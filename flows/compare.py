"""Two or more stored evaluations against each other, question by question."""

from __future__ import annotations

from collections.abc import Sequence

from prefect import flow

from ratchet.infra.artifacts import Artifact
from ratchet.infra.recipe.model import Recipe
from ratchet.tasks.pipeline_run import open_run
from ratchet.tasks.report import report, require_same_settings, stored_evaluations


@flow(name="compare")
def compare(recipe: Recipe, evaluations: Sequence[str], despite_settings: bool = False) -> Artifact:
    """The report of evaluations given in order, by their references; refused where they were not asked the same, unless
    `despite_settings`: then the report says what differs."""
    with open_run(recipe, "compare") as run:
        run.watcher.phase("Compare")
        found = stored_evaluations(evaluations)
        if not despite_settings:
            require_same_settings(found)
        return report(recipe, found, curated=[], title=" against ".join(artifact.name for artifact in found))
