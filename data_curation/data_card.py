"""The data card of a curated set, in the form that dataset hubs read: where it comes from, what was done, what is left.

Everything in it is taken from the steps' manifests and tables; nothing is written by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

EXAMPLE_CHARACTERS = 160
SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"))

Manifest = Mapping[str, Any]


def card(
    domain: str, funnel: pa.Table, kept: pa.Table, rejected: pa.Table, steps: Sequence[Manifest],
    not_done: Mapping[str, str],
) -> str:  # fmt: skip
    """The card in Markdown. `steps` are the manifests of the chain, in order; `not_done` says of a step why it was not
    taken."""
    rows_in = funnel.column("rows_in")[0].as_py() if len(funnel) else len(kept)
    size = next((name for limit, name in SIZES if len(kept) < limit), "n>10M")
    lines = [
        "---", f"pretty_name: Curated {domain} problems", "language: [en]", "license: other",
        "task_categories: [text-generation]", f"size_categories: [{size}]",
        f"tags: [{domain}, reasoning, reinforcement-learning, verifiable-rewards]", "---", "",
        f"# Curated {domain} problems", "",
        f"{rows_in:,} rows in, {len(kept):,} kept: {domain} problems whose answers a program can check. One row is one "
        "problem; `rejected.parquet` beside it holds every other row with the rule that took it and the evidence.", "",
    ]  # fmt: skip
    if not_done:
        lines += ["**Not done:** " + "; ".join(f"`{step}` ({reason})" for step, reason in not_done.items()) + ".", ""]
    lines += [*_sources(steps), *_steps(steps), *_contamination(steps), *_funnel(funnel), *_columns(kept)]
    lines += ["## Limits", "", *(f"- {limit}" for limit in _limits(domain, not_done)), ""]
    return "\n".join([*lines, *_examples(rejected)]) + "\n"


def file_names(first: Manifest) -> list[str]:
    """What the first step calls its files; files of one name, by as much of their paths as tells them apart."""
    return first["parameters"].get("sources") or [facts["name"] for facts in first["inputs"]]


def _sources(steps: Sequence[Manifest]) -> list[str]:
    if not steps:
        return []
    lines = ["## Sources", "", "| file | identity |", "|---|---|"]
    for name, facts in zip(file_names(steps[0]), steps[0]["inputs"], strict=True):
        lines.append(f"| {_cell(name)} | `{facts['key'][:16]}…` |")
    return [
        *lines,
        "",
        "The licences are those of the sources; check them before you publish or train on this set.",
        "",
    ]


def _steps(steps: Sequence[Manifest]) -> list[str]:
    lines = ["## What was done", "", "| step | parameters | version | made by |", "|---|---|---:|---|"]
    for manifest in steps:
        told = ", ".join(
            f"{name} {_cell(value)}" for name, value in _leaves(manifest["parameters"]) if value is not None
        )
        lines.append(f"| {manifest['step']} | {told or '–'} | {manifest['step_version']} | code {manifest['code']} |")
    return [*lines, ""]


def _contamination(steps: Sequence[Manifest]) -> list[str]:
    manifest = next((m for m in steps if m["step"] == "decontaminate"), None)
    if manifest is None:
        return []
    summary, parameters = manifest["summary"], manifest["parameters"]
    held_out = ", ".join(_cell(facts["name"]) for facts in manifest["inputs"][1:])
    test, other = summary["self_test"], "paper" if summary["preset"] == "coverage" else "coverage"
    return [
        "## Contamination", "",
        f"Checked against {summary['items']:,} items of {held_out} by {parameters['ngram']}-grams of tokens, preset "
        f"`{summary['preset']}`, which takes {summary[summary['preset'] + '_hits']:,} rows; `{other}` would take "
        f"{summary[other + '_hits']:,}. Of {test['items']:,} items in {len(test['recall_by_disguise'])} disguises "
        f"{test['recall']:.1%} were found; {len(test['unprotected'])} items are unprotected.", "",
    ]  # fmt: skip


def _funnel(funnel: pa.Table) -> list[str]:
    lines = ["## Funnel", "", "| step | rule | rows in | dropped | rows out |", "|---|---|---:|---:|---:|"]
    for r in funnel.to_pylist():
        lines.append(f"| {r['step']} | {r['rule']} | {r['rows_in']:,} | {r['dropped']:,} | {r['rows_out']:,} |")
    return [*lines, ""]


def _columns(kept: pa.Table) -> list[str]:
    lines = ["## Columns", "", "| column | type | filled |", "|---|---|---:|"]
    for field in kept.schema:
        filled = 1 - kept.column(field.name).null_count / max(len(kept), 1)
        lines.append(f"| {field.name} | {field.type} | {filled:.0%} |")
    return [*lines, ""]


def _limits(domain: str, not_done: Mapping[str, str]) -> list[str]:
    limits = [
        "A benchmark item told in other words, or in another language, is not found by n-grams.",
        "Rules read the statement; a drawing that is missing without being mentioned goes unseen.",
    ]
    if domain == "math" and "majority_vote" in not_done:
        limits.append("No teacher has confirmed the answers: some are wrong.")
    if domain == "code":
        limits.append("Tests were run on published solutions; an input that no test tries can still be judged wrongly.")
    return limits


def _examples(rejected: pa.Table) -> list[str]:
    examples: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rejected.to_pylist():
        examples.setdefault((row["step"], row["rule"]), row)
    lines = ["## One dropped row of each rule", ""]
    for (step, rule), row in examples.items():
        lines.append(f"- `{step}:{rule}`, row {row['source_id']} of {row['source']}: {_short(row['prompt'])}")
        lines.append(f"  evidence: {_short(row['evidence'])}")
    return lines


def _leaves(parameters: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    leaves: list[tuple[str, Any]] = []
    for name, value in parameters.items():
        leaves += _leaves(value, f"{prefix}{name}.") if isinstance(value, Mapping) else [(prefix + name, value)]
    return leaves


def _cell(value: Any) -> str:
    """One cell of a table: no text of a file or a recipe can open another."""
    return " ".join(str(value).split()).replace("|", "\\|").replace("<", "&lt;")


def _short(text: str | None) -> str:
    """One line without Markdown's own marks: the text comes from a data set."""
    flat = " ".join((text or "(no statement)").split())
    flat = flat if len(flat) <= EXAMPLE_CHARACTERS else flat[: EXAMPLE_CHARACTERS - 1] + "…"
    return "`" + flat.replace("`", "'") + "`"
