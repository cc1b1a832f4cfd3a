"""The whole pipeline: from raw problems to a trained model, its scores, and a report."""

from ratchet.flows.curate import curate_each
from ratchet.flows.train import train
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.store.artifacts import Artifact
from ratchet.tasks.evaluation import check_evaluation
from ratchet.tasks.flow import flow
from ratchet.tasks.pipeline_run import open_run
from ratchet.tasks.report import report


@flow
def pipeline(recipe: Recipe) -> Artifact:
    """Curate each domain, train through the curriculum, evaluate after its stages; returns the report."""
    with open_run(recipe, "pipeline") as run:
        check_evaluation(recipe)
        curated = curate_each(recipe)
        trained = train(recipe, curated)

        run.phase("Report")
        return report(recipe, trained.evaluations, curated)
