"""Print the differences between two runs."""

from collections.abc import Sequence
from typing import Any

from rich.text import Text

from ratchet.cli.terminal import columns, console, hint, output, print_json, print_unwrapped
from ratchet.evaluation.report import read_scores
from ratchet.evaluation.tables import estimate
from ratchet.infra.tracking.run_record import RunRecord
from ratchet.tasks.run_differences import Differences, Facts, differences, score_pairs


def show_differences(a: RunRecord, b: RunRecord) -> None:
    """Show the differences between two runs: in their recipes, their steps, their scores."""
    changes = differences(a, b)
    if output.json:
        print_json(_facts(changes, a, b))
        return
    for run, mark in ((a, "A"), (b, "B")):
        overrides = f"  {run.tags['ratchet.overrides']}" if "ratchet.overrides" in run.tags else ""
        console.print(Text.assemble((f"{mark}  ", "bold"), f"{run.name} {run.run_id}{overrides}"))
    _table("Recipes", changes.recipes)
    changed = [(title, facts) for title, facts in changes.own.items() if facts]
    for number, (title, facts) in enumerate(changed):
        _table(f"{'Also changed' if number else 'First'}: {title}", facts)
    _list("Changed only by their inputs", [title for title, facts in changes.own.items() if not facts] or ["none"])
    _list("With the same content in the end", changes.same_content)
    _list("Only in A", changes.only[0])
    _list("Only in B", changes.only[1])
    console.print(f"{len(changes.shared) - len(changes.own)} of {len(changes.shared)} steps are the same.")
    table, pairs = columns("score", "A", "B"), score_pairs(changes.shared)
    for one, other in pairs:
        scores = [read_scores(each.name, each.path).scores["benchmarks"] for each in (one, other)]
        for name in scores[0]:
            if name in scores[1]:
                table.add_row(f"{one.name} {name} pass@1", *(estimate(each[name]["pass_at"]["1"]) for each in scores))
    if table.row_count:
        console.print()
        print_unwrapped(table)
        one, other = pairs[-1]
        if one.key != other.key:
            hint(f"Paired, with a test: ratchet compare {one.ref} {other.ref}")


def _facts(changes: Differences, a: RunRecord, b: RunRecord) -> dict[str, Any]:
    """The output of `show_differences` as data."""

    def each(facts: Facts) -> list[dict[str, Any]]:
        return [{"name": name, "a": one, "b": other} for name, one, other in facts]

    scores = [
        (f"{one.name}/{name}", value, other.manifest.metrics.get(name))
        for one, other in score_pairs(changes.shared)
        for name, value in one.manifest.metrics.items()
    ]
    return {
        "a": a.run_id, "b": b.run_id, "recipes": each(changes.recipes),
        "steps": {title: each(facts) for title, facts in changes.own.items()},
        "same_content": changes.same_content, "only_in_a": changes.only[0], "only_in_b": changes.only[1],
        "scores": each(scores),
    }  # fmt: skip


def _list(title: str, names: Sequence[str]) -> None:
    if names:
        console.print(f"\n[bold]{title}[/]: {', '.join(names)}", soft_wrap=True)


def _table(title: str, facts: Facts) -> None:
    console.print(f"\n[bold]{title}[/]" + ("" if facts else ": the same"))
    if facts:
        table = columns("", "A", "B")
        for name, a, b in facts:
            table.add_row(Text(name), *(Text("–" if value is None else str(value)) for value in (a, b)))
        print_unwrapped(table)
