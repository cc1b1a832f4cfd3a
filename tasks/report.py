"""The report of a run: scores over the pipeline, what curation dropped and how well, and where everything came from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow.parquet as pq

from evaluation.report import Section, write_report
from infra.artifacts import GIVEN_KINDS, Artifact, Draft
from infra.errors import RatchetError
from infra.recipe.model import Recipe
from tasks.curation import Curated
from tasks.lineage import ancestors
from tasks.pipeline_run import active_run
from tasks.step import Step, run_step

REPORT = Step("report", 1, "report")


def report(recipe: Recipe, evaluations: Sequence[Artifact], curated: Sequence[Curated]) -> Artifact:
    """One HTML page and the same in Markdown; the pipeline's last artifact, from which everything else is reached."""
    if not evaluations:
        raise RatchetError("Nothing was evaluated: evaluation.after in the recipe names no stage.")
    store = active_run().store

    def make(draft: Draft) -> None:
        sections = [section for data in curated for section in _curation_sections(data)]
        behind = ancestors([*evaluations, *(data.problems for data in curated)], store)
        text = "Every artifact behind these scores, with what it was made from, raw files first."
        sections.append(Section("Lineage", text, _lineage(behind)))
        files = write_report(
            [(artifact.name, artifact.path) for artifact in evaluations],
            draft.path,
            title=f"{recipe.name}, seed {recipe.seed}",
            sections=sections,
        )
        (draft.path / "lineage.json").write_text(json.dumps([a.manifest for a in behind if a.kind not in GIVEN_KINDS]))
        draft.extra["summary_table"] = _summary_table(evaluations)
        draft.extra["shown"] = [str(file.relative_to(draft.path)) for file in files]
        draft.extra["metrics"] = evaluations[-1].manifest["metrics"]
        draft.extra["headline"] = evaluations[-1].manifest["headline"]

    inputs = [*evaluations, *(data.problems for data in curated)]
    return run_step(REPORT, recipe.name, parameters={"recipe": recipe.name}, inputs=inputs, make=make)


def _summary_table(evaluations: Sequence[Artifact]) -> list[dict[str, Any]]:
    """One row a checkpoint and benchmark: pass@1 with its standard error, pass@k at the largest k, share cut."""
    rows = []
    for evaluation in evaluations:
        scores = json.loads((evaluation.path / "scores.json").read_text())
        for name, benchmark in scores["benchmarks"].items():
            first, *_, last = benchmark["pass_at"]
            one, error = benchmark["pass_at"][first]["value"], benchmark["pass_at"][first]["standard_error"]
            rows.append(
                {
                    "benchmark": name,
                    "after": evaluation.name,
                    f"pass@{first}": f"{_number(one)} ± {_number(error)}",
                    f"pass@{last}": _number(benchmark["pass_at"][last]["value"]),
                    "tokens": f"{benchmark['response_tokens']['all']['mean']:.0f}",
                    "cut": f"{benchmark['truncation_rate']:.1%}",
                }
            )
    return sorted(rows, key=lambda row: row["benchmark"])  # stable: checkpoints stay in order


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _curation_sections(data: Curated) -> list[Section]:
    directory = data.problems.path
    rows = pq.read_table(directory / "funnel.parquet").to_pylist()
    missing = data.problems.manifest["parameters"]["not_done"]
    text = "Rows in, rows dropped by each rule, rows out." + (f" Not done: {', '.join(missing)}." if missing else "")
    sections = [
        Section(f"Curation: {data.domain}", text, rows, figure_png=(directory / "funnel.png").read_bytes()),
    ]
    scores = directory / "rule_scores.json"
    if scores.is_file():
        sections.append(
            Section(
                f"How well each rule did: {data.domain}",
                "Against what the tiny world did to each row, which curation never reads.",
                json.loads(scores.read_text()),
            )
        )
    return sections


def _lineage(behind: Sequence[Artifact]) -> list[dict[str, Any]]:
    rows = []
    for artifact in behind:
        is_given = artifact.kind in GIVEN_KINDS
        inputs = [] if is_given else artifact.manifest["inputs"]
        rows.append(
            {
                "artifact": artifact.ref,
                "made by": "given" if is_given else artifact.manifest["step"],
                "made from": ", ".join(f"{i['kind']}/{i['name']}-{i['key'][:12]}" for i in inputs),
                "sha256 of what it is made of": artifact.key[:16] + "…",
            }
        )
    return rows
