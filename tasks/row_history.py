"""The history of one row in curation: its run, its raw file, and each step's decision."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ratchet.data_curation.funnel import item_met, row_that_stays
from ratchet.data_curation.readers.sources import source_names
from ratchet.data_curation.split import step_facts
from ratchet.infra.settings import Settings
from ratchet.infra.store.artifacts import Artifact, ArtifactStore
from ratchet.infra.tracking.run_record import RunRecord, all_runs, get_run
from ratchet.verifiers.errors import RatchetError

COLUMNS = ["problem_id", "source", "source_id", "prompt"]
Row = dict[str, Any]


@dataclass(frozen=True)
class Chain:
    """The finished steps of one run's curation of one domain, in order."""

    run: str
    steps: tuple[Artifact, ...]
    curated: Artifact | None

    @cached_property
    def rows(self) -> pa.Table:
        """The `COLUMNS` of every raw row, as the first step wrote it."""
        sides = [pq.read_table(side, columns=COLUMNS) for side in (self.steps[0].kept, self.steps[0].rejected)]
        return pa.concat_tables(sides, promote_options="permissive")

    def file(self, source: str) -> str:
        """The raw file that the first step's manifest names for this source; generated ones are in this home."""
        first = self.steps[0]
        names = source_names([Path(facts["path"]) for facts in first.manifest.inputs])
        files = (str(read.path) for read in ArtifactStore(first.path.parents[1]).parents(first))
        return dict(zip(names, files, strict=True)).get(source, source)


@dataclass(frozen=True)
class Visit:
    """One step's decision on the row: the rule that dropped it (None: kept), the evidence, and the row after it."""

    artifact: Artifact
    rule: str | None
    evidence: dict[str, Any]
    row: Row

    @property
    def step(self) -> str:
        return self.artifact.manifest.step


def chains(settings: Settings, run: str | None = None, recipe: str | None = None) -> list[Chain]:
    """The last curation of each domain, among all runs or of this run or recipe. Raises RatchetError if there is
    none."""
    newest: dict[str, Chain] = {}
    for record in [get_run(settings, run)] if run else all_runs(settings):
        if recipe is None or record.tags["ratchet.recipe"] == recipe:
            for chain in _chains(record):
                newest.setdefault(chain.steps[0].manifest.parameters["domain"], chain)
    if newest:
        return list(newest.values())
    which = f" under run {run}" if run else f" of recipe {recipe}" if recipe else ""
    raise RatchetError(
        f"No run{which} in {settings.home} has curated anything. `ratchet show problems` lists the data sets."
    )


def find(chains: Sequence[Chain], what: str) -> list[tuple[Chain, Row]]:
    """Find the rows with this problem_id (or its beginning), at this `source:row`, or whose statement has this text in
    any case and spacing. Copies of one problem are several rows. Raises RatchetError for no match."""
    what = what.strip()
    words = r"\s+".join(map(re.escape, what.split()))
    match = pc.match_substring_regex(pc.field("prompt"), words, ignore_case=True)  # pyright: ignore[reportAttributeAccessIssue]
    if place := re.fullmatch(r"(.+?):(\S+)", what):  # or a text that ends like one
        match |= (pc.field("source") == place[1]) & (pc.field("source_id") == place[2])
    elif re.fullmatch(r"[0-9a-f]{6,16}", what):
        match = pc.starts_with(pc.field("problem_id"), what)  # pyright: ignore[reportAttributeAccessIssue]
    rows = [(chain, row) for chain in chains for row in chain.rows.filter(match).to_pylist()]
    if not rows:
        runs = " or ".join(dict.fromkeys(chain.run for chain in chains))
        sources = sorted({s for chain in chains for s in chain.rows["source"].unique().to_pylist() if s})
        raise RatchetError(
            f"{what[:80]} is no row of run {runs}, nor words of one. Give a problem_id, SOURCE:ROW (sources are "
            f"{', '.join(sources)}), or some of its text; --run or --recipe for another run."
        )
    return rows


def visits(chain: Chain, row: Row) -> Iterator[Visit]:
    """Every step's decision, up to the step that dropped the row."""
    for artifact in chain.steps:
        if not (kept := _one(artifact.kept, row)):
            if rejected := _one(artifact.rejected, row):
                yield Visit(artifact, rejected["rule"], json.loads(rejected["evidence"]), rejected)
            return
        yield Visit(artifact, None, dict(step_facts(kept.get("metadata"), artifact.manifest.step)), kept)


def other_row(visit: Visit, store: ArtifactStore) -> tuple[str, str] | None:
    """The name and text of the row's match: a benchmark item, or the copy that is kept."""
    if stays := row_that_stays(visit.evidence):
        row = _one(visit.artifact.kept, stays)
        return (f"{stays['source']}:{stays['source_id']}, which stays", row["prompt"]) if row else None
    if met := item_met(visit.evidence):
        benchmark, item = met
        for parent in store.parents(visit.artifact):
            held_out = parent.kind == "problems" and parent.finished and parent.manifest.step == "held_out"
            if held_out and (row := _one(parent.kept, {"source": benchmark, "source_id": item})):
                return f"item {item} of {benchmark}", row["prompt"]
    return None


def copies(visit: Visit) -> list[str]:
    """The rows, as `source:row (rule)`, that a step dropped as copies of this one."""
    mine, dropped = {"source": visit.row["source"], "source_id": visit.row["source_id"]}, []
    for row in pq.read_table(visit.artifact.rejected, columns=["source", "source_id", "rule", "evidence"]).to_pylist():
        stays = row_that_stays(json.loads(row["evidence"]))
        if stays and mine.items() <= stays.items():
            dropped.append(f"{row['source']}:{row['source_id']} ({row['rule']})")
    return dropped


def _chains(run: RunRecord) -> Iterator[Chain]:
    """Chains of a run, by the inputs that it recorded: a manifest may name an earlier input with the same content."""
    datasets = [s for s in run.steps if s.output.kind == "problems" and s.inputs and s.output.finished]
    named = [(s.output.manifest.step, s.inputs[0].key, s.output) for s in datasets]
    steps = {read: output for step, read, output in named if step not in ("normalize", "held_out", "curated")}
    curated = {read: output for step, read, output in named if step == "curated"}
    for chain in [[output] for step, _, output in named if step == "normalize"]:
        while following := steps.get(chain[-1].key):
            chain.append(following)
        yield Chain(run.run_id, tuple(chain), curated.get(chain[0].key))


def _one(side: Path, place: Mapping[str, Any]) -> Row | None:
    filters = [("source", "=", place["source"]), ("source_id", "=", str(place["source_id"]))]
    return next(iter(pq.read_table(side, filters=filters).to_pylist()), None)
