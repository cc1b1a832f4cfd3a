"""A user's own columns and containers, and the worked solutions of GSM8K."""

import json
from datetime import date

import pytest

from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.read import read_problems
from ratchet.verifiers.errors import RatchetError
from tests.data_curation.readers.files import write_csv, write_json

ROWS = [
    {"task": 'Say "hi",\nthen find $1+1$.', "target": "2", "answer": "no", "day": "2024-05-01", "kind": "easy"},
    {"task": "Find $\\sqrt{4}$, ça va?", "target": "2", "answer": "no", "day": "", "kind": ""},
]
COLUMNS = {"prompt": "task", "answer": "target", "released": "day", "metadata.level": "kind"}


def test_own_columns(tmp_path):
    split = read_problems(write_csv(tmp_path / "data", ROWS), "math", COLUMNS)
    first, second = from_table(split.kept)
    assert (first.prompt, first.answer, first.released) == (ROWS[0]["task"], "2", date(2024, 5, 1))
    assert json.loads(first.metadata) == {"level": "easy", "answer": "no"}  # what is not mapped is not lost
    assert (second.prompt, second.released) == (ROWS[1]["task"], None)
    assert split.summary["files"] == {"data (own columns)": 2}


def test_own_columns_of_code_problems(tmp_path):
    row = {
        "task": "Twice x.", "cases": '{"inputs": [[1]], "outputs": [2]}', "call": "f", "header": "def f(x):",
        "code": "def f(x): return 2 * x", "limit": "2 seconds",
    }  # fmt: skip
    columns = {
        "prompt": "task", "tests": "cases", "entry_point": "call", "starter_code": "header",
        "golden_solutions": "code", "time_limit_s": "limit",
    }  # fmt: skip
    [problem] = from_table(read_problems(write_csv(tmp_path / "c.csv", [row]), "code", columns).kept)
    assert json.loads(problem.tests) == [{"call": {"args": [1], "kwargs": {}}, "output": 2}]
    assert (problem.entry_point, problem.starter_code, problem.time_limit_s) == ("f", "def f(x):", 2.0)
    assert problem.golden_solutions == [row["code"]]


def test_a_published_layout_may_come_as_csv(tmp_path):
    path = write_csv(tmp_path / "m.csv", [{"": "0", "problem": "Find 1 + 1.", "answer": "2"}])  # with pandas' index
    [problem] = from_table(read_problems(path, "math").kept)
    assert (problem.answer, json.loads(problem.metadata)) == ("2", {"column 1": "0"})


def test_a_column_of_json_lines_may_be_absent_from_most_rows(tmp_path):
    rows = [{"q": f"Find {n} + 1.", "a": str(n + 1)} for n in range(60)] + [{"q": "Find 0.", "a": "0", "url": "x.org"}]
    (tmp_path / "m.jsonl").write_text("\n".join(map(json.dumps, rows)))
    columns = {"prompt": "q", "answer": "a", "source_url": "url"}
    assert from_table(read_problems(tmp_path / "m.jsonl", "math", columns).kept)[-1].source_url == "x.org"


def test_wrong_lines_of_a_csv_are_set_aside_with_their_place(tmp_path):
    (tmp_path / "m.csv").write_text('problem,answer\nFind 1.,1\nFind 2.\nFind 3.,3,4\n\n"Find 4.",4\n"Find 5.,5\nx,6\n')
    split = read_problems(tmp_path / "m.csv", "math")
    assert split.kept.column("answer").to_pylist() == ["1", "4", "6"]
    reasons = [json.loads(row["evidence"])["reason"] for row in split.rejected.to_pylist()]
    assert reasons[:2] == ["1 values instead of 2 at line 3", "3 values instead of 2 at line 4"]
    assert reasons[2].startswith("a quote in line 7 is not closed") and len(reasons) == 3


def test_a_csv_of_another_encoding_or_with_a_name_twice_is_an_error(tmp_path):
    (tmp_path / "latin.csv").write_bytes("problem,answer\nça va?,1\n".encode("latin-1"))
    (tmp_path / "twice.csv").write_text("problem,answer,answer\nx,1,2\n")
    for name, message in (("latin", "not UTF-8"), ("twice", "answer more than once")):
        with pytest.raises(RatchetError, match=f"{name}.csv.*{message}"):
            read_problems(tmp_path / f"{name}.csv", "math")


def by_columns(tmp_path, row, columns, domain="math"):
    split = read_problems(write_json(tmp_path / "rows.json", [row]), domain, columns)
    assert len(split.kept) == 1, split.rejected["evidence"].to_pylist()
    (problem,) = from_table(split.kept)
    return problem


@pytest.mark.parametrize(
    ("options", "answer", "letter"),
    [
        (["3", "4", "5"], "B", "B"), (["3", "4", "5"], "4", "B"), (["3", "4", "5"], 2, "C"), ('["3", "4"]', "a", "A"),
        ({"A": "3", "B": "4"}, "B", "B"), ("a ) 3 , b ) 4", "b", "B"),
        ("A. 3 B. 4,000 C. $b$", "B", "B"), ("(A) 3 (B) 4", "4", "B"),
    ],
)  # fmt: skip
def test_options_and_context_are_fields_of_any_layout(tmp_path, options, answer, letter):
    row = {"ask": "How many stay?", "about": "Of seven birds three fly away.", "picks": options, "key": answer}
    columns = {"prompt": "ask", "context": "about", "options": "picks", "answer": "key"}
    problem = by_columns(tmp_path, row, columns)
    assert problem.prompt.startswith("Of seven birds three fly away.\n\nHow many stay?\n") and "4" in problem.prompt
    assert problem.answer == letter and "picks" not in problem.metadata
    science = by_columns(tmp_path, row, columns, "science")
    assert science.answer == letter and json.loads(science.tests)["options"][0] == "3"


def test_a_time_in_milliseconds_is_a_date(tmp_path):
    row = {"problem": "Find 1+1.", "answer": "2", "date": 1700000000000}
    assert str(read_problems(write_json(tmp_path / "rows.json", [row])).kept["released"][0]) == "2023-11-14"


def said(*turns: tuple[str, object]) -> list[dict[str, object]]:
    return [{"role": role, "content": content} for role, content in turns]


@pytest.mark.parametrize(
    ("chat", "statement"),  # None: malformed
    [
        (said(("user", "Part one: x is 3."), ("user", "What is x+1?")), "Part one: x is 3.\n\nWhat is x+1?"),
        (said(("user", "3 cars."), ("assistant", "And then?"), ("user", "How many?")), None),
        (said(("user", "1+1?"), ("assistant", "\\boxed{2}"), ("user", "2+2?"), ("assistant", "Four.")), "2+2?"),
        (said(("system", "Think."), ("user", ["What is", "3+4?"])), "What is\n3+4?"),
        (said(("user", [{"text": "What is "}, {"text": "3+4?"}])), "What is 3+4?"),
    ],
)
def test_a_chat_asks_what_the_user_says_at_its_end(tmp_path, chat, statement):
    rows = [{"messages": chat, "answer": "7"}, {"messages": said(("user", "Find 7.")), "answer": "7"}]
    split = read_problems(write_json(tmp_path / "rows.json", rows), "math")
    assert split.kept["prompt"].to_pylist() == ([statement] if statement else []) + ["Find 7."]
    assert statement or split.rejected["prompt"].to_pylist() == ["3 cars.\n\nHow many?"]


@pytest.mark.parametrize(
    ("solutions", "golden"),
    [
        ({"python": ["print(1)"], "cpp": ["int main() {}"]}, ["print(1)"]),
        ({"language": ["cpp", "py"], "solution": ["int main() {}", "print(1)"]}, ["print(1)"]),
        ([{"language": "python", "code": "print(1)"}, {"lang": "Java", "code": "class A"}], ["print(1)"]),
        ([["print(1)"]], ["print(1)"]),
        ('{"code": "print(1)"}', ["print(1)"]),
        ("So:\n```python\nprint(1)\n```\n", ["print(1)\n"]),
        ('"""As\n```python\nf(1)\n```\n"""\nprint(1)', ['"""As\n```python\nf(1)\n```\n"""\nprint(1)']),
    ],
)
def test_programs_are_read_from_objects_and_fenced_blocks(tmp_path, solutions, golden):
    row = {"problem": "Print 1.", "tests": {"inputs": [""], "outputs": ["1\n"]}, "solutions": solutions}
    (problem,) = from_table(read_problems(write_json(tmp_path / "rows.json", [row]), "code").kept)
    assert problem.golden_solutions == golden


GASES = {"question": "Which gas do plants take in?", "A": "oxygen", "B": "nitrogen", "C": None, "D": "carbon dioxide"}
VITAMINS = {"question": "Which vitamin helps to see?", "options": ["A", "C", "D", "K"]}
MOLES = {"question": "How many moles of A and C?", "options": ["5", "6", "7", "8"]}
SEAS = {"question": "Which sea is salty?", "choices": ["w", "x", "y", "z"]}


@pytest.mark.parametrize(
    ("rows", "letters"),  # None: malformed
    [
        ([GASES | {"answer": "D"}, GASES | {"answer": 3}, GASES | {"answer": "C"}], ["D", "D", None]),
        ([{"question": "Who?", "option1": "a", "option2": "", "option3": "b", "answer": "3"}], ["C"]),
        ([VITAMINS | {"answer": "A"}, VITAMINS | {"answer": "C"}], ["A", None]),
        ([SEAS | {"answer": many} for many in (["A", "C"], ["C", "y"], [0, 0, 0, 1])], [None, "C", "D"]),
        ([SEAS | {"answer": n} for n in (1, 2, 3, 4)], ["A", "B", "C", "D"]),
        ([SEAS | {"answer": n} for n in (1.0, 4.0)], ["A", "D"]),
        ([SEAS | {"answer": n} for n in (1, 2, 3, 0)], ["B", "C", "D", "A"]),
        ([MOLES | {"answer": 7}, MOLES | {"answer": 8.0}, MOLES | {"answer": 4}], ["C", "D", None]),
        ([MOLES | {"options": ["2", "3", "4", "5"], "answer": n} for n in (5, 3)], ["D", "B"]),
        ([MOLES | {"options": ["2", "3", "4", "5"], "answer": n} for n in (3, "C")], [None, "C"]),
        ([MOLES | {"options": ["2", "3", "4", "5"], "answer": n} for n in (3, 0)], ["D", "A"]),
        ([MOLES | {"options": ["7", "8", "9"], "answer_index": n} for n in (2, 7)], ["C", None]),
        ([MOLES | {"options": ["0.5", "1.5", "7.0"], "answer": n} for n in (1.5, 7)], ["B", "C"]),
        ([MOLES | {"options": ["True", "False", "not said"], "answer": True, "correct": False}], ["A"]),
        ([{"question": "Who?", "opa": "w", "opb": "x", "opc": "y", "opd": "z", "cop": n} for n in (4, 1)], ["D", "A"]),
    ],
)  # fmt: skip
def test_the_right_option_is_the_one_that_the_file_means(tmp_path, rows, letters):
    for domain in ("math", "science"):
        split = read_problems(write_json(tmp_path / "rows.json", rows), domain)
        kept = {row["source_id"]: row for row in split.kept.to_pylist()}
        read = [kept[str(at)]["answer"] if str(at) in kept else None for at in range(len(rows))]
        assert [None if "option" in str(answer) else answer for answer in read] == letters
        assert all("A" in row["prompt"] and "\nC" in row["prompt"] for row in kept.values())


def test_options_in_columns_of_their_own(tmp_path):
    row = {"ask": "How many?", "w": "3", "x": "4", "key": "4"}
    problem = by_columns(tmp_path, row, {"prompt": "ask", "options": "w, x", "answer": "key"})
    assert problem.prompt.endswith("A) 3\nB) 4") and problem.answer == "B"


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ({"prompt": "question", "answer": "key"}, "rows.json: there is no column 'question'.*ask, key, w"),
        ({"prompt": "ask", "difficulty": "w"}, "no field 'difficulty'"),
        ({"prompt": "ask", "answer": "ask"}, "'ask' is mapped to two fields"),
        ({"prompt": "ask", "options": "w, z"}, "'z'"), ({"prompt": "ask", "options": "w, ask"}, "'ask'"),
        ({"prompt": "ask", "options": "w"}, "field|w"), ({"prompt": "ask", "option": "w"}, "options"),
    ],
)  # fmt: skip
def test_columns_that_cannot_be_mapped_are_errors(tmp_path, columns, named):
    with pytest.raises(RatchetError, match=named):
        by_columns(tmp_path, {"ask": "How many?", "w": "3", "key": "4"}, columns)
