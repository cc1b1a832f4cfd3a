"""Which benchmark items stand in the training set: found for each evaluation, so that scores come with and without."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ratchet.data_curation.decontamination import Decontaminator
from ratchet.data_curation.domains import plan_of
from ratchet.infra.artifacts import Artifact, Draft
from ratchet.infra.recipe.curation import Decontamination
from ratchet.infra.recipe.recipe import Recipe
from ratchet.tasks.curation import decontamination_settings
from ratchet.tasks.row_steps import row_batches
from ratchet.tasks.step import Step, run_step

CONTAMINATION = Step("contamination", 2, "contamination")
SCHEMA = pa.schema(
    [
        pa.field("benchmark", pa.string(), nullable=False),
        pa.field("problem_id", pa.string(), nullable=False),  # of the item
        pa.field("rule", pa.string(), nullable=False),  # of data_curation.decontamination
        pa.field("training_row", pa.string(), nullable=False),  # its problem_id
        pa.field("evidence", pa.large_string(), nullable=False),  # JSON: shared text, coverage
    ]
)


def contamination(
    recipe: Recipe, benchmarks: Sequence[tuple[str, str, Artifact]], training: Sequence[Artifact]
) -> Artifact:
    """Compare every item with every training row of its domain, by the coverage rule of curation, whatever the recipe's
    preset: a shared n-gram alone flags boilerplate; by identity where curation compares nothing. `benchmarks` are
    (name, domain, problems)."""
    settings = {
        domain: decontamination_settings(recipe, domain).model_copy(
            update={"preset": "coverage", "released_after": None}
        )
        for _, domain, _ in benchmarks
    }

    def make(draft: Draft) -> None:
        flagged = []
        for name, domain, problems in benchmarks:
            batches = (batch for artifact in training for batch in row_batches(artifact.kept))
            own = (batch.filter(pc.field("domain") == domain) for batch in batches)
            comparable = "decontaminate" in plan_of(domain).steps
            compare = flagged_items if comparable else same_items
            found = compare(pq.read_table(problems.kept), own, settings[domain])
            flagged += [{"benchmark": name, **row} for row in found]
        rows = sum(pq.read_metadata(artifact.kept).num_rows for artifact in training)
        pq.write_table(pa.Table.from_pylist(flagged, schema=SCHEMA), draft.path / "flagged.parquet")
        items_flagged = len({(row["benchmark"], row["problem_id"]) for row in flagged})
        draft.counts = {"training_rows": rows, "items_flagged": items_flagged}
        draft.extra["headline"] = f"{items_flagged} benchmark items among {rows:,} training rows"

    parameters = {"benchmarks": [[name, domain] for name, domain, _ in benchmarks], "settings": settings}
    inputs = [*(problems for _, _, problems in benchmarks), *training]
    return run_step(CONTAMINATION, "benchmarks", parameters=parameters, inputs=inputs, make=make, title="contamination")


def flagged_items(items: pa.Table, training: Iterable[pa.Table], settings: Decontamination) -> list[dict[str, Any]]:
    """A row of `SCHEMA`, without `benchmark`, for each training row that holds an item; all tables are problems."""
    decontaminator = Decontaminator(items, settings)
    places = zip(items["source"].to_pylist(), items["source_id"].to_pylist(), strict=True)
    item_ids = dict(zip(places, items["problem_id"].to_pylist(), strict=True))
    flagged = []
    for row in (row for batch in training for row in decontaminator.split(batch).rejected.to_pylist()):
        evidence = json.loads(row["evidence"])
        item = item_ids[evidence["benchmark"], evidence["item"]]
        facts = {"rule": row["rule"], "training_row": row["problem_id"], "evidence": row["evidence"]}
        flagged.append({"problem_id": item, **facts})
    return flagged


def same_items(items: pa.Table, training: Iterable[pa.Table], settings: Decontamination) -> list[dict[str, Any]]:
    """The same for a domain whose statements all resemble one another: an item that is a training row itself."""
    learned = {row for batch in training for row in batch["problem_id"].to_pylist()}
    both = sorted({*items["problem_id"].to_pylist()} & learned)
    return [{"problem_id": own, "rule": "same", "training_row": own, "evidence": "{}"} for own in both]


def contaminated_items(found: Artifact) -> dict[str, list[str]]:
    """By benchmark, the problem_ids that were found in the training set."""
    rows = pq.read_table(found.path / "flagged.parquet", columns=["benchmark", "problem_id"]).to_pylist()
    names = [name for name, _ in found.manifest["parameters"]["benchmarks"]]
    return {name: sorted({row["problem_id"] for row in rows if row["benchmark"] == name}) for name in names}
