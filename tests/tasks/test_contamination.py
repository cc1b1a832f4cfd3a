import json

import pytest

from ratchet.data_curation.settings.curation import Decontamination
from ratchet.flows.runs import open_run, plan_run
from ratchet.flows.train import train
from ratchet.infra.recipe.load import load_recipe
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.settings import load_settings
from ratchet.infra.store.artifacts import Artifact, ArtifactStore, artifact_key
from ratchet.tasks.contamination import (
    contaminated_items,
    contamination,
    flagged_items,
    same_items,
    settings_for_scores,
)
from ratchet.tasks.curation import benchmark_problems
from ratchet.tasks.inputs import given_files
from ratchet.tasks.reporter import ProgressReporter
from ratchet.tasks.traces import own_traces
from ratchet.verifiers.problem import problem_id
from tests.data_curation.conftest import problems
from tests.flows.commands import MINI

TRAINS = (
    "Two trains leave Oslo and Bergen at noon, at 60 and 90 kilometers an hour towards each other; when do they meet?"
)
SHEEP = "A farmer has 17 sheep and all but nine of them wander off in the stormy night, so how many are left at home?"
LAMPS = "In how many ways can five red and three blue lamps be hung in a row so that no two blue ones are neighbors?"


def test_items_in_the_training_set_are_flagged_with_the_text_they_share():
    items = problems("math", TRAINS, SHEEP, LAMPS)
    longer, other = f"Warm up. {SHEEP} Explain.", "What is 3 + 4, and what is 5 + 6, in that order?"
    training = problems("math", longer, other, LAMPS.upper())
    flagged, _ = flagged_items(items, [training], Decontamination(preset="coverage"))
    found = {row["problem_id"]: row for row in flagged}
    assert set(found) == {problem_id("math", SHEEP), problem_id("math", LAMPS)}
    sheep = found[problem_id("math", SHEEP)]
    assert sheep["training_row"] == problem_id("math", longer)
    assert "17 sheep" in json.loads(sheep["evidence"])["text"]
    assert flagged_items(items, [training.slice(0, 0)], Decontamination()) == ([], 0)


def test_where_statements_all_resemble_one_another_an_item_is_only_itself():
    items, training = problems("math", TRAINS, SHEEP), problems("math", SHEEP, f"{TRAINS} Explain.")
    (flagged,), _ = same_items(items, [training], Decontamination())
    assert flagged["problem_id"] == flagged["training_row"] == problem_id("math", SHEEP)


def test_boilerplate_is_no_contamination_of_a_score_whatever_the_recipe_says():
    overrides = ["curation.math.decontaminate.preset=paper", "curation.math.decontaminate.released_after=2024-01-01"]
    recipe = load_recipe("tiny", overrides)
    assert recipe.curation["math"].decontaminate.preset == "paper"
    settings = settings_for_scores(recipe.curation_of("math"), "math")
    assert (settings.preset, settings.released_after, bool(settings.ngram)) == ("coverage", None, True)


def test_own_traces_are_compared_with_the_benchmarks_that_are_scored(tmp_path):
    """Also with one that curation does not know."""
    asked = f"{SHEEP}\n\nPlease reason step by step, and put your final answer within \\boxed{{}}."
    for name, rows in (
        ("traces", [{"prompt": asked, "response": "9"}, {"prompt": LAMPS, "response": "6"}]),
        ("scored", [{"problem": SHEEP, "answer": "9"}, {"problem": TRAINS, "answer": "2"}]),
    ):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    start = {"files": [str(tmp_path / "traces.jsonl")], "traces": 2, "batch_size": 2}
    recipe = Recipe.model_validate({"name": "t", "training": {"warm_start": start}, "curation": {"math": {}}})
    with open_run(recipe, load_settings(tmp_path / "home"), "t", ProgressReporter()) as run:
        traces = own_traces(run, recipe.training.warm_start, ["math"])
        scored = benchmark_problems(run, "math", given_files(run, [str(tmp_path / "scored.jsonl")]), {})
        found = contamination(run, [("scored", "math", scored)], [traces])
    assert contaminated_items(found) == {"scored": [problem_id("math", SHEEP)]}
    assert found.manifest.counts["training_rows"] == 2


WITHOUT_STAGES = ("training.stages=[]", "evaluation.after=[start]", "gate=null")
OWN = "training.warm_start={files: {math: [TRACES]}, batch_size: 1}"


@pytest.mark.parametrize(("changed", "started", "training"), [
    ((), False, ["math-curated", "code-curated"]),
    (WITHOUT_STAGES, False, ["math-curated", "code-curated"]),  # of which the teacher's traces are
    ((*WITHOUT_STAGES, OWN), False, ["warm-start"]),
    (("training.stages.1.mix={math: 1}", "evaluation.after=[code-32]"), True, ["math-curated", "earlier-curated"]),
])  # fmt: skip
def test_questions_are_compared_with_what_the_last_checkpoint_has_learned_from(tmp_path, changed, started, training):
    (tmp_path / "t.jsonl").write_text(json.dumps({"prompt": SHEEP, "response": "9"}))
    changed = [one.replace("TRACES", str(tmp_path / "t.jsonl")) for one in changed]
    recipe, settings = load_recipe(MINI, changed), load_settings(tmp_path)
    store, start = ArtifactStore(settings.artifacts), ""
    if started:
        problem = finished(store, "problems", "earlier-curated", "curated", [])
        start = finished(store, "checkpoint", "earlier", "train", [problem]).ref
    with plan_run(recipe, settings) as run:
        train(run, start=start)
    compared = [step.inputs for step in run.plan if step.name == "contamination"]
    assert [read.name for read in compared[0] if "benchmark" not in read.name] == training and len(compared) == 1


def finished(store: ArtifactStore, kind: str, name: str, step: str, inputs: list[Artifact]) -> Artifact:
    target = store.locate(kind, name, artifact_key(step, 1, name, {}, inputs))
    with store.draft(target, resumable=False) as draft:
        (draft.path / "model").mkdir()
        (draft.path / "kept.parquet").touch()
        return store.finish(target, draft, step=step, step_version=1, parameters={}, inputs=inputs, started_at=0.0)
