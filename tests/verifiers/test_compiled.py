"""Programs in C++: which language is meant, what builds, what passes, what is refused."""

import json
from dataclasses import replace

import pytest

from ratchet.verifiers.code import compiled
from ratchet.verifiers.code.judge import examine, judge
from ratchet.verifiers.domain import Work
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.sandbox.runs import Limits
from ratchet.verifiers.serving.local_pool import VerifierPool
from ratchet.verifiers.submission import EVERY_TEST, JudgeSettings, Submission
from tests.verifiers.sandbox_world import needs_compiler

DOUBLE = "#include <iostream>\nint main() { long long x; std::cin >> x; std::cout << 2 * x << '\\n'; }"
TESTS = [{"input": "5851\n", "output": "11702"}, {"input": "1\n", "output": "2"}]


def problem(languages=("cpp",), tests=TESTS, metadata=None, **fields):
    facts = ({"answer_languages": [*languages]} if languages else {}) | (metadata or {})
    fields = {"time_limit_s": 10.0, "memory_limit_mb": 256.0} | fields
    return Problem("p", "code", "double it", tests=json.dumps(tests), metadata=json.dumps(facts), **fields)


def prepared(response, of):
    return domain_of("code").prepare(Submission(of, response))


@pytest.mark.parametrize(
    ("languages", "response", "source"),
    [
        (["cpp"], "```cpp\nA\n```", "A\n"),
        (["cpp"], "```C++\nA\n```\nand\n```\nB\n```", "A\n"),
        (["cpp"], "```\nA\n```", "A\n"),
        (["cpp"], "```python\nA\n```", None),
        (["cpp"], "```text\nA\n```", None),
        (["cpp"], "A", None),
        (["cpp", "python"], "```cpp\nA\n```\n```py\nB\n```", "B\n"),
        (["cpp", "python"], "```py\nA\n```\n```cc\nB\n```\n```\nC\n```", "B\n"),
        (["cpp", "python"], "```\nA\n```", None),
        ([], "```cpp\nA\n```", "A\n"),
        (["python"], "```cpp\nA\n```\n```py\nB\n```\n```\nC\n```", "B\n"),
    ],
)
def test_which_block_is_the_program(languages, response, source):
    answer = prepared(response, problem(languages))
    if source is None:
        assert (answer.outcome, answer.decided_by) == (Outcome.UNPARSEABLE, "no_answer")
    else:
        assert isinstance(answer, Work) and answer.subject == source


def test_the_same_text_in_two_languages_is_two_tasks():
    both = problem(["cpp", "python"])
    keys = {prepared(f"```{mark}\nA\n```", both).key for mark in ("py", "cpp")}
    assert len(keys) == 2


def test_a_bare_program_is_in_the_language_that_it_parses_as():
    both = problem(["cpp", "python"])
    for source, language in (("print(2 * int(input()))", "python"), (DOUBLE, "cpp"), ("print(", "cpp")):
        work = domain_of("code").prepare(Submission(both, source, is_program=True))
        assert isinstance(work, Work) and work.facts[-1] == language


def test_the_mark_that_a_verdict_names_is_its_own():
    keys = {prepared(f"```{mark}\nA\n```", problem([])).key for mark in ("py", "", "cpp")}
    assert len(keys) == 2


def test_a_problem_without_languages_is_the_task_it_was():
    work = prepared("```py\nA\n```", problem([]))
    plain = problem([])
    limits = (plain.time_limit_s, plain.memory_limit_mb)
    assert work.facts == ("code", "p", plain.tests, None, plain.metadata, limits, JudgeSettings())


@pytest.mark.parametrize(
    ("faulty", "reason"),
    [
        (problem(["rust"]), "answer_languages"),
        (problem(["cpp", "cpp"]), "answer_languages"),
        (problem([], metadata={"answer_languages": "cpp"}), "answer_languages"),
        (problem(metadata={"cpp_standard": "c++98"}), "cpp_standard"),
        (problem(metadata={"prelude": "import os"}), "prelude"),
        (problem(tests=[{"call": {"args": [1]}, "output": 2}], entry_point="f"), "only programs in Python"),
        (problem(tests=[{"check": "def check(f):\n    assert f(1) == 2"}], entry_point="f"), "only programs in Python"),
    ],
)
def test_what_is_not_understood_is_refused(faulty, reason):
    assert reason in domain_of("code").fault(faulty)


def test_python_in_a_block_of_another_language_says_so(sandbox):
    class Tools:
        pass

    Tools.sandbox = sandbox
    verdict = prepared(f"```cpp\n{DOUBLE}\n```", problem([])).run(Tools)
    assert verdict.decided_by == "compile_error" and verdict.detail.startswith("the block is marked cpp")
    assert prepared("```cpp\nprint(2 * int(input()))\n```", problem([])).run(Tools).passed  # as ever


MAIN = """#include <cstring>
#include <iostream>
#include <unistd.h>
using namespace std;
int main() {{ long long x; cin >> x; {} cout << 2 * x << endl; }}"""


def with_header(name, body):
    return MAIN.replace("cstring", name).format(body)


LEGAL = {
    "plain": DOUBLE,
    "everything included": with_header("bits/stdc++.h", ""),
    "threads": with_header("thread", "thread t([&] { x += 1; }); t.join(); x -= 1;"),
    "exceptions": MAIN.format("try { throw 1; } catch (int) {}"),
    "200 MB": with_header("vector", "vector<char> v(200 << 20, 1); x += v[5] - 1;"),
    "a deep recursion": with_header(
        "functional",
        "function<int(int)> f = [&](int n) -> int { return n ? 1 + f(n - 1) : 0; }; x += f(500000) - 500000;",
    ),
    "a large array": "#include <iostream>\nint a[30000000];\nint main() { std::cin >> a[7]; std::cout << 2 * a[7]; }",
    "clocks": with_header("chrono", "if (time(0) + chrono::steady_clock::now().time_since_epoch().count() < 0) x = 0;"),
    "random": with_header("random", "random_device d; mt19937 g(d()); if (g() > 4294967295u) x = 0;"),
    "stdio": '#include <cstdio>\nint main() { int x; if (scanf("%d", &x) == 1) printf("%d\\n", 2 * x); }',
    "GNU's dialect": MAIN.format("typeof(x) y = x; static_assert(is_integral_v<__int128>); x = y;"),
    "128 bits": MAIN.format("__int128 y = x; x = (long long)(y * y / x);"),
    "standard error": MAIN.format("cerr << 5 << endl;"),
    "its own allocator": "#include <cstdlib>\n#include <new>\nvoid *operator new(std::size_t n) { return malloc(n); }\n"
    "void operator delete(void *p) noexcept { free(p); }\n" + MAIN.format("string s(99, 'x'); x += s[3] - 'x';"),
}


@needs_compiler
@pytest.mark.parametrize("name", LEGAL)
def test_right_programs_pass(name, level, monkeypatch):
    monkeypatch.setattr(compiled, "STAGE_LIMITS", replace(compiled.STAGE_LIMITS, test_s=300.0, total_s=300.0))
    verdict = judge(problem(), LEGAL[name], level)
    assert verdict.passed, verdict


@needs_compiler
def test_the_standard_is_the_problem_s(level):
    source = with_header("numeric", "x = midpoint(x, x);")
    assert judge(problem(metadata={"cpp_standard": "gnu++20"}), source, level).passed
    assert judge(problem(), source, level).decided_by == "compile_error"


WRONG = {
    "another answer": ("wrong_answer", MAIN.format("x++;")),
    "no answer": ("wrong_answer", "int main() {}"),
    "an exit code": ("runtime_error", MAIN.format("cout << 2 * x << endl; exit(1);")),
    "an exception": ("runtime_error", MAIN.format("throw 1;")),
    "a null pointer": ("runtime_error", MAIN.format("x += *(volatile int *)0;")),
    "no end": ("time_limit", MAIN.format("for (volatile long long i = 0;; i++);")),
    "sleep": ("time_limit", MAIN.format("sleep(100);")),
    "memory": (
        "memory_limit",
        MAIN.format(
            "for (;;) { volatile char *p = new char[1 << 20]; for (int i = 0; i < 1 << 20; i += 99) p[i] = 1; }"
        ),
    ),
    "output": ("output_limit", MAIN.format("string s(1 << 20, 'x'); for (;;) cout << s;")),
    "a syntax error": ("compile_error", "int main() { x }"),
    "nothing to link": ("compile_error", "int f();\nint main() { return f(); }"),
    "no main": ("compile_error", "int f() { return 1; }"),
    "Python": ("compile_error", "print(2 * int(input()))"),
    "nothing": ("compile_error", ""),
}


@needs_compiler
@pytest.mark.parametrize("name", WRONG)
def test_wrong_programs_fail(name, level):
    reason, source = WRONG[name]
    # Far from each other: what has no end takes 0.3 s, and what has one never 10, on any machine.
    verdict = judge(problem(time_limit_s=0.3 if reason == "time_limit" else 10.0), source, level)
    assert verdict.decided_by == reason and not verdict.passed, verdict
    assert verdict.outcome is (Outcome.TIMEOUT if reason == "time_limit" else Outcome.FAILED)


@needs_compiler
def test_every_test_counts_and_one_run_of_each(level):
    tests = [{"input": f"{n}\n", "output": f"{2 * n}"} for n in (5, -1, 7)]
    verdict, results = examine(problem(tests=tests), MAIN.format("if (x < 0) return 9;"), level, EVERY_TEST)
    assert verdict.fraction == pytest.approx(2 / 3)
    assert [result.status for result in results] == ["passed", "runtime_error", "passed"]


@needs_compiler
def test_the_reason_is_the_compiler_s_first_error(level):
    verdict = judge(problem(), "int main() {\n    return nothing;\n}", level)
    assert verdict.detail.startswith("test 0: does not compile: error: ") and "'nothing'" in verdict.detail


LISTS = """
#include "own.h"
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>
int main(int count, char **names) {
    int given, wanted;
    FILE *file = fopen(names[1], "r");
    if (count != 2 || !file || scanf("%d", &given) != 1 || fscanf(file, "%d", &wanted) != 1) return 3;
    DIR *directory = opendir(".");
    while (dirent *entry = readdir(directory)) fprintf(stderr, "%s\\n", entry->d_name);
    if (open("/usr/include/stdio.h", O_RDONLY) >= 0 || fork() >= 0) return 4;
    fclose(fopen("left", "w"));
    return given == wanted ? SAME : 1;
}
"""


@needs_compiler
def test_a_checker_has_its_files_and_leaves_none(level):
    shop, limits = compiled.cpp_sandbox(level), Limits(2.0, 2.0, 64 << 20, 1 << 16)
    with shop.build(LISTS, headers={"own.h": b"#include <cstdio>\n#define SAME 42\n"}) as checker:
        for wanted, code in ((b"7", 42), (b"8", 1)):
            argv, files = ["./checker", "answer"], {"answer": wanted}
            ended = shop.run_native("checker", checker.file, argv, b"7\n", limits, files)
            assert (ended.code, sorted(ended.errors.decode().split())) == (code, [".", "..", "answer"])


@needs_compiler
def test_a_pool_judges_both_languages():
    both = problem(["cpp", "python"])
    python = "```py\nprint(2 * int(input()))\n```"
    responses = [f"```cpp\n{DOUBLE}\n```", python, python.replace("py", "cpp", 1), python.replace("py", "", 1)]
    with VerifierPool(1) as pool:
        verdicts = pool.verify([(both, response) for response in responses])
    assert [verdict.decided_by for verdict in verdicts] == ["all_tests", "all_tests", "compile_error", "no_answer"]


def test_a_pool_without_a_compiler_gives_no_zero(no_compiler):
    responses = [(problem(), f"```cpp\n{DOUBLE}\n```"), (problem([]), "```py\nprint(2 * int(input()))\n```")]
    with VerifierPool(1) as pool, pytest.warns(match="there is no g"):
        in_cpp, in_python = pool.verify(responses)
    assert in_cpp.outcome is Outcome.INFRA_ERROR and "there is no g++" in in_cpp.detail and in_python.passed
