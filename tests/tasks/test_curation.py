import json
from types import SimpleNamespace
from typing import cast

import pytest

from ratchet.data_curation.base.draft import DatasetResult, Draft
from ratchet.data_curation.read import read_files
from ratchet.data_curation.split import Rejection, partition
from ratchet.tasks import curation
from ratchet.tasks.run_context import RunContext
from ratchet.tasks.step import write_splits
from ratchet.verifiers.errors import RatchetError
from tests.data_curation.conftest import problems

GOOD, BAD, WORSE = {"problem": "Find 1.", "answer": "1"}, {"problem": 7, "answer": "1"}, {"problem": " ", "answer": "1"}


@pytest.fixture
def warned(tmp_path):
    """What is said of files with these rows."""
    said: list[str] = []
    run = cast(RunContext, SimpleNamespace(reporter=SimpleNamespace(warning=said.append)))

    def warned(**files: list[dict]) -> list[str]:
        paths = [tmp_path / f"{name}.jsonl" for name in files]
        for path, rows in zip(paths, files.values(), strict=True):
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        draft = Draft(tmp_path, DatasetResult())
        write_splits(draft, read_files(paths, "math"), max_rejected=1.0)
        curation.warn_of_losses(run, draft)
        return said

    return warned


def test_a_file_of_which_more_than_half_is_lost_is_told_with_one_of_its_own_rows(warned):
    (said,) = warned(few=[GOOD, GOOD, BAD], many=[GOOD, GOOD, WORSE, WORSE, WORSE])
    assert said.startswith("many.jsonl (math): 3 of 5 rows cannot be read as problems, e.g. {")
    assert (
        '"file": "many.jsonl"' in said and '"reason": "blank", "row": 2' in said and "`columns` in the recipe" in said
    )


def test_half_of_a_file_is_no_warning(warned):
    assert warned(half=[GOOD, BAD], good=[GOOD]) == []


def batch(*rules: str | None):
    """A batch of a step; each row is rejected by this rule, or kept."""
    names = [f"Find {rule} {i}." for i, rule in enumerate(rules)]
    verdicts = [rule and Rejection(rule, {"seen": rule}) for rule in rules]
    return partition("rules", ("proof", "figure"), problems("math", *names), verdicts)


def test_a_step_that_rejects_more_than_the_recipe_allows_ends_with_its_commonest_rule_and_a_row(tmp_path):
    batches = [batch(None, None, "proof"), batch(None, "figure", "figure")]  # a half; less in the first
    with pytest.raises(RatchetError) as error:
        write_splits(Draft(tmp_path, DatasetResult()), batches, max_rejected=0.49)
    assert "would reject 3 of 6 rows" in str(error.value) and "max_rejected 49%" in str(error.value)
    assert "'figure' (2 rows), e.g. row 1 of test" in str(error.value)


def test_a_step_may_reject_as_much_as_the_recipe_allows_and_its_counts_are_those_of_the_rows(tmp_path):
    draft = Draft(tmp_path, DatasetResult())
    write_splits(draft, [batch(None, None, "proof"), batch(None, "figure")], max_rejected=0.4)
    assert draft.result.metrics == {"rows_in": 5, "rows_kept": 3, "rows_rejected": 2}
