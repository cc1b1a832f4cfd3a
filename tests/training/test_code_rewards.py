"""What a program earns where a stage pays the share of the tests that pass, as ProRL does: real programs, judged."""

import json

import pytest

from ratchet.training.groups import reward
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.local_pool import VerifierPool
from ratchet.verifiers.submission import JudgeSettings
from tests.training.batch import rollout, stage

PRORL = stage(domain="code", graded=("code",), total_time_limit_s=1.0)
CALLS = [{"call": {"args": [number]}, "output": 2 * number} for number in range(1, 5)]
LINES = [{"input": f"{number}\n", "output": f"{2 * number}\n"} for number in range(1, 5)]
CHECKS = [{"check": f"def check(f):\n    assert f({number}) in [{2 * number}]"} for number in range(1, 5)]

PROGRAMS = {
    "all": ("", "2 * x", 1.0, Outcome.PASSED),
    "three of four": ("", "2 * x if x != 3 else 5", 0.75, Outcome.FAILED),
    "one raises": ("", "2 * x // (x != 1)", 0.75, Outcome.FAILED),
    "no Python": ("", "2 * (", 0.0, Outcome.FAILED),
    # The third is stopped after 1 s in all, the fourth not begun.
    "too slow together": ("import time\n", "time.sleep(9 * (x > 2)) or 2 * x", 0.5, Outcome.TIMEOUT),
}


@pytest.fixture(scope="module")
def pool():
    with VerifierPool(1, JudgeSettings(fraction=True, total_s=PRORL.advanced.total_time_limit_s)) as pool:
        yield pool


@pytest.mark.parametrize("form", ["call", "stdin", "check"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_earns_the_share_of_its_tests(form, name, pool):
    imports, value, earned, outcome = PROGRAMS[name]
    if form == "stdin":
        problem = Problem("p", "code", "", tests=json.dumps(LINES), time_limit_s=20.0)
        program = f"{imports}x = int(input())\nprint({value})"
    else:
        tests = CALLS if form == "call" else CHECKS
        problem = Problem("p", "code", "", tests=json.dumps(tests), entry_point="f", time_limit_s=20.0)
        program = f"{imports}def f(x):\n    return {value}"
    pool.submit(name, problem, f"```python\n{program}\n```")
    [(_, verdict)] = pool.results()
    assert (verdict.outcome, verdict.fraction) == (outcome, earned), verdict
    judged = rollout(0, 0, verdict.outcome, fraction=verdict.fraction, domain="code")
    assert reward(judged, PRORL) == earned
    assert reward(judged, stage(domain="code")) == float(verdict.passed)
