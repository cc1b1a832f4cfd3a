"""Approvals: a run waits for a person where its recipe says so."""

from collections.abc import Sequence

from ratchet.infra.settings import Settings
from ratchet.infra.store.approvals import Approval, Approvals
from ratchet.infra.store.artifacts import Artifact
from ratchet.tasks import prefect_page
from ratchet.tasks.run_context import PlannedStep, RunContext
from ratchet.verifiers.errors import RatchetError


def wait_for_approval(
    run: RunContext, name: str, artifacts: Sequence[Artifact], evaluations: Sequence[Artifact] = ()
) -> None:
    """Pass if the recipe has no gate of this name, or these artifacts are approved. Otherwise the run ends here with a
    message, or is suspended if Prefect can start it again. Raises RatchetError when they were rejected.

    The message names `evaluations` besides the artifacts.
    """
    recipe = run.recipe
    if name not in recipe.approve:
        return
    approvals = Approvals(run.settings)
    if run.planning:
        finished = all(artifact.finished for artifact in artifacts)
        approval = approvals.of(recipe.name, name, artifacts) if finished else None
        if not (approval and approval.approved):
            title, reason = f"approval of {name}", "the run waits here for --approve"
            asked = approval if approval and approval.run else None
            run.plan.append(PlannedStep(title, artifacts[0], (), False, reason, approval=asked))
        return
    approval = approvals.of(recipe.name, name, artifacts)
    if approval.approved is None:
        words = "; ".join(f"{artifact.ref} ({artifact.summary})" for artifact in (*artifacts, *evaluations))
        asked = {"summary": words, "run": f"{recipe.name}-seed{recipe.seed}", "flow_run": prefect_page.resumable_run()}
        approval = approval.model_copy(update=asked)
        approvals.save(approval)
        resumed_by = prefect_page.ask(
            approval.key,
            f"The run waits for approval of {name}: {words}. Look with `ratchet show {artifacts[0].ref}` or "
            "`ratchet ui`; then give the same command again with --approve, or with --reject REASON.",
        )
        approval = approval.decided(True, resumed_by)
        approvals.save(approval)
    assert run.tracking is not None
    run.tracking.event("tags", run.root, tags={f"ratchet.approval.{name}": f"{approval}; {approval.summary}"})
    if not approval.approved:
        raise RatchetError(f"{approval}. Change the recipe, or continue anyway: the same command with --approve.")
    run.reporter.say(f"✓ {approval}")


def decide(plan: Sequence[PlannedStep], settings: Settings, approved: bool, reason: str = "") -> Approval:
    """Record a person's decision at the first gate at which a run of this plan has waited, or was rejected. Raises
    RatchetError when there is none."""
    asked = next((step.approval for step in plan if step.approval), None)
    if asked is None:
        raise RatchetError("No run with these settings waits for approval. `ratchet show approvals` lists all.")
    approval = asked.decided(approved, reason=reason)
    Approvals(settings).save(approval)
    return approval
