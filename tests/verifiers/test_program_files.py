"""Programs that are built with files of their problem: graders, libraries and headers, in C++ and Python."""

import json

import pytest

from ratchet.verifiers.code.judge import examine, judge
from ratchet.verifiers.code.problem import InvalidProblem, read_problem
from ratchet.verifiers.code.program_files import MAX_BYTES
from ratchet.verifiers.domain import NotExpressible
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.submission import EVERY_TEST
from tests.verifiers.compiled_attacks import STEAL, stealing
from tests.verifiers.programs import programs
from tests.verifiers.sandbox_world import World, needs_compiler
from tests.verifiers.test_sealing import SEARCH, Planted

GIVEN = programs("program_files")
PYTHON_GRADER, TALKING, FINDS = GIVEN["grader"]["python"], GIVEN["library"], GIVEN["finds"]
FILES = {"cpp": GIVEN["grader"]["cpp"]}
RIGHT = '#include "grader.h"\nstatic long long n = 2;\nlong long twice(long long x) { return n * x; }\n'


def problem(files=None, language="cpp", tests=None, **metadata):
    facts = {"program_files": FILES if files is None else files, "answer_languages": [language]} | metadata
    tests = tests or [{"input": "5\n", "output": "10"}, {"input": "7\n", "output": "14"}]
    fields = {"time_limit_s": 2.0, "memory_limit_mb": 256.0}
    return Problem("twice", "code", "", tests=json.dumps(tests), metadata=json.dumps(facts), **fields)


IN_CPP = {
    "right": (RIGHT, "all_tests"),
    "asks the grader": ('#include "grader.h"\nlong long twice(long long) { return asked() * 2; }', "all_tests"),
    "wrong": (RIGHT.replace("n * x", "n + x"), "wrong_answer"),
    "knows no header": ("long long twice(long long x) { return 2 * x; }", "all_tests"),
    "does not compile": ("long long twice(long long x) { return y; }", "compile_error"),
    "has no function": ("long long half(long long x) { return x / 2; }", "compile_error"),
    "has a start of its own": (RIGHT + "int main() {}", "compile_error"),
    "includes the grader": ('#define main other\n#include "grader.cpp"\n' + RIGHT, "compile_error"),
    "ends before": ("#include <cstdlib>\n" + RIGHT.replace("return n", "exit(0); return n"), "wrong_answer"),
    "crashes": (RIGHT.replace("return n", "*(volatile int *)0 = 1; return n"), "runtime_error"),
}


@needs_compiler
@pytest.mark.parametrize("name", IN_CPP)
def test_a_grader_in_cpp(name, level):
    source, decided_by = IN_CPP[name]
    verdict = judge(problem(), source, level)
    assert verdict.decided_by == decided_by, verdict


@needs_compiler
def test_a_grader_that_does_not_compile_is_the_problems_fault(sandbox):
    broken = problem({"cpp": FILES["cpp"] | {"more.cc": "int f() { return x; }"}})
    for source in (RIGHT, "no program"):
        verdict = judge(broken, source, sandbox)
        assert verdict.decided_by == "invalid_problem" and "more.cc" in verdict.detail, verdict
    assert judge(problem(), RIGHT, sandbox).passed


@needs_compiler
def test_graders_of_many_problems_are_not_confused(sandbox):
    for _ in range(2):
        for factor in range(1, 10):
            grader = FILES["cpp"]["grader.cpp"].replace("twice(n)", f"{factor} * twice(n)")
            tests = [{"input": "5\n", "output": f"{10 * factor}"}]
            asked = problem({"cpp": FILES["cpp"] | {"grader.cpp": grader}}, tests=tests)
            assert judge(asked, RIGHT, sandbox).passed


TWICE = "def twice(x):\n    return 2 * x\n"
IN_PYTHON = {
    "right": (TWICE, "all_tests"),
    "asks the grader": ("import grader\ndef twice(x):\n    return 2 * x * grader.count()\n", "wrong_answer"),
    "changes the grader": (
        "import grader\ndef twice(x):\n    grader._calls += [1]\n    return 2 * x\n",
        "wrong_answer",
    ),
    "wrong": (TWICE.replace("2 * x", "x"), "wrong_answer"),
    "no program": ("def twice(x:\n", "compile_error"),
    "no function": ("two = 2\n", "runtime_error"),
    "ends before": ("import os\nos._exit(0)\n", "wrong_answer"),
    "keeps state": ("n = []\ndef twice(x):\n    n.append(x)\n    return 2 * n[0] * len(n)\n", "all_tests"),
}


@pytest.mark.parametrize("name", IN_PYTHON)
def test_a_grader_in_python(name, sandbox):
    source, decided_by = IN_PYTHON[name]
    tests = [{"input": f"{number}\n", "output": f"{2 * number} 0"} for number in (5, 70, 8)]
    asked = problem({"python": PYTHON_GRADER}, "python", tests)
    assert judge(asked, source, sandbox).decided_by == decided_by
    assert judge(asked, source, sandbox, EVERY_TEST).decided_by == decided_by


@pytest.mark.parametrize(
    ("files", "source"),
    [
        ({"main.py": "from solved import twice\nif __name__ == '__main__':\n    print(twice(int(input())))\n"}, TWICE),
        ({"a.py": "import main\n", "main.py": "from solved import twice\nprint(twice(int(input())))"}, TWICE),
        ({"queue.py": "def double(x):\n    return x + x\n"}, "import queue\nprint(queue.double(int(input())))"),
        ({"deep.py": "import math, heapq\nF = 2\n"}, "from deep import F\nprint(F * int(input()))"),
    ],
)
def test_which_module_is_run(files, source, sandbox):
    verdict = judge(problem({"python": files}, "python"), source, sandbox)
    assert verdict.passed, verdict


GUESSING = programs("checkers")["interactors"]["python"]
GUESSING = GUESSING.replace('"less" if n < int(number) else "not less"', "int(n < int(number))")
COUNTING = '#include "less.h"\nextern int asked;\nlong long find(long long) { for (long long n = 0;; n++) { '
INTERACTOR = {"protocol": "kattis", "source": GUESSING, "interactive": True}


@pytest.mark.parametrize(
    ("language", "source", "decided_by"),
    [
        pytest.param("cpp", FINDS["cpp"], "all_tests", marks=needs_compiler),
        pytest.param("cpp", FINDS["cpp"].replace("return low", "return high"), "wrong_answer", marks=needs_compiler),
        # The counter of the library is the program's to change; that of the interactor is not.
        pytest.param(
            "cpp", COUNTING + "asked = 0; if (less_than(n)) return n - 1; } }", "wrong_answer", marks=needs_compiler
        ),
        ("python", FINDS["python"], "all_tests"),
        ("python", FINDS["python"].replace("return low", "return high"), "wrong_answer"),
        ("python", "def find(less_than, high):\n    raise SystemExit(0)\n", "wrong_answer"),
    ],
)
def test_an_interactive_problem_with_a_library(language, source, decided_by, sandbox):
    tests = [{"input": f"{number}\n", "output": ""} for number in (5, 987654321)]
    facts = {"checker": INTERACTOR, "validate_tests": {"tests": 2}}
    asked = problem(TALKING, language, tests, **facts)
    verdict = judge(asked, source, sandbox)
    assert verdict.decided_by == decided_by, verdict


REFUSED = {
    "plain names": [{"cpp": {"../grader.cpp": ""}}, {"cpp": {"/etc/grader.h": ""}}, {"cpp": {"input": ""}}],
    "more than 40": [{"cpp": {f"{number}.h": "" for number in range(41)}}],
    "bytes": [{"cpp": {"grader.h": "x" * (MAX_BYTES + 1)}}, {"python": {"a.py": "#" * MAX_BYTES, "b.py": "#"}}],
    "not an object": [[], {"java": {}}, "grader"],
    "not texts": [{"cpp": ["grader.cpp"]}, {"cpp": {"grader.cpp": 5}}],
    "no module": [{"python": {"grader.txt": ""}}, {"python": {"my-grader.py": ""}}],
    "not Python": [{"python": {"grader.py": "def f(:\n"}}],
    "which is the program": [{"python": {"grader.py": "import first, second\n"}}],
}


@pytest.mark.parametrize("reason", REFUSED)
def test_files_that_cannot_be_used_are_refused(reason):
    for files in REFUSED[reason]:
        with pytest.raises(InvalidProblem, match=reason):
            read_problem(problem(files))


def test_files_and_calls_do_not_go_together():
    asked = Problem(
        "p", "code", "", tests='[{"call": {"args": [1]}, "output": 2}]', entry_point="f",
        metadata=json.dumps({"program_files": {"python": {"a.py": "b = 1"}}}),
    )  # fmt: skip
    with pytest.raises(InvalidProblem, match="program_files"):
        read_problem(asked)


def test_other_judges_have_no_such_files():
    with pytest.raises(NotExpressible, match="files of their own"):
        domain_of("code").ground_truth(problem())


@needs_compiler
@pytest.mark.parametrize("name", STEAL)
def test_a_program_beside_a_grader_finds_no_expected_output(name, level, tmp_path):
    world = World(tmp_path)
    attack = stealing(STEAL[name], world.facts | {"length": len(world.token)})
    source = attack.replace("int main() { look()", "long long twice(long long) { look(); return 1; }\nvoid unused() { ")
    verdict = judge(problem(tests=[{"input": "5\n", "output": world.token}]), source, level)
    assert verdict.decided_by in ("wrong_answer", "runtime_error"), verdict
    assert world.token not in verdict.detail and world.untouched()
    world.close()


def test_no_memory_holds_what_a_grader_must_not_know(sandbox, monkeypatch):
    monkeypatch.setattr("ratchet.verifiers.code.comparison.SHOWN_CHARACTERS", 1 << 20)
    plant = Planted()
    files = {"main.py": f"NOTE = '{plant('grader')}'\nimport searching\nprint(*searching.look())\n"}
    tests = [{"input": plant("input"), "output": plant("SECRET")}]
    for number in range(3):
        look = "def look():\n    return sorted(canary[7:].decode() for canary in found())\n"
        # A constant, which lives as long as the program; the text of the source is freed once it is compiled.
        program = f"MINE = '{plant(f'{number}: source')}'\n{SEARCH}\n{look}"
        verdict, results = examine(problem({"python": files}, "python", tests), program, sandbox)
        assert verdict.decided_by == "wrong_answer", verdict
    known = {name for canary, name in plant.names.items() if canary[7:] in results[0].result}
    assert "SECRET" not in known and not known & {"0: source", "1: source"}
    assert known >= {"grader", "2: source"}, known
