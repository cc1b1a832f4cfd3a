"""Read a code problem for the judge: its tests, limits, prelude and comparison."""

import ast
import functools
import json
from dataclasses import dataclass, replace
from typing import Any

from ratchet.verifiers.code.checkers import MOST_ARGUMENTS, Checker, read_checker
from ratchet.verifiers.code.comparison import Comparison, is_number, read_comparison, returned, short
from ratchet.verifiers.code.program_files import NO_FILES, ProgramFiles, read_program_files
from ratchet.verifiers.code.published_checks import read_check
from ratchet.verifiers.problem import CodeTest, Problem
from ratchet.verifiers.sandbox.long_integers import long_integers

DEFAULT_TIME_LIMIT_S = 4.0
"""Seconds for one test if the problem sets no limit: CPU time and sleep; waiting for a busy core does not count."""
DEFAULT_MEMORY_LIMIT_MB = 1024.0
MAX_TIME_LIMIT_S, MAX_MEMORY_LIMIT_MB = 3600.0, float(1 << 20)
"""Largest limits of a problem; a larger one is a data set's mistake, such as another unit."""
OUTPUT_LIMIT_BYTES = 8 << 20
TOTAL_LIMIT_S, TOTAL_LIMIT_FACTOR = 10.0, 4.0
"""Seconds for all tests of one program: the larger of a floor and a multiple of the time limit. A program that is slow
on each of a hundred tests must not hold a worker for minutes."""

CHECKER_LIMIT_S, CHECKER_TOTAL_FACTOR = 10.0, 4.0
"""Seconds for a checker on one test, if the time limit is not larger, and the limit for all tests as a multiple of
that."""

STANDARDS = tuple(f"{dialect}++{year}" for dialect in ("c", "gnu") for year in (11, 14, 17, 20, 23))
DEFAULT_STANDARD = "gnu++17"

Request = dict[str, Any]
"""A test for the sandbox, without its expected output."""


class InvalidProblem(Exception):
    """A problem to which no response can be judged; the message gives the reason. A data set's mistake must not look
    like a model's, nor like a fault of this machine."""


@dataclass(frozen=True)
class CodeProblem:
    """A code problem as the judge reads it. `tests` are as published, except that plain calls in a check are calls.
    `requests` has one for each test that is not a check, by its position, the longest first, those of a check in their
    order. `is_validated`: a golden solution has passed all tests."""

    tests: list[CodeTest]
    requests: dict[int, Request]
    entry_point: str | None
    prelude: str | None
    comparison: Comparison
    limit_s: float
    memory_bytes: int
    output_bytes: int
    checker: Checker | None = None
    is_validated: bool = False
    languages: tuple[str, ...] = ("python",)
    """Languages that a program may be written in."""
    standard: str = DEFAULT_STANDARD
    """Standard of programs in C++."""
    files: ProgramFiles = NO_FILES
    """Files that programs are built with."""

    @functools.cached_property
    def returned(self) -> list[bytes]:
        """The usual encoding of each test's expected value, for all programs of a group."""
        return [returned(test.output) for test in self.tests]

    @property
    def budget_s(self) -> float:
        return budget_s(self.limit_s)

    @property
    def check_s(self) -> float:
        """Seconds for a check's own code, or a checker's on one test."""
        return max(self.limit_s, CHECKER_LIMIT_S if self.checker else DEFAULT_TIME_LIMIT_S)

    @property
    def checker_bytes(self) -> int:
        """Bytes of memory for a checker."""
        return max(self.memory_bytes, int(DEFAULT_MEMORY_LIMIT_MB * (1 << 20)))


def budget_s(limit_s: float) -> float:
    """Seconds for all tests together; `limit_s` is for one test."""
    return max(TOTAL_LIMIT_S, TOTAL_LIMIT_FACTOR * limit_s)


def read_problem(problem: Problem) -> CodeProblem:
    """Read a problem. Raises InvalidProblem if there are no tests, one cannot be used, or another field is invalid."""
    for name in ("tests", "entry_point", "metadata"):
        if not isinstance(getattr(problem, name), str | None):
            raise InvalidProblem(f"its {name} must be text, not {type(getattr(problem, name)).__name__}")
    for name, most in (("time_limit_s", MAX_TIME_LIMIT_S), ("memory_limit_mb", MAX_MEMORY_LIMIT_MB)):
        _check_number(name, getattr(problem, name), most)
    return _read(problem.tests, problem.entry_point, problem.metadata, problem.time_limit_s, problem.memory_limit_mb)


@functools.lru_cache(maxsize=32)  # the responses of a group of rollouts come one after another
def _read(
    tests: str | None, entry_point: str | None, metadata: str | None, limit_s: float | None, memory_mb: float | None
) -> CodeProblem:
    read = _read_tests(tests)
    if any(test.call or test.check for test in read):
        if not entry_point:
            raise InvalidProblem("its tests are calls, and it names no entry point")
        try:
            ast.parse(entry_point, mode="eval")
        except (SyntaxError, ValueError):
            raise InvalidProblem(f"its entry point {entry_point[:80]!r} is not an expression") from None
    try:
        facts = json.loads(metadata or "{}")
        prelude = facts.get("prelude")
        validated = facts.get("validate_tests")
        languages, standard = facts.get("answer_languages", ["python"]), facts.get("cpp_standard", DEFAULT_STANDARD)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidProblem(f"its metadata is not a JSON object: {error}") from None
    if not isinstance(prelude, str | None):
        raise InvalidProblem("its prelude is not text")
    try:
        checker, files, comparison = read_checker(facts), read_program_files(facts), read_comparison(facts)
    except ValueError as error:
        raise InvalidProblem(str(error)) from None
    if checker and any(test.call or test.check for test in read):
        raise InvalidProblem("it has a checker of outputs, and its tests are calls")
    if languages not in [["python"], ["cpp"], ["python", "cpp"], ["cpp", "python"]]:
        raise InvalidProblem(f"its answer_languages are {languages!r}: they must be a list of python, cpp, or both")
    if standard not in STANDARDS:
        raise InvalidProblem(f"its cpp_standard is {standard!r}: it must be one of {', '.join(STANDARDS)}")
    if "cpp" in languages and (entry_point or any(test.call or test.check for test in read)):
        raise InvalidProblem("its tests are calls, which only programs in Python can be judged by, not in cpp")
    if "cpp" in languages and prelude:
        raise InvalidProblem("its prelude is Python, and it allows programs in cpp")
    if files != NO_FILES and (entry_point or any(test.call or test.check for test in read)):
        raise InvalidProblem("it has program_files, and its tests are calls")
    if comparison.by_equality:
        read = [replace(test, exact=True) if test.call is not None else test for test in read]
    requests = {number: request_of(test, comparison) for number, test in enumerate(read) if test.check is None}
    with long_integers():
        texts = {n: request["input"] if "input" in request else json.dumps(request) for n, request in requests.items()}
    order = sorted(requests, key=lambda n: 0 if read[n].exact else -len(texts[n]))
    longest = max((len(test.output) for test in read if isinstance(test.output, str)), default=0)
    ordered = {n: requests[n] for n in order}
    limits = limit_s or DEFAULT_TIME_LIMIT_S, int((memory_mb or DEFAULT_MEMORY_LIMIT_MB) * (1 << 20))
    output_bytes = max(OUTPUT_LIMIT_BYTES, 8 * longest)
    is_validated = isinstance(validated, dict) and not validated.get("unchecked")
    return CodeProblem(
        read, ordered, entry_point and str(entry_point), prelude, comparison, *limits, output_bytes, checker,
        is_validated, tuple(languages), standard, files,
    )  # fmt: skip


def _read_tests(text: str | None) -> list[CodeTest]:
    try:
        with long_integers():
            rows = json.loads(text or "[]")
            published = [CodeTest(**row) for row in rows]
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidProblem(f"its tests cannot be read: {error}") from None
    tests: list[CodeTest] = []
    for number, test in enumerate(published):
        try:
            if fault := _fault(test) or ("its output is missing" if test.call and "output" not in rows[number] else ""):
                raise ValueError(fault)
            with long_integers():
                tests += [test] if test.check is None else [CodeTest(**read) for read in read_check(test.check)]
        except ValueError as error:
            raise InvalidProblem(f"test {number}: {error}") from None
    if not tests:
        raise InvalidProblem("it has no tests")
    return tests


def _fault(test: CodeTest) -> str:
    call = test.call
    if test.check is not None:
        return "" if isinstance(test.check, str) else "its check is not text"
    if call is None:
        if not isinstance(test.arguments, list | tuple) or not all(isinstance(text, str) for text in test.arguments):
            return "its arguments are not a list of texts"
        if len(json.dumps(test.arguments)) > MOST_ARGUMENTS:
            return f"its arguments are longer than {MOST_ARGUMENTS} characters"
        texts = isinstance(test.input or "", str) and isinstance(test.output, str)
        return "" if texts else "its input or its output is not text"
    if not isinstance(call, dict) or not call.keys() <= {"args", "kwargs"}:
        return 'its call is not {"args": [...], "kwargs": {...}}'
    valid = isinstance(call.get("args", []), list) and isinstance(call.get("kwargs", {}), dict)
    return "" if valid else "its args are not a list, or its kwargs not an object"


def _check_number(name: str, value: Any, most: float) -> None:
    if value is not None and not (is_number(value) and 0 <= value <= most):
        is_short = isinstance(value, float | bool) or (isinstance(value, int) and abs(value) < 1e9)
        shown = value if is_short else short(value) if isinstance(value, str) else f"of type {type(value).__name__}"
        raise InvalidProblem(f"its {name} is {shown}: it must be a number from 0 to {most:,.0f}, or null")


def request_of(test: CodeTest, comparison: Comparison = Comparison()) -> Request:
    """The request for a test that is not a check."""
    if test.call is not None:
        args, kwargs = test.call.get("args", []), test.call.get("kwargs", {})
        return {"kind": "call", "args": args, "kwargs": kwargs, "exact": test.exact, "untuple": comparison.by_equality}
    return {"kind": "stdin", "input": test.input or ""}
