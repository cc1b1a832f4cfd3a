"""`ratchet approve`: a person's decision at a gate of a recipe."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from ratchet.cli.options import Home
from ratchet.cli.terminal import columns, console, print_whole
from ratchet.infra.recipe import load_recipe
from ratchet.infra.settings import Settings, load_settings

if TYPE_CHECKING:
    from ratchet.infra.store.approvals import Approval


def approve(
    which: Annotated[
        str, typer.Argument(help="A recipe, a run (`tiny-seed0`) or the artifact to approve (default: list all).")
    ] = "",
    reject: Annotated[str, typer.Option("--reject", metavar="REASON", help="Reject instead: the run ends.")] = "",
    home: Home = None,
) -> None:
    """Approve or reject the results at which a run waits (`approve` in its recipe).

    The decision belongs to the content: the same content is not asked about again. A run that Prefect has suspended
    resumes; a terminal's run continues with its own command.

    Example: `ratchet approve tiny --reject "too many truncated"`
    """
    from ratchet.infra.store.approvals import Approvals

    settings = load_settings(home)
    approvals = Approvals(settings)
    if not which:
        table = columns("run", "gate", "decision", "what")
        for each in approvals.all():
            table.add_row(each.run, each.gate, "waits" if each.approved is None else str(each), each.summary)
        print_whole(table)
        return
    if Path(which).is_file():
        which = load_recipe(which).name
    decision = approvals.open(which).decided(not reject, reason=reject)
    approvals.save(decision)
    console.print(f"{decision}: {', '.join(decision.artifacts)}", soft_wrap=True, markup=False)
    if decision.flow_run and _resume(decision, settings):
        console.print("Prefect resumes the run.")
    elif decision.approved:
        console.print("The same command as before continues the run.")


def _resume(decision: "Approval", settings: Settings) -> bool:
    """Have Prefect start the suspended run again; False where it is not suspended or no server knows it."""
    from ratchet.cli.prefect_server import answering, configure_prefect, require_answer, server_address

    configure_prefect(settings)
    if not (address := server_address(settings)):
        return False
    require_answer(address)
    os.environ["PREFECT_API_URL"] = address
    from prefect.exceptions import NotPausedError, ObjectNotFound
    from prefect.flow_runs import resume_flow_run

    try:
        with answering(address):
            resume_flow_run(UUID(decision.flow_run))
    except (NotPausedError, ObjectNotFound):
        return False
    return True
