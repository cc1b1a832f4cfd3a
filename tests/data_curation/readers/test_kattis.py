"""Problem packages in Kattis's format."""

import json
import os
import shutil
from dataclasses import replace

import pytest

from ratchet.data_curation.base.problem_table import from_table, to_table
from ratchet.data_curation.code_tests.validation import validate_tests
from ratchet.data_curation.read import read_problems
from ratchet.data_curation.readers import kattis
from ratchet.data_curation.rules.code_rules import interactive, no_golden_solution, platform_template, special_judge
from ratchet.data_curation.settings.curation import Rules, TestValidation
from ratchet.data_curation.trace_files import worked_solution
from ratchet.verifiers.code.compiled import COMPILERS
from ratchet.verifiers.code.judge import judge
from ratchet.verifiers.code.program_files import MAX_BYTES
from ratchet.verifiers.sandbox.server import Sandbox
from ratchet.verifiers.serving.local_pool import VerifierPool
from tests.data_curation.readers.files import only, reasons

VALIDATOR = """import sys
n = int(open(sys.argv[1]).read())
words = sys.stdin.read().split()
sys.exit(42 if len(words) == 2 and sum(map(int, words)) == n else 43)
"""
STATEMENT = "Write $n$ as the sum of two numbers. If there are several solutions, print any of them."
GOLDEN = "n = int(input())\nprint(1, n - 1)\n"
FILES = {
    "problem.yaml": "name: Sum\nsource: Contest\nvalidation: custom\nlimits:\n  memory: 512\n",
    "problem_statement/problem.sv.tex": "Skriv",
    "problem_statement/problem.en.tex": STATEMENT,
    "data/sample/1.in": "5\n", "data/sample/1.ans": "2 3\n",
    "data/secret/group1/2.in": "1000\n", "data/secret/group1/2.ans": "0 1000\n",
    "output_validators/validate.py": VALIDATOR,
    "submissions/accepted/right.py": GOLDEN, "submissions/accepted/right.cpp": "int main() {}",
    "submissions/wrong_answer/wrong.py": "print(1, 1)",
}  # fmt: skip


def package(folder, **changes):
    for name, text in (FILES | {name.replace("__", "/"): text for name, text in changes.items()}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            path.write_text(text)
    return folder


def test_a_package_is_a_problem_with_its_validator(tmp_path):
    problem = only(read_problems(package(tmp_path / "sum"), "code"))
    assert problem.prompt.startswith(STATEMENT) and problem.prompt.endswith("Sample output\n\n2 3")
    assert [(test.input, test.output) for test in problem.code_tests()] == [("5\n", "2 3\n"), ("1000\n", "0 1000\n")]
    assert problem.golden_solutions[0] == GOLDEN and problem.memory_limit_mb == 512
    facts = json.loads(problem.metadata)
    assert facts["checker"] == {
        "language": "python", "source": VALIDATOR, "protocol": "kattis", "arguments": [], "interactive": False,
    }  # fmt: skip
    assert facts["name"] == "sum" and facts["source"] == "Contest"
    assert special_judge(problem, Rules()) is None and interactive(problem, Rules()) is None
    with Sandbox() as sandbox:
        assert judge(problem, GOLDEN, sandbox).passed and not judge(problem, "print(1, 1)", sandbox).passed


def test_interactive_packages_flags_and_headers(tmp_path):
    changes = {
        "problem.yaml": "validation: custom interactive\nvalidator_flags: limit 7\n",
        "output_validators/validate.py": None, "output_validators/v/validate.cc": "int main() {}",
        "output_validators/v/validate.h": "// header",
    }  # fmt: skip
    problem = only(read_problems(package(tmp_path / "sum", **changes), "code"))
    assert json.loads(problem.metadata)["checker"] == {
        "language": "cpp", "source": "int main() {}", "files": {"validate.h": "// header"}, "protocol": "kattis",
        "arguments": ["limit", "7"], "interactive": True,
    }  # fmt: skip
    assert interactive(problem, Rules()) is None


def test_the_default_validator_has_a_tolerance(tmp_path):
    changes = {"problem.yaml": "validator_flags: float_tolerance 1e-6\n", "output_validators/validate.py": None}
    facts = json.loads(only(read_problems(package(tmp_path / "sum", **changes), "code")).metadata)
    assert facts["comparison"] == {"mode": "kattis", "arguments": ["float_tolerance", "1e-6"]}
    assert "checker" not in facts


@pytest.mark.parametrize(
    ("asked", "is_used"),
    [
        ("", False), ("validation: default\n", False), ("problem_format_version: legacy-icpc\n", False),
        ("validation: custom\n", True), ("problem_format_version: legacy\nvalidation: custom\n", True),
        ("problem_format_version: 2023-07-draft\n", True), ("problem_format_version: 2025-09\n", True),
    ],
)  # fmt: skip
def test_a_legacy_package_asks_for_its_validator(asked, is_used, tmp_path):
    folder = package(tmp_path / "sum", **{"problem.yaml": f"name: Sum\n{asked}"})
    assert ("checker" in kattis.read(folder)) == is_used


def test_what_a_packages_validators_are_tested_with_is_no_test(tmp_path):
    changes = {"data/invalid_answers/3.in": "5\n", "data/invalid_answers/3.ans": "7 7\n", "data/bad/g/4.in": "1\n"}
    folder = package(tmp_path / "sum", **changes, **{"data/bad/g/4.ans": "9 9\n"})
    assert kattis.read(folder)["tests"] == kattis.read(package(tmp_path / "other"))["tests"]


def test_large_tests_are_left_out(tmp_path):
    folder = package(tmp_path / "sum", **{"data/secret/3.in": "7" * 1000, "data/secret/3.ans": "7"})
    row = kattis.read(folder, max_bytes=100)
    assert len(row["tests"]) == 2 and row["tests_left_out"] == 1


PYTHON_GRADER = "import solving\nprint(*solving.parts(int(input())))\n"
CPP_GRADER = """#include "parts.h"
#include <iostream>
int main() { long long n, a, b; std::cin >> n; parts(n, a, b); std::cout << a << " " << b << "\\n"; }
"""
CPP_HEADER = "void parts(long long n, long long &a, long long &b);\n"
INCLUDE = {
    "include/python3/main.py": PYTHON_GRADER, "include/cpp/grader.cpp": CPP_GRADER,
    "include/default/parts.h": CPP_HEADER, "include/java/Grader.java": "class Grader {}",
    "submissions/accepted/right.py": "def parts(n):\n    return 1, n - 1\n",
    "submissions/accepted/right.cpp": '#include "parts.h"\nvoid parts(long long n, long long &a, long long &b) '
                                      "{ a = 1; b = n - a; }\n",
}  # fmt: skip


def test_programs_are_built_with_the_files_of_include(tmp_path):
    folder = package(tmp_path / "sum", **INCLUDE)
    problem = only(read_problems(folder, "code"))
    facts, golden = json.loads(problem.metadata), INCLUDE["submissions/accepted/right.py"]
    assert facts["program_files"] == {
        "python": {"main.py": PYTHON_GRADER}, "cpp": {"grader.cpp": CPP_GRADER, "parts.h": CPP_HEADER},
    }  # fmt: skip
    assert problem.golden_solutions == [golden] and "answer_languages" not in facts
    assert interactive(replace(problem, prompt="It is an interactive problem."), Rules()) is None
    assert platform_template(replace(problem, prompt="You do not need to read the input."), Rules()) is None
    with Sandbox() as sandbox:
        assert judge(problem, golden, sandbox).passed
        assert not judge(problem, "def parts(n):\n    return 1, n\n", sandbox).passed


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="there is no compiler for C++ on this machine")
def test_a_package_whose_golden_solutions_are_in_cpp(tmp_path):
    folder = package(tmp_path / "sum", **INCLUDE)
    (folder / "submissions/accepted/right.py").unlink()
    problem = only(read_problems(folder, "code"))
    facts = json.loads(problem.metadata)
    assert facts["answer_languages"] == ["cpp"] and facts["cpp_standard"] == "gnu++17"
    # A recipe that wants them turns the rule off, and its prompt asks for C++.
    assert no_golden_solution(problem, Rules()) == {"golden_solutions": 1, "of_them_python": 0}
    with VerifierPool(1) as pool:
        validated = validate_tests(to_table([problem]), TestValidation(min_tests=2), pool)
    assert len(validated.kept) == 1
    assert json.loads(from_table(validated.kept)[0].metadata)["validate_tests"] == {"tests": 2, "mutants": 0}
    assert worked_solution(problem).startswith('```cpp\n#include "parts.h"')


def test_groups_of_tests_have_their_own_arguments(tmp_path):
    validator = "import sys\nsys.exit(42 if sys.stdin.read().split() == sys.argv[4:] else 43)\n"
    flags = {
        "problem.yaml": "validation: custom\nvalidator_flags: all\n", "output_validators/validate.py": validator,
        "data/secret/testdata.yaml": "output_validator_flags: secret\n",
        "data/secret/group1/testdata.yaml": "output_validator_flags: one two\n",
        "data/secret/group2/3.in": "7\n", "data/secret/group2/3.ans": "7\n",
    }  # fmt: skip
    problem = only(read_problems(package(tmp_path / "sum", **flags), "code"))
    tests = {test.input: list(test.arguments) for test in problem.code_tests()}
    assert tests == {"5\n": ["all"], "7\n": ["all", "secret"], "1000\n": ["all", "one", "two"]}
    alike = {f"data/{group}/testdata.yaml": "output_validator_flags: a\n" for group in ("sample", "secret")}
    row = kattis.read(package(tmp_path / "alike", **alike))
    assert row["checker"]["arguments"] == ["a"] and not any("arguments" in test for test in row["tests"])
    compared = {"problem.yaml": "name: Sum\n", "output_validators/validate.py": None}
    compared["data/secret/testdata.yaml"] = "output_validator_flags: case_sensitive\n"
    row = kattis.read(package(tmp_path / "compared", **compared))
    assert row["comparison"]["arguments"] == []
    assert [test["arguments"] for test in row["tests"]] == [[], ["case_sensitive"]]
    newer = {"problem.yaml": "name: Sum\n", "output_validators/validate.py": None}
    newer["data/test_group.yaml"] = "output_validator_args: [float_tolerance, '1e-4']\n"
    assert kattis.read(package(tmp_path / "newer", **newer))["comparison"]["arguments"] == ["float_tolerance", "1e-4"]
    said = {5: "all", 7: "all secret", 1000: "all one two"}
    with Sandbox() as sandbox:
        assert judge(problem, f"print({said}[int(input())])", sandbox).passed
        assert not judge(problem, "print('all')", sandbox).passed


INCLUDED = {  # what is wrong in the folder include/cpp
    "is not in UTF-8": lambda folder: (folder / "grader.cpp").write_bytes(b"// \xff\nint main() {}"),
    "bytes, more than": lambda folder: (folder / "grader.cpp").write_text(" " * (MAX_BYTES + 1)),
    "more is no file": lambda folder: (folder / "more").mkdir(),
    "pipe is no file": lambda folder: os.mkfifo(folder / "pipe"),
    "loop is no file": lambda folder: (folder / "loop").symlink_to("loop"),
    "a link that leaves": lambda folder: (folder / "grader.cpp").symlink_to("/etc/passwd"),
    "plain names": lambda folder: (folder / "result").write_text(""),
}
UNREADABLE = {  # what is wrong in other files
    "type": {"problem.yaml": "type: [multi-pass]\n"},
    "gives points": {"problem.yaml": "validation: custom score\n"},
    "which is the program": {"include/python3/main.py": "import first, second\n"},
    "no flag 'sloppy'": {"problem.yaml": "validator_flags: sloppy\n", "output_validators/validate.py": None},
    "instead of one": {"output_validators/other.cpp": "int main() {}"},
    "cannot be read": {"problem.yaml": "a: [\n"},
    "list instead of names": {"problem.yaml": "- a\n"},
    "is not one word": {"data/test_group.yaml": "output_validator_args: [float_tolerance 1e-4]\n"},
    "with arguments": {"data/secret/group1/2.args": "--fast\n"},
}  # fmt: skip


@pytest.mark.parametrize("reason", [*INCLUDED, *UNREADABLE])
def test_what_cannot_be_judged_is_rejected_with_the_reason(reason, tmp_path):
    package(tmp_path / "all" / "sum")
    (tmp_path / "all" / "more.json").write_text("[]")
    other = package(tmp_path / "all" / "other", **UNREADABLE.get(reason, {}))
    named = [reason]
    if reason in INCLUDED:
        (other / "include" / "cpp").mkdir(parents=True)
        INCLUDED[reason](other / "include" / "cpp")
        named += ["include", "cpp"]
    split = read_problems(tmp_path / "all", "code")
    [(name, evidence)] = reasons(split)
    assert name == "other" and evidence["file"] == "other" and split.kept["source_id"].to_pylist() == ["sum"]
    assert all(word in str(evidence) for word in named), evidence
