# ruff: noqa: E501
"""What a program has written when it ends is its output: as CPython flushes at exit."""

import json
import subprocess
import sys

import pytest

from ratchet.verifiers.code.judge import examine, judge
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.submission import EVERY_TEST

INPUTS = ("1\n", "22\n", "3\n", "44\n")
ECHO = Problem(
    "p", "code", "", tests=json.dumps([{"input": text, "output": text} for text in INPUTS]), time_limit_s=2.0
)


FLUSHED = {
    "a file": "out = open(1, 'w')\nprint(input(), file=out)",
    "a file in a list": "outs = [open(1, 'w')]\nouts[0].write(input() + '\\n')",
    "a descriptor": "import os\nout = os.fdopen(1, 'w')\nout.write(input() + '\\n')",
    "another descriptor": "import os\nout = os.fdopen(os.dup(1), 'wb')\nout.write(input().encode())",
    "a buffered writer": "import io, sys\nout = io.BufferedWriter(io.FileIO(1, 'w', closefd=False), 1 << 16)\nout.write(input().encode())",
    "a text in place of stdout": "import io, os, sys\nsys.stdout = io.TextIOWrapper(open(1, 'wb', closefd=False))\nprint(input())",
    "another stdout, kept": "import sys\nold = sys.stdout\nsys.stdout = open(1, 'w')\nprint(input())",
    "print replaced": "import functools\nprint = functools.partial(print, file=open(1, 'w'))\nprint(input())",
    "a writer of its own": "import sys\nclass Out:\n    def __init__(s): s.parts = []\n    def __del__(s):\n"
    "        sys.stdout.write(''.join(s.parts))\no = Out()\no.parts.append(input())",
    "a writer in a cycle": "import os\nclass Out:\n    def __init__(s): s.me, s.parts = s, []\n    def __del__(s):\n"
    "        os.write(1, ''.join(s.parts).encode())\no = Out()\no.parts.append(input())",
    "a function that refers to itself": "def main():\n    out = open(1, 'w')\n    def again(): return again, out\n"
    "    out.write(input())\n    return again\nkept = main()",
    "at exit": "import atexit, sys\nparts = []\natexit.register(lambda: sys.stdout.write(''.join(parts)))\nparts.append(input())",
    "an exit": "import sys\nout = open(1, 'w')\nout.write(input())\nsys.exit()",
    "an end of its thread": "import threading\ndef run():\n    global out\n    out = open(1, 'w')\n    out.write(input())\n"
    "threading.Thread(target=run).start()",
}  # fmt: skip


@pytest.mark.parametrize("name", FLUSHED)
def test_what_is_not_flushed_is_written_at_exit(name, sandbox):
    verdict, results = examine(ECHO, FLUSHED[name], sandbox, EVERY_TEST)
    assert verdict.passed, (verdict, results)


LOST = {
    "the process is ended": "import os\nout = open(1, 'w')\nout.write(input())\nos._exit(0)",
    "only in memory": "import io\nout = io.StringIO()\nout.write(input())",
    "stdout replaced by a text": "import io, sys\nsys.stdout = io.StringIO()\nprint(input())",
    "never given to it": "class Out:\n    def __init__(s): s.parts = []\no = Out()\no.parts.append(input())",
}


@pytest.mark.parametrize("name", LOST)
def test_what_no_interpreter_writes_is_not_written(name, sandbox):
    verdict, results = examine(ECHO, LOST[name], sandbox, EVERY_TEST)
    assert not verdict.fraction, (verdict, results)


def test_nothing_of_a_test_is_written_in_the_next(sandbox):
    late = "import sys\nclass Late:\n    def __del__(s): print(s.text, end='')\nkept = Late()\nkept.text = input()\nsys.kept = kept"
    verdict, results = examine(ECHO, late, sandbox, EVERY_TEST)
    assert verdict.fraction <= 0.25, (verdict, results)


READERS = {
    "by its path": "print(open('/dev/stdin').read().strip())",
    "by its number": "print(open('/dev/fd/0').readline().strip())",
    "by /proc": "from pathlib import Path\nprint(Path('/proc/self/fd/0').read_text().strip())",
    "by os.open": "import os\nprint(os.read(os.open('/dev/stdin', os.O_RDONLY), 100).decode().strip())",
    "to a path": "open('/dev/stdout', 'w').write(input())",
    "at once": "import os\nprint(os.read(0, 1 << 30).decode().strip())",
    "at once, buffered": "import sys\nprint(sys.stdin.buffer.read(1 << 30).decode().strip())",
    "with a byte order mark": "\ufeffprint(input())",
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("metadata", [None, json.dumps({"prelude": "import math"})])
def test_ways_to_the_standard_streams(name, metadata, sandbox):
    problem = Problem("p", "code", "", tests=ECHO.tests, metadata=metadata, memory_limit_mb=256.0)
    verdict = judge(problem, READERS[name], sandbox)
    assert verdict.passed, verdict


EXITS = {
    "None": 0,
    "0": 0,
    "False": 0,
    "256": 0,
    "-256": 0,
    "1": 1,
    "True": 1,
    "257": 1,
    "-1": 255,
    "0.0": 1,
    "''": 1,
}


@pytest.mark.parametrize(("code", "expected"), EXITS.items())
def test_the_exit_code_decides_as_the_kernel_sees_it(code, expected, sandbox):
    source = f"import sys\nprint(input())\nsys.exit({code})"
    assert judge(ECHO, source, sandbox).passed is (expected == 0)
    done = subprocess.run([sys.executable, "-c", source], input="1\n", text=True, capture_output=True, check=False)
    assert done.returncode == expected


POOLS = {
    "a pool that is not shut down": "from concurrent.futures import ThreadPoolExecutor\n"
    "pool = ThreadPoolExecutor(4)\npool.submit(lambda text: print(text), input())",
    "a pool and a timer": "import threading\nfrom concurrent.futures import ThreadPoolExecutor\n"
    "list(ThreadPoolExecutor(2).map(int, '12'))\nthreading.Timer(0.01, print, (input(),)).start()",
    "a generator that is not closed": "def lines():\n    try: yield 1\n    finally: print(text)\n"
    "text = input()\nopened = lines()\nnext(opened)",
    "no stdout at the end": "import sys\nprint(input())\ndel sys.stdout",
}


@pytest.mark.parametrize("name", POOLS)
def test_what_a_program_leaves_behind_ends_as_at_exit(name, sandbox):
    verdict, results = examine(ECHO, POOLS[name], sandbox, EVERY_TEST)
    assert verdict.passed, (verdict, results)


def test_calls_may_keep_a_pool_between_them(sandbox):
    tests = json.dumps([{"call": {"args": [n]}, "output": n * n, "exact": True} for n in range(4)])
    problem = Problem("c", "code", "", entry_point="f", tests=tests, time_limit_s=2.0)
    source = "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(2)\n"
    source += "def f(x): return list(pool.map(lambda v: v * v, [x]))[0]"
    assert judge(problem, source, sandbox, EVERY_TEST).passed
