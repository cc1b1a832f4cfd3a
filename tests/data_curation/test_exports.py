"""What is exported for other trainers, read back by our own readers."""

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.base.prompts import PromptFormat
from ratchet.data_curation.exports import EXPORTS, Source
from ratchet.data_curation.read import read_problems
from ratchet.verifiers.domain import NotExpressible
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.rows import decode

MATH = Problem.of("math", "Find $1+1$.", source="s", source_id="0", answer="\\frac{4}{2}", difficulty=3)
STDIN = Problem.of("code", "Print n + 1.", [{"input": "1\n", "output": "2\n"}], source="s")
HEADER = "class Solution:\n    def twoSum(self, nums: List[int], target: int) -> List[int]:\n        "
CALLS = Problem.of(
    "code", "Find two.", source="s", entry_point="Solution().twoSum", starter_code=HEADER, tests=[
        {"call": {"args": [], "kwargs": {"target": 9, "nums": [2, 7]}}, "output": [0, 1]},
        {"call": {"args": [[3, 3], 6], "kwargs": {}}, "output": [0, 1]},
    ],
)  # fmt: skip
JUDGED = ("problem_id", "domain", "answer", "tests", "entry_point", "time_limit_s", "memory_limit_mb", "metadata")


def rows(name: str, *problems: Problem, **source) -> list[dict]:
    return [EXPORTS[name].row(Source(p, n, **source)) for n, p in enumerate(problems)]


def read_back(tmp_path, name, domain, *problems):
    path = tmp_path / f"{name}.parquet"
    pq.write_table(pa.Table.from_pylist(rows(name, *problems), schema=EXPORTS[name].schema), path)
    split = read_problems(path, domain)
    assert not split.rejected.to_pylist()
    return from_table(split.kept)


@pytest.mark.parametrize("name", [name for name in EXPORTS if name != "ratchet"])
def test_every_format_has_what_its_adapter_judges_by(name):
    limited = replace(STDIN, time_limit_s=2.5, memory_limit_mb=64.0, metadata='{"a": 1}')
    for row, problem in zip(rows(name, MATH, limited, CALLS), (MATH, limited, CALLS), strict=True):
        text = row.get("ratchet_problem") or row.get("ground_truth") or row["extra_info"]["ratchet_problem"]
        judged, prefix = decode(text)
        assert prefix == ""
        assert all(getattr(judged, field) == getattr(problem, field) for field in JUDGED)
        assert "\\boxed{}" in str(row) or problem.domain == "code"


def test_a_recipes_prompt_and_its_response_prefix_are_exported():
    prompt = PromptFormat(math="Q: {prompt}", response_prefix="<think>\n")
    [row] = rows("trl", MATH, prompt=prompt)
    assert row["prompt"] == [{"role": "user", "content": "Q: Find $1+1$."}]
    assert decode(row["ratchet_problem"])[1] == "<think>\n"


def test_verl_rows_have_what_its_trainer_reads():
    math, stdin = rows("verl", MATH, STDIN, split="validation")
    assert math["prompt"][0]["role"] == "user" and "\\boxed{}" in math["prompt"][0]["content"]
    assert (math["data_source"], math["ability"]) == ("ratchet/math", "math")
    assert math["reward_model"] == {"style": "rule", "ground_truth": "\\frac{4}{2}"}
    assert stdin["reward_model"]["ground_truth"] == "" and stdin["data_source"] == "ratchet/code"
    about = math["extra_info"]
    assert (about["split"], about["index"], about["difficulty"], about["domain"]) == ("validation", 0, 3, "math")


def test_verls_own_reward_functions_get_their_ground_truth():
    [math] = rows("verl", MATH, data_source="lighteval/MATH")
    stdin, calls = rows("verl", STDIN, CALLS, data_source="taco")
    assert (math["data_source"], math["reward_model"]["ground_truth"]) == ("lighteval/MATH", "\\frac{4}{2}")
    assert json.loads(stdin["reward_model"]["ground_truth"]) == {"inputs": ["1\n"], "outputs": ["2\n"]}
    assert json.loads(calls["reward_model"]["ground_truth"]) == {
        "inputs": ["[2, 7]\n9", "[3, 3]\n6"], "outputs": ["[0, 1]", "[0, 1]"], "fn_name": "twoSum",
    }  # fmt: skip


@pytest.mark.parametrize("name", EXPORTS)
def test_problems_survive_the_way_there_and_back(tmp_path, name):
    [math, unanswered] = read_back(tmp_path, name, "math", MATH, replace(MATH, answer=None))
    assert unanswered.prompt == MATH.prompt and unanswered.answer is None
    assert (math.problem_id, math.prompt, math.answer) == (MATH.problem_id, MATH.prompt, MATH.answer)
    stdin, calls = read_back(tmp_path, name, "code", STDIN, CALLS)
    assert (stdin.problem_id, json.loads(stdin.tests)) == (STDIN.problem_id, json.loads(STDIN.tests))
    assert (calls.problem_id, calls.entry_point, calls.starter_code) == (CALLS.problem_id, CALLS.entry_point, HEADER)
    assert [test.output for test in calls.code_tests()] == [[0, 1], [0, 1]]


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (Problem.of("code", "P", [{"check": "def check(candidate): ..."}], entry_point="f"), "a program that"),
        (Problem.of("code", "P", [{"call": {"kwargs": {"x": 1}}, "output": 1}], entry_point="f"), "'x'"),
        (Problem.of("code", "P"), "no tests"),
        (Problem.of("math", "P"), "no answer"),
    ],
)
def test_what_verls_own_reward_functions_have_no_place_for_is_said(problem, reason):
    with pytest.raises(NotExpressible, match=reason):
        rows("verl", problem, data_source="taco")
