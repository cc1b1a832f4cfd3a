"""The whole pipeline: from raw problems to a trained model, its scores, and a report."""

from ratchet.flows.curate import curate_each
from ratchet.flows.flow import flow
from ratchet.flows.train import train
from ratchet.infra.store.artifacts import Artifact
from ratchet.tasks.evaluation import check_evaluation
from ratchet.tasks.report import report
from ratchet.tasks.run_context import RunContext


@flow
def pipeline(run: RunContext) -> Artifact:
    """Curate each domain, train through the curriculum, evaluate after its stages; returns the report."""
    check_evaluation(run)
    curated = curate_each(run)
    trained = train(run, curated)

    run.phase("Report")
    return report(run, trained.evaluations, curated)
