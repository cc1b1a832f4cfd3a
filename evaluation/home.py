"""Read a home's results as pandas DataFrames, for notebooks: `open_home(".ratchet").evaluations()`."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from ratchet.data_curation.base.draft import KEPT, REJECTED
from ratchet.data_curation.base.journal import read_lines
from ratchet.evaluation.report import read_scores
from ratchet.evaluation.scores import flat, of_all
from ratchet.infra.settings import load_settings
from ratchet.infra.store.artifacts import Artifact, ArtifactStore
from ratchet.infra.store.lineage import Lineage, stages_up_to
from ratchet.infra.tracking.run_record import read_run
from ratchet.verifiers.errors import RatchetError


def open_home(path: str | Path | None = None) -> "Home":
    """Open the home at `path`, by default that of commands without `--home`. Raises RatchetError if it has no
    artifacts."""
    settings = load_settings(path)
    if not settings.artifacts.is_dir():
        raise RatchetError(f"{settings.home} has no artifacts. Give the directory that --home or RATCHET_HOME names.")
    return Home(ArtifactStore(settings.artifacts), settings.journals)


class Home:
    """The results of a home. Artifacts are named as on the command line: `kind/name-key`, a unique beginning, or a
    unique name."""

    def __init__(self, store: ArtifactStore, journals: Path) -> None:
        self.store, self.journals = store, journals

    def runs(self) -> pd.DataFrame:
        """One row per run, oldest first: `run`, `started` (local time), `name`, `recipe`, `seed`, `overrides`, `steps`,
        `cached` (steps found finished), `outputs` (artifacts that no later step of the run has read)."""
        rows = [
            {
                "run": run.run_id, "started": pd.Timestamp.fromtimestamp(int(run.began)),
                "name": run.name, "recipe": run.recipe.get("name"), "seed": run.recipe.get("seed"),
                "overrides": run.tags.get("ratchet.overrides", ""), "steps": len(run.steps),
                "cached": sum(step.cached for step in run.steps), "outputs": [a.ref for a in run.ends],
            }
            for run in filter(None, map(read_run, sorted(self.journals.glob("*.jsonl"))))
        ]  # fmt: skip
        return pd.DataFrame(rows)

    def evaluations(self) -> pd.DataFrame:
        """One row per evaluation and benchmark, oldest first: `evaluation`, `name`, `finished` (local time),
        `benchmark`, `domain`, `questions`, `samples` per question, for each k `pass_at_K` with `_standard_error`,
        `_low` and `_high` (95 %), `majority_at_K`, rates such as `truncation_rate`, `accuracy_given_completion` and
        `response_tokens` (mean). Scores at a K that a graded question has too few responses for are undefined."""
        rows = []
        for artifact, scores in self._scores():
            for benchmark, one in scores["benchmarks"].items():
                row = {
                    "evaluation": artifact.ref, "name": artifact.name,
                    "finished": pd.Timestamp.fromtimestamp(artifact.manifest.finished_at), "benchmark": benchmark,
                    "domain": one["domain"], "questions": one["questions"],
                    "samples": one["samples"] / max(one["questions"], 1), **flat(one),
                }  # fmt: skip
                for end in ("low", "high"):
                    row |= {f"pass_at_{k}_{end}": value for k, value in of_all(one["pass_at"], end).items()}
                rows.append(row)
        return pd.DataFrame(rows)

    def pass_at_k(self) -> pd.DataFrame:
        """pass@k curves: `evaluation`, `name`, `benchmark`, `k`, `value`, `low`, `high` (95 %)."""
        curves = [
            pd.DataFrame({"evaluation": artifact.ref, "name": artifact.name, "benchmark": name, **one["pass_curve"]})
            for artifact, scores in self._scores()
            for name, one in scores["benchmarks"].items()
        ]
        return pd.concat(curves, ignore_index=True) if curves else pd.DataFrame()

    def questions(self, evaluation: str) -> pd.DataFrame:
        """One row per question: the columns of questions.parquet, with `passed`, `graded` and `solve_rate`."""
        artifact = self._find(evaluation, "evaluation")
        benchmarks = read_scores(artifact.name, artifact.path).scores["benchmarks"]
        counts = [
            (benchmark, question, passed, graded, passed / graded if graded else float("nan"))
            for benchmark, one in benchmarks.items()
            for question, (passed, graded) in one["problems"].items()
        ]
        solved = pd.DataFrame(counts, columns=["benchmark", "problem_id", "passed", "graded", "solve_rate"])
        asked = pq.read_table(artifact.path / "questions.parquet").to_pandas()
        return asked.merge(solved, on=["benchmark", "problem_id"])

    def generations(self, evaluation: str, benchmark: str = "", columns: Sequence[str] | None = None) -> pd.DataFrame:
        """One row per response, as in generations.parquet: `benchmark`, `problem_id`, `sample`, `text`,
        `finish_reason`, `tokens`, `outcome`, `extracted`, …"""
        path = self._find(evaluation, "evaluation").path / "generations.parquet"
        filters = [("benchmark", "=", benchmark)] if benchmark else None
        return pq.read_table(path, columns=columns and list(columns), filters=filters).to_pandas()

    def curriculum(self, checkpoint: str = "") -> pd.DataFrame:
        """The metrics of all training stages up to a checkpoint (default: the newest), one row per step: `stage`,
        `stage_step`, `step` since the start of training, and everything that metrics.jsonl has."""
        trained = [a for a in self.store.all("checkpoint/*") if a.manifest.step == "train"]
        if not checkpoint and not trained:
            raise RatchetError(f"No training stage has finished in {self.store.root.parent}.")
        last = self._find(checkpoint, "checkpoint") if checkpoint else trained[-1]
        rows: list[Mapping[str, Any]] = []
        for stage in stages_up_to(last, self.store.parents):
            lines = [line for _, line in read_lines(stage.path / "metrics.jsonl")]
            first = len(rows)
            rows += [{**n, "stage": stage.name, "stage_step": n["step"], "step": first + n["step"]} for n in lines]
        frame = pd.DataFrame(rows)
        leading = [name for name in ("step", "stage", "stage_step") if name in frame]
        return frame[[*leading, *(name for name in frame if name not in leading)]]

    def problems(self, artifact: str, rejected: bool = False) -> pd.DataFrame:
        """The kept or rejected rows of a data set such as `math-curated`; `metadata`, `evidence` as dictionaries."""
        rows = pq.read_table(self._find(artifact, "problems").path / (REJECTED if rejected else KEPT)).to_pandas()
        for name in {"metadata", "evidence"} & {*rows.columns}:
            rows[name] = rows[name].map(lambda text: json.loads(text) if text else {})
        return rows

    def _find(self, name: str, kind: str) -> Artifact:
        """The newest artifact of this kind and name, or the one that the command line would find."""
        named = [artifact for artifact in self.store.all(f"{kind}/*") if artifact.name == name]
        match = named[-1] if named else Lineage(self.store).find(name)
        if match.kind != kind:
            raise RatchetError(f"{match.ref} is of kind {match.kind}; this needs kind {kind}.")
        return match

    def _scores(self) -> list[tuple[Artifact, Mapping[str, Any]]]:
        return [(a, read_scores(a.name, a.path).scores) for a in self.store.all("evaluation/*")]
