"""Tests of code problems in scripts and classes, which are run. `test_layouts.py` has a row of each layout."""

import json

import pytest

from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.read import read_problems
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.serving.local_pool import VerifierPool
from tests.data_curation.readers.files import only, reasons, write_json, write_lines


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

    mbpp = {"task_id": 126, "text": "Add.", "code": "def sum(a, b):\n    return a + b",
            "test_list": ["assert sum(1, 2) == 3"]}  # fmt: skip
    assert only(read_problems(write_lines(tmp_path / "m.jsonl", [mbpp]), "code")).entry_point == "sum"

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


@pytest.mark.parametrize(
    ("tests", "kept"),
    [
        ([{"input": "1\n", "output": "2\n"}, {"input": "5\n", "output": None}], [("1\n", "2\n")]),
        ({"inputs": ["3\n", None], "outputs": ["6\n", None]}, [("3\n", "6\n")]),
        ({"inputs": "3\n", "outputs": "6\n"}, [("3\n", "6\n")]),
        ([{"input": None, "output": "2\n"}], [("", "2\n")]),
    ],
)
def test_a_missing_output_is_no_test_and_a_text_is_one(tmp_path, tests, kept):
    problem = only(read_problems(write_lines(tmp_path / "t.jsonl", [{"prompt": "Add.", "tests": tests}]), "code"))
    assert [(test["input"], test["output"]) for test in json.loads(problem.tests)] == kept


def test_a_bool_is_no_output(tmp_path):
    row = {"prompt": "Add.", "tests": [{"input": "1", "output": True}]}
    with pytest.raises(RatchetError, match="tests: bool instead of text"):
        read_problems(write_lines(tmp_path / "t.jsonl", [row]), "code")
