import json

import pytest

from ratchet.verifiers.errors import RatchetError
from tests.flows.commands import in_process

ITEM = "A wheel of radius 7 rolls along a straight road for 12 turns. How far from its start does it stop?"


def test_a_file_against_a_directory_of_benchmarks(tmp_path):
    held_out = tmp_path / "held_out"
    held_out.mkdir()
    (held_out / "one.json").write_text(json.dumps([{"problem": ITEM}]))
    (held_out / "notes.txt").write_text("no benchmark")
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in (ITEM, "Another one.", "")))
    arguments = ("--input", tmp_path / "rows.jsonl", "--benchmark", held_out, "--output", tmp_path / "out")
    said = in_process("decontaminate", *arguments)
    assert "1 of 3 rows kept" in said and "100.0% of 1 items" in said and "0 of 1 items unprotected" in said
    assert (tmp_path / "out" / "rejected.parquet").is_file()
    with pytest.raises(RatchetError, match="out exists"):
        in_process("decontaminate", *arguments)
