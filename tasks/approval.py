"""Gates: a run waits for a person's approval where its recipe says so."""

from collections.abc import Sequence

from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.store.approvals import Approvals
from ratchet.infra.store.artifacts import Artifact
from ratchet.tasks import prefect_page
from ratchet.tasks.pipeline_run import PlannedStep, active_run
from ratchet.verifiers.errors import RatchetError


def gate(recipe: Recipe, name: str, artifacts: Sequence[Artifact], evaluations: Sequence[Artifact] = ()) -> None:
    """Pass if the recipe has no gate of this name, or these artifacts are approved. Otherwise the run ends here with a
    message, or is suspended where Prefect can start it again. Raises RatchetError when they were rejected.

    The message names `evaluations` beside the artifacts.
    """
    if name not in recipe.approve:
        return
    run = active_run()
    approvals = Approvals(run.settings)
    if run.planning:
        known = all(artifact.finished for artifact in artifacts)
        if not (known and approvals.of(recipe.name, name, artifacts).approved):
            reason = f"the run waits here for `ratchet approve {recipe.name}`"
            run.plan.append(PlannedStep(f"approval of {name}", artifacts[0], (), False, reason))
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
            f"`ratchet ui`; then `ratchet approve {recipe.name}`, or with --reject REASON, and the same command again.",
        )
        approval = approval.decided(True, resumed_by)
        approvals.save(approval)
    assert run.tracking is not None
    run.tracking.event("tags", run.root, tags={f"ratchet.approval.{name}": f"{approval}; {approval.summary}"})
    if not approval.approved:
        raise RatchetError(
            f"{approval}. Change the recipe, or continue anyway: `ratchet approve {approval.artifacts[0]}`."
        )
    run.watcher.say(f"✓ {approval}")
