"""The report of a run: scores, training curves, curation funnels and lineage.

pandas and Matplotlib are imported inside functions, because planning a run does not need them."""

import importlib.metadata
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.parquet as pq

from ratchet.data_curation.base.draft import Draft
from ratchet.infra.pages import Section
from ratchet.infra.pages.lineage_table import lineage_table
from ratchet.infra.store.artifacts import GIVEN_KINDS, Artifact, ArtifactStore
from ratchet.infra.store.manifest import ReportResult, TracesManifest
from ratchet.infra.store.versions import code_version
from ratchet.infra.tracking.events import mlflow_address, read_state, run_page
from ratchet.tasks.run_context import RunContext
from ratchet.tasks.step import Step, StepOutput, log_files, log_output, run_step
from ratchet.verifiers.errors import RatchetError


def _log(output: StepOutput) -> None:
    """Show the report on the run's page too, with its scores if the run has evaluated nothing itself."""
    evaluated = any(step.output.kind == "evaluation" for step in output.run.plan)
    log_output(output, pages=[output.child] if evaluated else [output.child, output.run.root])
    if evaluated:
        log_files(output, output.run.root)


REPORT = Step("report", 16, "report", log=_log)


def report(
    run: RunContext, evaluations: Sequence[Artifact], curated: Mapping[str, Artifact] = {}, title: str = ""
) -> Artifact:
    """Make the report, one HTML page and the same in Markdown: the pipeline's last artifact, with the lineage of all
    others.

    `curated` are the problems of each domain."""
    if not evaluations:
        raise RatchetError("Nothing was evaluated: evaluation.after in the recipe names no stage.")
    recipe, store = run.recipe, run.store
    title = title or f"{recipe.name}, seed {recipe.seed}"

    def make(draft: Draft[ReportResult]) -> None:
        from ratchet.evaluation.report import write_report
        from ratchet.tasks.rollouts import rollouts_page
        from ratchet.tasks.training_report import training_sections
        from ratchet.training.rollout_log import rollout_files

        behind = [each for each in store.ancestors([*evaluations, *curated.values()], run.inputs) if each.finished]
        curation = [_curation_section(*one) for one in curated.items()]
        text = "Every step, what it was made from, and its result. A step's name opens its output."
        lineage = Section("Lineage", text, _lineage(run, behind), group_by="part", folded=True)
        kept = [each for each in behind if each.kind == "checkpoint" and rollout_files(each.path)]
        text = "What the stages sampled, with its verdict, reward and advantage: [rollouts to filter](rollouts.html)."
        browse = [Section("Rollouts", text)] if kept else []
        sections = [*training_sections(behind, run.made_from), *browse, *_prompt_sections(behind), *curation, lineage]
        files = write_report(
            [(label, artifact.path) for label, artifact in zip(_labels(evaluations), evaluations, strict=True)],
            draft.path,
            title=title,
            sections=sections,
            origin=_origin(run, evaluations),
        )
        if kept:
            (draft.path / "rollouts.html").write_text(
                rollouts_page([(each.name, each.path) for each in kept], f"Rollouts: {title}"), encoding="utf-8"
            )
            files.append(draft.path / "rollouts.html")
        manifests = [artifact.manifest.as_json() for artifact in behind if artifact.kind not in GIVEN_KINDS]
        (draft.path / "lineage.json").write_text(json.dumps(manifests))
        draft.result.summary_table = summary_table(evaluations)
        draft.result.shown = [str(file.relative_to(draft.path)) for file in files]
        draft.result.metrics = evaluations[-1].manifest.metrics
        draft.result.headline = evaluations[-1].manifest.headline

    inputs = [*evaluations, *curated.values()]
    parameters = {"recipe": recipe.name, "title": title}
    return run_step(run, REPORT, recipe.name, parameters=parameters, inputs=inputs, make=make, whole=inputs)


def _origin(run: RunContext, evaluations: Sequence[Artifact]) -> dict[str, str]:
    """Origin of the report: its time, model, run and version."""
    model = run.made_from(evaluations[-1])[0]
    scored = json.loads((evaluations[-1].path / "scores.json").read_text())["model"]
    recipe, settings = run.recipe, run.settings
    page = run_page(settings, run.root, server) if (server := mlflow_address(settings.tracking_uri)) else ""
    code = code_version()
    version = importlib.metadata.version("ratchet-rl")
    return {
        "Date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "Model": scored["endpoint"] or f"`{model.ref}`",
        "Recipe": f"{recipe.name}, seed {recipe.seed}" + (f", {run.overrides}" if run.overrides else ""),
        "Run": (f"[{run.root}]({page})" if page else f"`{run.root}`") + f" ({run.name})",
        "Version": f"Ratchet {code}" if code.startswith(version) else f"Ratchet {version} ({code})",
    }


def _labels(evaluations: Sequence[Artifact]) -> list[str]:
    """Labels of evaluations: their names, with the beginning of the key where two are equal."""
    names = [artifact.name for artifact in evaluations]
    return [a.name if names.count(a.name) == 1 else f"{a.name}-{a.key[:6]}" for a in evaluations]


def stored_evaluations(store: ArtifactStore, references: Sequence[str]) -> list[Artifact]:
    """The evaluations of these references, or all those of a report by its reference; without any, the newest. Raises
    RatchetError for anything else."""
    if not references:
        every = [artifact for artifact in store.all() if artifact.kind == "evaluation"]
        if not every:
            raise RatchetError("There is no evaluation yet. Run `ratchet evaluate` first.")
        return every[-1:]
    named = [store.open(reference) for reference in references]
    evaluations = [a for one in named for a in (store.parents(one) if one.kind == "report" else [one])]
    evaluations = [a for a in evaluations if a in named or a.kind == "evaluation"]  # a report has other inputs, too
    for artifact in evaluations:
        if artifact.kind != "evaluation":
            raise RatchetError(f"{artifact.ref} is not an evaluation. `ratchet show evaluation` lists them.")
    if len({artifact.key for artifact in evaluations}) < len(evaluations):
        raise RatchetError("The same evaluation is given twice. Give two different ones.")
    return evaluations


def require_same_settings(evaluations: Sequence[Artifact]) -> None:
    """Raises RatchetError that names every setting in which these evaluations differ from the first."""
    from ratchet.evaluation.comparison import setting_differences

    first, *others = [json.loads((artifact.path / "scores.json").read_text()) for artifact in evaluations]
    different = [text for other in others for text in setting_differences(first, other)]
    if different:
        raise RatchetError(
            "The settings of these evaluations differ, which may explain a difference between their scores: "
            f"{'; '.join(dict.fromkeys(different))}. Evaluate both with the same settings, or add "
            "--allow-mismatch: the report then lists the differences."
        )


def summary_table(evaluations: Sequence[Artifact]) -> list[dict[str, Any]]:
    """A table with one row per benchmark and checkpoint: pass@1 with its standard error and pass@k at `shown_k`,
    each with the paired difference from the first checkpoint if there are several; mean tokens and the share
    truncated."""
    from ratchet.evaluation import tables
    from ratchet.evaluation.report import by_benchmark, read_scores

    labeled = zip(_labels(evaluations), evaluations, strict=True)
    benchmarks = by_benchmark([read_scores(label, evaluation.path) for label, evaluation in labeled])
    largest = {name: tables.shown_k(series) for name, series in benchmarks.items()}
    same = len({*largest.values()}) == 1
    rows = []
    for name, series in benchmarks.items():
        for number, (label, scores) in enumerate(series):
            row = {"benchmark": name, "after": label}
            for k in dict.fromkeys(["1", largest[name]] if same else ["1", "k"]):
                at = largest[name] if k == "k" else k
                row[f"pass@{k}"] = (f"k = {at}: " if k == "k" else "") + tables.estimate(scores["pass_at"][at])
                if len(evaluations) > 1:
                    gain = tables.gain_between(series, at, last=number)
                    row[f"change of pass@{k} [95 %]"] = tables.change(gain) if gain else "–"
            row["tokens"] = tables.number(scores["response_tokens"]["all"]["mean"], 0)
            rows.append(row | {"truncated": tables.percent(scores["truncation_rate"])})
    return rows


def _prompt_sections(behind: Sequence[Artifact]) -> list[Section]:
    """The first prompt of the user's own traces that is worded otherwise in training, or the first, in both
    wordings."""
    sections = []
    for traces in behind:
        prompts = TracesManifest.of(traces).prompts if traces.kind == "traces" else None
        if prompts and prompts.of:
            otherwise = f"{prompts.different:,} are worded otherwise." if prompts.different else "None differs."
            text = f"{prompts.of:,} user turns of the warm start, beside those of training. {otherwise}"
            pair = [{"warm start": prompts.traces, "training and evaluation": prompts.training}]
            sections.append(Section("Prompts", text, pair, folded=not prompts.different))
    return sections


def _curation_section(domain: str, problems: Artifact) -> Section:
    from ratchet.tasks.curation_report import funnel_drawing

    funnel = pq.read_table(problems.path / "funnel.parquet")
    missing = problems.manifest.parameters["not_done"]
    text = "Rows in, rows dropped by each rule, rows out." + (f" Skipped: {', '.join(missing)}." if missing else "")
    drawing, caption = funnel_drawing(funnel, f"funnel-{domain}"), "Rows left (blue) and dropped (orange)."
    return Section(f"Curation: {domain}", text, funnel.to_pylist(), folded=True, drawing=drawing, caption=caption)


def _lineage(run: RunContext, behind: Sequence[Artifact]) -> list[dict[str, str]]:
    """Steps link to their MLflow page where a tracking server has it, else to the artifact's directory."""
    server = mlflow_address(run.settings.tracking_uri)
    state = read_state(run.settings, run.root) if server else {}

    def link(artifact: Artifact) -> str:
        page = state.get("runs", {}).get(run.children.get(artifact.key))
        here = f"../../{artifact.kind}/{artifact.name}-{artifact.key[:12]}/"  # from the report's own
        return f"{server}/#/experiments/{state['experiment_id']}/runs/{page}" if page else here

    titles = {step.output.key: step.title for step in run.plan}
    steps = [
        (titles.get(output.key, ""), output, run.made_from(output))
        for output in behind
        if output.kind not in GIVEN_KINDS
    ]
    return lineage_table(steps, link)
