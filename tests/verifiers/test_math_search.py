"""The searches that run whole every night, small: no constant answers different questions, no change passes without a
reason."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def searched(*command: str) -> str:
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_no_constant_is_right_for_different_references():
    size = ("--most", "120", "--words", "150", "--strings", "60", "--steps", "2")
    assert "120 references" in searched("benchmarks.math_constants", *size)


def test_small_changes_pass_only_with_a_reason():
    output = searched("benchmarks.math_mutations", "--most", "120")
    said = re.match(r"120 references, (\d+) kinds, ([\d,]+) mutations\n120 questions, 11 kinds, ([\d,]+) quot", output)
    assert said and int(said[1]) >= 25
    assert int(said[2].replace(",", "")) > 700 and int(said[3].replace(",", "")) > 5000
