"""The judge against plain Python, pair by pair: the check's module, the program and `check(f)` in one namespace.

A row of check_pairs.jsonl is a check, and programs for it. What plain Python says of every pair, the judge has to say
too; where a row is `forged`, plain Python is deceived, and the judge must not be.
"""

import json
import subprocess
import sys

from ratchet.verifiers.code.judge import judge
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.problem import Problem
from tests.verifiers.programs import rows

ROWS = rows("check_pairs")
PLAIN = """
import json, os, sys
from collections import *
for source in json.load(sys.stdin):
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            exec(source, {"__name__": "solution"})
            os._exit(0)
        except BaseException:
            os._exit(1)
    print(int(os.waitpid(child, 0)[1] == 0))
"""


def check_of(statements):
    own = [f"    {line}" for line in statements.split("\n")]
    return "\n".join(["def check(candidate):", *own])


def pairs_of(forged):
    return [
        (row["check"], program) for row in ROWS if row.get("forged", False) == forged for program in row["programs"]
    ]


def plain_python(pairs):
    sources = [f"{program}\n{check_of(statements)}\ncheck(f)" for statements, program in pairs]
    asked = subprocess.run([sys.executable, "-c", PLAIN], input=json.dumps(sources), capture_output=True, text=True)
    return [line == "1" for line in asked.stdout.split()]


def judged(statements, program, sandbox):
    tests = json.dumps([{"check": check_of(statements)}])
    problem = Problem("p", "code", "", tests=tests, entry_point="f", metadata='{"prelude": ""}', time_limit_s=2.0)
    return judge(problem, program, sandbox)


def test_the_judge_says_what_plain_python_says(sandbox):
    pairs = pairs_of(forged=False)
    expected = plain_python(pairs)
    assert len(pairs) == len(expected) >= 150 and 60 < sum(expected) < len(pairs) - 60
    verdicts = [judged(*pair, sandbox) for pair in pairs]
    differ = [(*pair, verdict) for pair, verdict, passes in zip(pairs, verdicts, expected, strict=True)
              if verdict.outcome is not (Outcome.PASSED if passes else Outcome.FAILED)]  # fmt: skip
    assert not differ, "\n\n".join(f"{check}\n{program}\n-> {v.decided_by}: {v.detail}" for check, program, v in differ)


def test_what_deceives_plain_python_is_refused(sandbox):
    pairs = pairs_of(forged=True)
    assert all(plain_python(pairs))
    forged = [pair for pair in pairs if judged(*pair, sandbox).outcome is not Outcome.FAILED]
    assert not forged
