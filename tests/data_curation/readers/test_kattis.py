"""Problem packages in Kattis's format."""

import json

import pytest

from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.read import read_problems
from ratchet.data_curation.readers import kattis
from ratchet.data_curation.rules.code_rules import interactive, special_judge
from ratchet.data_curation.settings.curation import Rules
from ratchet.verifiers.code.judge import judge
from ratchet.verifiers.sandbox.server import Sandbox
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


def test_packages_of_a_folder_have_its_names(tmp_path):
    for name in ("a", "b"):
        package(tmp_path / "contest" / name)
    (tmp_path / "contest" / "more.json").write_text("[]")
    split = read_problems(tmp_path / "contest", "code")
    assert split.kept.column("source_id").to_pylist() == ["a", "b"]


def test_interactive_packages_flags_and_headers(tmp_path):
    changes = {
        "problem.yaml": "validation: custom interactive\nvalidator_flags: limit 7\n",
        "output_validators/validate.py": None, "output_validators/v/validate.cc": "int main() {}",
        "output_validators/v/validate.h": "// header",
    }  # fmt: skip
    package(tmp_path / "sum", **changes)
    (tmp_path / "sum/output_validators/validate.py").unlink(missing_ok=True)
    problem = only(read_problems(tmp_path / "sum", "code"))
    assert json.loads(problem.metadata)["checker"] == {
        "language": "cpp", "source": "int main() {}", "files": {"validate.h": "// header"}, "protocol": "kattis",
        "arguments": ["limit", "7"], "interactive": True,
    }  # fmt: skip
    assert interactive(problem, Rules()) is None


def test_the_default_validator_has_a_tolerance(tmp_path):
    package(tmp_path / "sum", **{"problem.yaml": "validator_flags: float_tolerance 1e-6\n"})
    (tmp_path / "sum/output_validators/validate.py").unlink()
    facts = json.loads(only(read_problems(tmp_path / "sum", "code")).metadata)
    assert facts["tolerance"] == 1e-6 and "checker" not in facts


def test_large_tests_are_left_out(tmp_path):
    folder = package(tmp_path / "sum", **{"data/secret/3.in": "7" * 1000, "data/secret/3.ans": "7"})
    row = kattis.read(folder, max_bytes=100)
    assert len(row["tests"]) == 2 and row["tests_left_out"] == 1


UNREADABLE = {
    "type": {"problem.yaml": "type: [multi-pass]\n"},
    "include": {"include/grader.cpp": "int main() {}"},
    "instead of one": {"output_validators/other.cpp": "int main() {}"},
    "different ones": {"data/secret/testdata.yaml": "output_validator_flags: a\n",
                       "data/sample/testdata.yaml": "output_validator_flags: b\n"},
    "not valid": {"problem.yaml": "a: [\n"},
}  # fmt: skip


@pytest.mark.parametrize("reason", UNREADABLE)
def test_what_cannot_be_judged_is_rejected_with_the_reason(reason, tmp_path):
    package(tmp_path / "all" / "sum")
    package(tmp_path / "all" / "other", **UNREADABLE[reason])
    split = read_problems(tmp_path / "all", "code")
    [(name, evidence)] = reasons(split)
    assert name == "other" and len(from_table(split.kept)) == 1
    assert reason in str(evidence) or (reason == "not valid" and "cannot be read" in str(evidence))
