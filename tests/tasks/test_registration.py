"""When is a checkpoint the best so far?"""

import pytest

from ratchet.infra.recipe import load_recipe
from ratchet.infra.recipe.recipe import Gate
from ratchet.tasks.registration import _checks
from ratchet.verifiers.errors import RatchetError
from tests.flows.commands import MINI


def scores(temperature: float = 1.0, **solved: int) -> dict:
    """Of 40 questions each, with two tries."""
    benchmarks = {}
    for name, right in solved.items():
        problems = {f"q{i}": [2 if i < right else 0, 2] for i in range(40)}
        benchmarks[name] = {"questions": 40, "content_hash": "", "prompt": {}, "problems": problems,
                            "pass_at": {"1": {"value": right / 40}}}  # fmt: skip
    return {"settings": {"sampling": {"temperature": temperature}}, "benchmarks": benchmarks}


@pytest.mark.parametrize(
    ("gate", "best", "passes"),
    [
        ({}, None, True),
        ({"at_least": 0.5}, None, True),
        ({"at_least": 0.51}, None, False),
        ({}, scores(math=19, code=10), True),
        ({}, scores(math=20, code=10), False),
        ({"gain": -0.1}, scores(math=22, code=10), True),
        ({"gain": 0.1}, scores(math=17, code=10), False),
        ({}, scores(code=10), False),
        ({}, scores(0.6, math=5, code=10), False),
    ],
)
def test_the_gate_opens_for_what_the_recipe_asks(gate, best, passes):
    checks = _checks(Gate(benchmark="math", **gate), scores(math=20, code=10), best)
    assert all(check["passed"] for check in checks) == passes
    assert checks[0]["says"].startswith("math pass@1 0.500")


def test_a_gate_that_nothing_can_pass_is_refused():
    with pytest.raises(RatchetError, match=r"gate\.benchmark names 'aime'; known: mini-math, mini-code"):
        load_recipe(MINI, ["gate.benchmark=aime"])
    with pytest.raises(RatchetError, match=r"evaluation\.after does not name code-32, which ends the training"):
        load_recipe(MINI, ["evaluation.after=[start]"])
