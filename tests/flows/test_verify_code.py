"""`ratchet verify code`, in a process of its own as a user has it."""

import json

import pyarrow.parquet as pq
import pytest

from ratchet.infra.problems import Problem, to_table

DOUBLE = Problem(
    "double", "code", "double it", entry_point="f", time_limit_s=0.5,
    tests=json.dumps([{"call": {"args": [n]}, "output": 2 * n} for n in range(4)]),
)  # fmt: skip
ECHO = Problem(
    "echo", "code", "say it", tests=json.dumps([{"input": "1\n", "output": "1"}, {"input": "é", "output": "é"}])
)
RIGHT = "def f(x): return 2 * x"


def lines(path, rows):
    path.write_bytes(b"".join(row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n" for row in rows))
    return path


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def problems(tmp_path):
    path = tmp_path / "problems.parquet"
    pq.write_table(to_table([DOUBLE, ECHO]), path)
    return path


def test_every_row_gets_its_verdict_in_order(ratchet, problems, tmp_path):
    rows = [
        {"problem_id": "double", "code": RIGHT, "model": "a"},
        {"problem_id": "echo", "response": "Thus\n```python\nprint(input())\n```\n"},
        {"problem_id": "double", "code": "def f(x): return 2 * x if x < 2 else 5"},
        {"problem_id": "double", "response": "no program"},
        {"problem_id": "double", "code": "def f(x):\n    while x: pass\n    return 0"},
        {"problem_id": "double", "code": "def f(:"},
    ]
    output = tmp_path / "judged.jsonl"
    solutions = lines(tmp_path / "solutions.jsonl", rows)
    done = ratchet("verify", "code", "--problems", problems, "--solutions", solutions, "--output", output)
    assert done.returncode == 0, done.stdout + done.stderr
    judged = read(output)
    assert [{key: row[key] for key in given} for row, given in zip(judged, rows, strict=True)] == rows
    assert [(row["outcome"], row["passed"], row["total"]) for row in judged] == [
        ("passed", 4, 4), ("passed", 2, 2), ("failed", 2, 4), ("unparseable", 0, 4), ("timeout", 1, 4), ("failed", 0, 4)
    ]  # fmt: skip
    third = judged[2]["tests"]
    assert [test["status"] for test in third] == ["passed", "passed", "wrong_answer", "wrong_answer"]
    assert third[2]["difference"] == "value: expected '4', got '5'"
    assert all(test["seconds"] >= 0 for test in third)
    assert "6 judged: failed 2, passed 2, timeout 1, unparseable 1" in done.stdout
    assert "solutions a second" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"problems.parquet", "solutions.jsonl", "judged.jsonl"}


def test_rows_that_cannot_be_used_are_set_aside_with_their_place(ratchet, tmp_path):
    problems = lines(
        tmp_path / "problems.jsonl",
        [
            {"problem_id": "double", "tests": json.loads(DOUBLE.tests), "entry_point": "f"},
            b"\n",
            {"problem_id": "double", "tests": "[]"},
            {"tests": "[]"},
            {"problem_id": "m", "domain": "math"},
        ],
    )
    solutions = lines(
        tmp_path / "solutions.jsonl",
        [
            b"{broken\n",
            {"problem_id": "double", "code": RIGHT},
            b'{"problem_id": "double", "code": "\xff"}\n',
            b"[1]\n",
            {"problem_id": "unknown", "code": RIGHT},
            {"problem_id": "double"},
            {"problem_id": "double", "code": 7},
        ],
    )
    output = tmp_path / "judged.jsonl"
    done = ratchet("verify", "code", "--problems", problems, "--solutions", solutions, "--output", output)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert [row["outcome"] for row in read(output)] == ["passed"]
    rejected = read(tmp_path / "judged.jsonl.rejected.jsonl")
    assert [(row["file"], row["line"]) for row in rejected] == [
        *(("problems.jsonl", number) for number in (3, 4, 5)),
        *(("solutions.jsonl", number) for number in (1, 3, 4, 5, 6, 7)),
    ]
    assert "9 rows set aside" in done.stdout and "problems.jsonl:3" in done.stdout


def test_a_problem_that_cannot_be_judged_is_named(ratchet, tmp_path):
    problems = lines(tmp_path / "p.jsonl", [{"problem_id": "broken", "tests": "["}])
    solutions = lines(tmp_path / "s.jsonl", [{"problem_id": "broken", "code": "pass"}] * 2)
    done = ratchet("verify", "code", "--problems", problems, "--solutions", solutions, "--output", tmp_path / "o.jsonl")
    assert done.returncode == 1
    assert [(row["outcome"], row["total"]) for row in read(tmp_path / "o.jsonl")] == [("unparseable", 0)] * 2
    assert "2 could not be judged: problem broken: its tests cannot be read" in done.stdout


def test_one_program_is_explained(ratchet, problems, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("def f(x): return 2 * x if x < 3 else [x]")
    explain = ("verify", "code", "--problems", problems, "--problem", "double", "--solution", program)
    done = ratchet(*explain)
    assert done.returncode == 1
    assert "failed: 3 of 4 tests passed (wrong_answer)" in done.stdout
    assert "The first failing test is number 3." in done.stdout
    assert "expected  6" in done.stdout and "got '[3]'" in done.stdout
    program.write_text(RIGHT)
    done = ratchet(*explain)
    assert done.returncode == 0 and "4 of 4 tests passed" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--problems", "nowhere.jsonl", "--solution", "x.py"], "nowhere.jsonl: cannot be read"),
        (["--problems", "{problems}", "--problem", "triple", "--solution", "{program}"], "no problem 'triple'"),
        (["--problems", "{problems}", "--problem", "double", "--solution", "nowhere.py"], "nowhere.py: cannot be read"),
        (["--problems", "{problems}", "--problem", "double", "--solution", "{latin}"], "UTF-8"),
        (["--problems", "{problems}"], "Say --solutions FILE"),
        (["--problems", "{problems}", "--solutions", "nowhere.jsonl", "--output", "{tmp}/o"], "nowhere.jsonl"),
        (["--problems", "{problems}", "--solutions", "{program}", "--output", "{problems}"], "a file of its own"),
        (["--problems", "{program}", "--solutions", "{program}", "--output", "{tmp}/o"], "no problem in it"),
    ],
)
def test_a_mistake_gets_one_message_and_code_2(ratchet, problems, tmp_path, arguments, message):
    program, latin = tmp_path / "program.py", tmp_path / "latin.py"
    program.write_text(RIGHT)
    latin.write_bytes(b"# \xe9")
    places = {"problems": problems, "program": program, "latin": latin, "tmp": tmp_path}
    done = ratchet("verify", "code", *(argument.format(**places) for argument in arguments))
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "o").exists()
