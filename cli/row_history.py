"""What curation did with one row: which run, which raw file, and what each step said."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.contamination import BenchmarkIndex
from ratchet.data_curation.readers import source_names
from ratchet.data_curation.tokens import tokenise, tokenised_batches
from ratchet.infra.artifacts import Artifact, ArtifactStore
from ratchet.infra.errors import RatchetError
from ratchet.infra.settings import Settings
from ratchet.tasks.lineage import parents

COLUMNS = ["problem_id", "source", "source_id", "prompt"]
SEARCH_NGRAM = 5
MIN_LIKENESS = 0.3


@dataclass(frozen=True)
class Chain:
    """The finished steps of one run's curation of one domain, in order."""

    run: str
    steps: tuple[Artifact, ...]
    curated: Artifact | None

    @cached_property
    def rows(self) -> pa.Table:
        """Every raw row: where it came from and what it says, as the first step left it."""
        sides = [pq.read_table(side, columns=COLUMNS) for side in (self.steps[0].kept, self.steps[0].rejected)]
        return pa.concat_tables(sides, promote_options="permissive")


@dataclass(frozen=True)
class Visit:
    """What one step said of the row: the rule that took it (None: it went on), why, and the row as it left the step."""

    artifact: Artifact
    rule: str | None
    evidence: dict[str, Any]
    row: dict[str, Any]

    @property
    def step(self) -> str:
        return self.artifact.manifest["step"]


@dataclass(frozen=True)
class History:
    chain: Chain
    source: str
    source_id: str
    problem_id: str | None
    prompt: str | None
    visits: tuple[Visit, ...] = ()

    @property
    def file(self) -> Artifact | None:
        """The raw file, as the first step's inputs name it."""
        files = self.chain.steps[0].manifest["inputs"]
        for facts, source in zip(files, source_names([Path(facts["path"]) for facts in files]), strict=True):
            if source == self.source:
                return Artifact(facts["kind"], facts["name"], facts["key"], Path(facts["path"]))
        return None


def chains(settings: Settings, run: str | None = None, recipe: str | None = None) -> list[Chain]:
    """The last curation of each domain, of all runs or of this run or recipe. Raises RatchetError if there is none."""
    newest: dict[str, Chain] = {}
    for journal in sorted(settings.journals.glob("*.jsonl"), reverse=True):
        if run and not journal.stem.startswith(run):
            continue
        experiment, outputs = _journal(journal)
        if recipe is None or experiment == recipe:
            for chain in _chains(journal.stem, [artifact for artifact in outputs if artifact.finished]):
                newest.setdefault(chain.steps[0].manifest["parameters"]["domain"], chain)
    if newest:
        return list(newest.values())
    which = f" under run {run}" if run else f" of recipe {recipe}" if recipe else ""
    raise RatchetError(
        f"No run{which} in {settings.home} has curated anything. `ratchet show problems` lists what there is."
    )


def find(chains: Sequence[Chain], what: str) -> tuple[list[History], float]:
    """The rows that `what` means: a problem_id or its beginning, `source:row`, or a text; and, for a text, how much of
    it they hold (1 otherwise). Several when several rows are the same problem. Raises RatchetError when none is meant.
    """
    what = what.strip()
    found: list[History] = []
    if re.fullmatch(r"[0-9a-f]{6,16}", what):
        found = [h for chain in chains for h in _where(chain, lambda row: (row["problem_id"] or "").startswith(what))]
    elif place := re.fullmatch(r"(.+):(\d+)", what):
        found = [
            h for chain in chains for h in _where(chain, lambda r: (r["source"], r["source_id"]) == place.groups())
        ]
    if found:
        return found, 1.0
    if " " in what or not re.search(r"\d", what):
        return _like(chains, what)
    sources = sorted({s for chain in chains for s in chain.rows.column("source").unique().to_pylist() if s})
    raise RatchetError(
        f"{what} is no row of {_runs(chains)}. Give a problem_id, SOURCE:ROW (sources are {', '.join(sources)}), or "
        "some of its text; --run or --recipe for another run."
    )


def tell(history: History) -> History:
    """The history with what every step said, up to the one that took the row."""
    visits = []
    for artifact in history.chain.steps:
        row = _one(artifact.kept, history)
        if row is not None:
            visits.append(Visit(artifact, None, _measured(row, artifact.manifest["step"]), row))
            continue
        row = _one(artifact.rejected, history)
        if row is not None:
            visits.append(Visit(artifact, row["rule"], json.loads(row["evidence"]), row))
        break
    return replace(history, visits=tuple(visits))


def other_row(visit: Visit, store: ArtifactStore) -> tuple[str, str] | None:
    """The name and text of what the row was taken for: a benchmark item, or the row that stays instead of it."""
    if stays := visit.evidence.get("kept"):
        row = _one(visit.artifact.kept, stays["source"], stays["source_id"])
        return (f"{stays['source']}:{stays['source_id']}, which stays", row["prompt"]) if row else None
    if "item" in visit.evidence:
        benchmark, item = visit.evidence["benchmark"], visit.evidence["item"]
        for parent in parents(visit.artifact, store):
            held_out = parent.kind == "problems" and parent.finished and parent.manifest["step"] == "held_out"
            if held_out and (row := _one(parent.kept, benchmark, item)):
                return f"item {item} of {benchmark}", row["prompt"]
    return None


def copies(visit: Visit) -> list[tuple[str, str, str]]:
    """(source, row, rule) of the rows that a step dropped as copies of this one."""
    table = pq.read_table(visit.artifact.rejected, columns=["source", "source_id", "rule", "evidence"])
    mine = {"source": visit.row["source"], "source_id": visit.row["source_id"]}
    dropped = []
    for row in table.to_pylist():
        stays = json.loads(row["evidence"]).get("kept")
        if isinstance(stays, dict) and mine.items() <= stays.items():
            dropped.append((row["source"], row["source_id"], row["rule"]))
    return dropped


def _journal(path: Path) -> tuple[str, list[Artifact]]:
    """The recipe's name, and every data set that the run made or found."""
    experiment, outputs = "", []
    for line in path.read_text().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue  # the torn last line of a run that was killed
        if event["event"] == "open":
            experiment = event["experiment"]
        if event["event"] == "start" and (made := event.get("output")) and made["kind"] == "problems":
            outputs.append(Artifact(made["kind"], made["name"], made["key"], Path(made["path"])))
    return experiment, outputs


def _chains(run: str, made: Sequence[Artifact]) -> list[Chain]:
    steps = [artifact for artifact in made if artifact.manifest["step"] not in ("held_out", "curated")]
    after = {artifact.manifest["inputs"][0]["key"]: artifact for artifact in steps}
    curated = {artifact.manifest["inputs"][0]["key"]: artifact for artifact in made
               if artifact.manifest["step"] == "curated"}  # fmt: skip
    found = []
    for first in (artifact for artifact in steps if artifact.manifest["step"] == "normalise"):
        chain = [first]
        while following := after.get(chain[-1].key):
            chain.append(following)
        found.append(Chain(run, tuple(chain), curated.get(first.key)))
    return found


def _where(chain: Chain, matches: Any) -> Iterator[History]:
    for row in chain.rows.to_pylist():
        if matches(row):
            yield History(chain, row["source"], row["source_id"], row["problem_id"], row["prompt"])


def _like(chains: Sequence[Chain], text: str) -> tuple[list[History], float]:
    """The rows that hold most of the text."""
    length = len(tokenise([text]).hashes)
    if not length:
        raise RatchetError(f"{text!r} has no word to look for.")
    index = BenchmarkIndex([text], [("", "")], min(SEARCH_NGRAM, length))
    best, likeness = [], MIN_LIKENESS
    for chain in chains:
        first = 0
        for tokens in tokenised_batches(chain.rows.column("prompt")):
            overlaps, _ = index.compare(tokens)
            share = overlaps.shared / index.gram_counts[0]
            for row, much in enumerate(share.tolist()):
                if much >= likeness and much > 0:
                    best = [*best, (chain, first + row)] if much == likeness else [(chain, first + row)]
                    likeness = much
            first += len(share)
    if not best:
        raise RatchetError(f"No row of {_runs(chains)} says anything like {text[:80]!r}.")
    rows = [(chain, chain.rows.slice(row, 1).to_pylist()[0]) for chain, row in best]
    return [History(c, r["source"], r["source_id"], r["problem_id"], r["prompt"]) for c, r in rows], likeness


def _runs(chains: Sequence[Chain]) -> str:
    return "run " + " or ".join(dict.fromkeys(chain.run for chain in chains))


def _one(side: Path, *place: Any) -> dict[str, Any] | None:
    source, source_id = (place[0].source, place[0].source_id) if isinstance(place[0], History) else place
    rows = pq.read_table(side, filters=[("source", "=", source), ("source_id", "=", str(source_id))]).to_pylist()
    return rows[0] if rows else None


def _measured(row: dict[str, Any], step: str) -> dict[str, Any]:
    """What a step put on record of a row that it kept."""
    return json.loads(row.get("metadata") or "{}").get(step) or {}
