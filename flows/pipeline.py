"""The whole pipeline: from raw problems to a trained model, its scores, and a report."""

from ratchet.flows.curate import curate_each
from ratchet.flows.flow import flow
from ratchet.flows.runs import open_run
from ratchet.flows.train import train
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.store.artifacts import Artifact
from ratchet.tasks.evaluation import check_evaluation
from ratchet.tasks.report import report


@flow
def pipeline(recipe: Recipe) -> Artifact:
    """Curate each domain, train through the curriculum, evaluate after its stages; returns the report."""
    with open_run(recipe, "pipeline") as run:
        check_evaluation(run)
        curated = curate_each(recipe, run.domains)
        trained = train(recipe, curated)

        run.phase("Report")
        return report(run, trained.evaluations, curated)
