import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.base.draft import DatasetResult, Draft
from ratchet.data_curation.read import read_files
from ratchet.data_curation.split import Rejection, partition
from ratchet.data_curation.steps import steps_of
from ratchet.flows.runs import open_run
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.settings import load_settings
from ratchet.infra.store.artifacts import Artifact
from ratchet.tasks import curation
from ratchet.tasks.inputs import given_files
from ratchet.tasks.reporter import ProgressReporter
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

    def warned(**files: list[dict] | Path) -> list[str]:
        paths = [rows if isinstance(rows, Path) else tmp_path / f"{name}.jsonl" for name, rows in files.items()]
        for path, rows in zip(paths, files.values(), strict=True):
            if path != rows:
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


def test_a_folder_of_one_row_files_is_told_with_a_file_that_is_there(warned, tmp_path):
    (tmp_path / "geometry").mkdir()
    for number, row in enumerate([GOOD, WORSE, WORSE]):
        (tmp_path / "geometry" / f"{number}.json").write_text(json.dumps(row))
    (said,) = warned(geometry=tmp_path / "geometry")
    assert (
        said.startswith("geometry (math): 2 of 3 rows cannot be read as problems, e.g. {")
        and '"file": "1.json"' in said
    )


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


SUM = "What is the sum of the first hundred odd numbers, counted from one upwards?"
GOATS = "A farmer sells 7 goats for 20 coins each at the market in the town. How many coins does he get for them?"
PENS = "Tom has 3 boxes of 4 pens each. How many pens are there in total, if one of the boxes was lost on the way?"


@pytest.fixture
def decontaminated(tmp_path, monkeypatch):
    """The data sets of `normalize` and `decontaminate` for files of these rows in one home."""
    monkeypatch.chdir(tmp_path)

    def written(files: dict[str, list]) -> list[str]:
        for name, rows in files.items():
            (tmp_path / name).write_text("".join(json.dumps({"problem": p, "answer": a}) + "\n" for p, a in rows))
        return list(files)

    def decontaminated(inputs: dict[str, list], benchmarks: dict[str, list]) -> tuple[Artifact, Artifact]:
        math = {"inputs": written(inputs), "benchmarks": written(benchmarks)}
        recipe = Recipe.model_validate({"name": "r", "curation": {"math": math}})
        with open_run(recipe, load_settings(tmp_path / "home"), "t", ProgressReporter()) as run:
            settings = recipe.curation_of("math")
            read = curation.normalize(run, "math", settings, curation.raw_files(run, "math", settings))
            step = next(step for step in steps_of("math", settings) if step.needs == ("benchmarks",))
            held_out = curation.held_out(run, "math", settings)
            return read, curation.run_curation_step(run, "math", settings, step, read, held_out)

    return decontaminated


def test_a_held_out_row_that_cannot_be_read_counts_where_it_is_compared_with(decontaminated):
    rows, unreadable = {"raw.jsonl": [(PENS, "8"), (GOATS, "140")]}, {"parts": [1, {"x": 2}]}
    _, before = decontaminated(rows, {"test.jsonl": [(SUM, "10000"), (PENS, unreadable)]})
    _, after = decontaminated(rows, {"test.jsonl": [(SUM, "10000"), (GOATS, unreadable)]})
    kept = [pq.read_table(each.kept)["prompt"].to_pylist() for each in (before, after)]
    assert kept == [[GOATS], [PENS]]


def test_rows_name_the_file_that_they_are_in_whatever_it_was_called_before(decontaminated):
    def sources(first: str, second: str, benchmark: str) -> list[list[str]]:
        inputs = {first: [(PENS, "8")], second: [(GOATS, "140")]}
        read, compared = decontaminated(inputs, {benchmark: [(SUM, "10000")]})
        item = Artifact.of(compared.manifest.inputs[1])
        return [pq.read_table(each.kept)["source"].to_pylist() for each in (read, item)]

    assert sources("a.jsonl", "b.jsonl", "test.v1.jsonl") == [["a", "b"], ["test.v1"]]
    assert sources("a.jsonl", "c.jsonl", "test.v2.jsonl") == [["a", "c"], ["test.v2"]]
    assert sources("c.jsonl", "a.jsonl", "test.v2.jsonl") == [["c", "a"], ["test.v2"]]


def test_a_generated_file_is_directly_in_its_folder():
    with pytest.raises(RatchetError, match="directly in the generator's folder, as generated://g/FILE"):
        given_files(cast(RunContext, None), ["generated://g/parts/a.jsonl"])


def test_a_file_that_grows_while_it_is_read_is_no_result(decontaminated, monkeypatch):
    rows, items, read = {"raw.jsonl": [(PENS, "8")]}, {"test.jsonl": [(SUM, "10000")]}, curation.read_files

    def growing(paths, *arguments):
        with paths[0].open("a") as file:
            file.write(json.dumps({"problem": GOATS, "answer": "140"}) + "\n")
        return read(paths, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(curation, "read_files", growing)
        with pytest.raises(RatchetError, match=r"raw\.jsonl has changed while it was read"):
            decontaminated(rows, items)
    assert decontaminated(rows, items)[0].manifest.counts["kept"] == 1
