"""Find benchmark items in the training set for each evaluation: scores are given with and without them."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ratchet.data_curation.base.draft import Draft
from ratchet.data_curation.base.problem_table import to_table
from ratchet.data_curation.curation_step import Rows
from ratchet.data_curation.decontamination.problems import Decontaminator, with_ngram
from ratchet.data_curation.domains import plan_of
from ratchet.data_curation.readers.templates import clean_statement
from ratchet.data_curation.settings.curation import Curation, Decontamination
from ratchet.infra.store.artifacts import Artifact
from ratchet.tasks.run_context import RunContext
from ratchet.tasks.step import Step, run_step
from ratchet.verifiers.domains import domain_of

CONTAMINATION = Step("contamination", 8, "contamination")
_NAMES = ("benchmark", "problem_id", "rule", "training_row")
SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in _NAMES),
        pa.field("evidence", pa.large_string(), nullable=False),  # JSON: shared text, coverage
    ]
)
"""Columns of the matches: `problem_id` is the item's, `training_row` the `problem_id` of the row, `rule` one of
decontamination's."""


def contamination(
    run: RunContext, benchmarks: Sequence[tuple[str, str, Artifact]], training: Sequence[Artifact]
) -> Artifact:
    """Compare every item with every training row of its domain: by `settings_for_scores`, or by identity in domains
    without decontamination. `benchmarks` are (name, domain, problems), `training` curated problems and own traces."""
    settings = {domain: settings_for_scores(run.recipe.curation_of(domain), domain) for _, domain, _ in benchmarks}

    def make(draft: Draft) -> None:
        flagged, sharing = [], 0
        for name, domain, problems in benchmarks:
            batches = (batch for artifact in training for batch in _statements(artifact))
            own = (batch.filter(pc.field("domain") == domain) for batch in batches)
            comparable = "decontaminate" in plan_of(domain).step_names
            compare = flagged_items if comparable else same_items
            overlap, shared = compare(pq.read_table(problems.kept), own, settings[domain])
            sharing += shared
            flagged += [{"benchmark": name, **row} for row in overlap]
        rows = sum(pq.read_metadata(artifact.kept).num_rows for artifact in training)
        pq.write_table(pa.Table.from_pylist(flagged, schema=SCHEMA), draft.path / "flagged.parquet")
        items_flagged = len({(row["benchmark"], row["problem_id"]) for row in flagged})
        draft.counts = {"training_rows": rows, "items_flagged": items_flagged, "rows_sharing": sharing}
        draft.result.headline = (
            f"{items_flagged} benchmark items among {rows:,} training rows; {sharing:,} further pairs of row and "
            "benchmark share an n-gram"
        )

    parameters = {"benchmarks": [[name, domain] for name, domain, _ in benchmarks], "settings": settings}
    inputs = [*(problems for _, _, problems in benchmarks), *training]
    return run_step(
        run, CONTAMINATION, "benchmarks", parameters=parameters, inputs=inputs, make=make, title="contamination",
        code=[domain_of(domain).curation for _, domain, _ in benchmarks],
    )  # fmt: skip


def _statements(training: Artifact) -> Iterator[pa.Table]:
    """The training problems in batches; those of own traces by their user turns."""
    for batch in Rows(training.kept).batches():
        yield batch if training.kind == "problems" else to_table(map(_statement, batch.to_pylist()))


def _statement(trace: dict[str, Any]) -> dict[str, Any]:
    facts = {name: trace[name] for name in ("problem_id", "domain", "source", "source_id")}
    return facts | {"prompt": clean_statement(trace["prompt"]).text}


def settings_for_scores(curation: Curation, domain: str) -> Decontamination:
    """The recipe's settings, but with the coverage rule whatever the preset, because `paper` flags boilerplate."""
    return with_ngram(curation.decontaminate, domain).model_copy(update={"preset": "coverage", "released_after": None})


def flagged_items(
    items: pa.Table, training: Iterable[pa.Table], settings: Decontamination
) -> tuple[list[dict[str, Any]], int]:
    """A row of `SCHEMA`, without `benchmark`, for each training row that contains an item; and the number of other rows
    that share an n-gram with an item."""
    decontaminator = Decontaminator(items, settings)
    places = zip(items["source"].to_pylist(), items["source_id"].to_pylist(), strict=True)
    item_ids = dict(zip(places, items["problem_id"].to_pylist(), strict=True))
    flagged, sharing = [], 0
    for split in map(decontaminator.split, training):
        sharing += split.summary["kept_sharing"]
        for row in split.rejected.to_pylist():
            evidence = json.loads(row["evidence"])
            facts = {"rule": row["rule"], "training_row": row["problem_id"], "evidence": row["evidence"]}
            flagged.append({"problem_id": item_ids[evidence["benchmark"], evidence["item"]], **facts})
    return flagged, sharing


def same_items(
    items: pa.Table, training: Iterable[pa.Table], settings: Decontamination
) -> tuple[list[dict[str, Any]], int]:
    """The items that are training rows, as in `flagged_items`, for domains whose statements all resemble one
    another."""
    trained = {row for batch in training for row in batch["problem_id"].to_pylist()}
    both = sorted({*items["problem_id"].to_pylist()} & trained)
    return [{"problem_id": own, "rule": "same", "training_row": own, "evidence": "{}"} for own in both], 0


def contaminated_items(check: Artifact) -> dict[str, list[str]]:
    """The problem_ids found in the training set, by benchmark."""
    rows = pq.read_table(check.path / "flagged.parquet", columns=["benchmark", "problem_id"]).to_pylist()
    names = [name for name, _ in check.manifest.parameters["benchmarks"]]
    return {name: sorted({row["problem_id"] for row in rows if row["benchmark"] == name}) for name in names}
