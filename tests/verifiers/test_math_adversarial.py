r"""Answers written to hang, to exhaust memory or to break the reader: each is decided in time, and nothing is left.

With gmpy2 installed sympy computes in C, where no signal interrupts it; the tests hold with and without.
"""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from verifiers.math_equivalence import verify_math, verify_math_quickly, verify_math_symbolically
from verifiers.outcome import Outcome
from verifiers.symbolic import CPU_LIMIT_S, MEMORY_BYTES, Symbolic, SymbolicTimeout

SYMBOLS = "abcdefghijklmnopqrstuvwxyz"
DETERMINANT = " \\\\ ".join(" & ".join(f"{SYMBOLS[row]}_{column}" for column in range(9)) for row in range(9))
ATTACKS = {
    "a tower": "9^{9^{9^{9}}}",
    "a tower in brackets": "(((10^{10})^{10})^{10})^{10^{10}}",
    "a negative tower": "2^{-2^{2^{2^{2}}}}",
    "a power of powers": "(10^{4096})^{4096}",
    "a huge factorial": "(10^{10})!",
    "a large factorial": "1000000!",
    "factorials of factorials": "(((9!)!)!)!",
    "a factorial in a sum": "(9999+9999)!",
    "a huge binomial": "\\binom{1000000000}{500000000}",
    "a binomial of powers": "\\binom{10^{9}}{10^{8}}",
    "a binomial of factorials": "\\binom{999!}{500!}",
    "400 brackets": "(" * 400 + "5" + ")" * 400,
    "400 braces": "{" * 400 + "6" + "}" * 400,
    "400 roots": "\\sqrt{" * 400 + "5" + "}" * 400,
    "20 roots": "\\sqrt{2+" * 20 + "5" + "}" * 20,
    "25 fractions": "\\frac{1}{1+" * 25 + "x" + "}" * 25,
    "nested sets": "\\{" * 200 + "1" + "\\}" * 200,
    "nested tuples": "(1," * 100 + "2" + ")" * 100,
    "branching tuples": "((((((1,2),(1,2)),((1,2),(1,2))),(((1,2),(1,2)),((1,2),(1,2)))),(1,2)),(1,2))",
    "a symbolic determinant": f"\\begin{{vmatrix}} {DETERMINANT} \\end{{vmatrix}}",
    "a huge sum": "\\sum_{k=1}^{1000000000} \\frac{1}{k}",
    "a huge product": "\\prod_{k=1}^{100000}(x+k)",
    "an expansion": "(a+b+c+d+f+g)^{400}",
    "many expansions": "+".join(f"(x+y+z+{k})^{{99}}" for k in range(20)),
    "a hard integral": "\\int_0^1 x^{x^{x}} dx",
    "a gcd": "\\gcd(10^{1000000}, 6)",
    "a remainder": "7^{7^{7^{7}}} \\bmod 10",
    "digits": "9" * 2000,
    "digits in an exponent": "2^{" + "9" * 1500 + "}",
    "a megabyte": "1+" * 500_000 + "1",
    "a megabyte of braces": "{" * 500_000 + "}" * 500_000,
    "a megabyte of commas": "1," * 500_000 + "1",
    "60 irrational members": ",".join(f"\\sqrt{{{k}}}+\\sqrt{{{k + 1}}}" for k in range(2, 62)),
    "trigonometry of nothing small": "\\sin(10^{4000})+\\tan(10^{3999})",
    "nested functions": "\\sin(" * 25 + "x" + ")" * 25,
    "logarithms": "\\log(" * 25 + "10^{4000}" + ")" * 25,
    "a near miss": "\\sqrt{1000000000000000000000000000000000000001}-\\sqrt{1000000000000000000000000000000000000000}",
    "a root of high index": "\\sqrt[1000000]{2}",
    "control characters": "5\x00\x01\x1b[31m",
    "lone surrogates": "\ud800\udfff",
    "right to left": "\u202e5\u202c",
    "full width": "\uff15\uff0b\uff11",
    "combining marks": "5" + "\u0301" * 500,
}
REFERENCES = [
    "5",
    "\\sqrt{2}+x",
    "\\begin{pmatrix} x & 1 \\\\ 2 & \\sqrt{3} \\end{pmatrix}",
    "1, \\sqrt{2}, \\sqrt{3}, x",
]
WALL_S = 60  # a generous bound for a loaded machine; what is promised is CPU time, checked on the worker's clock


@pytest.fixture(scope="module")
def symbolic():
    worker = Symbolic()
    yield worker
    worker.close()


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_decided_in_time_and_memory(symbolic, name):
    for reference in REFERENCES:
        begin, start = time.monotonic(), time.process_time()
        verdict, answer = verify_math_quickly(f"\\boxed{{{ATTACKS[name]}}}", reference)
        assert time.process_time() - start < 1.0
        if verdict is None:
            verdict = verify_math_symbolically(answer, reference, symbolic)
        assert not verdict.passed and verdict.outcome is not Outcome.INFRA_ERROR, verdict
        assert time.monotonic() - begin < WALL_S
        json.dumps([verdict.detail, verdict.extracted])
    assert symbolic.equal("2\\sqrt{2}\\cos x", "\\sqrt{8}\\cos x"), "the worker is there for the next pair"


def test_no_attack_passes_as_its_neighbour(symbolic):
    """Attacks against one another: still no exception, and no pass between two that were meant to differ."""
    for one, other in [
        ("a tower", "a negative tower"),
        ("400 brackets", "nested sets"),
        ("an expansion", "a megabyte"),
    ]:
        verdict, answer = verify_math_quickly(f"\\boxed{{{ATTACKS[other]}}}", ATTACKS[one])
        verdict = verdict or verify_math_symbolically(answer, ATTACKS[one], symbolic)
        assert not verdict.passed


def test_whatever_reaches_the_worker_ends_with_its_budget():
    """Past the cost check: the worker itself is killed by its clock, and its memory is limited by the kernel."""
    worker = Symbolic()
    try:
        for hopeless in ("(10^{9})!", "\\binom{1000000000}{500000000}", "(a+b+c+d+f)^{900}-1", "9^{9^{9}}"):
            start = time.monotonic()
            try:
                assert worker.equal("5", hopeless) is False
            except SymbolicTimeout as timeout:
                assert f"{CPU_LIMIT_S:g} s" in str(timeout) or "out of memory" in str(timeout)
            assert time.monotonic() - start < WALL_S
        assert worker.equal("\\sqrt{8}", "2\\sqrt{2}")
        status = Path(f"/proc/{worker._process.pid}/status").read_text()
        peak = next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmPeak"))
        assert peak < MEMORY_BYTES + (1 << 20) < 1 << 30
    finally:
        worker.close()


def test_a_pair_of_many_parts_has_one_budget():
    worker = Symbolic()
    slow = ",".join(f"(a+b+c+d+{k})^{{90}}" for k in range(8))
    other = ",".join(f"(d+c+b+a+{k})^{{90}}\\cos x" for k in range(8))
    try:
        begin = time.monotonic()
        verdict = verify_math_symbolically(other, slow, worker)
        assert verdict.outcome in (Outcome.FAILED, Outcome.TIMEOUT)
        assert time.monotonic() - begin < WALL_S
    finally:
        worker.close()


def test_in_threads_with_attacks_among_them():
    problems = [("\\sqrt{8}", "2\\sqrt{2}", True), ("\\cos x", "\\sin x", False), ("5", "(10^{10})!", False)]
    problems.append(("\\cos 2x", "1-2\\sin^2 x", True))
    wrong: list[str] = []

    def work(offset: int) -> None:
        for turn in range(8):
            reference, answer, same = problems[(turn + offset) % len(problems)]
            verdict = verify_math(f"\\boxed{{{answer}}}", reference)
            if verdict.passed is not same:
                wrong.append(str(verdict))

    threads = [threading.Thread(target=work, args=(offset,)) for offset in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_no_process_is_left_after_attacks_and_an_abrupt_end():
    root = str(Path(__file__).resolve().parents[2])
    script = f"""
import os, sys; sys.path.insert(0, {root!r})
from verifiers.math_equivalence import _shared_symbolic, verify_math
verify_math("\\\\boxed{{\\\\cos 2x}}", "1-2\\\\sin^2 x")
print(_shared_symbolic()._process.pid, flush=True)
os._exit(1)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    worker = int(done.stdout)
    deadline = time.monotonic() + WALL_S
    while time.monotonic() < deadline and _alive(worker):
        time.sleep(0.05)
    assert not _alive(worker)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "zombie" not in Path(f"/proc/{pid}/status").read_text()


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("\\frac{1}{2", "does not verify against itself"),
        ("1}{2", "does not verify against itself"),
        ("3 <think>", "does not verify against itself"),
        ("9" * 5000, "longer than"),
        ("...", "neither a number nor a word"),
    ],
)
def test_a_reference_that_cannot_be_verified_says_why(reference, reason):
    verdict = verify_math("\\boxed{4}", reference)
    assert (verdict.outcome, verdict.decided_by) == (Outcome.UNPARSEABLE, "reference")
    assert reason in verdict.detail


@pytest.mark.parametrize(
    "text", ["\x00", "5\x00", "\ud800", "\\frac{\ud800}{2}", b"\xff\xfe5".decode("latin-1"), "\x7f"]
)
def test_odd_characters_on_either_side_are_an_outcome(text):
    for reference, answer in ((text, "5"), ("5", text), ("\\cos x", text), (text, "\\cos x")):
        verdict = verify_math(f"\\boxed{{{answer}}}", reference)
        assert verdict.outcome in (Outcome.FAILED, Outcome.UNPARSEABLE, Outcome.TIMEOUT)
    assert verify_math("\\boxed{5}", "5").passed
