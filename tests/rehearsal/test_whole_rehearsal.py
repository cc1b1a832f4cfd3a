"""A rehearsal from end to end, and what it says when something is wrong. Minutes: at night."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.slow
THINGS = ("apples", "pears", "stamps", "marbles", "coins", "books", "shells", "cards", "plums", "pens")
PLACES = ("in a basket", "on the shelf", "under a bench", "at the market", "by the river")
ENDS = ("How many are there now?", "Find the number that is left in the end.", "What is the new total?")


def problem(number: int) -> dict[str, str]:
    a, b, thing, place = 3 + number, 2 + number * 7 % 11, THINGS[number % 10], PLACES[number // 2 % 5]
    happens = (f"{b} more arrive", f"a child brings {b} of them", f"{b} further ones are found")[number % 3]
    text = f"There are {a} {thing} {place}, counted on day {number + 1}; then {happens}. {ENDS[number % 3]}"
    return {"problem": text, "answer": str(a + b), "solution": f"{a} + {b} = {a + b}."}


def samples(directory: Path, answer: str = "answer") -> Path:
    """Rows in the layouts of DeepScaleR, MATH-500 and AIME 2024."""
    rows = [problem(number) for number in range(40)]
    rows += [{**rows[0], "problem": rows[0]["problem"].upper()}, problem(60)]
    rows.append({"problem": "Which is even? (A) 3 (B) 4 (C) 5 (D) 7", "answer": "B", "solution": "B."})
    held_out = [problem(number) for number in range(60, 66)]
    files = {
        "agentica-org/DeepScaleR-Preview-Dataset/deepscaler.json": [
            {{"answer": answer}.get(name, name): text for name, text in row.items()} for row in rows
        ],
        "HuggingFaceH4/MATH-500/test.jsonl": [
            {**row, "subject": "Algebra", "level": 1, "unique_id": f"test/algebra/{i}.json"}
            for i, row in enumerate(held_out)
        ],
        "HuggingFaceH4/aime_2024/data/train-00000-of-00001.parquet": [
            {**problem(i), "id": i, "url": f"https://example.org/{i}", "year": "2024"} for i in range(70, 76)
        ],
    }
    for name, content in files.items():
        file = directory / "datasets" / name
        file.parent.mkdir(parents=True)
        if file.suffix == ".parquet":
            pq.write_table(pa.Table.from_pylist(content), file)
        else:
            lines = "".join(json.dumps(row) + "\n" for row in content)
            file.write_text(lines if file.suffix == ".jsonl" else json.dumps(content))
    return directory


def rehearse(home: Path, rows: Path, *more: str) -> tuple[int, str, dict[str, bool]]:
    command = [sys.executable, "-m", "ratchet.cli.main", "rehearse", "1.5b-1gpu", "--rows", str(rows)]
    done = subprocess.run([*command, "--home", str(home), *more], capture_output=True, text=True)
    table = home / "rehearsals" / "1.5b-1gpu" / "rehearsal.json"
    seen = {row["name"]: row["seen"] for row in json.loads(table.read_text())} if table.is_file() else {}
    return done.returncode, done.stdout + done.stderr, seen


def test_every_mechanism_of_a_recipe_is_seen_and_a_fault_is_not(tmp_path):
    code, output, seen = rehearse(tmp_path / "home", samples(tmp_path / "rows"))
    assert code == 0 and seen and all(seen.values()), output
    assert {"math: decontaminate", "math-8k: stop at plateau", "benchmark math500 read and scored"} <= seen.keys()
    assert re.search(rf"{len(seen)} of {len(seen)} mechanisms seen", output)

    # In the same home: what an earlier rehearsal has left counts for nothing.
    code, output, seen = rehearse(tmp_path / "home", samples(tmp_path / "renamed", answer="reply"))
    assert code == 1 and "no_answer 42" in output, output
    assert [name for name, was_seen in seen.items() if was_seen] == ["math: held-out benchmarks read"]

    off = "curation.math.rules.off=[multiple_choice]"
    code, output, seen = rehearse(tmp_path / "home", tmp_path / "rows", "--set", off)
    assert code == 1 and [name for name, was_seen in seen.items() if not was_seen] == ["math: rules"], output
