"""When is a checkpoint the best so far?"""

import json
from copy import deepcopy
from pathlib import Path

import pytest

from ratchet.infra.recipe import load_recipe
from ratchet.infra.recipe.recipe import Gate
from ratchet.infra.settings import load_settings
from ratchet.infra.store.artifacts import Artifact, ArtifactStore
from ratchet.tasks.registration import _best_before, _checks
from ratchet.tasks.reporter import ProgressReporter
from ratchet.tasks.run_context import RunContext
from ratchet.verifiers.errors import RatchetError
from tests.flows.commands import MINI


def scores(temperature: float = 1.0, **solved: int) -> dict:
    """Of 40 questions each, with two tries."""
    benchmarks = {}
    for name, right in solved.items():
        problems = {f"q{i}": [2 if i < right else 0, 2] for i in range(40)}
        benchmarks[name] = {"questions": 40, "content_hash": "", "prompt": {}, "problems": problems,
                            "pass_at": {"1": {"value": right / 40}}}  # fmt: skip
    return {"settings": {"sampling": {"temperature": temperature}, "step_version": 1}, "benchmarks": benchmarks}


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


def test_what_a_verdict_says():
    gate, best, after = Gate(benchmark="math"), scores(math=12, code=10), scores(math=24, code=10)
    changed = deepcopy(best)
    changed["benchmarks"]["code"]["prompt"] = {"code": "another benchmark's may change"}
    assert _checks(gate, after, changed) == _checks(gate, after, best)
    assert _checks(gate, after, best)[1]["says"].startswith("math pass@1 +0.300 [+0.1")
    after["benchmarks"]["math"]["clusters"] = {f"q{i}": f"contest {i // 10}" for i in range(40)}
    assert _checks(gate, after, best)[1]["says"].startswith("math pass@1 +0.300 [−")

    best["settings"]["step_version"] = 0
    said = _checks(gate, after, best, "checkpoint/math-60-0123456789ab")[1]["says"]
    assert "which judges: 0 and 1" in said and "RECIPE --model checkpoint/math-60-0123456789ab)" in said

    after["benchmarks"]["math"]["pass_at"]["1"]["value"] = None
    assert _checks(gate, after, best) == [{"says": "math has no judged response", "passed": False}]


def made(store: ArtifactStore, kind: str, name: str, inputs: list[Artifact], content: object, **result) -> Artifact:
    number = len(list(store.all()))
    target = store.locate(kind, name, f"{number:064x}"[::-1])
    with store.draft(target, resumable=False) as draft:
        (draft.path / "model").mkdir()
        file = {"checkpoint": "model/weights", "evaluation": "scores.json"}.get(kind, "gate.json")
        (draft.path / file).write_text(json.dumps(content))
        for field, value in result.items():
            setattr(draft.result, field, value)
        return store.finish(target, draft, step=kind, step_version=1, parameters={}, inputs=inputs, started_at=number)


def test_the_best_is_another_model_by_an_evaluation_that_can_be_compared(tmp_path: Path):
    settings, gate, recipe = load_settings(tmp_path), Gate(benchmark="math"), load_recipe(MINI)
    store = ArtifactStore(settings.artifacts)
    run = RunContext(recipe, (), settings, store, ProgressReporter(), None)
    first, last = (made(store, "checkpoint", name, [], name) for name in ("first", "last"))
    old = scores(math=20)
    old["settings"]["step_version"] = 0
    before = made(store, "evaluation", "first", [first], old)
    made(store, "gate", recipe.name, [before], [], passed=True)
    now = made(store, "evaluation", "last", [last], scores(math=21))
    assert _best_before(run, gate, now) == before
    assert _best_before(run, gate, before) is None
    made(store, "evaluation", "first", [first], scores(0.6, math=22))
    again = made(store, "evaluation", "first", [first], scores(math=19))
    made(store, "evaluation", "first", [first], scores(code=1))
    assert _best_before(run, gate, now) == again

    made(store, "gate", recipe.name, [now, again], [], passed=True)
    judged_again = made(store, "evaluation", "last", [last], scores(math=23))
    assert _best_before(run, gate, judged_again) == again, "not the same model"


def test_a_gate_that_nothing_can_pass_is_refused():
    with pytest.raises(RatchetError, match=r"gate\.benchmark names 'aime'; known: mini-math, mini-code"):
        load_recipe(MINI, ["gate.benchmark=aime"])
    with pytest.raises(RatchetError, match=r"evaluation\.after does not name code-32, which ends the training"):
        load_recipe(MINI, ["evaluation.after=[start]"])
