"""`ratchet verify --rollouts`: find the rewards of a run that the current verifier would not give."""

import json
from collections import Counter, defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ratchet.cli.terminal import clean, hint, output, print_json, print_rows
from ratchet.infra.settings import Settings

if TYPE_CHECKING:
    from ratchet.training.rollout_log import RolloutFilter

LISTED = 20
"""Most rollouts shown in the terminal."""


def verify_rollouts(
    settings: Settings, what: str, wanted: "RolloutFilter", target: Path | None, workers: int | None
) -> None:
    """Judge the kept rollouts of a stage or run again; count and list those whose reward would now differ.
    `target` gets all of them as JSON lines, with both verdicts and the response."""
    from ratchet.data_curation.base.files import replacing
    from ratchet.tasks.rollouts import kept_rollouts, rescored

    counts, problems = defaultdict[tuple[str, str], Counter[str]](Counter), defaultdict[tuple[str, str], set[str]](set)
    changes: list[dict[str, Any]] = []
    with ExitStack() as stack:
        draft = stack.enter_context(replacing(target)) if target else None
        file = stack.enter_context(draft.open("w", encoding="utf-8")) if draft else None
        for stage in kept_rollouts(settings, what):
            for each in rescored(stage, wanted, workers):
                row, verdict = each.row, each.verdict
                counts[stage.name, row["domain"]][each.change] += 1
                if not each.change:
                    continue
                problems[stage.name, row["domain"]].add(row["problem_id"])
                change = {
                    "stage": stage.name, "step": row["step"], "problem_id": row["problem_id"], "sample": row["sample"],
                    "change": each.change, "paid": each.paid, "due": each.due, "was_decided_by": row["decided_by"],
                    "decided_by": verdict.decided_by, "extracted": verdict.extracted, "detail": verdict.detail,
                }  # fmt: skip
                changes.append(change)
                if file:
                    file.write(json.dumps({**change, "response": row["response"]}, ensure_ascii=False) + "\n")
    table = [
        {
            "stage": stage, "domain": domain, "judged again": count.total(), "overpaid": count["overpaid"],
            "underpaid": count["underpaid"], "their problems": len(problems[stage, domain]),
        }
        for (stage, domain), count in counts.items()
    ]  # fmt: skip
    if output.json:
        print_json({"stages": table, "changes": changes})
        return
    print_rows(table)
    changes.sort(key=lambda change: change["change"])
    print_rows(
        {
            "step": change["step"], "problem": change["problem_id"], "sample": change["sample"],
            "change": change["change"], "was decided by": change["was_decided_by"] or "–",
            "now": change["decided_by"] or "–", "extracted": clean((change["extracted"] or "")[:40]).plain,
        }
        for change in changes[:LISTED]
    )  # fmt: skip
    if len(changes) > LISTED:
        rest = f"all are in {target}" if target else "`--output FILE` gets all"
        hint(f"{len(changes):,} rewards would differ, {LISTED} are listed; {rest}.")
