"""Checkers and interactors: what they decide, whose fault it is where they cannot, and programs that attack them."""

import json
import re
import shutil
from dataclasses import replace

import pytest

from ratchet.verifiers.code import compiled
from ratchet.verifiers.code.checker_runs import TESTLIB_NAMED_BY
from ratchet.verifiers.code.judge import examine, judge
from ratchet.verifiers.domain import NotExpressible
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.reward import reward_of
from ratchet.verifiers.serving.local_pool import VerifierPool
from ratchet.verifiers.submission import EVERY_TEST
from tests.verifiers.conftest import at_level
from tests.verifiers.programs import programs
from tests.verifiers.sandbox_world import descendants, needs_compiler
from tests.verifiers.test_sealing import SEARCH, Planted

GIVEN = programs("checkers")
CHECKERS, POINTS, SECRET = GIVEN["checkers"], GIVEN["points"], GIVEN["secret"]
GUESSING, HALVING, HALVING_CPP = GIVEN["interactors"]["python"], *GIVEN["players"].values()
INTERACTORS = [(source, language) for language, source in GIVEN["interactors"].items()]


def problem(checker, numbers=(5, 17, 123), **fields):
    facts = {"checker": checker} | fields.pop("metadata", {})
    tests = [{"input": f"{n}\n", "output": f"0 {n}\n"} for n in numbers]
    fields = {"time_limit_s": 1.0, "memory_limit_mb": 128.0} | fields
    return Problem("sums", "code", "", tests=json.dumps(tests), metadata=json.dumps(facts), **fields)


def guessing(source=GUESSING, language="python", **fields):
    return problem(
        {"protocol": "kattis", "source": source, "language": language, "interactive": True},
        (5, 1000, 987654321),
        **fields,
    )


def limit_s(decided_by):
    """Short where the limit itself is what ends a program; else what no machine needs."""
    return 0.5 if decided_by == "time_limit" else 20.0


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr("ratchet.verifiers.code.problem.CHECKER_LIMIT_S", 0.5)


@pytest.fixture(
    scope="module", params=["A", pytest.param("B", marks=pytest.mark.slow), pytest.param("C", marks=pytest.mark.slow)]
)
def level(request):
    yield from at_level(request.param)


ATTACKS = programs("checker_attacks")
OUTCOMES = {
    "n = int(input())\nprint(1, n - 1)": "all_tests",
    "n = int(input())\nprint(0)\nprint(n)": "all_tests",
    "n = int(input())\nprint(1, n)": "wrong_answer",
    "print('one')": "wrong_answer",
    "print()": "wrong_answer",
    "n = int(input())\nprint(1, n - (n != 17))": "wrong_answer",
    "1 / 0": "runtime_error",
    "print(": "compile_error",
    "while True: pass": "time_limit",
    "print('5 ' * 10**7)": "output_limit",
}


@needs_compiler
@pytest.mark.parametrize("kind", CHECKERS)
def test_a_checker_decides_which_outputs_are_right(kind, sandbox):
    for source, decided_by in OUTCOMES.items():
        verdict = judge(problem(CHECKERS[kind], time_limit_s=limit_s(decided_by)), source, sandbox)
        assert verdict.decided_by == decided_by, (source, verdict)
    verdict, results = examine(problem(CHECKERS[kind]), next(iter(OUTCOMES)).replace("-", "+"), sandbox, EVERY_TEST)
    assert verdict.fraction == 0 and [result.status for result in results] == ["wrong_answer"] * 3
    if kind == "kattis":
        assert results[0].difference == "its checker rejects it '1 and 6 are not 5'"


def test_a_wrong_program_does_not_run_every_test_first(sandbox, monkeypatch):
    wrong, asked, run = "print(0, 10)", [], sandbox.run

    def counted(source, tests, *arguments, **options):
        if source == wrong:
            asked.append(len(tests))
        return run(source, tests, *arguments, **options)

    monkeypatch.setattr(sandbox, "run", counted)
    _, results = examine(problem(CHECKERS["script"], range(10, 30)), wrong, sandbox)
    assert [result.index for result in results] == [0, 1] and asked == [1, 2]


def test_state_between_tests_matters_neither_way(sandbox):
    cached = "import math\nn = int(input())\nm = math.__dict__.setdefault('m', n)\nprint(0, m)"
    assert judge(problem(CHECKERS["script"]), cached, sandbox).passed


FAULTY = {
    "crashes": ("1 / 0", "ZeroDivisionError"),
    "says nothing": ("pass", "gives no verdict"),
    "says nonsense": ("print('accepted')", "gives no verdict ('accepted"),
    "rejects the expected output": (
        "import sys\nprint(0) if open(sys.argv[3]).read()[0] == '0' else 1 / 0", "ZeroDivisionError"
    ),
    "does not end": ("while True: pass", "takes too long"),
    "takes all memory": ("x = [0] * 10**10", "uses too much memory"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTY)
def test_a_faulty_checker_is_never_the_programs_fault(name, sandbox, impatient):
    source, reason = FAULTY[name]
    asked = problem({"protocol": "script", "source": source}, time_limit_s=0.5)
    for program in ("n = int(input())\nprint(1, n - 1)", "print('wrong')"):
        verdict = judge(asked, program, sandbox)
        assert (verdict.outcome, verdict.decided_by) == (Outcome.INFRA_ERROR, "checker"), verdict
        assert reason in verdict.detail and "\n" not in verdict.detail


IN_CPP = {"protocol": "kattis", "source": "1", "language": "cpp"}
UNUSABLE = {
    "its checker uses eval, which would run what a program prints": {"protocol": "script", "source": "eval('1')"},
    "its checker is not Python": {"protocol": "script", "source": "print("},
    "its checker needs a source, python or cpp, and a protocol": {"protocol": "other", "source": "1"},
    "its checker has a file '../x.h'": IN_CPP | {"files": {"../x.h": ""}},
    "its checker has a file 'input'": IN_CPP | {"files": {"input": ""}},
    "its checker cannot be read": {"protocol": ["kattis"], "source": "1"},
    "its checker needs a source": {"protocol": "script", "source": "1", "interactive": True},
    "the source of its checker, its arguments or its files": {"protocol": "kattis", "source": "1", "arguments": [1]},
}


@pytest.mark.parametrize("reason", UNUSABLE)
def test_a_checker_that_cannot_be_used_is_said_before(reason):
    assert reason in domain_of("code").fault(problem(UNUSABLE[reason]))


@pytest.mark.parametrize(
    ("said", "numbers", "decided_by"),
    [
        ("'points', 10 - a, 'of 10'", "0, n", "all_tests"),
        ("'points', 10 - a", "-1, n + 1", "all_tests"),  # better than expected
        ("'points', 10.25 - a", "1, n - 1", "wrong_answer"),
        ("'points', 10 - a", "1, n", "wrong_answer"),
        ("'points', 0", "0, n", "checker"),  # which of them is all?
        ("'most points', 10 - a", "0, n", "checker"),
        ("'points 1e9'", "0, n", "checker"),
    ],
)
def test_points_of_testlib_are_all_where_the_expected_output_has_no_more(said, numbers, decided_by, sandbox):
    asked = problem({"protocol": "testlib", "source": POINTS.format(said=said)})
    verdict, results = examine(asked, f"n = int(input())\nprint({numbers})", sandbox)
    assert verdict.decided_by == decided_by, verdict
    if "10.25" in said:
        assert results[0].difference == "its checker gives it 9.25 points, and the expected output 10.25"


SLOW = """
import sys, time
output = open(sys.argv[3]).read()
while time.process_time() < 0.3 and {condition}:
    pass
print(1 if int(output.split()[-1]) == int(open(sys.argv[1]).read()) else 0)
"""


@pytest.mark.parametrize(("condition", "decided_by"), [("len(output) > 1000", "wrong_answer"), ("True", "checker")])
def test_outputs_that_use_up_a_checkers_time_are_wrong(condition, decided_by, sandbox, impatient):
    asked = problem({"protocol": "script", "source": SLOW.format(condition=condition)}, range(12), time_limit_s=0.5)
    verdict = judge(asked, "print(' ' * 2000 + '0', input())", sandbox, EVERY_TEST)
    assert verdict.decided_by == decided_by, verdict
    if decided_by == "wrong_answer":
        assert 0 < verdict.fraction < 1 and judge(asked, "print(0, input())", sandbox, EVERY_TEST).fraction == 1


def test_a_faulty_checker_gives_no_reward():
    asked = problem({"protocol": "script", "source": "1 / 0"})
    with VerifierPool(workers=1) as pool:
        [verdict] = pool.verify([(asked, "```python\nprint(0, int(input()))\n```")])
    assert verdict.decided_by == "checker" and reward_of("code", verdict.outcome, verdict.fraction) is None


def test_no_format_without_checkers_can_hold_it():
    with pytest.raises(NotExpressible, match="it has a checker"):
        domain_of("code").ground_truth(problem(CHECKERS["script"]))


def test_a_column_of_the_same_name_is_no_checker(sandbox):
    assert judge(problem("exact"), "print(0, int(input()))", sandbox).passed


@needs_compiler
def test_a_checker_in_cpp_needs_its_header(sandbox, monkeypatch, tmp_path):
    source, header = CHECKERS["testlib"]["source"], CHECKERS["testlib"]["files"]["testlib.h"]
    checker = {"protocol": "testlib", "source": source + "// by path\n", "language": "cpp"}
    right = "print(0, int(input()))"
    monkeypatch.delenv(TESTLIB_NAMED_BY, raising=False)
    verdict = judge(problem(checker), right, sandbox)
    assert verdict.decided_by == "checker" and f"set {TESTLIB_NAMED_BY}" in verdict.detail
    (tmp_path / "there.h").write_text(header)
    monkeypatch.setenv(TESTLIB_NAMED_BY, str(tmp_path / "there.h"))
    assert judge(problem(checker), right, sandbox).passed
    broken = judge(problem(checker | {"source": "int main() { x }"}), right, sandbox)
    assert broken.decided_by == "checker" and "does not compile" in broken.detail


def test_a_checker_in_cpp_without_a_compiler_is_the_machines_fault(sandbox, no_compiler):
    checker = CHECKERS["testlib"] | {"source": CHECKERS["testlib"]["source"] + "// new\n"}
    verdict = judge(problem(checker), "print(0, int(input()))", sandbox)
    assert verdict.outcome is Outcome.INFRA_ERROR and verdict.decided_by == "checker"
    assert "there is no g++" in verdict.detail


CONVERSATIONS = {
    HALVING: "all_tests",
    "print('! 5', flush=True)": "wrong_answer",
    "print('! 5')": "wrong_answer",
    "for n in range(99): print('?', n, flush=True), input()": "wrong_answer",
    "input()": "time_limit",  # both wait
    "print('! 5')\nimport time\ntime.sleep(9)": "time_limit",  # it was not flushed
    "while True: pass": "time_limit",
    "print('? 7', flush=True)\n1 / 0": "runtime_error",
    "import os, time\nos.close(1)\ntime.sleep(0.2)\nos.abort()": "runtime_error",  # as a slow end looks
    "print(": "compile_error",
    "x = [0] * 10**8": "memory_limit",
    # After the interactor has accepted, as in Kattis: the program has to end, too.
    HALVING + "while True: pass": "time_limit",
    HALVING + "import time\ntime.sleep(99)": "time_limit",
    HALVING + "import time\ntime.sleep(0.2)\n1 / 0": "runtime_error",
    HALVING + "input()": "runtime_error",
    HALVING + "import sys\nsys.stdin.read()\nprint('more ' * 99, flush=True)": "all_tests",
}


@needs_compiler
@pytest.mark.parametrize(("source", "language"), INTERACTORS)
def test_an_interactor_decides(source, language, sandbox):
    for program, decided_by in CONVERSATIONS.items():
        asked = guessing(source, language, metadata={"validate_tests": {}}, time_limit_s=limit_s(decided_by))
        verdict = judge(asked, program, sandbox)
        assert verdict.decided_by == decided_by, (program, verdict)
    allows_cpp = guessing(source, language, metadata={"answer_languages": ["cpp"]})
    assert judge(allows_cpp, HALVING_CPP, sandbox).passed
    wrong = HALVING_CPP.replace("1 << 30", "1 << 20")
    assert judge(allows_cpp, wrong, sandbox).decided_by == "wrong_answer"
    assert judge(allows_cpp, "int main() { x }", sandbox).decided_by == "compile_error"


def test_a_faulty_interactor_is_the_problems_fault_until_a_golden_solution_has_passed(sandbox, impatient):
    waiting = "print('?', 'seven', flush=True)\ninput()"
    for broken in (GUESSING, "input()\n1 / 0", "while True: pass", "x = [0] * 10**10"):
        verdict = judge(guessing(broken), waiting, sandbox)
        assert (verdict.outcome, verdict.decided_by) == (Outcome.INFRA_ERROR, "checker"), (broken, verdict)
    assert judge(guessing(metadata={"validate_tests": {}}), waiting, sandbox).decided_by == "wrong_answer"
    unchecked = {"validate_tests": {"unchecked": True}}
    assert judge(guessing(metadata=unchecked), waiting, sandbox).decided_by == "checker"
    assert judge(guessing("1 / 0"), HALVING, sandbox).decided_by == "checker"


def has_cpp(sandbox):
    return any(map(shutil.which, compiled.COMPILERS)) and "landlock" in sandbox.isolation


def attacked(asked, source, sandbox):
    verdict = judge(asked, source, sandbox)
    assert verdict.outcome in (Outcome.FAILED, Outcome.TIMEOUT), verdict
    assert len(descendants(sandbox._process.pid)) == 1


@pytest.mark.parametrize("name", ATTACKS["outputs"])
def test_no_output_deceives_a_checker(name, level, impatient):
    tests = [{"input": f"{number}\n", "output": f"1 {number}-8f2c1\n"} for number in (1, 2)]
    for kind in (kind for kind in SECRET if has_cpp(level) or "C++" not in kind):
        facts = {"checker": CHECKERS[kind] | {"source": SECRET[kind]}}
        asked = Problem(
            "secret", "code", "", tests=json.dumps(tests), metadata=json.dumps(facts), time_limit_s=2.0,
            memory_limit_mb=128.0,
        )  # fmt: skip
        attacked(replace(asked, time_limit_s=0.5), ATTACKS["outputs"][name], level)
        assert judge(asked, "print(1, f'{int(input())}-8f2c1')", level).passed  # nothing is left behind


@pytest.mark.parametrize("name", ATTACKS["interacting"])
def test_no_program_deceives_an_interactor(name, level, impatient):
    for source, language in INTERACTORS if has_cpp(level) else INTERACTORS[:1]:
        asked = guessing(source, language, metadata={"validate_tests": {}}, time_limit_s=2.0)
        attacked(replace(asked, time_limit_s=0.5), ATTACKS["interacting"][name], level)
        assert judge(asked, HALVING, level).passed


SIZE_IN_CPP = """
#include <fstream>
#include <iostream>
int main(int argc, char **argv) {
    long long size = -1;
    std::cin >> size;
    return size == std::ifstream(argv[1], std::ios::ate).tellg() ? 42 : 43;
}
"""
SIZES = {
    "python": """
import os
for name in ("input", "/ratchet-scratch/input", "answer"):
    if os.access(name, os.F_OK):
        print(os.stat(name).st_size, flush=True)
        break
""",
    "cpp": """
#include <iostream>
#include <sys/stat.h>
int main() {
    struct stat one;
    for (auto name : {"input", "/ratchet-scratch/input", "../input"})
        if (stat(name, &one) == 0) std::cout << one.st_size << std::endl;
}
""",
}


@needs_compiler
@pytest.mark.parametrize("language", SIZES)
def test_no_program_sees_the_size_of_an_interactors_files(language, sandbox):
    checker = {"protocol": "kattis", "source": SIZE_IN_CPP, "language": "cpp", "interactive": True}
    asked = problem(checker, (987654321,), metadata={"answer_languages": [language], "validate_tests": {}})
    right = {"python": "print(10)", "cpp": '#include <cstdio>\nint main() { puts("10"); }'}
    assert judge(asked, right[language], sandbox).passed
    verdict = judge(asked, SIZES[language], sandbox)
    assert verdict.decided_by == "wrong_answer", verdict


@pytest.mark.parametrize("interactive", [False, True])
def test_no_memory_holds_what_a_checker_knows(interactive, sandbox, monkeypatch):
    monkeypatch.setattr("ratchet.verifiers.code.comparison.SHOWN_CHARACTERS", 1 << 20)
    plant = Planted()
    source = (
        "import sys\nlines = sys.stdin.readline()\nwith open('judgemessage.txt', 'w') as message:\n"
        f"    message.write(lines)\nsys.exit(43)  # {plant('SECRET')}"
    )
    tests = [{"input": plant("SECRET" if interactive else "input"), "output": plant("SECRET")}]
    for number in range(3):
        facts = {"checker": {"protocol": "kattis", "source": source, "interactive": interactive}}
        asked = Problem("p", "code", "", tests=json.dumps(tests), metadata=json.dumps(facts), time_limit_s=9.0)
        program = f"# {plant(f'{number}: source')}\n{SEARCH}\n" * (number == 2) + (
            "print(' '.join(sorted(c[7:].decode() for c in found())), flush=True)" if number == 2 else "print(1)"
        )
        verdict, results = examine(asked, program, sandbox)
        assert verdict.decided_by == "wrong_answer", verdict
    shown = set(re.findall("[0-9a-f]{12}", results[0].difference))
    named = {plant.names["CANARY-" + token] for token in shown}
    assert "2: source" in named and "SECRET" not in named, named
