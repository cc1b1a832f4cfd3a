r"""Answers written to hang, to exhaust memory or to break the reader: each is decided, and nothing is left."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ratchet.verifiers.math.equivalence import decide, verify_math
from ratchet.verifiers.outcome import Outcome
from tests.verifiers.math_attacks import ATTACKS
from tests.work import within

ROOT = Path(__file__).resolve().parents[2]


def test_every_attack_is_decided_and_nothing_is_left():
    """In a process of its own, whose memory is its own."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.verifiers.math_attacks"], cwd=ROOT, capture_output=True, text=True
    )
    *decisions, summary = map(json.loads, run.stdout.splitlines())
    assert {decision["attack"] for decision in decisions} == set(ATTACKS), run.stderr
    for decision in decisions:
        assert decision["outcome"] in ("failed", "unparseable"), decision
    assert summary["left"] == 0 and summary["memory_mib"] < 256


@pytest.mark.parametrize(
    "piece",
    ["one x", "\\frac apples", " and or", "(1,", "x|x>2 cm", "\\sin\\cos", "A. (B) ", "5 cm ", "\\pm 1,", "-{",
     "\\ne x,", "x=1,y=2;"],
)  # fmt: skip
def test_whatever_is_repeated_costs_little(piece):
    """What is read by trial, level by level, must not try the levels below again and again."""

    def decided(count):
        for answer in (piece * count, piece * count + "5", "5" + piece * count):
            decide("5", answer[:2000])
            decide(answer[:2000], (answer + "x")[-2000:])

    for count in (3, 30, 100):
        within(12_000_000, decided, count)


def test_no_attack_passes_as_its_neighbour():
    """Attacks against one another: still no exception, and no pass between two that were meant to differ."""
    for one, other in [
        ("a tower", "a negative tower"),
        ("400 brackets", "nested sets"),
        ("an expansion", "a megabyte"),
    ]:
        assert not verify_math(f"\\boxed{{{ATTACKS[other]}}}", ATTACKS[one]).passed


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
        assert verdict.outcome in (Outcome.FAILED, Outcome.UNPARSEABLE)
    assert verify_math("\\boxed{5}", "5").passed
