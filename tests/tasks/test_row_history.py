import json

import pyarrow as pa
import pytest

from ratchet.infra.store.artifacts import ArtifactStore
from ratchet.tasks.row_history import Chain, find
from ratchet.verifiers.errors import RatchetError

ROWS = pa.table(
    {
        "problem_id": ["abcdef123456", None],
        "source": ["math_raw", "my file"],
        "source_id": ["3", "4"],
        "prompt": ["Find  $x^2 + 1$\nat the ratio 3:4", None],
    }
)


@pytest.fixture
def chain():
    chain = Chain("run", (), None)
    chain.__dict__["rows"] = ROWS
    return chain


def test_a_raw_file_is_where_the_home_is_now_and_a_given_one_where_it_was(tmp_path):
    store = ArtifactStore(tmp_path / "artifacts")
    raw, step = store.locate("raw", "world", "a" * 64), store.locate("problems", "math-normalize", "b" * 64)
    inputs = [{**raw.facts, "path": f"/old/home/artifacts/raw/{raw.path.name}/math_raw.parquet"},
              {"kind": "file", "name": "own.csv", "key": "c", "path": "/data/own.csv"}]  # fmt: skip
    facts = {"kind": step.kind, "name": step.name, "key": step.key, "step": "normalize", "parameters": {}}
    step.path.mkdir(parents=True)
    (step.path / "manifest.json").write_text(json.dumps({**facts, "inputs": inputs, "counts": {}, "files": {}}))
    chain = Chain("run", (step,), None)
    assert chain.file("math_raw") == str(raw.path / "math_raw.parquet") and chain.file("own") == "/data/own.csv"


@pytest.mark.parametrize(
    ("what", "row"),
    [
        ("abcdef", "3"),
        ("math_raw:3", "3"),
        ("my file:4", "4"),
        ("find $X^2 + 1$ AT the", "3"),
        ("the ratio 3:4", "3"),
    ],
)
def test_a_row_is_found_by_its_id_its_place_or_its_words(chain, what, row):
    assert [found["source_id"] for _, found in find([chain], what)] == [row]


def test_what_is_no_row_is_an_error_with_the_sources(chain):
    with pytest.raises(RatchetError, match=r"no such words is no row of run run.*sources are math_raw, my file"):
        find([chain], "no such words")
