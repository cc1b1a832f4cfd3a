"""`ratchet verify`, once in a process of its own as a user has it."""

import json
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.base.problem_table import to_table
from ratchet.verifiers.problem import Problem

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


def test_one_answer_is_explained(ratchet):
    done = ratchet("verify", "math", "--gold", "1/2", "--response", "<think>1?</think> So \\boxed{0.5}")
    assert done.returncode == 0, done.stderr
    shown = dict(line.rstrip().split("  ", 1) for line in done.stdout.splitlines())
    shown = {name: value.strip() for name, value in shown.items()}
    assert shown["why"] == "0.5 is 1/2, as exact numbers"
    assert (shown["outcome"], shown["extracted"], shown["decided by"]) == ("passed", "0.5", "exact")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--gold", "5", "--pred", "6"], "6 is not 5, as exact numbers"),
        (["--gold", "5", "--pred", "[bold]5"], "[bold]5"),
        (["--gold", "5", "--response", "it is 5", "--boxed"], "nothing is boxed after the thinking"),
        (["--gold", "5", "--response", "It is 5 or 6."], "5 or 6 is not 5"),
        (["--gold", "5", "--response", "<think>\\boxed{5}"], "the thinking is not closed"),
        (["--gold", "", "--pred", "5"], "it has no reference answer"),
        (["--gold", "5", "--pred", "9^{9^{9^9}}"], "a tower of powers"),
        (["--gold", "25", "--pred", "0.24", "--question", "What percent is left?"], "25%"),
    ],
)
def test_what_does_not_pass_ends_in_1_and_says_why(typed, arguments, expected):
    done = typed("verify", "math", *arguments)
    assert done.returncode == 1
    assert expected in done.stdout


def test_a_file_of_answers_keeps_every_row_in_order(typed, tmp_path):
    given = [
        b'{"gold": "1/2", "pred": "0.5", "id": 7}',
        b'{"gold": "\\\\cos 2x", "response": "\\\\boxed{1-2\\\\sin^2 x}"}',
        b"not json",
        b'{"gold": "3"}',
        b'{"pred": "3"}',
        b'{"gold": "3", "pred": "3", "response": "3"}',
        b'{"gold": null, "pred": "3"}',
        b"[1, 2]",
        b"",
        b'{"gold": "\xff", "pred": "3"}',
        b'{"gold": 3, "pred": 3.0}',
        b'{"gold": "3", "pred": "4", "outcome": "from before"}',
        b'{"gold": "3", "pred": ""}',
        b'{"gold": "", "pred": "3"}',
        b'{"gold": "3", "pred": "\\ud800"}',
        b'{"gold": "3", "pred": "3\\u0000"}',
        b'{"gold": "3", "response": "no box"}',
        b'{"gold": ["3"], "response": "no box"}',
        b'{"gold": "3", "response": 3}',
        b'{"gold": NaN, "pred": "3"}',
        b'{"gold": "nan", "pred": "nan", "weight": NaN}',
    ]
    source, target = tmp_path / "pairs.jsonl", tmp_path / "judged.jsonl"
    source.write_bytes(b"\n".join(given))
    done = typed("verify", "math", "--input", source, "--output", target)
    assert done.returncode == 1, done.stderr  # not all could be judged
    rows = read(target)
    expected = ["passed", "passed", None, None, None, None, None, None, None, "passed"]
    expected += ["failed", "unparseable", None, "failed", "failed", "failed", None, None, None, None]
    assert [row["outcome"] for row in rows] == expected
    assert rows[0]["id"] == 7 and rows[0]["decided_by"] == "exact" and rows[0]["fraction"] == 1.0
    assert rows[1]["decided_by"] == "numeric"
    assert f"{source}, row 2: line: not valid JSON" in rows[2]["error"]
    assert rows[3]["error"] == f"{source}, row 3: exactly one of the fields response, pred, code is needed"
    assert "it has no reference answer" in rows[4]["error"] and rows[4]["fraction"] is None
    assert "nan is no reference" in rows[18]["error"] and rows[18]["gold"] is None
    assert "a placeholder: nan" in rows[19]["error"] and "NaN" not in target.read_text()
    assert rows[16]["error"].endswith("answer: list instead of text")
    assert rows[9]["gold"] == 3
    assert "could not be judged" in done.stdout and "row 2" in done.stdout and "20 rows in" in done.stdout
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_rows_with_columns_of_their_own_are_judged(typed, tmp_path):
    target = tmp_path / "judged.jsonl"
    row = {
        "problem_id": 7,
        "domain": "algebra",
        "gold": "1",
        "pred": "1",
        "error": "of an earlier run",
        "detail": "old",
    }
    assert typed("verify", "math", "--input", lines(target, [row]), "--output", target).returncode == 0
    assert read(target)[0]["outcome"] == "passed" and "error" not in read(target)[0]
    problems = lines(tmp_path / "problems.jsonl", [{"problem_id": 7, "domain": "algebra", "gold": "1"}])
    judged = typed("verify", "math", "--problems", problems, "--input", target, "--output", target)
    assert judged.returncode == 0 and read(target)[0]["problem_id"] == 7


def test_a_date_in_a_table_is_a_part_of_the_metadata(typed, tmp_path):
    rows = pa.Table.from_pylist([{"task": "ab", "made": None}, {"task": "ab", "made": datetime(2024, 1, 2)}])
    pq.write_table(rows.append_column("pred", pa.array(["A", "A"])), tmp_path / "rows.parquet")
    judge = ("verify", "logic", "--input", tmp_path / "rows.parquet", "--output", tmp_path / "judged.jsonl")
    assert typed(*judge).returncode == 1
    assert ["no entry" in row["error"] for row in read(tmp_path / "judged.jsonl")] == [True, True]


def test_columns_are_those_of_the_recipe(typed, tmp_path):
    recipe, source, target = tmp_path / "mine.yaml", tmp_path / "pairs.jsonl", tmp_path / "judged.jsonl"
    recipe.write_text("name: mine\ncuration: {math: {columns: {prompt: ask, answer: value}}}\n")
    lines(source, [{"ask": "What percent is left?", "value": "25", "pred": "0.25"}, {"value": "1", "pred": "2"}])
    judge = ("verify", "math", "--input", source, "--output", target)
    assert "row 0: problem given: it has no reference answer" in typed(*judge).stdout
    done = typed(*judge, "--recipe", recipe)
    assert done.returncode == 0, done.stdout
    assert [row["outcome"] for row in read(target)] == ["passed", "failed"]
    assert set(read(target)[0]) >= {"ask", "value"} and "prompt" not in read(target)[0]


def test_an_output_that_cannot_be_finished_leaves_the_old_one(typed, tmp_path):
    source = lines(tmp_path / "pairs.jsonl", [{"gold": "1", "pred": "1"}])
    done = typed("verify", "math", "--input", source, "--output", tmp_path / "nowhere" / "judged.jsonl")
    assert done.returncode == 2 and "There is no directory" in done.stderr
    (tmp_path / "broken.json").write_text("[{")
    target = lines(tmp_path / "judged.jsonl", [{"old": 1}])
    done = typed("verify", "math", "--input", tmp_path / "broken.json", "--output", target)
    assert done.returncode == 2 and read(target) == [{"old": 1}]
    assert typed("verify", "math", "--input", source, "--output", source).returncode == 0
    assert read(source)[0]["outcome"] == "passed"


def test_every_program_gets_its_verdict_in_order(typed, problems, tmp_path):
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
    done = typed("verify", "code", "--problems", problems, "--input", solutions, "--output", output)
    assert done.returncode == 0, done.stdout + done.stderr
    judged = read(output)
    assert [{key: row[key] for key in given} for row, given in zip(judged, rows, strict=True)] == rows
    assert [(row["outcome"], row["fraction"]) for row in judged] == [
        ("passed", 1.0), ("passed", 1.0), ("failed", 0.5), ("unparseable", 0.0), ("timeout", 0.25), ("failed", 0.0)
    ]  # fmt: skip
    assert judged[2]["detail"] == "test 2: got '5'"
    assert judged[1]["extracted"].strip() == "print(input())"
    assert "6 rows in" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"problems.parquet", "solutions.jsonl", "judged.jsonl"}


def test_rows_that_cannot_be_judged_are_told_with_their_place(typed, tmp_path):
    tests = json.loads(DOUBLE.tests)
    own = {"problem_id": "double", "tests": tests, "entry_point": "f"}
    problems = lines(tmp_path / "problems.jsonl", [own, b"\n", {"problem_id": "broken", "tests": "["}])
    solutions = lines(
        tmp_path / "solutions.jsonl",
        [
            {"problem_id": "double", "code": RIGHT},
            {"problem_id": "broken", "code": "pass"},
            {"problem_id": "unknown", "code": RIGHT},
            {"problem_id": "double", "code": 7},
        ],
    )
    output = tmp_path / "judged.jsonl"
    done = typed("verify", "code", "--problems", problems, "--input", solutions, "--output", output)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    judged = read(output)
    assert [row["outcome"] for row in judged] == ["passed", None, None, None]
    assert "row 1: problem broken: its tests cannot be read" in judged[1]["error"]
    assert "row 2: problem_id: 'unknown'" in judged[2]["error"] and "row 3: code: int" in judged[3]["error"]
    carried = lines(tmp_path / "carried.jsonl", [own | {"code": RIGHT}])
    done = typed("verify", "code", "--input", carried, "--output", output)
    assert done.returncode == 0 and read(output)[0]["outcome"] == "passed"


def test_one_program_is_explained(typed, problems, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("def f(x): return 2 * x if x < 3 else [x]")
    explain = ("verify", "code", "--problems", problems, "--problem", "double", "--solution", program)
    done = typed(*explain)
    assert done.returncode == 1
    assert "3 of 4 tests passed" in done.stdout and "wrong_answer" in done.stdout
    assert "test 3: expected  6" in done.stdout and "got '[3]'" in done.stdout
    program.write_text(RIGHT)
    done = typed(*explain)
    assert done.returncode == 0 and "4 of 4 tests passed" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["code", "--problems", "nowhere.jsonl", "--solution", "{program}"], "nowhere.jsonl: no such file"),
        (["code", "--problems", "{problems}", "--problem", "triple", "--solution", "{program}"], "'triple' is not"),
        (["code", "--problems", "{problems}", "--solution", "nowhere.py"], "nowhere.py: cannot be read"),
        (["code", "--problems", "{problems}", "--solution", "{latin}"], "UTF-8"),
        (["code", "--problems", "{problems}"], "To judge one response: --gold"),
        (["code", "--problems", "{problems}", "--input", "nowhere.jsonl", "--output", "{tmp}/o"], "nowhere.jsonl"),
        (["code", "--problems", "{program}", "--input", "{program}", "--output", "{tmp}/o"], "program.py, row 0"),
        (["code", "--problems", "{twice}", "--solution", "{program}"], "row 1: problem_id 'm' is there already"),
        (["math", "--problems", "{problems}", "--pred", "1"], "row 0: domain: 'code' instead of 'math'"),
        (["math", "--gold", "1", "--pred", "1", "--response", "1"], "To judge one response: --gold"),
        (["math", "--input", "pairs.jsonl"], "--input FILE --output FILE"),
        (["math", "--rollouts", "math-24", "--either", "--gold", "1"], "leave out --gold, --either"),
        (["math", "--rollouts", "math-24", "--output", "{tmp}/none/o"], "There is no directory"),
    ],
)
def test_a_mistake_gets_one_message_and_code_2(typed, problems, tmp_path, arguments, message):
    program, latin = tmp_path / "program.py", tmp_path / "latin.py"
    program.write_text(RIGHT)
    latin.write_bytes(b"# \xe9")
    twice = lines(tmp_path / "twice.jsonl", [{"problem_id": "m", "tests": "[]"}] * 2)
    places = {"problems": problems, "program": program, "latin": latin, "tmp": tmp_path, "twice": twice}
    done = typed("verify", *(argument.format(**places) for argument in arguments))
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "o").exists()
