"""No test asserts seconds: what takes a tenth of one here takes two on a slow or busy machine.

Work is counted or compared with itself (`tests/work.py`), all waits have one patience (`tests/waiting.py`), and pytest
ends a test that hangs (`faulthandler_timeout`). So no test needs a clock.
"""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
CLOCKS = {"monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime", "getrusage", "timeit"}
TIME_OF_DAY = {"time", "time_ns", "now", "utcnow"}
ALLOWED = {
    "waiting.py": "the patience of all waits",
    "work.py": "growth: CPU time against CPU time of as much work",
    "infra/misbehaving_endpoint.py": "a client waits no shorter than it must, and may wait longer",
    "data_curation/rules/labeled.py": "its command prints rows per CPU second; no test calls that",
    "verifiers/math_attacks.py": "memory, which only getrusage knows of children",
}


def clocks(source: str) -> list[str]:
    """Each use of a clock that measures, and of the time of day where it is compared."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if _name(node).removesuffix("_ns") in CLOCKS:
            found.append(f"line {node.lineno}: {_name(node)}")
        elif isinstance(node, ast.Compare):
            called = [part.func for part in ast.walk(node) if isinstance(part, ast.Call)]
            times = [_name(each) for each in called if isinstance(each, ast.Attribute) and each.attr in TIME_OF_DAY]
            found += [f"line {node.lineno}: {name}" for name in times]
    return found


def _name(node: ast.AST) -> str:
    """Of a name, an attribute or what is imported."""
    return next((getattr(node, kind) for kind in ("attr", "id", "name") if isinstance(getattr(node, kind, 0), str)), "")


@pytest.mark.parametrize(
    "source",
    [
        "start = time.monotonic()\nwork()\nassert time.monotonic() - start < 2",
        "from time import process_time as now\nassert work() and now() < 1",
        "deadline = time.perf_counter_ns() + 5\nwhile not ready() and time.perf_counter_ns() < deadline: pass",
        "assert time.time() - begun < 60",
        "assert datetime.now() < later",
        "assert timeit(work, number=1) < 1",
    ],
)
def test_a_clock_is_found(source):
    assert clocks(source)


def test_no_test_reads_a_clock():
    files = {path.relative_to(TESTS).as_posix(): path.read_text() for path in TESTS.rglob("*.py")}
    found = {name: uses for name, text in files.items() if (uses := clocks(text))}
    assert len(files) > 200
    assert {name: uses for name, uses in found.items() if name not in ALLOWED} == {}, (
        "count calls or compare work with itself (tests/work.py); wait with happens() (tests/waiting.py)"
    )
    assert ALLOWED.keys() <= found.keys(), "no longer needed"
