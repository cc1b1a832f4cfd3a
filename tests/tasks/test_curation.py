import json
from types import SimpleNamespace

import pytest

from ratchet.data_curation.readers import read_files
from ratchet.infra.artifacts import Draft
from ratchet.tasks import row_steps
from ratchet.tasks.step import write_splits

GOOD, BAD, WORSE = {"problem": "Find 1.", "answer": "1"}, {"problem": 7, "answer": "1"}, {"problem": " ", "answer": "1"}


@pytest.fixture
def warned(tmp_path, monkeypatch):
    """What is said of files with these rows."""
    said: list[str] = []
    run = SimpleNamespace(watcher=SimpleNamespace(warning=said.append))
    monkeypatch.setattr(row_steps, "active_run", lambda: run)

    def warned(**files: list[dict]) -> list[str]:
        paths = [tmp_path / f"{name}.jsonl" for name in files]
        for path, rows in zip(paths, files.values(), strict=True):
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        draft = Draft(tmp_path)
        write_splits(draft, read_files(paths, "math"), max_rejected=1.0)
        row_steps.warn_of_losses(draft)
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
