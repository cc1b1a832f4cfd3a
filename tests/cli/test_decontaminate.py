import json

from typer.testing import CliRunner

from ratchet.cli.main import app
from ratchet.verifiers.errors import RatchetError

ITEM = "A wheel of radius 7 rolls along a straight road for 12 turns. How far from its start does it stop?"


def ratchet(*arguments):
    return CliRunner().invoke(app, ["decontaminate", *map(str, arguments)])


def test_a_file_against_a_directory_of_benchmarks(tmp_path):
    held_out = tmp_path / "held_out"
    held_out.mkdir()
    (held_out / "one.json").write_text(json.dumps([{"problem": ITEM}]))
    (held_out / "notes.txt").write_text("no benchmark")
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in (ITEM, "Another one.", "")))
    arguments = ("--input", tmp_path / "rows.jsonl", "--benchmark", held_out, "--output", tmp_path / "out")
    done = ratchet(*arguments)
    assert done.exit_code == 0, done.output
    assert (
        "1 of 3 rows kept" in done.output
        and "100.0% of 1 items" in done.output
        and "0 of 1 items unprotected" in done.output
    )
    assert (tmp_path / "out" / "rejected.parquet").is_file()
    for more, message in (((), "out exists"), (("--preset", "strict"), "--preset strict")):
        failed = ratchet(*arguments, *more)
        assert isinstance(failed.exception, RatchetError) and message in str(failed.exception)
