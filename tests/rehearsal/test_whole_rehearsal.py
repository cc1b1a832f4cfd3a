"""A rehearsal from end to end, and what it says when something is wrong. Minutes: at night."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.rehearsal.layouts import write_layout

DEEPSCALER = "agentica-org/DeepScaleR-Preview-Dataset"


def rehearse(home: Path, *more: str) -> tuple[int, str, dict[str, bool]]:
    command = [sys.executable, "-m", "ratchet.cli.main", "rehearse", "1.5b-1gpu", "--home", str(home), *more]
    done = subprocess.run(command, capture_output=True, text=True)
    table = home / "rehearsals" / "1.5b-1gpu" / "rehearsal.json"
    seen = {row["name"]: row["seen"] for row in json.loads(table.read_text())} if table.is_file() else {}
    return done.returncode, done.stdout + done.stderr, seen


@pytest.mark.slow
def test_every_mechanism_of_a_recipe_is_seen_and_a_fault_is_not(tmp_path):
    code, output, seen = rehearse(tmp_path / "home")
    assert code == 0 and seen and all(seen.values()), output
    assert {"math: decontaminate", "math-8k: stop at plateau", "benchmark math500 read and scored"} <= seen.keys()
    assert re.search(rf"{len(seen)} of {len(seen)} mechanisms seen", output)

    # In the same home: what an earlier rehearsal has left counts for nothing.
    rows = tmp_path / "rows" / "datasets" / DEEPSCALER / "deepscaler.json"
    write_layout(DEEPSCALER, rows.parent)
    answered = json.loads(rows.read_text())
    renamed = [{"problem": row["problem"], "reply": row["answer"], "solution": ""} for row in answered]
    rows.write_text(json.dumps(renamed))
    code, output, seen = rehearse(tmp_path / "home", "--rows", str(tmp_path / "rows"))
    assert code == 1 and re.search(r"no_answer \d+", output), output
    assert [name for name, was_seen in seen.items() if was_seen] == ["math: held-out benchmarks read"]

    off = "curation.math.rules.off=[multiple_choice,proof,figure,sub_questions]"
    code, output, seen = rehearse(tmp_path / "home", "--set", off)
    assert code == 1 and [name for name, was_seen in seen.items() if not was_seen] == ["math: rules"], output
