"""Register the last checkpoint of a run as a version of the recipe's model, and decide whether it is the best."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ratchet.data_curation.base.draft import Draft
from ratchet.infra.recipe.recipe import Gate
from ratchet.infra.store.artifacts import Artifact, ArtifactStore
from ratchet.infra.store.manifest import GateManifest, GateResult
from ratchet.tasks.run_context import RunContext
from ratchet.tasks.step import Step, run_step

GATE = Step("gate", 2, "gate")


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
    best = _best_before(run.store, run.recipe.name, evaluation)

    def make(draft: Draft[GateResult]) -> None:
        from ratchet.evaluation.report import read_scores

        read = [read_scores(artifact.name, artifact.path).scores for artifact in (evaluation, best) if artifact]
        checks = _checks(gate, read[0], read[1] if best else None)
        (draft.path / "gate.json").write_text(json.dumps(checks, indent=1))
        failed = [check["says"] for check in checks if not check["passed"]]
        draft.result.passed = not failed
        reasons = "; ".join(failed or [check["says"] for check in checks])
        draft.result.headline = f"{'not passed' if failed else 'passed'}: {reasons}"
        draft.result.metrics = {"passed": float(not failed)}
        draft.result.shown = ["gate.json"]

    inputs = [evaluation, *([best] if best else [])]
    return run_step(run, GATE, run.recipe.name, parameters={"gate": gate}, inputs=inputs, make=make)


def _best_before(store: ArtifactStore, name: str, evaluation: Artifact) -> Artifact | None:
    """The last other evaluation that passed."""
    for verdict in reversed(list(store.all(f"gate/{name}-*"))):
        passed = store.parents(verdict)[0]
        if verdict.name == name and GateManifest.of(verdict).passed and passed.key != evaluation.key:
            return passed if passed.finished else None
    return None


def _checks(gate: Gate, scores: Mapping[str, Any], best: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Each check as a sentence, `says`, and whether it `passed`."""
    from ratchet.evaluation.comparison import paired_difference, setting_differences

    reached = scores["benchmarks"][gate.benchmark]["pass_at"]["1"]["value"]
    floor = f"{gate.benchmark} pass@1 {reached:.3f}, at least {gate.at_least:g}"
    checks = [{"says": floor, "passed": reached >= gate.at_least}]
    if best is None:
        return [*checks, {"says": "no best before", "passed": True}]
    if different := setting_differences(best, scores):
        other = f"the best was evaluated with other settings: {'; '.join(different)}"
        return [*checks, {"says": other, "passed": False}]
    if gate.benchmark not in best["benchmarks"]:
        return [*checks, {"says": f"the best was not evaluated on {gate.benchmark}", "passed": False}]
    gain = paired_difference(*(each["benchmarks"][gate.benchmark]["problems"] for each in (best, scores)))
    gained = f"{gate.benchmark} pass@1 {gain.difference:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}] against the best"
    return [*checks, {"says": f"{gained}, more than {gate.gain:g}", "passed": gain.difference > gate.gain}]
