"""The recipes of AceReason and ProRL, where there is no network.

Their numbers are compared with the papers' in tests/test_fidelity.py, and their plans are in golden/plans.txt.
"""

import json
import math

import pytest

from ratchet.flows.pipeline import pipeline
from ratchet.flows.runs import plan_run
from ratchet.infra.inference.models import read_config
from ratchet.infra.recipe import load_recipe
from ratchet.infra.recipe.evaluation import named_path
from ratchet.infra.settings import load_settings
from ratchet.tasks.run_context import missing
from ratchet.training.estimate import estimate
from ratchet.training.machine import parse_machine
from ratchet.training.shape import Shape
from ratchet.verifiers.errors import RatchetError

PARAMETERS = {
    "acereason-1.5b": 1.777e9, "acereason-7b": 7.62e9, "acereason-14b": 14.77e9, "acereason-32b-math": 32.76e9,
}  # fmt: skip
QWEN_1_5B = {
    "vocab_size": 151936, "hidden_size": 1536, "num_hidden_layers": 28, "num_attention_heads": 12,
    "num_key_value_heads": 2, "intermediate_size": 8960, "tie_word_embeddings": False,
}  # fmt: skip


@pytest.fixture(autouse=True)
def no_network(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # where nobody answers
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_shape_of_each_start_model_is_shipped(name):
    shape = Shape.of(read_config(load_recipe(name).model.path).to_dict())
    assert shape.parameters == pytest.approx(PARAMETERS[name], rel=0.001)  # as the Hub counts them


def test_the_puzzle_files_have_96_tasks_and_none_of_those_out_of_distribution(tmp_path):
    """Arithmetic does not show what is generated: the files do, with one puzzle of each task and split."""
    pytest.importorskip("reasoning_gym", reason="reasoning-gym is not installed")
    from ratchet.verifiers.logic.generation import make_puzzles

    recipe, tasks = load_recipe("prorl-1.5b"), {}
    for name, changes in (("puzzles", {"train": 1, "test": 1}), ("out-of-distribution", {"test": 1})):
        (tmp_path / name).mkdir()
        make_puzzles(tmp_path / name, recipe.seed, **recipe.generate[name].settings | changes)
        for split in ("train", "test"):
            rows = map(json.loads, (tmp_path / name / f"{split}.jsonl").read_text().splitlines())
            tasks[name, split] = sorted(row["metadata"]["source_dataset"] for row in rows)
    of_each = recipe.generate["puzzles"].settings
    assert len(tasks["puzzles", "train"]) == len({*tasks["puzzles", "train"]}) == 96
    assert tasks["puzzles", "test"] == tasks["puzzles", "train"]
    assert math.isclose(96 * of_each["train"], 37_000, rel_tol=0.01) and 96 * of_each["test"] == 9600
    assert tasks["out-of-distribution", "test"] == ["acre", "boxnet", "game_of_life_halting"]
    assert not tasks["out-of-distribution", "train"]
    assert not {*tasks["out-of-distribution", "test"]} & {*tasks["puzzles", "train"]}


@pytest.mark.parametrize("name", ["prorl-1.5b", "prorl-1.5b-v2"])
@pytest.mark.parametrize("machine", ["32xH100", "128xH100", "8xH100"])
def test_every_stage_fits(name, machine):
    training, given = load_recipe(name).training, parse_machine(machine)
    for stage in training.stages:
        needs = estimate(Shape.of(QWEN_1_5B), stage, training, given)
        assert needs.peak < 0.9 * given.memory and needs.engine.room > needs.longest, stage.name


def test_all_five_domains_are_planned(tmp_path):
    pytest.importorskip("reasoning_gym", reason="reasoning-gym is not installed")
    recipe = load_recipe("prorl-1.5b")
    with plan_run(recipe, load_settings(str(tmp_path))) as run:
        pipeline(run)
        faults = missing(run.plan)
    titles = [step.title for step in run.plan if not step.not_done]
    to_fetch = [title for title in titles if title.startswith("fetch ")]
    given = {named_path(path) for of in recipe.curation.values() for path in (*of.inputs, *of.benchmarks)}
    given |= {benchmark.path for benchmark in recipe.evaluation.benchmarks}
    assert sorted(to_fetch) == sorted(f"fetch {path}" for path in given if not path.startswith("generated://"))
    curated = [f"curated {domain}" for domain in recipe.curation]
    assert [title for title in titles if title.startswith("curated")] == curated and len(curated) == 5
    assert sum("files are not downloaded yet" in fault for fault in faults) == 1
    read = {step.title: {artifact.name for artifact in step.inputs} for step in run.plan}
    assert read[f"train {recipe.training.stages[-1].name}"] >= {f"{domain}-curated" for domain in recipe.curation}


def test_a_run_is_refused_where_its_files_cannot_be_fetched(tmp_path, monkeypatch):
    from ratchet.tasks import inputs

    recipe = load_recipe("prorl-1.5b")
    with plan_run(recipe, load_settings(str(tmp_path))) as run:
        [absent] = inputs.given_files(run, ["org/set"])
        assert not absent.key_known and [step.output for step in run.plan] == [absent]
        monkeypatch.setattr(type(run), "planning", False)
        with pytest.raises(RatchetError, match="org/set: no such file here, and the Hub does not provide it"):
            inputs.given_files(run, ["org/set"])
