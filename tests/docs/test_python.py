"""The page on Ratchet from Python: its snippets run in a process of their own, one after another."""

import json
import subprocess
import sys

import pyarrow.parquet as pq

from ratchet.data_curation import read_problems
from ratchet.infra.recipe.model import NewModelConfig
from ratchet.training.new_model import create
from tests.docs.commands import fenced

WHEEL = "A wheel of radius 7 rolls along a straight road for 12 turns. How far does it get?"
ROWS = [
    {"question": "A baker sells 12 loaves at 3 dollars each. How much does she earn?", "target": "36"},
    {"question": "A baker sells 12 loaves at 3 dollars each. How much does she earn?", "target": "36"},
    {"question": "Prove that the square of an odd number is odd.", "target": "proof"},
    {"question": WHEEL, "target": "168 pi"},
    {"question": None, "target": "1"},
]
ITEM = {"problem": WHEEL, "answer": "168 pi"}


def test_the_snippets_on_curation_run(tmp_path):
    snippets = fenced("howto/python.md", "python")[:2]
    assert all(len(snippet.splitlines()) <= 20 for snippet in snippets)
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "held_out.json").write_text(json.dumps([ITEM]))
    loaded = "import sys; assert not {'prefect', 'mlflow', 'torch'} & {*sys.modules}"
    code = "\n".join([*snippets, loaded])
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [line.split()[:4] for line in done.stdout.splitlines()[:4]]
    assert lines == [
        ["train", "4", "normalize", "malformed"], ["train", "2", "rules", "proof"],
        ["train", "3", "decontaminate", "ngram"], ["train", "1", "deduplicate", "exact"],
    ]  # fmt: skip
    assert "'proof': 1" in done.stdout.splitlines()[4]
    assert pq.read_table(tmp_path / "clean.parquet")["answer"].to_pylist() == ["36"]
    assert len(read_problems(tmp_path / "clean.parquet", "math").kept) == 1


def test_the_other_snippets_run(tmp_path):
    texts = [row["question"] or "" for row in ROWS] * 40 + [f"{n} + {n} is {2 * n}" for n in range(100)]
    model = tmp_path / "model"
    create(NewModelConfig(layers=1, intermediate_size=96, vocabulary=400, max_positions=512), texts, 0, model)
    snippets = fenced("howto/python.md", "python")[2:]
    assert len(snippets) == 3 and all(len(snippet.splitlines()) <= 20 for snippet in snippets)
    (tmp_path / "train.jsonl").write_text(json.dumps(ROWS[0]) + "\n")
    rows = read_problems(tmp_path / "train.jsonl", "math", {"prompt": "question", "answer": "target"}).kept
    pq.write_table(rows, tmp_path / "clean.parquet")
    (tmp_path / "held_out.json").write_text(json.dumps([ITEM]))
    code = "\n".join(snippets).replace('"MODEL"', repr(str(model)))
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    verdicts, first, second, trained, scores = done.stdout.splitlines()
    assert verdicts == "['passed']" and scores == "0.5 1.0"
    assert first.startswith("1 ") and second.startswith("2 ") and trained == str(tmp_path / "runs" / "math" / "model")
