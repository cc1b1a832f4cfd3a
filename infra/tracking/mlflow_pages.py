"""Describe MLflow's pages: what a step was made from; and on a run's page, its scores, its raw files, and a link to
every step."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE

from ratchet.infra.pages.lineage_table import part_of, sha256_of
from ratchet.infra.store.artifacts import FILE_KIND, GIVEN_KINDS, Artifact
from ratchet.infra.tracking.events import SCORES_VIEW
from ratchet.infra.tracking.run_record import RunRecord, RunStep, read_run

ALWAYS = ("attributes.`Dataset`", "attributes.`Models`", "metrics.`curriculum/stage`", "metrics.`curriculum/reward`")
LONGEST_NOTE = 7900
"""Most characters of a note; MLflow takes 8,000."""


class Pages:
    def __init__(self, client: MlflowClient, journal: Path) -> None:
        self.client = client
        self.journal = journal
        self._makers: dict[str, Run] = {}

    @cached_property
    def experiments(self) -> list[str]:
        """The ids of all experiments: an artifact may have been made by a run of another recipe."""
        return [experiment.experiment_id for experiment in self.client.search_experiments()]

    def show_list(self, experiment_id: str, scores: Iterable[str]) -> None:
        """Keep a view of the list of runs, `SCORES_VIEW`, with data sets, models, stage, reward, and these metrics as
        columns. MLflow's own first view has fixed columns: no experiment can add a metric to them."""
        tag = f"mlflow.sharedViewState.{SCORES_VIEW}"
        kept = self.client.get_experiment(experiment_id).tags.get(tag, '{"state": "{}"}')
        try:
            before = json.loads(json.loads(kept)["state"]).get("selectedColumns", [])
        except ValueError:  # a person has changed it: MLflow compresses it then
            return
        columns = list(dict.fromkeys([*ALWAYS, *before, *(f"metrics.`{name}`" for name in scores)]))
        if columns != before:
            state = json.dumps({"selectedColumns": columns})
            view = {"name": "Stage and scores", "createdAt": int(time.time() * 1000), "state": state}
            self.client.set_experiment_tag(experiment_id, tag, json.dumps(view))

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

    def show_run(self, runs: Mapping[str, str], experiment_id: str) -> None:
        """Describe the run so far on its page. `runs` maps the journal's ids to MLflow's."""
        record, root = read_run(self.journal), runs[self.journal.stem]
        assert record is not None
        steps = [step for step in record.steps if step.run in runs]
        pages = {step.output.key: f"#/experiments/{experiment_id}/runs/{runs[step.run]}" for step in steps}
        self.client.set_tag(root, MLFLOW_RUN_NOTE, _run_note(record, steps, pages))

    def _linked(self, artifact: Artifact) -> str:
        if artifact.kind == FILE_KIND:
            return _raw_file(artifact)
        run = self._maker(artifact.key)
        if artifact.kind == "raw" and artifact.path.is_file():
            return f"{_raw_file(artifact)}, of " + (f"[{artifact.ref}]({_page(run)})" if run else artifact.ref)
        summary = f": {artifact.summary}" if artifact.finished and artifact.kind not in GIVEN_KINDS else ""
        return (f"[{artifact.ref}]({_page(run)})" if run else f"`{artifact.ref}`") + summary

    def _maker(self, key: str) -> Run | None:
        """The newest step run that made the artifact."""
        if key not in self._makers:
            query = f"tags.`ratchet.key` = '{key}' AND tags.`ratchet.cached` = 'false'"
            runs = self.client.search_runs(self.experiments, query, max_results=1)
            if not runs:
                return None
            self._makers[key] = runs[0]
        return self._makers[key]


def _raw_file(file: Artifact) -> str:
    return f"raw file `{file.path}`, sha256 `{sha256_of(file)}`"


def _page(run: Run) -> str:
    return f"#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}"


def _listed(title: str, lines: Iterable[str], longest: int) -> str:
    """The first lines, as many as fit; nothing for no lines."""
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
