import json

from ratchet.data_curation.preview import FilePreview, preview_file, preview_sources
from tests.data_curation.readers.files import write_json, write_lines

BOXED = "Please reason step by step, and put your final answer within \\boxed{}."
ROWS = [
    {"problem": f"Find $1+1$ apples. {BOXED}", "answer": "2", "level": 3},
    {"problem": "Find the number of ways in which $3$ of $5$ boats stand in a row in the harbor.", "answer": "nan"},
    {"problem": "Find the smallest number of boats.", "answer": "$\\frac{1}{$"},
    {"problem": 7, "answer": "2"},
]


def test_three_rows_beside_their_fields_and_what_looks_wrong(tmp_path):
    preview = preview_file(write_lines(tmp_path / "m.jsonl", ROWS), "math")
    assert (preview.layout, preview.rows, preview.kept, preview.ignored) == ("math", 4, 3, ["level"])
    looks_wrong = {"no_reference": 1, "unverifiable": 1, "mostly_template": 1}
    assert preview.concerns == looks_wrong | {"options_missing": 0, "system_prompt": 0}
    assert preview.examples["unverifiable"].startswith("row 2: '$\\\\frac{1}{$': the reference does not verify")
    assert preview.rejected == {"problem: int instead of text": 1} and preview.templates == {f"… {BOXED}": 1}
    first, middle, last = preview.shown
    assert first.published == {name: str(value) for name, value in ROWS[0].items()}
    assert first.read == {"prompt": "Find $1+1$ apples.", "answer": "2"} and first.removed == [f"… {BOXED}"]
    assert (middle.row, last.row, last.rejected) == (2, 3, "problem: int instead of text")
    unverifiable = f"a reference that cannot be verified against itself, e.g. {preview.examples['unverifiable']}"
    assert f"! 1 of 4 rows: {unverifiable}" in [*preview.lines()]
    assert FilePreview.model_validate_json(json.dumps(preview.as_json())) == preview


def test_a_system_prompt_that_is_left_out_is_counted(tmp_path):
    chat = [{"role": "system", "content": "Reply in French."}, {"role": "user", "content": "What is 20 + 37?"}]
    path = write_lines(tmp_path / "c.jsonl", [{"messages": chat, "solution": "57"}])
    preview = preview_file(path, "math", {"prompt": "messages", "answer": "solution"})
    assert preview.concerns["system_prompt"] == 1 and "Reply in French." in preview.examples["system_prompt"]
    assert any("model.prompt.system_prompt" in line for line in preview.lines() if line.startswith("!"))


def test_options_that_a_mapping_leaves_out_are_counted(tmp_path):
    path = write_lines(tmp_path / "o.jsonl", [{"question": "Q?", "choices": ["one", "two"], "answer": "B"}])
    assert preview_file(path, "math").concerns["options_missing"] == 0
    mapped = preview_file(path, "math", {"prompt": "question", "answer": "answer"})
    assert mapped.concerns["options_missing"] == 1 and mapped.ignored == ["choices"]


def test_numbers_of_options_that_may_count_from_one_are_said(tmp_path):
    rows = [{"question": "Q?", "choices": ["w", "x", "y", "z"], "answer": answer} for answer in (1, 2)]
    noted = "! numbers of right options are read as counting from 0"
    for more, is_noted in (([], True), ([rows[0] | {"answer": 0}], False)):
        preview = preview_file(write_lines(tmp_path / "o.jsonl", [*rows, *more]), "math")
        assert any(line.startswith(noted) for line in preview.lines()) is is_noted


def test_tests_and_limits_of_code_and_no_more_rows_than_asked_for(tmp_path):
    row = {"question": "Twice n.", "input_output": '{"inputs": ["1"], "outputs": ["2"]}', "time_limit": "500 ms"}
    (preview,) = preview_sources(write_json(tmp_path / "c.json", [row] * 9), "code", rows=5)
    assert preview.rows == 5 and [shown.row for shown in preview.shown] == [0, 2, 4]
    assert preview.shown[0].read["tests"] == '[{"input": "1", "output": "2"}]'
    assert preview.shown[0].read["time_limit_s"] == "0.5"
