"""Each published format of code problems as a few rows of it, written down here."""

import base64
import gzip
import json
import pickle
import zlib
from datetime import date

import pytest

from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.read import read_problems
from ratchet.verifiers.serving.local_pool import VerifierPool
from tests.data_curation.readers.files import only, reasons, write_json, write_lines, write_parquet


def test_leetcode_assertions_become_calls_and_the_imports_a_prelude(tmp_path):
    row = {
        "task_id": "two-sum", "prompt": "from typing import *\n", "completion": "class Solution: ...",
        "entry_point": "Solution().twoSum",
        "test": "def check(candidate):\n    assert candidate(nums = [2,7], target = 9) == [0,1]\n"
                "    assert not candidate([1], -2)\n",
        "query": "Sum.\n\nPlease complete the following python code precisely:\n```python\nclass Solution:\n```",
        "meta": {"difficulty": "Easy", "question_title": "Sum. Constraints: few.", "lang_code": "class Solution:"},
    }  # fmt: skip
    path = tmp_path / "leetcode.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(row).encode()))
    problem = only(read_problems(path, "code"))
    assert json.loads(problem.tests) == [
        {"call": {"args": [], "kwargs": {"nums": [2, 7], "target": 9}}, "output": [0, 1], "exact": True},
        {"check": "def check(candidate):\n    assert not candidate([1], -2)"},
    ]
    assert problem.entry_point == "Solution().twoSum" and problem.golden_solutions == ["class Solution: ..."]
    assert problem.prompt == "Sum. Constraints: few." and problem.starter_code == "class Solution:"
    assert problem.source_url == "https://leetcode.com/problems/two-sum/"
    assert json.loads(problem.metadata)["prelude"] == "from typing import *\n"


def test_assertions_that_are_no_literals_stay_a_check_function(tmp_path):
    test = "def check(candidate):\n    assert same(candidate(node([1])), node([1]))"
    row = {"task_id": "t", "prompt": "", "completion": "c", "entry_point": "f", "test": test, "query": "Q"}
    assert json.loads(only(read_problems(write_lines(tmp_path / "l.jsonl", [row]), "code")).tests) == [{"check": test}]


def test_humaneval(tmp_path):
    row = {
        "task_id": "HumanEval/0", "prompt": 'def f(x):\n    """Twice x."""\n', "entry_point": "f",
        "canonical_solution": "    return 2 * x\n", "test": "def check(candidate):\n    assert candidate(2) == 4\n",
    }  # fmt: skip
    problem = only(read_problems(write_lines(tmp_path / "h.jsonl", [row]), "code"))
    assert problem.golden_solutions == ['def f(x):\n    """Twice x."""\n    return 2 * x\n']
    assert json.loads(problem.tests) == [{"call": {"args": [2], "kwargs": {}}, "output": 4, "exact": True}]


def test_a_script_of_assertions_is_a_check(tmp_path):
    mathqa = {  # MathQA in mxeval: beside a check that is empty
        "task_id": "MathQA/0", "prompt": 'def problem():\n    """Add."""\n', "entry_point": "problem",
        "canonical_solution": "    return 3\n",
        "test": "import math\ndef compare(x, y):\n    return math.fabs(x-y)<1e-8\ncandidate = problem\n"
                "assert compare(candidate(), 3.0)\ndef check(x): pass\n",
    }  # fmt: skip
    problem = only(read_problems(write_lines(tmp_path / "h.jsonl", [mathqa]), "code"))
    (test,) = json.loads(problem.tests)
    assert problem.entry_point == "problem" and "assert compare(candidate(), 3.0)" in test["check"]
    with VerifierPool(1) as pool:
        right, wrong = pool.run_programs([(problem, problem.golden_solutions[0]), (problem, "def problem(): return 4")])
    assert right.passed and not wrong.passed

    script = "my = Solution()\n\nt = {'x': 2}\nassert my.f(**t) == 4\nt = {'x': 3}\nassert my.f(**t) == 6\n"
    rows = [{"prompt": "Twice x.", "test": script}, {"prompt": "Nothing.", "test": "x = 1\nassert x == 1"}]
    split = read_problems(write_lines(tmp_path / "l.jsonl", rows), "code")
    (problem,) = from_table(split.kept)
    (test,) = json.loads(problem.tests)
    assert problem.entry_point == "Solution().f" and test["check"].count("candidate(**t)") == 2
    assert [e["reason"] for _, e in reasons(split)] == ["no assertion that calls a function"]


def test_classes_of_unittest_are_a_check_each_method(tmp_path):
    test = ("import unittest\nclass T(unittest.TestCase):\n    def setUp(self):\n        self.x = Box(2)\n"
            "    def test_get(self):\n        self.assertEqual(self.x.get(), 2)\n"
            "    def test_type(self):\n        self.assertRaises(TypeError, Box)\nunittest.main()\n")  # fmt: skip
    golden = "class Box:\n    def __init__(self, x):\n        self.x = x\n    def get(self):\n        return self.x"
    row = {"task_id": "0", "skeleton": "class Box: ...", "test": test, "solution_code": golden, "class_name": "Box",
           "import_statement": ["import math"]}  # fmt: skip
    problem = only(read_problems(write_json(tmp_path / "c.json", [row]), "code"))
    assert len(problem.code_tests()) == 2 and problem.entry_point == "Box"
    with VerifierPool(1) as pool:
        right, wrong = pool.run_programs([(problem, golden), (problem, golden.replace("return self.x", "return 3"))])
    assert right.passed and not wrong.passed, (right, wrong)


def test_relatives_of_humaneval_are_judged_by_their_own_tests(tmp_path):
    header = 'def twice(x):\n    """Double it."""\n'
    unit = "import unittest\nclass TestCases(unittest.TestCase):\n"
    unit += "    def test_two(self):\n        self.assertEqual(twice(2), 4)\n"
    rows = [
        {"task_id": "BigCodeBench/0", "complete_prompt": header, "canonical_solution": "    return 2 * x\n",
         "test": unit, "entry_point": "twice"},
        {"task_id": 1, "prompt": "def f_1(x):\n\treturn ", "canonical_solution": "2 * x", "entry_point": "f_1",
         "intent": "Double it.", "test_start": "\ndef check(candidate):",
         "test": ["\n    assert candidate(1) == 2\n", "\n    assert candidate(2) == 4\n"]},
        {"task_id": 2, "prompt": header, "canonical_solution": "    return 2 * x\n",
         "test": "def check(twice):\n    assert twice(2) == 4\n\ncheck(twice)"},
        {"task_id": 3, "prompt": "Double it.", "code": header + "    return 2 * x", "test": ["assert twice(2) == 4"]},
    ]  # fmt: skip
    found = [only(read_problems(write_json(tmp_path / f"{i}.json", [row]), "code")) for i, row in enumerate(rows)]
    assert [problem.entry_point for problem in found] == ["twice", "f_1", "twice", "twice"]
    assert found[1].prompt.startswith("Double it.")
    golden = [(problem, problem.golden_solutions[0]) for problem in found]
    wrong = [(problem, source.replace("2 * x", "3 * x")) for problem, source in golden]
    with VerifierPool() as pool:
        assert [v.passed for v in pool.run_programs(golden + wrong)] == [True] * 4 + [False] * 4


def test_codeeval_pro_is_solved_with_the_first_of_two_problems(tmp_path):
    row = {
        "id": 0, "raw_problem": "# Twice x.\ndef f(x):\n", "raw_solution": "    return 2 * x\n",
        "new_problem": "# Twice each.\ndef g(xs):\n", "new_solution": "    return [f(x) for x in xs]\n",
        "test_code": "assert g([1, 2]) == [2, 4]",
    }  # fmt: skip
    problem = only(read_problems(write_lines(tmp_path / "p.jsonl", [row]), "code"))
    assert problem.entry_point == "g" and problem.prompt == "# Twice x.\ndef f(x):\n\n# Twice each.\ndef g(xs):"
    names: dict = {}
    exec("".join(problem.golden_solutions), names)
    assert names["g"]([1, 2]) == [2, 4]


def test_mbpp(tmp_path):
    row = {
        "task_id": 1, "text": "Write a function that adds one.", "code": "def g(): pass\ndef f(x):\n    return x + 1",
        "test_list": ["assert f(1) == 2", "assert set(f(x) for x in (1, 2)) == {2, 3}"],
        "test_setup_code": "import math",
    }  # fmt: skip
    problem = only(read_problems(write_lines(tmp_path / "m.jsonl", [row]), "code"))
    call, check = json.loads(problem.tests)
    assert (problem.entry_point, call) == ("f", {"call": {"args": [1], "kwargs": {}}, "output": 2, "exact": True})
    assert "def check(candidate):" in check["check"] and json.loads(problem.metadata)["prelude"] == "import math"
    assert read_problems(write_lines(tmp_path / "w.jsonl", [row, row | {"test_list": ["assert ("]}]), "code").rejected


@pytest.mark.parametrize("outputs", [[[3], [7]], [3, 7]])
def test_taco_and_apps_function_calls_wrapped_or_not(tmp_path, outputs):
    spec = {"fn_name": "add", "inputs": [[1, 2], [3, 4]], "outputs": outputs}
    row = {
        "question": "Add.", "solutions": '["def add(a, b): return a + b"]', "input_output": json.dumps(spec),
        "starter_code": "", "url": "https://codeforces.com/problemset/problem/1/A", "date": "2020-05-01",
        "time_limit": "2.0 seconds", "memory_limit": "256.0 megabytes",
    }  # fmt: skip
    problem = only(read_problems(write_lines(tmp_path / "taco.jsonl", [row]), "code"))
    assert [t["output"] for t in json.loads(problem.tests)] == [3, 7]
    assert json.loads(problem.tests)[0]["call"] == {"args": [1, 2], "kwargs": {}}
    assert (problem.entry_point, problem.time_limit_s, problem.memory_limit_mb) == ("add", 2.0, 256.0)
    assert problem.released == date(2020, 5, 1) and problem.golden_solutions == ["def add(a, b): return a + b"]


def test_apps_stdin_and_class_solutions(tmp_path):
    stdin = {"question": "Q", "solutions": "", "input_output": '{"inputs": ["1\\n"], "outputs": [["1", "2"]]}'}
    method = {
        "question": "Q", "solutions": '["class Solution:\\n  def f(self, a): return a"]', "starter_code": "",
        "input_output": '{"fn_name": "f", "inputs": [[1]], "outputs": [1]}',
    }  # fmt: skip
    first, second = from_table(read_problems(write_lines(tmp_path / "apps.jsonl", [stdin, method]), "code").kept)
    assert json.loads(first.tests) == [{"input": "1\n", "output": "1\n2\n"}] and first.entry_point is None
    assert first.golden_solutions == [] and second.entry_point == "Solution().f"


@pytest.mark.parametrize("tests", [{"inputs": ["1"], "outputs": ["2"]}, "{'inputs': ['1'], 'outputs': ['2']}",
                                   '[{"input": "1", "output": "2"}]'])  # fmt: skip
def test_tests_as_structure_python_literal_or_json(tmp_path, tests):
    problem = only(read_problems(write_json(tmp_path / "c.json", [{"problem": "Q", "tests": tests}]), "code"))
    assert json.loads(problem.tests) == [{"input": "1", "output": "2"}]


def test_rllm_functional_tests(tmp_path):
    check = (
        "def check(candidate):\n    assert candidate(nums = [3,3], target = 6) == [0,1]\n\n\ncheck(Solution().twoSum)"
    )
    row = {"problem": "Q", "solutions": "class Solution: ...", "tests": {"functional": check}}
    problem = only(read_problems(write_json(tmp_path / "c.json", [row]), "code"))
    assert problem.entry_point == "Solution().twoSum"
    call = {"args": [], "kwargs": {"nums": [3, 3], "target": 6}}
    assert json.loads(problem.tests) == [{"call": call, "output": [0, 1], "exact": True}]


@pytest.mark.parametrize("in_structs", [False, True])
def test_code_contests_keeps_python_3_and_joins_the_tests(tmp_path, in_structs):
    row = {
        "name": "1_A", "description": "Q", "public_tests": {"input": ["1"], "output": ["2"]},
        "private_tests": {"input": ["3"], "output": ["4"]}, "generated_tests": {"input": [], "output": []},
        "solutions": {"language": [1, 2, 3], "solution": ["py2", "c++", "py3"]}, "cf_contest_id": 1, "cf_index": "A",
        "time_limit": {"seconds": 1, "nanos": 500_000_000}, "memory_limit_bytes": 256_000_000,
    }  # fmt: skip
    if in_structs:
        for name in ("public_tests", "private_tests", "generated_tests", "solutions"):
            row[name] = [dict(zip(row[name], values, strict=True)) for values in zip(*row[name].values(), strict=True)]
    problem = only(read_problems(write_lines(tmp_path / "cc.jsonl", [row]), "code"))
    assert problem.golden_solutions == ["py3"] and len(json.loads(problem.tests)) == 2
    assert (problem.time_limit_s, problem.memory_limit_mb) == (1.5, 256.0)
    assert problem.source_url == "https://codeforces.com/contest/1/problem/A"


def livecodebench(private):
    public = [{"input": "[1,2]\n3", "output": "6", "testtype": "functional"}]
    return {
        "question_title": "Sum It", "question_content": "Q", "platform": "leetcode", "question_id": "1",
        "contest_date": "2024-09-01T00:00:00", "starter_code": "class Solution:\n  def f(self, a, b):",
        "public_test_cases": json.dumps(public), "private_test_cases": private, "metadata": '{"func_name": "f"}',
    }  # fmt: skip


def packed(value) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


def test_livecodebench_unpacks_its_private_tests(tmp_path):
    private = packed(json.dumps([{"input": "[4]\n5", "output": "9", "testtype": "functional"}]))
    problem = only(read_problems(write_lines(tmp_path / "lcb.jsonl", [livecodebench(private)]), "code"))
    assert [t["call"]["args"] for t in json.loads(problem.tests)] == [[[1, 2], 3], [[4], 5]]
    assert problem.entry_point == "Solution().f" and problem.released == date(2024, 9, 1)
    assert problem.source_url == "https://leetcode.com/problems/sum-it/"


def test_verl_code_in_three_shapes(tmp_path):
    truths = [
        '{"inputs": ["1"], "outputs": ["2"]}',
        '[{"input": "1", "output": "2", "testtype": "stdin"}]',
        json.dumps({"test_code": "def check(candidate):\n    assert candidate(1) == 2", "entry_point": "f",
                    "import_prefix": "import math"}),
    ]  # fmt: skip
    rows = [{"data_source": "x", "prompt": [{"role": "user", "content": f"Q{i}"}], "ability": "code",
             "reward_model": {"ground_truth": truth, "style": "rule"}} for i, truth in enumerate(truths)]  # fmt: skip
    problems = from_table(read_problems(write_parquet(tmp_path / "v.parquet", rows), "code").kept)
    assert [json.loads(p.tests)[0]["output"] for p in problems] == ["2", "2", 2]
    assert problems[2].entry_point == "f" and json.loads(problems[2].metadata)["prelude"] == "import math"
    other = read_problems(tmp_path / "v.parquet", "math")
    assert other.summary["dropped"] == {"malformed": 0, "other_domain": 3, "empty": 0}


def test_mbpp_and_mbpp_plus(tmp_path):
    code = "def similar(a, b):\n  return tuple(set(a) & set(b))"
    asserts = ["assert set(similar((3, 4), (4, 5))) == {4}", "assert similar([], [])==()"]
    plain = {
        "task_id": 2,
        "text": "Find the similar elements.",
        "code": code,
        "test_list": asserts,
        "test_setup_code": "",
    }
    problem = only(read_problems(write_lines(tmp_path / "mbpp.jsonl", [plain]), "code"))
    assert problem.entry_point == "similar" and problem.starter_code == "def similar(a, b):"
    assert problem.golden_solutions == [code]
    check, another = problem.code_tests()
    assert "set(candidate((3, 4), (4, 5))) == {4}" in check.check
    assert "candidate([], []) == ()" in another.check  # a list would be wrong
    script = (
        "import numpy as np\ndef assertion(out, exp, atol):\n    assert out == exp\n"
        "inputs = [[[3, 4], [4]], [[1], [2]], [[{1}], []], [[2], []]]\nresults = [[4], [], [], 2**99]\n"
        "for i, (inp, exp) in enumerate(zip(inputs, results)):\n    assertion(similar(*inp), exp, 0)\n"
    )
    plus = {
        "task_id": 2,
        "prompt": "Find.",
        "code": code,
        "test_list": asserts,
        "test_imports": ["import math"],
        "test": script,
    }
    problem = only(read_problems(write_parquet(tmp_path / "plus.parquet", [plus]), "code"))
    *calls, check = problem.code_tests()
    assert [test.call["args"] for test in calls] == [[[3, 4], [4]], [[1], [2]]]
    assert "candidate(*[[{1}], []]) == []" in check.check
    assert (
        json.loads(problem.metadata)["tests_left_out"] == 1 and json.loads(problem.metadata)["prelude"] == "import math"
    )


def test_humaneval_plus_tables_are_calls(tmp_path):
    test = (
        "def assertion(out, exp, atol):\n    assert out == exp\n\ndef check(candidate):\n    inputs = [[1], [2]]\n"
        "    results = [2, 3]\n    for inp, exp in zip(inputs, results):\n        assertion(candidate(*inp), exp, 0)\n"
    )
    row = {
        "task_id": "HumanEval/0",
        "prompt": "def f(x):\n",
        "entry_point": "f",
        "canonical_solution": "    return x + 1\n",
        "test": test,
    }
    problem = only(read_problems(write_lines(tmp_path / "plus.jsonl", [row]), "code"))
    assert [(t.call["args"], t.output) for t in problem.code_tests()] == [([1], 2), ([2], 3)]


def test_codeforces_with_its_rating_and_its_checkers(tmp_path):
    row = {
        "id": "1/A", "contest_id": "1", "index": "A", "description": "Tile.", "input_format": "n", "output_format": "m",
        "examples": [{"input": "1", "output": "1"}], "official_tests": [{"input": "2", "output": "4"}],
        "official_tests_complete": True, "rating": 1200, "tags": ["math"], "contest_start": 1725000000,
        "time_limit": 1.0, "memory_limit": 256.0, "generated_checker": None,
    }  # fmt: skip
    rows = [
        row, {**row, "generated_checker": "print(1)", "description": "Any."}, {**row, "official_tests_complete": False},
        {**row, "interaction_format": "Ask."}, {**row, "input_mode": "file"},
    ]  # fmt: skip
    split = read_problems(write_lines(tmp_path / "cf.jsonl", rows), "code")
    assert [e["field"] for _, e in reasons(split)] == ["official_tests", "interaction_format", "input_mode"]
    problem, checked = from_table(split.kept)
    assert json.loads(checked.metadata)["checker"] == {"protocol": "script", "source": "print(1)"}
    assert problem.released == date(2024, 8, 30) and problem.source_url.endswith("/1/problem/A")
    assert "Example\n\nInput:\n1" in problem.prompt and json.loads(problem.metadata)["rating"] == 1200
