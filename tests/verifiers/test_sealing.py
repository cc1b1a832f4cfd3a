"""A program searches all the memory it can read for what it must not know: what its tests expect, and other programs.

Every field of every job holds a canary of its own; a program may find those of its own source, prelude and inputs.
"""

import json
import re
import secrets

import pytest

from ratchet.verifiers.code.judge import judge
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.sandbox.server import Sandbox

# By the list of what is mapped, where there is a /proc. Else page by page, as an attacker has to who sees none: a page
# that is not mapped cannot be written to a pipe.
SEARCH = """
import ctypes, os, re
WANTED = re.compile(b"CANARY" + b"-[0-9a-f]{12}")

def regions():
    try:
        lines = open("/proc/self/maps").read().splitlines()
    except OSError:
        libc = ctypes.CDLL(None)
        libc.sbrk.restype = ctypes.c_void_p
        top = libc.sbrk(0)
        yield from pages(top - (64 << 20), top)
        near = sorted({id(thing) >> 27 for thing in (object(), [0] * 9, bytes(99), {}, re, ctypes, print, regions)})
        for number in near:
            yield from pages((number << 27) - (16 << 20), (number + 1) << 27)
        return
    for line in lines:
        begin, end = (int(part, 16) for part in line.split()[0].split("-"))
        if line.split()[1][0] == "r" and "[v" not in line:
            yield ctypes.string_at(begin, end - begin)

def pages(begin, end):
    reading, writing = os.pipe()
    write = ctypes.CDLL(None).write
    write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
    for page in range(begin & -4096, end, 4096):
        if write(writing, page, 4096) == 4096:
            yield os.read(reading, 4096)

def found():
    seen = set()
    for region in regions():
        seen |= set(WANTED.findall(region))
    return seen
"""


class Planted:
    """Canaries, by what they were planted in."""

    def __init__(self):
        self.names = {}

    def __call__(self, name):
        canary = "CANARY-" + secrets.token_hex(6)
        self.names[canary] = name
        return canary


def problem_of(kind, number, plant):
    """One problem, with a canary in everything that a program is to know, and in everything it is not."""
    prelude = json.dumps({"prelude": f"NOTE = '{plant(f'{number}: prelude')}'"})
    secret = plant(f"{number}: SECRET")
    if kind == "stdin":
        tests = [{"input": plant(f"{number}: input"), "output": secret}]
    elif kind == "call":
        tests = [{"call": {"args": [plant(f"{number}: argument")], "kwargs": {}}, "output": secret}]
    else:
        also = plant(f"{number}: SECRET")
        body = (
            f"    'A note: {also}'\n    got = candidate('{plant(f'{number}: argument')}')\n    assert got == '{secret}'"
        )
        tests = [{"check": f"def check(candidate):\n{body}"}]
    entry_point = None if kind == "stdin" else "f"
    return Problem(
        "p", "code", "", tests=json.dumps(tests), entry_point=entry_point, metadata=prelude, time_limit_s=9.0
    )


def program_of(kind, number, plant, search):
    """It prints or returns its own canary, or all it finds, without the prefix that makes it a canary."""
    # A constant, which lives as long as the program. The source itself is freed once it is compiled, and may be gone.
    mark = f"MINE = '{plant(f'{number}: source')}'\n"
    answer = "' '.join(sorted(c[7:].decode() for c in found()))" if search else repr(plant(f"{number}: output"))
    tail = f"print({answer})" if kind == "stdin" else f"def f(x):\n    return {answer}"
    return mark + (SEARCH if search else "") + tail


@pytest.fixture(scope="module", params=["A", "D"])
def sandbox(request):
    """As confined as can be, and not at all: there the whole memory is listed to whoever asks."""
    with Sandbox("D", request.param) as sandbox:
        yield sandbox


def test_no_memory_holds_what_is_expected_or_what_others_wrote(sandbox, monkeypatch):
    shown = "ratchet.verifiers.code.comparison.SHOWN_CHARACTERS", "ratchet.verifiers.sandbox.check_end.SHOWN"
    for name in shown:
        monkeypatch.setattr(name, 1 << 20)
    plant = Planted()
    for number in range(200):
        kind = ("stdin", "call", "check")[number % 3]
        searches = number >= 197  # the last three, after all the others
        last = set(plant.names)
        verdict = judge(problem_of(kind, number, plant), program_of(kind, number, plant, searches), sandbox)
        assert verdict.decided_by == "wrong_answer", verdict
        if searches:
            mine = {canary[7:]: name for canary, name in plant.names.items() if canary not in last}
            found = set(re.findall("[0-9a-f]{12}", verdict.detail))
            assert any("source" in mine.get(token, "") for token in found), "the search finds what is there"
            stolen = {plant.names["CANARY-" + token] for token in found if token not in mine}
            assert not stolen, stolen
            assert not [mine[token] for token in found if "SECRET" in mine[token]]
