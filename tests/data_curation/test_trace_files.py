"""Traces from files in each layout, and what is set aside."""

import json

import pytest

from ratchet.data_curation.base.prompts import PromptFormat, user_message
from ratchet.data_curation.trace_files import check_columns, read_traces
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.math.equivalence import verify_math


def boxed(problem):
    return user_message(problem, PromptFormat())


def read(path, rows, columns=None, domain="math"):
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return read_traces(path, path.stem, domain, boxed, columns or {})


def pairs(traces):
    return [(trace.prompt, trace.response) for trace in traces]


OPENAI = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 1 + 1?"},
                       {"role": "assistant", "content": "It is \\boxed{2}."}]}  # fmt: skip
SHAREGPT = {
    "conversations": [{"from": "human", "value": "What is 1 + 1?"}, {"from": "gpt", "value": "It is \\boxed{2}."}]
}
PAIR = {"prompt": "What is 1 + 1?", "response": "It is \\boxed{2}."}
TRL = {"prompt": [OPENAI["messages"][1]], "completion": [OPENAI["messages"][2]]}


@pytest.mark.parametrize("row", [OPENAI, SHAREGPT, PAIR, TRL], ids=["openai", "sharegpt", "pair", "trl"])
def test_chats_and_pairs_are_taken_as_they_stand(tmp_path, row):
    traces, rejected = read(tmp_path / "t.jsonl", [row])
    assert pairs(traces) == [("What is 1 + 1?", "It is \\boxed{2}.")] and not rejected
    assert (traces[0].problem.source, traces[0].problem.source_id) == ("t", "0")


THOUGHT = {"role": "assistant", "content": "It is \\boxed{2}."}


@pytest.mark.parametrize("row", [
    {"messages": [OPENAI["messages"][1], THOUGHT | {"reasoning_content": "1 + 1\n"}]},
    {"messages": [OPENAI["messages"][1], THOUGHT | {"thinking": "1 + 1", "reasoning": None}]},
    {"messages": json.dumps([OPENAI["messages"][1], THOUGHT | {"reasoning": "1 + 1"}])},
    {"messages": [OPENAI["messages"][1], THOUGHT | {
        "content": "<think>\n1 + 1\n</think>\nIt is \\boxed{2}.", "reasoning_content": "1 + 1"}]},
    PAIR | {"reasoning_content": "1 + 1"},
])  # fmt: skip
def test_thinking_in_a_field_of_its_own_comes_before_the_answer(tmp_path, row):
    traces, _ = read(tmp_path / "t.jsonl", [row])
    assert pairs(traces) == [("What is 1 + 1?", "<think>\n1 + 1\n</think>\nIt is \\boxed{2}.")]


def test_a_column_of_reasoning_beside_a_response_may_be_anothers(tmp_path):
    traces, _ = read(tmp_path / "t.jsonl", [PAIR | {"reasoning": "on", "thinking": "The response is right."}])
    assert pairs(traces) == [("What is 1 + 1?", "It is \\boxed{2}.")]


@pytest.mark.parametrize("columns", [
    {"messages": "data.chat", "domain": "data.kind"}, {"prompt": "data.q", "response": "data.r", "domain": "data.kind"},
])  # fmt: skip
def test_nested_columns_are_read(tmp_path, columns):
    held = {"chat": OPENAI["messages"], "q": PAIR["prompt"], "r": PAIR["response"], "kind": "math"}
    (tmp_path / "t.jsonl").write_text(json.dumps({"id": 1, "data": held}))
    check_columns(tmp_path / "t.jsonl", "math", columns)
    traces, _ = read_traces(tmp_path / "t.jsonl", "t", "math", boxed, columns, ["math"])
    assert pairs(traces) == [("What is 1 + 1?", "It is \\boxed{2}.")]


def test_a_mapped_prompt_leaves_the_response_its_usual_name(tmp_path):
    traces, _ = read(tmp_path / "t.jsonl", [{"ask": "What is 1 + 1?", "response": "2"}], {"prompt": "ask"})
    assert pairs(traces) == [("What is 1 + 1?", "2")]
    with pytest.raises(RatchetError, match="no column 'demand'"):
        check_columns(tmp_path / "t.jsonl", "math", {"prompt": "demand"})
    (tmp_path / "u.jsonl").write_text('{"ask": "What is 1 + 1?", "reply": "2"}')
    with pytest.raises(RatchetError, match="unknown math format, its columns are ask, reply"):
        check_columns(tmp_path / "u.jsonl", "math", {})


def test_a_mapped_column_may_first_occur_in_a_late_row(tmp_path):
    rows = [{"ask": f"{n}?"} for n in range(60)] + [{"ask": "What is 1 + 1?", "reply": "2"}]
    traces, rejected = read(tmp_path / "t.jsonl", rows, {"prompt": "ask", "response": "reply"})
    assert pairs(traces) == [("What is 1 + 1?", "2")] and len(rejected) == 60


def test_worked_solutions_of_gsm8k_end_in_a_box_and_get_the_recipes_prompt(tmp_path):
    answer = "He pays 9*2 = $<<9*2=18>>18.\nThat is <<18*100=1800>>1,800 cents.\n#### 1,800"
    [trace], _ = read(tmp_path / "g.jsonl", [{"question": "How many cents?", "answer": answer}])
    assert trace.prompt == "How many cents?\n\nReason step by step and put the final answer in \\boxed{}."
    assert trace.response == "He pays 9*2 = $18.\nThat is 1,800 cents.\n\\boxed{1,800}"
    assert verify_math(trace.response, trace.problem.answer).passed and verify_math(trace.response, "1800").passed


@pytest.mark.parametrize("end", ["Then $2x = 6$, so \\boxed{3}.", "Then $x = 3$.\n#### 3"])
def test_headings_of_a_worked_solution_are_no_final_line(tmp_path, end):
    text = "#### Step 1: set up\nLet $2x + 1 = 7$.\n\n#### Step 2: solve\n"
    [trace], _ = read(tmp_path / "h.jsonl", [{"problem": "What is x?", "solution": text + end, "answer": "3"}])
    assert trace.response == text + end.replace("#### 3", "\\boxed{3}")


def test_solutions_of_math_and_code_problems(tmp_path):
    rows = [
        {"problem": "What is 1 + 1?", "solution": "It is \\boxed{2}.", "answer": "2"},
        {"problem": "What is 1 + 2?", "solution": "It is three.", "answer": "3"},
        {"problem": "What is 1 + 3?", "solution": None, "answer": "4"},
    ]
    traces, [row] = read(tmp_path / "m.jsonl", rows)
    assert [trace.response for trace in traces] == ["It is \\boxed{2}.", "It is three.\n\\boxed{3}"]
    assert (row["source_id"], "no worked solution" in row["evidence"]) == ("2", True)
    code = {"question": "Print 1.", "tests": [{"input": "", "output": "1"}], "solutions": ["print(1)\n"]}
    [trace], _ = read(tmp_path / "c.jsonl", [code], domain="code")
    assert trace.response == "```python\nprint(1)\n```"
    own = {"q": "What is 1 + 1?", "a": "2", "how": "Count."}
    [trace], _ = read(tmp_path / "o.jsonl", [own], {"prompt": "q", "answer": "a", "metadata.solution": "how"})
    assert trace.response == "Count.\n\\boxed{2}"


def test_what_cannot_be_learned_from_is_set_aside_with_the_reason(tmp_path):
    user, assistant = {"role": "user", "content": "Hi?"}, {"role": "assistant", "content": "Yes."}
    rows = [
        OPENAI, "{", {"messages": None}, {"messages": [user]}, {"messages": [user, assistant, user, assistant]},
        {"messages": [user, assistant | {"content": " "}]}, {"messages": [user, assistant | {"content": None}]},
    ]  # fmt: skip
    traces, rejected = read(tmp_path / "t.jsonl", rows)
    assert len(traces) == 1
    assert [(row["source_id"], row["rule"]) for row in rejected] == [(number, "malformed") for number in "123456"]
    assert "assistant: blank" in rejected[4]["evidence"]


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        ([PAIR], {"prompt": "question", "response": "response"}, "no column 'question'; its columns are prompt, resp"),
        ([{"text": "P", "label": 1}], {}, "unknown math format, its columns are label, text"),
        ([{"prompt": 1, "response": "x"}] * 2, {}, "not one row.*int instead of text.*prompt, response"),
    ],
)
def test_files_that_hold_no_traces_are_errors(tmp_path, rows, columns, message):
    with pytest.raises(RatchetError, match=message):
        read(tmp_path / "t.jsonl", rows, columns)
