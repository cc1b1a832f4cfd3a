import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.base.problem_table import to_table
from ratchet.data_curation.readers.raw_files import read_rows
from ratchet.evaluation import imported
from ratchet.evaluation.main import main
from ratchet.evaluation.sampling import GENERATION_SCHEMA
from ratchet.evaluation.tables import score_rows
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import Problem, problem_id
from tests.evaluation.conftest import first_benchmark

SHORT, LONG = "What is 1 + 1?", "Let x = 2. What is 1 + 1? Add x."
SUMS = tuple(Problem(problem_id("math", text), "math", text, answer=a) for text, a in ((SHORT, "2"), (LONG, "4")))
CODE = (Problem("c", "code", "Add.", metadata=json.dumps({"question_id": "abc301_a"})),)


def import_generations(path, benchmark: str, problems) -> pa.Table:
    return imported.import_generations(path, read_rows(path), benchmark, problems)


def texts(table: pa.Table) -> dict[str, list]:
    found: dict[str, list] = {}
    for row in table.to_pylist():
        assert row["sample"] == len(found.setdefault(row["problem_id"], []))
        found[row["problem_id"]].append((row["text"], row["tokens"]))
    return found


def test_lightevals_details(tmp_path):
    rows = [
        {"doc": {"query": f"Solve.\n\nQ: {LONG}\nA:"}, "metric": {"pass@1": 1.0},
         "model_response": {"text": ["\\boxed{4}", "\\boxed{5}"], "output_tokens": [[1, 2, 3], [1]]}},
        {"doc": {"query": f"Solve.\n\nQ: {SHORT}\nA:"}, "metric": {"pass@1": 0.0},
         "model_response": {"text": ["no"], "output_tokens": [[7, 7]]}},
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "details.parquet")
    found = texts(import_generations(tmp_path / "details.parquet", "sums", SUMS))
    short, long = (problem.problem_id for problem in SUMS)
    assert found == {long: [("\\boxed{4}", 3), ("\\boxed{5}", 1)], short: [("no", 2)]}


@pytest.mark.parametrize(
    "row, expected",
    [
        ({"output_list": ["Think.\n```python\nx\n```"], "code_list": ["x"]}, ["Think.\n```python\nx\n```"]),
        ({"code_list": ["x", "y"]}, ["```python\nx\n```", "```python\ny\n```"]),
        ({"output_list": ["x"], "code_list": ["x"]}, ["```python\nx\n```"]),  # bare programs, written to both
    ],
)
def test_livecodebench_generations(tmp_path, row, expected):
    (tmp_path / "lcb.json").write_text(json.dumps([{"question_id": "abc301_a", **row}]))
    table = import_generations(tmp_path / "lcb.json", "lcb", CODE)
    assert table["text"].to_pylist() == expected
    assert set(table["finish_reason"].to_pylist()) == {"unknown"} and set(table["tokens"].to_pylist()) == {None}


def lines(path, *rows: dict):
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    return path


@pytest.mark.parametrize(
    "row, expected",
    [
        ({"question": LONG, "response": "\\boxed{4}"}, ["\\boxed{4}"]),
        (
            {"idx": 0, "question": LONG, "gt": "4", "code": ["a", "b"], "pred": ["", ""], "score": [False] * 2},
            ["a", "b"],
        ),
        ({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": LONG}], "output": "a"}, ["a"]),
        ({"doc_id": 3, "doc": {"question": LONG}, "resps": [["a", "b"]], "filtered_resps": ["4"]}, ["a", "b"]),
        ({"id": 7, "prompt": f"Q: {LONG}", "responses": ["a", None]}, ["a", ""]),
    ],
    ids=["question and response", "Qwen-Math", "chat", "lm-eval", "prompt with a null"],
)
def test_json_lines_of_question_and_response(tmp_path, row, expected):
    (found,) = texts(import_generations(lines(tmp_path / "file.jsonl", row), "sums", SUMS)).values()
    assert [text for text, _ in found] == expected


def test_endings_and_lengths_are_taken_where_they_are(tmp_path):
    row = {"question": SHORT, "responses": ["a", "b"], "finish_reasons": ["length", "eos"], "tokens": [9, 3]}
    path = tmp_path / "file.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(row).encode()))
    rows = import_generations(path, "sums", SUMS).to_pylist()
    assert [(r["finish_reason"], r["tokens"]) for r in rows] == [("length", 9), ("stop", 3)]


def test_bare_programs_become_responses(tmp_path):
    add = Problem(
        "c", "code", "def add(a, b):\n    'Add.'", starter_code="def add(a, b):", metadata='{"task_id": "H/0"}'
    )
    path = lines(tmp_path / "f.jsonl", *({"task_id": "H/0", "completion": t} for t in ("    return a + b", "x = 1")))
    assert import_generations(path, "he", (add,))["text"].to_pylist() == [
        "```python\ndef add(a, b):\n    return a + b\n```", "```python\nx = 1\n```"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "content, complaint",
    [
        ('[{"question_id": "other", "code_list": ["x"]}]', r"row 0: benchmark lcb has no question 'other'"),
        ('[{"question_id": "abc301_a", "answer": "x"}]', r"row 0: no response. It has question_id, answer;"),
        ('[["x"], ["y"]]', "row 0: row: list instead of an object"),
        ("[]", "no responses"),
        ("not json", "row 0: line: not valid JSON"),
        ('{"question_id": "abc301_a", "code_list": ["x"]}\n{"quest', "row 1: line: not valid JSON"),
    ],
)
def test_files_that_are_no_responses_to_this_benchmark(tmp_path, content, complaint):
    (tmp_path / "file.json").write_text(content)
    with pytest.raises(RatchetError, match=complaint):
        import_generations(tmp_path / "file.json", "lcb", CODE)


def test_imported_responses_are_scored_and_what_is_unknown_stays_so(spec, tmp_path):
    from ratchet.evaluation.spec import load_plan, read_spec

    (tmp_path / "first.json").write_text(json.dumps(spec))
    problems = load_plan(read_spec(tmp_path / "first.json")).problems["small-math"]
    rows = [{"question_id": p.problem_id, "output_list": [f"\\boxed{{{p.answer}}}", "?"]} for p in problems[:5]]
    (tmp_path / "lcb.json").write_text(json.dumps(rows))
    pq.write_table(import_generations(tmp_path / "lcb.json", "small-math", problems), tmp_path / "imported.parquet")
    spec["model"] = {"identity": "file", "generations": str(tmp_path / "imported.parquet")}
    spec = first_benchmark(spec)
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    assert main(tmp_path / "spec.json") == 0
    scores = json.loads((tmp_path / "work/scores.json").read_text())
    math = scores["benchmarks"]["small-math"]
    assert math["pass_at"]["1"]["value"] == 0.5 and math["pass_at"]["2"]["value"] == 1
    assert (math["questions"], math["questions_graded"]) == (7, 5)
    assert math["truncation_rate"] is None and scores["settings"]["sampling"] is None


def test_what_a_domain_reports_of_its_own_stands_in_the_scores_and_the_report(spec, tmp_path):
    given = [
        ("Be quiet.", [{"id": "change_case:english_lowercase"}, {"id": "punctuation:no_comma"}]),
        ("No commas.", [{"id": "punctuation:no_comma"}]),
    ]
    problems = [
        Problem(problem_id("instructions", text), "instructions", text, tests=json.dumps(tests))
        for text, tests in given
    ]
    pq.write_table(to_table(problems), tmp_path / "problems.parquet")
    text = "the weather was fine this morning and we walked to the river"
    finished = [(0, f"Sure, here you are:\n{text}"), (0, text), (1, "One, two."), (1, "Three.")]
    rows = [
        {"benchmark": "calm", "problem_id": problems[which].problem_id, "sample": number % 2, "text": response,
         "finish_reason": "length" if response == "Three." else "stop", "tokens": 9}
        for number, (which, response) in enumerate(finished)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows, schema=GENERATION_SCHEMA), tmp_path / "imported.parquet")
    spec["model"] = {"identity": "file", "generations": str(tmp_path / "imported.parquet")}
    spec["evaluation"]["benchmarks"] = [{"name": "calm", "domain": "instructions", "samples": 2}]
    spec["problems"] = {"calm": str(tmp_path / "problems.parquet")}
    spec["set_aside"] = {"calm": {}}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    assert main(tmp_path / "spec.json") == 0, (tmp_path / "work/status.json").read_text()
    scores = json.loads((tmp_path / "work/scores.json").read_text())["benchmarks"]["calm"]
    assert scores["pass_at"]["1"]["value"] == 0.25
    assert scores["metrics"] == {
        "prompt_strict": 1 / 4, "instruction_strict": 2 / 6, "prompt_loose": 2 / 4, "instruction_loose": 4 / 6
    }  # fmt: skip
    assert score_rows(scores)[0]["prompt loose"] == "0.500"
    graded = pq.read_table(tmp_path / "work/generations.parquet").to_pylist()
    assert [row["fraction"] for row in graded] == [0, 1, 0, 0]
