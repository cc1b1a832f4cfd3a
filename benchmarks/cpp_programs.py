"""Published submissions in C++ to contest problems: does the judge pass the accepted ones and fail the wrong ones?

    python -m benchmarks.cpp_programs --half fit|report|both [--each N] [--problemtools CHECKOUT] DIRECTORY ...
    python -m benchmarks.cpp_programs --speed

A directory has problem packages of Kattis (problem.yaml, data/, submissions/) anywhere below it. Those with their own
validator are left out, and submissions without a main function. Problems are split in halves by a hash of their names.
An accepted submission runs on `--tests` tests of all sizes, a wrong one on forty at most. Where the verdict is not the
package's, the program is also built and run without the judge. With a checkout of Kattis's problemtools every program
is, and its outputs go to problemtools' default validator: the two verdicts should agree.

`--speed`: ten tests of one program, judged, and as plain processes after a plain `g++`, in turns.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from ratchet.verifiers.code.comparison import text_difference
from ratchet.verifiers.code.compiled import workshop
from ratchet.verifiers.code.judge import judge
from ratchet.verifiers.code.problem import read_problem
from ratchet.verifiers.problem import CodeTest, Problem
from ratchet.verifiers.sandbox.runs import Limits
from ratchet.verifiers.sandbox.server import Sandbox
from ratchet.verifiers.submission import EVERY_TEST, JudgeSettings

TIME_LIMIT_S = 10.0
BUILD = ("g++", "-O2", "-static", "-w")
PROGRAM = "#include <iostream>\nint main() { long long n, s = 0; std::cin >> n; while (n) s += n--; std::cout << s; }\n"


def packages(directories: list[Path], half: str) -> Iterator[tuple[str, Path, str]]:
    for file in sorted(file for directory in directories for file in directory.rglob("problem.yaml")):
        name, settings = f"{file.parts[-4]}/{file.parts[-2]}", file.read_text(errors="replace")
        digest = hashlib.sha256(name.encode()).digest()[0] % 2
        if half in ("both", ("fit", "report")[digest]) and not re.search(
            r"^validation: *(custom|interactive)", settings, re.M
        ):
            yield name, file.parent, settings


def tests_of(package: Path) -> list[dict[str, str]]:
    """By the size of their inputs."""
    inputs = [file for file in package.glob("data/**/*.in") if file.with_suffix(".ans").is_file()]
    inputs.sort(key=lambda file: (file.stat().st_size, str(file)))
    texts = [(file.read_bytes(), file.with_suffix(".ans").read_bytes()) for file in inputs]
    return [{"input": text.decode("latin-1"), "output": wanted.decode("latin-1")} for text, wanted in texts]


def problem_of(name: str, tests: list[dict[str, str]], settings: str) -> Problem:
    facts = {"answer_languages": ["cpp"], "cpp_standard": "gnu++17"}
    flags = re.search(r"^validator_flags:(.*)$", settings, re.MULTILINE)
    facts["comparison"] = {"mode": "kattis", "arguments": flags[1].split() if flags else []}
    return Problem(name, "code", name, tests=json.dumps(tests), metadata=json.dumps(facts), time_limit_s=TIME_LIMIT_S)


def measure(directories: list[Path], half: str, most: int, each: int, count: int, validator: Path | None) -> None:
    done: dict[str, Counter[str]] = {"accepted": Counter(), "wrong_answer": Counter()}
    why_not: dict[str, Counter[str]] = {kind: Counter() for kind in done}
    problems, seen, agreed = set(), set(), Counter()
    with Sandbox() as sandbox:
        for name, package, settings in packages(directories, half):
            tests = tests_of(package)
            few = [tests[i * (len(tests) - 1) // max(1, count - 1)] for i in range(count)] if tests else []
            many = tests[:: max(1, -(-len(tests) // 40))]
            for kind, results in done.items():
                left = each
                for file in sorted(package.glob(f"submissions/{kind}/*.c*")):
                    source = file.read_text(errors="replace")
                    if not tests or not re.search(r"\bmain *\(", source) or results.total() >= most or source in seen:
                        continue
                    if not left:
                        break
                    left -= 1
                    seen.add(source)
                    problem = problem_of(name, few if kind == "accepted" else many, settings)
                    verdict = judge(problem, source, sandbox, JudgeSettings(total_s=120.0))
                    problems.add(name)
                    results[verdict.decided_by] += 1
                    is_as_published = verdict.passed == (kind == "accepted")
                    why = "" if is_as_published and not validator else plainly(problem, source, validator)
                    agreed[(why == "all tests") == verdict.passed] += 1
                    if not is_as_published or (validator and (why == "all tests") != verdict.passed):
                        why_not[kind][why] += 1
                        print(
                            f"{name} {kind}/{file.name}: {verdict.detail[:120] or 'passed'}; plainly: {why}", flush=True
                        )
    print(f"\n{len(problems)} problems, half {half}")
    if validator:
        print(f"as plain processes and Kattis's own validator say: {agreed[True]} of {agreed.total()}")
    for kind, results in done.items():
        print(f"{kind}: {results.total()}: " + ", ".join(f"{n} {why}" for why, n in results.most_common()))
        print(
            "  plainly, of those not as the package has it: " + ", ".join(f"{n} {w}" for w, n in why_not[kind].items())
        )


def plainly(problem: Problem, source: str, validator: Path | None) -> str:
    """The first failure of a plain build and plain runs, compared by Kattis's validator, or without one as the judge
    does; `all tests` if there is none."""
    with tempfile.TemporaryDirectory() as directory:
        file, program = Path(directory, "p.cpp"), Path(directory, "p")
        file.write_text(source)
        if subprocess.run(
            [*BUILD, "-std=gnu++17", file, "-o", program], stderr=subprocess.DEVNULL, check=False
        ).returncode:
            return "compile error"
        for test in problem.code_tests():
            try:
                done = subprocess.run(
                    [program], input=(test.input or "").encode(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                    timeout=2 * TIME_LIMIT_S, check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return "time limit"
            if done.returncode:
                return "runtime error"
            comparison = read_problem(problem).comparison
            if validator:
                is_right = validated(validator, directory, test, done.stdout, comparison.arguments)
            else:
                is_right = not text_difference(done.stdout, test.output, comparison)
            if not is_right:
                same = done.stdout.lower().split() == test.output.lower().encode().split()
                return "wrong in white space or case" if same else "wrong"
    return "all tests"


def validated(validator: Path, directory: str, test: CodeTest, output: bytes, flags: Sequence[str]) -> bool:
    """What problemtools' default validator says of an output."""
    given, answer = Path(directory, "in"), Path(directory, "ans")
    given.write_bytes((test.input or "").encode())
    answer.write_bytes(test.output.encode())
    code = subprocess.run([validator, given, answer, directory, *flags], input=output, capture_output=True).returncode
    assert code in (42, 43), f"the validator ends with {code}"
    return code == 42


def speed(turns: int = 15) -> None:
    tests = [{"input": f"{n}\n", "output": f"{n * (n + 1) // 2}"} for n in range(1000, 1010)]
    problem = Problem("p", "code", "", tests=json.dumps(tests), metadata='{"answer_languages": ["cpp"]}')
    limits = Limits(4.0, 16.0, 1 << 30, 8 << 20)
    seconds: dict[str, list[float]] = {"judged": [], "plain": [], "judged, built before": [], "plain, built before": []}
    with Sandbox() as sandbox, tempfile.TemporaryDirectory() as directory:
        source, program = Path(directory, "p.cpp"), Path(directory, "p")
        source.write_text(PROGRAM)
        judge(problem, PROGRAM, sandbox)  # starts the servers
        with workshop(sandbox).build(PROGRAM) as built:
            for _ in range(turns):
                begin = time.perf_counter()
                assert judge(problem, PROGRAM, sandbox, EVERY_TEST).passed
                seconds["judged"].append(time.perf_counter() - begin)
                begin = time.perf_counter()
                for test in tests:
                    ended = workshop(sandbox).run_program(built, test["input"].encode(), limits)
                    assert ended.run.output.decode() == test["output"]
                seconds["judged, built before"].append(time.perf_counter() - begin)
                begin = time.perf_counter()
                subprocess.run([*BUILD, "-std=c++17", source, "-o", program], check=True)
                then = time.perf_counter()
                for test in tests:
                    done = subprocess.run([program], input=test["input"].encode(), stdout=subprocess.PIPE, check=True)
                    assert done.stdout.decode() == test["output"]
                seconds["plain"].append(time.perf_counter() - begin)
                seconds["plain, built before"].append(time.perf_counter() - then)
    for name, values in seconds.items():
        print(f"{name}: median {1000 * statistics.median(values):.1f} ms")
    for kind in ("", ", built before"):
        ratios = [one / other for one, other in zip(seconds["judged" + kind], seconds["plain" + kind], strict=True)]
        print(f"ratio of the turns{kind}: median {statistics.median(ratios):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", nargs="*", type=Path)
    parser.add_argument("--half", choices=["fit", "report", "both"], default="fit")
    parser.add_argument("--most", type=int, default=1 << 30, help="submissions of each kind")
    parser.add_argument("--each", type=int, default=1 << 30, help="submissions of each kind to a problem")
    parser.add_argument("--tests", type=int, default=5)
    parser.add_argument("--problemtools", type=Path, metavar="CHECKOUT", help="compare with its default validator")
    parser.add_argument("--speed", action="store_true")
    arguments = parser.parse_args()
    if arguments.speed:
        return speed()
    with tempfile.TemporaryDirectory() as directory:
        validator = None
        if arguments.problemtools:
            validator = Path(directory, "validator")
            source = arguments.problemtools / "support/default_validator/default_validator.cc"
            subprocess.run(["g++", "-O2", "-std=c++17", source, "-o", validator], check=True)
        measure(arguments.directories, arguments.half, arguments.most, arguments.each, arguments.tests, validator)


if __name__ == "__main__":
    main()
