"""What is known to go wrong with a row of a published file: set aside with file, row, field and reason, while the rows
around it go on."""

import base64
import json
import pickle
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.read import read_problems

GOOD = {
    "math": {"problem": "Find $x$ with $x + 1 = 3$.", "answer": "2", "date": "2024-05-01"},
    "taco": {"question": "Add.", "solutions": "[]", "input_output": '{"inputs": ["1"], "outputs": ["1"]}'},
    "verl": {
        "data_source": "x", "prompt": [{"role": "user", "content": "What is 1+1?"}], "ability": "math",
        "reward_model": {"ground_truth": "2", "style": "rule"},
    },
    "leetcode": {
        "task_id": "t", "completion": "def f(x): return x", "entry_point": "f", "query": "Return x.", "prompt": "",
        "test": "def check(candidate):\n    assert candidate(1) == 1",
    },
    "livecodebench": {
        "question_content": "Add.", "public_test_cases": '[{"input": "1", "output": "1", "testtype": "stdin"}]',
        "private_test_cases": "", "metadata": "{}", "starter_code": "",
    },
    "contests": {
        "description": "Add.", "public_tests": {"input": ["1"], "output": ["1"]},
        "solutions": {"language": [3], "solution": ["print(1)"]}, "time_limit": None, "memory_limit_bytes": 1,
    },
}  # fmt: skip


class _Hostile:
    def __reduce__(self):
        return print, ("this must not run",)


def packed(value: object) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


# kind: (format, what is wrong: a line, or fields of the good row; field and words of the reason)
KINDS = {
    "a line cut short": ("math", '{"problem": "Find', "line", "not valid JSON"),
    "not UTF-8": ("math", b'{"problem": "Caf\xe9?", "answer": "1"}', "line", "not valid JSON"),
    "a list for a row": ("math", '["Find x.", "2"]', "row", "list instead of an object"),
    "a bare value": ("math", "null", "row", "NoneType instead of an object"),
    "nested without end": ("math", '{"problem": ' + "[" * 100_000, "line", "not valid JSON"),
    "no statement": ("math", {"problem": None}, "problem", "missing or empty"),
    "a blank statement": ("math", {"problem": " \n\t"}, "problem", "blank"),
    "a number for a statement": ("math", {"problem": 17}, "problem", "int instead of text"),
    "half a surrogate pair": ("math", {"problem": "Find \ud83d x."}, "problem", "not Unicode text"),
    "a line of 60 MB": ("math", b'{"problem": "' + b"x" * 60_000_000 + b'"}', "line", "60,000,016 bytes"),
    "a statement of a megabyte": ("math", {"problem": "x" * 1_000_000}, "prompt", "1,000,000 characters"),
    "an object for an answer": ("math", {"answer": {"value": 2}}, "answer", "dict instead of text"),
    "an empty list of answers": ("math", {"answer": "[]", "date": "2024-13-45"}, "date", "is not a date"),
    "a chat without a user": ("verl", {"prompt": [{"role": "system", "content": "Hi."}]}, "prompt", "without a user"),
    "a message without text": ("verl", {"prompt": [{"role": "user", "content": None}]}, "prompt", "missing or empty"),
    "no ground truth": ("verl", {"reward_model": {"style": "rule"}}, "reward_model", "no ground_truth"),
    "torn JSON in a field": ("taco", {"input_output": '{"inputs": [[1'}, "input_output", "neither JSON nor a Python"),
    "an enormous integer": ("taco", {"input_output": "[" + "1" * 5000 + "]"}, "input_output", "4,300 digits"),
    "torn Python in a field": ("taco", {"solutions": "['def f(xs):"}, "solutions", "neither JSON nor a Python"),
    "inputs without outputs": (
        "taco", {"input_output": '{"inputs": ["1", "2"], "outputs": ["1"]}'}, "tests", "2 inputs but 1 outputs",
    ),
    "an unknown shape of tests": ("taco", {"input_output": '{"cases": []}'}, "tests", "not a known shape"),
    "a limit that is none": ("taco", {"time_limit": "generous"}, "time_limit", "'generous' is not a"),
    "a test that is no Python": ("leetcode", {"test": "def check(candidate:"}, "test", ""),
    "no entry point": ("leetcode", {"entry_point": None}, "entry_point", "missing or empty"),
    "no solution": ("leetcode", {"completion": ""}, "completion", "missing or empty"),
    "a pickle that names a function": (
        "livecodebench", {"private_test_cases": packed(_Hostile())}, "private_test_cases", "builtins.print",
    ),
    "no pickle at all": ("livecodebench", {"private_test_cases": "AAAA"}, "private_test_cases", "cannot be decoded"),
    "more solutions than languages": (
        "contests", {"solutions": {"language": [3], "solution": ["a", "b"]}}, "solutions", "1 of language but 2",
    ),
    "text for a group of tests": ("contests", {"public_tests": "soon"}, "public_tests", "neither JSON nor a Python"),
    "a memory limit that is a list": ("contests", {"memory_limit_bytes": [1]}, "memory_limit_bytes", "is not a"),
}  # fmt: skip


def as_line(row: object) -> bytes:
    return row if isinstance(row, bytes) else (row if isinstance(row, str) else json.dumps(row)).encode()


@pytest.mark.parametrize("layout", GOOD)
def test_malformed_rows_are_set_aside_and_the_rest_goes_on(layout: str, tmp_path: Path, capfd):
    good = GOOD[layout]
    kinds = [kind for kind in KINDS.values() if kind[0] == layout]
    lines = [as_line(good)]
    for _, wrong, _, _ in kinds:
        lines += [as_line(good | wrong if isinstance(wrong, dict) else wrong), as_line(good)]
    path = tmp_path / f"{layout}.jsonl"
    path.write_bytes(b"\n".join(lines))
    split = read_problems(path, "math" if layout in ("math", "verl") else "code")
    assert len(split.kept) == len(kinds) + 1 and split.summary["rows_in"] == len(lines)
    assert split.kept.column("source_id").to_pylist() == [str(2 * n) for n in range(len(kinds) + 1)]
    for number, (row, (_, _, field, reason)) in enumerate(zip(split.rejected.to_pylist(), kinds, strict=True)):
        evidence = json.loads(row["evidence"])
        assert (row["rule"], row["source_id"]) == ("malformed", str(2 * number + 1))
        assert (evidence["file"], evidence["row"], evidence["field"]) == (path.name, 2 * number + 1, field), evidence
        assert reason in evidence["reason"], evidence
    assert "must not run" not in capfd.readouterr().out


def test_columns_that_no_table_can_hold_are_named_though_found_late(tmp_path):
    """A Parquet file can hold what JSON cannot: here a solution in bytes, where a list of texts is due."""
    rows = [{"problem": text, "tests": "[]", "solutions": [raw]} for text, raw in (("P?", b"\xff"), ("Q?", b"x"))]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "code.parquet")
    assert len(read_problems(tmp_path / "code.parquet", "code").kept) == 2  # bytes are no text: no solution
    ours = {"problem_id": "0", "domain": "code", "prompt": "P?", "metadata": "{}", "difficulty": 2**40}
    pq.write_table(pa.Table.from_pylist([ours | {"difficulty": 3}, ours]), tmp_path / "ours.parquet")
    split = read_problems(tmp_path / "ours.parquet", "code")
    [row] = split.rejected.to_pylist()
    assert len(split.kept) == 1 and json.loads(row["evidence"])["field"] == "difficulty"
