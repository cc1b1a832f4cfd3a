"""The report of a run: scores over the pipeline, what curation dropped and how well, and where everything came from.

What draws is imported where it is called: a plan does without pandas and Matplotlib."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.evaluation.benchmarks import difficulty_of, metadata_value, topics_of
from ratchet.infra.artifacts import GIVEN_KINDS, Artifact, Draft
from ratchet.infra.errors import RatchetError
from ratchet.infra.lineage_picture import lineage_picture
from ratchet.infra.pages import Drawing, Section
from ratchet.infra.problems import from_table
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.tracking import mlflow_address, read_state
from ratchet.tasks.pipeline_run import PipelineRun, active_run
from ratchet.tasks.step import Step, run_step

if TYPE_CHECKING:
    from ratchet.evaluation.boundaries import Trained

REPORT = Step("report", 7, "report")


def report(
    recipe: Recipe,
    evaluations: Sequence[Artifact],
    curated: Mapping[str, Artifact] = {},
    title: str = "",
    corpus: Sequence[Artifact] = (),
    standings: Artifact | None = None,
) -> Artifact:
    """One HTML page and the same in Markdown; the pipeline's last artifact, from which everything else is reached.

    `curated` are the problems of each domain, `corpus` text files that responses may quote, `standings` contests with
    their standings (docs/evaluation.md)."""
    if not evaluations:
        raise RatchetError("Nothing was evaluated: evaluation.after in the recipe names no stage.")
    run, store, used = active_run(), active_run().store, active_run().used
    title = title or f"{recipe.name}, seed {recipe.seed}"

    def make(draft: Draft) -> None:
        from ratchet.evaluation.creativity import read_texts
        from ratchet.evaluation.rating import read_standings
        from ratchet.evaluation.report import write_report
        from ratchet.tasks.training_report import training_sections

        behind = store.ancestors([*evaluations, *curated.values()], used)
        curation = [_curation_section(*one) for one in curated.items()]
        caption = "Rows kept (blue) and rejected (orange). A click leads to what a step has made."
        whole = Section("From the raw files to the scores", drawing=_picture(run, behind, title), caption=caption)
        text = "Every artifact behind these scores, with what it was made from, raw files first."
        lineage = Section("Lineage", text, _lineage(behind, run), folded=True)
        sections = [whole, *training_sections(behind, run.made_from), *curation, lineage]
        files = write_report(
            [(label, artifact.path) for label, artifact in zip(_labels(evaluations), evaluations, strict=True)],
            draft.path,
            title=title,
            sections=sections,
            corpus=[text for file in corpus for text in read_texts(file.path)],
            contests=read_standings(standings.path) if standings else (),
            trained=training_tasks(
                pq.read_table(a.kept, columns=["problem_id", "domain", "prompt", "metadata"])
                for a in behind
                if a.kind == "problems" and a.manifest["step"] == "curated"
            ),
        )
        manifests = [artifact.manifest for artifact in behind if artifact.kind not in GIVEN_KINDS]
        (draft.path / "lineage.json").write_text(json.dumps(manifests))
        draft.extra["summary_table"] = summary_table(evaluations)
        draft.extra["shown"] = [str(file.relative_to(draft.path)) for file in files]
        draft.extra["metrics"] = evaluations[-1].manifest["metrics"]
        draft.extra["headline"] = evaluations[-1].manifest["headline"]

    inputs = [*evaluations, *curated.values(), *corpus, *([standings] if standings else [])]
    parameters = {"recipe": recipe.name, "title": title, "corpus": len(corpus)}
    return run_step(REPORT, recipe.name, parameters=parameters, inputs=inputs, make=make, whole=inputs)


def training_tasks(tables: Iterable[pa.Table]) -> "Trained | None":
    """The domains of these training problems, with the levels of each task where all of a domain say theirs; None
    where there are no problems, so that nobody knows."""
    found: dict[str, dict[str, set[float]]] = {}
    for table in tables:
        for problem in from_table(table):
            own, level = topics_of(problem) if metadata_value(problem, ["task"]) else (), difficulty_of(problem)
            for task in own or ("",):
                levels = found.setdefault(problem.domain, {}).setdefault(task, set())
                levels.update([level] if isinstance(level, float) else [])
    return {d: {} if "" in of else {t: frozenset(ls) for t, ls in of.items()} for d, of in found.items()} or None


def _labels(evaluations: Sequence[Artifact]) -> list[str]:
    """Their names; with the beginning of the key where two have the same."""
    names = [artifact.name for artifact in evaluations]
    return [a.name if names.count(a.name) == 1 else f"{a.name}-{a.key[:6]}" for a in evaluations]


def stored_evaluations(references: Sequence[str]) -> list[Artifact]:
    """Evaluations by their references, all that a report is of by its own; with none given, the newest. Raises
    RatchetError for anything else."""
    store = active_run().store
    if not references:
        every = [artifact for artifact in store.all() if artifact.kind == "evaluation"]
        if not every:
            raise RatchetError("There is no evaluation yet: make one with `ratchet evaluate`.")
        return every[-1:]
    given = [store.open(reference) for reference in references]
    found = [a for one in given for a in (store.parents(one) if one.kind == "report" else [one])]
    found = [a for a in found if a in given or a.kind == "evaluation"]  # a report is of other things as well
    for artifact in found:
        if artifact.kind != "evaluation":
            raise RatchetError(f"{artifact.ref} is not an evaluation. `ratchet show evaluation` lists them.")
    if len({artifact.key for artifact in found}) < len(found):
        raise RatchetError("The same evaluation is given twice: there is nothing to compare.")
    return found


def require_same_settings(evaluations: Sequence[Artifact]) -> None:
    """Raises RatchetError that names every setting in which these evaluations differ from the first."""
    from ratchet.evaluation.comparison import setting_differences

    first, *others = [json.loads((artifact.path / "scores.json").read_text()) for artifact in evaluations]
    different = [text for other in others for text in setting_differences(first, other)]
    if different:
        raise RatchetError(
            "These evaluations have different settings, so a difference of their scores is not only the models': "
            f"{'; '.join(dict.fromkeys(different))}. Evaluate both with the same settings, or give "
            "--allow-mismatch: the report then names the differences."
        )


def summary_table(evaluations: Sequence[Artifact]) -> list[dict[str, Any]]:
    """One row a checkpoint and benchmark: pass@1 with its standard error, pass@k at the largest k, share truncated."""
    from ratchet.evaluation.tables import estimate, number, percent

    rows = []
    for label, evaluation in zip(_labels(evaluations), evaluations, strict=True):
        scores = json.loads((evaluation.path / "scores.json").read_text())
        for name, benchmark in scores["benchmarks"].items():
            (first, one), *_ = points = list(benchmark["pass_at"].items())
            last, most = points[-1]
            rows.append(
                {
                    "benchmark": name,
                    "after": label,
                    f"pass@{first}": estimate(one),
                    f"pass@{last}": number(most["value"]),
                    "tokens": number(benchmark["response_tokens"]["all"]["mean"], 0),
                    "truncated": percent(benchmark["truncation_rate"]),
                }
            )
    return sorted(rows, key=lambda row: row["benchmark"])  # stable: checkpoints stay in order


def _curation_section(domain: str, problems: Artifact) -> Section:
    from ratchet.tasks.curation_report import funnel_drawing

    funnel = pq.read_table(problems.path / "funnel.parquet")
    missing = problems.manifest["parameters"]["not_done"]
    text = "Rows in, rows dropped by each rule, rows out." + (f" Not done: {', '.join(missing)}." if missing else "")
    drawing, caption = funnel_drawing(funnel, f"funnel-{domain}"), "Rows left (blue) and dropped (orange)."
    return Section(f"Curation: {domain}", text, funnel.to_pylist(), folded=True, drawing=drawing, caption=caption)


def _picture(run: PipelineRun, behind: Sequence[Artifact], title: str) -> Drawing:
    """A click leads to the step's page where MLflow is a server and knows it, else to the artifact's directory."""
    server = mlflow_address(run.settings.tracking_uri)
    state = read_state(run.settings, run.root) if server else {}

    def known(artifact: Artifact) -> tuple[str, str]:
        return run.children.get(artifact.key, ("", ""))

    def link(artifact: Artifact) -> str:
        page = state.get("runs", {}).get(known(artifact)[0])
        here = f"../../{artifact.kind}/{artifact.name}-{artifact.key[:12]}/"  # from the report's own
        return f"{server}/#/experiments/{state['experiment_id']}/runs/{page}" if page else here

    steps = [(known(made)[1], made, run.made_from(made)) for made in behind if made.kind not in GIVEN_KINDS]
    svg = lineage_picture(steps, link, f"Lineage of {title}")
    return Drawing("lineage", b"", (svg.encode(),), clickable=True)


def _lineage(behind: Sequence[Artifact], run: PipelineRun) -> list[dict[str, Any]]:
    rows = []
    for artifact in behind:
        is_given = artifact.kind in GIVEN_KINDS
        inputs = [] if is_given else run.made_from(artifact)
        rows.append(
            {
                "artifact": artifact.ref,
                "made by": "given" if is_given else artifact.manifest["step"],
                "made from": ", ".join(read.ref for read in inputs),
                "sha256 of what it is made of": artifact.key[:16] + "…",
            }
        )
    return rows
