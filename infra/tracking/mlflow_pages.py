"""The descriptions of MLflow's pages: what a step was made from, what used it since, the scores reached; and on a run's
page, a link to every step.

A step's page is updated by later runs that read its output, also runs of other recipes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE

from ratchet.infra.pages.lineage_table import part_of, sha256_of
from ratchet.infra.store.artifacts import FILE_KIND, GIVEN_KINDS, Artifact, ArtifactStore
from ratchet.infra.store.lineage import Lineage, scores
from ratchet.infra.tracking.events import mlflow_address
from ratchet.infra.tracking.run_record import RunRecord, RunStep, read_run

USED_BY = "**Used by**"
"""Where the part of a page begins that is rewritten."""
LONGEST_NOTE = 7900
"""Characters: MLflow takes 8,000."""


class Pages:
    def __init__(self, client: MlflowClient, journal: Path) -> None:
        self.client = client
        self.journal = journal
        self.server = mlflow_address(client.tracking_uri)
        self.store = ArtifactStore(journal.parent.parent / "artifacts")
        self._makers: dict[str, Run] = {}
        self._lineage: Lineage | None = None

    @cached_property
    def experiments(self) -> list[str]:
        """All: an artifact may have been made by a run of another recipe."""
        return [experiment.experiment_id for experiment in self.client.search_experiments()]

    def made_from(self, event: Mapping[str, Any]) -> str:
        """The beginning of a step's description."""
        parts = []
        if event["cached"]:
            run = self._maker(event["output"]["key"])
            by = f"[this run]({_page(run)})" if run else "an earlier run"
            parts.append(f"**Cached.** Nothing was run: the artifact was made by {by}.")
        for title, inputs in (("Made from", event["inputs"]), ("All the way back", event["behind"])):
            parts.append(_listed(title, (self._linked(Artifact.of(facts)) for facts in inputs), LONGEST_NOTE // 2))
        return "\n\n".join(filter(None, parts))

    def step_ended(self, output: Mapping[str, Any], cached: bool) -> None:
        """Update the pages that a step concerns: its own if it was cached, else those of its inputs; for a score, those
        of everything behind it."""
        if not cached:
            self._lineage = None
        lineage = self._lineage = self._lineage or Lineage(self.store)
        output_artifact = lineage.known.get(output["key"])
        if output_artifact is None:
            return
        read = (
            lineage.behind(output_artifact)
            if output_artifact.kind == "evaluation"
            else _steps(lineage.made_from(output_artifact), lineage.made_from)
        )
        for artifact in [output_artifact] if cached else read:
            if artifact.kind not in GIVEN_KINDS:
                self._show_uses(artifact, lineage)

    def show_run(self, runs: Mapping[str, str], experiment_id: str) -> None:
        """Describe the run so far on its page. `runs` maps the journal's ids to MLflow's."""
        record, root = read_run(self.journal), runs[self.journal.stem]
        assert record is not None
        steps = [step for step in record.steps if step.run in runs]
        pages = {step.output.key: f"#/experiments/{experiment_id}/runs/{runs[step.run]}" for step in steps}
        self.client.set_tag(root, MLFLOW_RUN_NOTE, _run_note(record, steps, pages))

    def _show_uses(self, artifact: Artifact, lineage: Lineage) -> None:
        consumers = _steps(lineage.used_by(artifact), lineage.used_by)
        reached = scores(lineage.ahead(artifact))
        newest = sorted(reached, key=lambda score: score.manifest["finished_at"], reverse=True)
        uses = _listed("Used by", map(self._linked, consumers), LONGEST_NOTE // 4) + "\n\n"
        uses += _listed("Scores reached", map(self._linked, newest), LONGEST_NOTE // 4)
        for run in self._runs_of(artifact.key) if consumers else ():
            if run.data.tags["ratchet.cached"] == "false" or run.data.tags["ratchet.run"].startswith(self.journal.stem):
                before = run.data.tags.get(MLFLOW_RUN_NOTE, "")
                note = f"{before.split(USED_BY)[0].strip()}\n\n{uses}".strip()
                if note != before:
                    self.client.set_tag(run.info.run_id, MLFLOW_RUN_NOTE, note)

    def _linked(self, artifact: Artifact) -> str:
        if artifact.kind == FILE_KIND:
            return _raw_file(artifact)
        run = self._maker(artifact.key)
        if artifact.kind == "raw" and artifact.path.is_file():
            return f"{_raw_file(artifact)}, of " + (f"[{artifact.ref}]({_page(run)})" if run else artifact.ref)
        summary = f": {artifact.summary}" if artifact.finished and artifact.kind not in GIVEN_KINDS else ""
        return (f"[{artifact.ref}]({_page(run)})" if run else f"`{artifact.ref}`") + summary

    def _maker(self, key: str) -> Run | None:
        if key not in self._makers:
            runs = [run for run in self._runs_of(key) if run.data.tags["ratchet.cached"] == "false"]
            if not runs:
                return None
            self._makers[key] = runs[0]
        return self._makers[key]

    def _runs_of(self, key: str) -> list[Run]:
        """The step runs that made or found the artifact, newest first."""
        return list(self.client.search_runs(self.experiments, f"tags.`ratchet.key` = '{key}'", max_results=1000))


def _steps(artifacts: Iterable[Artifact], further: Callable[[Artifact], list[Artifact]]) -> list[Artifact]:
    """The outputs of steps among them; a file of generated raw material is replaced by its neighbors."""
    origins = {o.key: o for read in artifacts for o in (further(read) if read.kind == FILE_KIND else [read])}
    return list(origins.values())


def _raw_file(file: Artifact) -> str:
    return f"raw file `{file.path}`, sha256 `{sha256_of(file)}`"


def _page(run: Run) -> str:
    return f"#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}"


def _listed(title: str, lines: Iterable[str], longest: int) -> str:
    """As many of the lines as fit; nothing for no lines."""
    lines, text = list(lines), f"**{title}**\n"
    for number, line in enumerate(lines):
        if len(text) + len(line) > longest:
            return f"{text}\n- and {len(lines) - number} more: `ratchet show` has all"
        text += f"\n- {line}"
    return text if lines else ""


def _run_note(record: RunRecord, steps: Sequence[RunStep], pages: Mapping[str, str]) -> str:
    """The recipe, the scores, and a link to every step by part."""
    tags, parts, files = record.tags, dict[str, list[str]](), dict[str, list[str]]()
    for step in steps:
        page = f"[{step.title}]({pages[step.output.key]})"
        parts.setdefault(part_of(step.output), []).append(page)
        for file in step.inputs:
            if file.kind in (FILE_KIND, "raw"):
                files.setdefault(_raw_file(file), []).append(page)
    overrides = tags.get("ratchet.overrides")
    reached = [s for s in steps if s.output.kind == "evaluation" and s.output.finished]
    texts = [
        f"**{tags.get('ratchet.recipe', record.name)}**, seed {tags.get('ratchet.seed', '?')}. "
        f"{record.recipe.get('description', '')}",
        f"Overrides: `{overrides}`" if overrides else "",
        _listed(
            "Scores", (f"[{s.title}]({pages[s.output.key]}): {s.output.summary}" for s in reached), LONGEST_NOTE // 6
        ),
        _listed("Steps", (f"{part}: {' → '.join(links)}" for part, links in parts.items()), LONGEST_NOTE * 2 // 3),
        _listed("Raw files", (f"{file}: {', '.join(links)}" for file, links in files.items()), LONGEST_NOTE // 6),
    ]
    return "\n\n".join(filter(None, texts))[:LONGEST_NOTE]
