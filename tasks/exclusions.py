"""The optional step before the rules: a model decides which rules apply to the rows that a cue marks."""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.base.draft import Draft
from ratchet.data_curation.base.teacher_engine import TEACHERS
from ratchet.data_curation.rule_filter import rules_of
from ratchet.data_curation.teacher import exclusions as labeling
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.store.artifacts import Artifact
from ratchet.tasks.pipeline_run import active_run
from ratchet.tasks.row_steps import row_batches
from ratchet.tasks.step import Step, run_step, write_splits
from ratchet.tasks.teacher import draft_attempts, journal_of, teacher_code
from ratchet.verifiers.errors import RatchetError

EXCLUSIONS = Step("exclusions", 1, "problems")
REPLIES = "replies.parquet"


def label_exclusions(recipe: Recipe, domain: str, problems: Artifact) -> Artifact:
    """The problems with the model's decisions in their metadata; unchanged where the recipe does not ask for this
    step."""
    settings, limits = recipe.curation_of(domain).advanced.exclusions, recipe.curation_of(domain).rules
    if settings.kind == "none":
        reason = f"the recipe does not ask for it (set curation.{domain}.advanced.exclusions.kind, e.g. to openai)"
        active_run().not_asked[EXCLUSIONS.name] = reason
        return problems
    asked = [rule.__name__ for rule in rules_of(domain, limits) if rule.__name__ in labeling.CUES]
    if not asked:
        raise RatchetError(
            f"curation.{domain}.advanced.exclusions: no rule of this domain is one that a model decides "
            f"({', '.join(labeling.CUES)}). Remove the section."
        )

    def batches() -> Iterable[pa.Table]:
        return row_batches(problems.kept)

    def make(draft: Draft) -> None:
        prompts, file = labeling.prompts(batches, asked), draft.path / REPLIES
        draft.extra["metrics"] = draft_attempts(recipe, draft, prompts, settings, "exclusions", REPLIES).totals()
        splits = labeling.with_labels(batches, asked, pq.ParquetFile(file).iter_batches(), settings.model)
        write_splits(draft, splits, recipe.curation_of(domain).advanced.max_rejected)
        counts, rows = draft.extra["summary"]["exclusions"], pq.read_metadata(problems.kept).num_rows
        draft.extra["metrics"] |= counts
        draft.extra["headline"] = f"{counts['asked']:,} of {rows:,} rows asked about"
        if counts["undecided"]:
            active_run().watcher.warning(
                f"{settings.model} left {counts['undecided']:,} questions about {counts['asked']:,} rows undecided: "
                "there the rules decide"
            )

    def check() -> None:
        if not journal_of(settings).exists():  # otherwise it has answered before
            TEACHERS.get(settings.kind).check(settings)

    return run_step(
        EXCLUSIONS, f"{domain}-exclusions", parameters={"model": settings, "rules": asked}, inputs=[problems],
        make=make, title=f"exclusions {domain}", check=check, code=teacher_code(settings),
    )  # fmt: skip
