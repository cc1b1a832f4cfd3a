"""The optional second pass after decontamination: benchmark items in other words."""

import os
from collections.abc import Iterable, Sequence
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.decontamination import paraphrases as finding
from ratchet.data_curation.domains import plan_of
from ratchet.infra.inference.openai_engine import check_endpoint
from ratchet.infra.recipe.curation import Paraphrases
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.store.artifacts import Artifact
from ratchet.infra.store.draft import Draft
from ratchet.tasks.pipeline_run import active_run
from ratchet.tasks.row_steps import row_batches
from ratchet.tasks.step import Step, run_step, write_splits
from ratchet.tasks.teacher import ask, check_judge, teacher_code

PARAPHRASES = Step("paraphrases", 4, "problems")

SAMPLE_ROWS = 20_000
"""Rows from all parts of the file that the word counts are fitted to, beside all items."""
SHOWN = 10
"""Shortlisted pairs on the curated set's page."""


def find_paraphrases(recipe: Recipe, domain: str, problems: Artifact, benchmarks: Sequence[Artifact]) -> Artifact:
    """The problems without paraphrased benchmark items; unchanged where the recipe does not ask for this step."""
    settings = recipe.curation_of(domain).advanced.paraphrases
    if settings.by == "none":
        reason = f"the recipe does not ask for it (set curation.{domain}.advanced.paraphrases.by, e.g. to words)"
        active_run().not_asked[PARAPHRASES.name] = reason
        return problems
    if settings.min_similarity is None:
        settings = settings.model_copy(update={"min_similarity": plan_of(domain).likeness})

    def batches() -> Iterable[pa.Table]:
        return row_batches(problems.kept, finding.ROWS_AT_ONCE)

    def sample() -> list[str]:
        rows = pq.read_metadata(problems.kept).num_rows
        texts = (text for batch in batches() for text in batch["prompt"].to_pylist())
        return [item.text for item in items] + list(islice(texts, 0, None, max(1, rows // SAMPLE_ROWS)))

    items: list[finding.Item] = []

    def make(draft: Draft) -> None:
        watcher, rows = active_run().watcher, pq.read_metadata(problems.kept).num_rows
        items.extend(finding.items_of(pq.read_table(artifact.kept) for artifact in benchmarks))
        embed = finding.by_words(sample()) if settings.by == "words" else finding.by_endpoint(settings)
        candidates = finding.shortlist(batches, items, embed, settings, lambda count: watcher.progress(count, rows, {}))
        tables = list(finding.pairs(batches, candidates))
        shortlist = pa.concat_tables(tables) if tables else finding.PAIR_SCHEMA.empty_table()
        shortlist = shortlist.sort_by([("similarity", "descending")])
        pq.write_table(shortlist, draft.path / "shortlist.parquet")
        draft.extra["nearest"] = shortlist.slice(0, SHOWN).to_pylist()
        judged = None
        if settings.judge.kind != "none":
            prompts = finding.judge_prompts(batches, candidates)
            judged = finding.replies(ask(recipe, draft, prompts, settings.judge, "paraphrases"))
        splits = finding.reject_paraphrases(batches, candidates, settings, judged)
        write_splits(draft, splits, recipe.curation_of(domain).advanced.max_rejected)
        counts = draft.extra["summary"]
        draft.extra["metrics"] |= {name: counts[name] for name in ("shortlisted", "pairs", "undecided")}
        if counts["undecided"]:
            watcher.warning(
                f"The judge did not decide {counts['undecided']:,} of {counts['pairs']:,} pairs: these rows are kept"
            )

    return run_step(
        PARAPHRASES, f"{domain}-paraphrases", parameters=settings, inputs=[problems, *benchmarks], make=make,
        title=f"paraphrases {domain}", check=lambda: _check(settings),
        code=teacher_code(settings.judge),
    )  # fmt: skip


def _check(settings: Paraphrases) -> None:
    """Raises RatchetError where an endpoint does not answer."""
    if settings.by == "endpoint":
        check_endpoint(settings.base_url, os.environ.get(settings.api_key_env))
    check_judge(settings.judge)
