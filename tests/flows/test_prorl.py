"""The recipes of ProRL: the papers' numbers, and plans of all five domains without a network."""

import json
import math

import pytest

from ratchet.flows.runs import plan_run
from ratchet.infra.recipe import load_recipe
from ratchet.infra.recipe.evaluation import named_path
from ratchet.infra.settings import load_settings
from ratchet.training.estimate import estimate
from ratchet.training.machine import parse_machine
from ratchet.training.shape import Shape
from ratchet.verifiers.errors import RatchetError
from tests.flows.commands import planned

FOUR = {"math": 40, "logic": 37, "science": 25, "code": 24}
FIVE = FOUR | {"instructions": 10}
BLEND = {"aime24", "codeforces", "gpqa-diamond", "ifeval", "graph-color"}
QWEN_1_5B = {
    "vocab_size": 151936, "hidden_size": 1536, "num_hidden_layers": 28, "num_attention_heads": 12,
    "num_key_value_heads": 2, "intermediate_size": 8960, "tie_word_embeddings": False,
}  # fmt: skip


def test_prorl_has_the_numbers_of_the_papers():
    """arXiv 2505.24864, section 3.3 and appendix D; arXiv 2507.12507."""
    recipe = load_recipe("prorl-1.5b")
    stages = recipe.training.stages
    assert recipe.model.path == "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B" and recipe.training.hardware.ranks == 32
    settings = [(s.mix, s.max_response_tokens, s.rollouts, s.unfinished_penalty > 0) for s in stages]
    assert settings == [
        (FOUR, 8096, 16, False), (FOUR, 8096, 16, False), (FIVE, 8096, 16, False), (FIVE, 8096, 16, True),
        (FIVE, 8096, 16, True), (FIVE, 8096, 32, True), (FIVE, 8096, 32, True), (FIVE, 16384, 16, True),
    ]  # fmt: skip
    for stage in stages:
        assert (stage.prompts_per_batch, stage.prompts_per_batch // stage.updates_per_batch) == (256, 64)
        assert (stage.clip_low, stage.clip_high, stage.temperature, stage.learning_rate) == (0.2, 0.4, 1.2, 2e-6)
        assert (stage.kl_coefficient, stage.advanced.kl_estimator, stage.loss) == (1e-4, "k3", "grpo")
        assert set(stage.validation) == BLEND and stage.dynamic_sampling_rounds
        assert (stage.advanced.graded, stage.advanced.total_time_limit_s) == (("code",), 5)
    assert sum(stage.steps for stage in stages) > 2000 and stages[-1].steps == 200
    assert {domain: recipe.curation[domain].inputs for domain in FIVE if domain not in ("logic", "instructions")} == {
        "math": ("agentica-org/DeepScaleR-Preview-Dataset",), "science": ("EricLu/SCP-116K",),
        "code": ("PRIME-RL/Eurus-2-RL-Data",),
    }  # fmt: skip
    asked = recipe.evaluation
    assert (asked.temperature, asked.top_p, asked.max_tokens) == (0.6, 0.95, 32768)
    assert {benchmark.samples for benchmark in asked.benchmarks} == {16}


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


def test_the_second_version_has_what_was_published_of_it():
    """NVIDIA's post on ProRL v2, August 2025."""
    first, second = (load_recipe(name) for name in ("prorl-1.5b", "prorl-1.5b-v2"))
    stages = second.training.stages
    assert sum(stage.steps for stage in stages) == 3000 and {stage.max_response_tokens for stage in stages} == {8192}
    assert [stage.steps for stage in stages if stage.truncation == "soft_overlong"] == [100] * 5
    assert [stage.steps for stage in stages if stage.truncation != "soft_overlong"] == [500] * 5
    for stage in stages:
        assert (stage.advantage, stage.clip_low, stage.clip_high) == ("reinforce_pp_baseline", 0.2, 0.28)
        assert (stage.kl_coefficient, stage.advanced.kl_estimator) == (1e-4, "k2") and stage.mix == FIVE
        every = [change.when.every_steps for change in stage.interventions if change.when.every_steps]
        assert all(200 <= steps <= 500 for steps in every) and stage.dynamic_sampling_rounds
    assert (second.model, second.curation, second.generate) == (first.model, first.curation, first.generate)
    assert second.evaluation.benchmarks == first.evaluation.benchmarks


@pytest.mark.parametrize("name", ["prorl-1.5b", "prorl-1.5b-v2"])
@pytest.mark.parametrize("machine", ["32xH100", "128xH100", "8xH100"])
def test_every_stage_fits(name, machine):
    training, given = load_recipe(name).training, parse_machine(machine)
    for stage in training.stages:
        needs = estimate(Shape.of(QWEN_1_5B), stage, training, given)
        assert needs.peak < 0.9 * given.memory and needs.engine.room > needs.longest, stage.name


@pytest.mark.parametrize("name", ["prorl-1.5b", "prorl-1.5b-v2"])
def test_they_plan_without_a_network(name, tmp_path, monkeypatch):
    pytest.importorskip("reasoning_gym", reason="reasoning-gym is not installed")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # where nobody answers
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    recipe = load_recipe(name)
    plan, titles, faults = planned(recipe, tmp_path)
    to_fetch = [title for title in titles if title.startswith("fetch ")]
    given = {named_path(path) for of in recipe.curation.values() for path in (*of.inputs, *of.benchmarks)}
    given |= {benchmark.path for benchmark in recipe.evaluation.benchmarks}
    assert sorted(to_fetch) == sorted(f"fetch {path}" for path in given if not path.startswith("generated://"))
    assert sum("files are not downloaded yet" in fault for fault in faults) == 1
    read = {step.title: {artifact.name for artifact in step.inputs} for step in plan}
    assert read[f"train {recipe.training.stages[-1].name}"] >= {f"{domain}-curated" for domain in FIVE}


def test_a_run_is_refused_where_its_files_cannot_be_fetched(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    from ratchet.tasks import inputs

    recipe = load_recipe("prorl-1.5b")
    with plan_run(recipe, load_settings(str(tmp_path))) as run:
        [absent] = inputs.given_files(run, ["org/set"])
        assert not absent.key_known and [step.output for step in run.plan] == [absent]
        monkeypatch.setattr(type(run), "planning", False)
        with pytest.raises(RatchetError, match="org/set: no such file here, and the Hub does not provide it"):
            inputs.given_files(run, ["org/set"])
