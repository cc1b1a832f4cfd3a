"""Register the last checkpoint of a run as a version of the recipe's model, and decide whether it is the best."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ratchet.data_curation.base.draft import Draft
from ratchet.infra.recipe.recipe import Gate
from ratchet.infra.store.artifacts import Artifact
from ratchet.infra.store.manifest import GateManifest, GateResult
from ratchet.tasks.run_context import RunContext
from ratchet.tasks.step import Step, run_step

GATE = Step("gate", 3, "gate")


def register(run: RunContext, checkpoint: Artifact, evaluations: Sequence[Artifact]) -> None:
    """Move the alias `candidate` to the checkpoint, and `best` too if it passes the recipe's gate."""
    recipe, gate = run.recipe, run.recipe.gate
    verdict = _pass_gate(run, gate, evaluations[-1]) if gate else None
    if run.tracking is None:
        return
    best = verdict is not None and GateManifest.of(verdict).passed
    score = next((each.summary for each in evaluations if run.made_from(each)[0].key == checkpoint.key), "")
    tags = {
        "ratchet.artifact": checkpoint.ref, "ratchet.seed": str(recipe.seed),
        "ratchet.overrides": run.overrides, "ratchet.score": score,
        "ratchet.gate": verdict.summary if verdict else "",
    }  # fmt: skip
    run.tracking.event(
        "register", run.root, name=recipe.name, model=checkpoint.facts, tags={k: v for k, v in tags.items() if v},
        aliases=["candidate", *(["best"] if best else [])],
    )  # fmt: skip


def _pass_gate(run: RunContext, gate: Gate, evaluation: Artifact) -> Artifact:
    """The verdict, an artifact made from the two evaluations that it compares."""
    best = _best_before(run, gate, evaluation)

    def make(draft: Draft[GateResult]) -> None:
        model = run.store.parents(best)[0].ref if best else ""
        checks = _checks(gate, _scores(evaluation), _scores(best) if best else None, model)
        (draft.path / "gate.json").write_text(json.dumps(checks, indent=1))
        failed = [check["says"] for check in checks if not check["passed"]]
        draft.result.passed = not failed
        reasons = "; ".join(failed or [check["says"] for check in checks])
        draft.result.headline = f"{'not passed' if failed else 'passed'}: {reasons}"
        draft.result.metrics = {"passed": float(not failed)}
        draft.result.shown = ["gate.json"]

    inputs = [evaluation, *([best] if best else [])]
    return run_step(run, GATE, run.recipe.name, parameters={"gate": gate}, inputs=inputs, make=make)


def _best_before(run: RunContext, gate: Gate, evaluation: Artifact) -> Artifact | None:
    """The evaluation with which the last other model passed, or another of that model if only that has the same
    settings."""
    store, name, own = run.store, run.recipe.name, run.made_from(evaluation)[0].content()
    verdicts = [verdict for verdict in store.all(f"gate/{name}-*") if verdict.name == name]
    passed = [store.parents(verdict)[0] for verdict in verdicts if GateManifest.of(verdict).passed]
    others = [other for other in passed if other.finished and _model(other) != own]
    if not others or not evaluation.finished:  # in a plan
        return others[-1] if others else None
    again = [other for other in store.all("evaluation/*") if _model(other) == _model(others[-1])]
    scores, candidates = _scores(evaluation), (others[-1], *reversed(again))
    return next((each for each in candidates if not _not_comparable(gate, _scores(each), scores)), others[-1])


def _model(evaluation: Artifact) -> str:
    """The content of the model; known also if its weights are deleted."""
    return evaluation.manifest.inputs[0].get("content", "")


def _scores(evaluation: Artifact) -> Mapping[str, Any]:
    from ratchet.evaluation.report import read_scores

    return read_scores(evaluation.name, evaluation.path).scores


def _not_comparable(gate: Gate, best: Mapping[str, Any], scores: Mapping[str, Any]) -> str:
    """Why the best has no score on the gate's benchmark to compare with; "" if it has."""
    from ratchet.evaluation.comparison import setting_differences

    if gate.benchmark not in best["benchmarks"]:
        return f"the best was not evaluated on {gate.benchmark}"
    sides = ({**each, "benchmarks": {gate.benchmark: each["benchmarks"][gate.benchmark]}} for each in (best, scores))
    different = setting_differences(*sides)
    return f"the best was evaluated with other settings: {'; '.join(different)}" if different else ""


def _checks(
    gate: Gate, scores: Mapping[str, Any], best: Mapping[str, Any] | None, model: str = ""
) -> list[dict[str, Any]]:
    """Each check as a sentence, `says`, and whether it `passed`; `model` is the best."""
    from ratchet.evaluation.comparison import paired_difference
    from ratchet.evaluation.tables import change

    reached = scores["benchmarks"][gate.benchmark]["pass_at"]["1"]["value"]
    if reached is None:
        return [{"says": f"{gate.benchmark} has no judged response", "passed": False}]
    floor = f"{gate.benchmark} pass@1 {reached:.3f}, at least {gate.at_least:g}"
    checks = [{"says": floor, "passed": reached >= gate.at_least}]
    if best is None:
        return [*checks, {"says": "no best before", "passed": True}]
    if reason := _not_comparable(gate, best, scores):
        advice = f"evaluate it with this recipe (ratchet evaluate RECIPE --model {model}) and run again"
        return [*checks, {"says": f"{reason}; {advice}", "passed": False}]
    before, after = (each["benchmarks"][gate.benchmark] for each in (best, scores))
    gain = paired_difference(before["problems"], after["problems"], clusters=after.get("clusters"))
    gained = f"{gate.benchmark} pass@1 {change(gain)} against the best, more than {gate.gain:g}"
    return [*checks, {"says": gained, "passed": gain.difference > gate.gain}]
