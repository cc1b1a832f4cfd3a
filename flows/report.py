"""The report of stored evaluations, with optional analyses."""

from collections.abc import Sequence

from ratchet.flows.flow import flow
from ratchet.infra.store.artifacts import Artifact
from ratchet.tasks import report as step
from ratchet.tasks.run_context import RunContext


@flow
def report(run: RunContext, evaluations: Sequence[str], paired: bool = False) -> Artifact:
    """Report these evaluations in order (default: the newest). With `paired`, different settings are refused."""
    run.phase("Report")
    evaluations_named = step.stored_evaluations(run.store, evaluations)
    if paired:
        step.require_same_settings(evaluations_named)
    title = ", ".join(artifact.name for artifact in evaluations_named)
    return step.report(run, evaluations_named, title=title)
