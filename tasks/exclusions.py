"""The optional step before the rules: a model decides which rules apply to the rows that a cue marks."""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.base.draft import Draft
from ratchet.data_curation.rule_filter import rules_of
from ratchet.data_curation.teacher import exclusions as labeling
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.store.artifacts import Artifact
from ratchet.tasks.pipeline_run import active_run
from ratchet.tasks.row_steps import row_batches
from ratchet.tasks.step import Step, run_step, write_splits
from ratchet.tasks.teacher import ask, check_judge, teacher_code
from ratchet.verifiers.errors import RatchetError

EXCLUSIONS = Step("exclusions", 1, "problems")


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
        replies = ask(recipe, draft, labeling.prompts(batches, asked), settings, "exclusions")
        splits = labeling.with_labels(batches, asked, replies, settings.model)
        write_splits(draft, splits, recipe.curation_of(domain).advanced.max_rejected)
        counts, rows = draft.extra["summary"]["exclusions"], pq.read_metadata(problems.kept).num_rows
        draft.extra["metrics"] |= counts
        draft.extra["headline"] = f"{counts['asked']:,} of {rows:,} rows asked about"
        if counts["undecided"]:
            active_run().watcher.warning(
                f"{settings.model} left {counts['undecided']:,} questions about {counts['asked']:,} rows undecided: "
                "there the rules decide"
            )

    return run_step(
        EXCLUSIONS, f"{domain}-exclusions", parameters={"model": settings, "rules": asked}, inputs=[problems],
        make=make, title=f"exclusions {domain}", check=lambda: check_judge(settings),
        code=teacher_code(settings),
    )  # fmt: skip
