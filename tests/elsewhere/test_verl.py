"""verl's own classes over what we export."""

import json
import re
import shlex
import subprocess
from collections import Counter

import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.base.problem_table import to_table
from ratchet.data_curation.exports import EXPORTS
from ratchet.infra.recipe import load_recipe
from ratchet.infra.recipe.stage import DifficultyFilter, SequenceImportance, Stage, StageDetails
from ratchet.infra.recipe.training import Lora, Optimizer, Training, TrainingDetails
from ratchet.tasks.verl_runs import TEMPLATES, write_runs
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import Problem
from tests.elsewhere.pairs import pairs, rewards_at_home
from tests.flows.commands import in_process


@pytest.mark.slow
def test_verls_reward_managers_give_the_rewards_of_this_house(peer, exported, tmp_path):
    pytest.importorskip("reasoning_gym", reason="reasoning-gym is not installed")
    made = pairs(tmp_path)
    rewards = rewards_at_home(made)
    file = exported("verl", [problem for problem, _ in made])
    asked = tmp_path / "pairs.jsonl"
    lines = [json.dumps({"row": number, "response": response}) for number, (_, response) in enumerate(made)]
    asked.write_text("\n".join(lines))
    printed = peer("verl", "verl_rewards.py", file, asked)
    assert printed["rows"] == len(made) >= 2000 and printed["manager"] == "NaiveRewardManager"
    assert printed["one"] == rewards
    assert printed["batch"] == pytest.approx(rewards)


@pytest.fixture
def curated(tmp_path):
    """Files of curated problems of every shipped domain, of difficulties from 0 to 7."""
    files = {}
    for domain, count in (("math", 40), ("code", 30), ("science", 6), ("logic", 5), ("instructions", 4)):
        rows = [
            Problem(f"{domain}-{n}", domain, f"Question {n}?", answer="1", tests="[]", metadata="{}", difficulty=n % 8)
            for n in range(count)
        ]
        files[domain] = tmp_path / f"{domain}.parquet"
        pq.write_table(to_table(rows), files[domain])
    return files


STAGES = {"acereason-7b": 6, "prorl-1.5b": 8}


@pytest.mark.parametrize("recipe", STAGES)
def test_a_curriculum_is_written_for_verl(recipe, curated, tmp_path):
    pytest.importorskip("reasoning_gym", reason="reasoning-gym is not installed")
    runs = tmp_path / "runs"
    lines = write_runs(load_recipe(recipe, fit=False), curated, runs)
    stages = sorted(path for path in runs.iterdir() if path.is_dir())
    assert len(stages) == STAGES[recipe] == len(load_recipe(recipe).training.stages)
    assert [line.split(":")[0] for line in lines] == [stage.name for stage in stages]
    assert subprocess.run(["bash", "-n", runs / "run.sh"]).returncode == 0
    assert (runs / "run.sh").read_text().splitlines()[-1] == f'run {stages[-1].name} "$@"'
    for path, stage in zip(stages, load_recipe(recipe).training.stages, strict=True):
        table = pq.read_table(path / "train.parquet")
        domains = Counter(table["ability"].to_pylist())
        shares = {domain: weight / sum(stage.mix.values()) for domain, weight in stage.mix.items()}
        for domain, share in shares.items():
            assert domains[domain] / table.num_rows == pytest.approx(share, abs=0.02)
        known = {row["difficulty"] for row in table["extra_info"].to_pylist()}
        assert max(known) == min(7, 7 if stage.max_difficulty is None else stage.max_difficulty)
        assert f"## {path.name}" in (runs / "README.md").read_text()
    readme = (runs / "README.md").read_text()
    assert "plateau" in readme and ("0.375" in readme) is (recipe == "acereason-7b")


NOT_IN_VERL = {
    "validate_every", "validation_rollouts",  # validation is set up by hand
    "loss_settings", "outside", "tokens", "pass_rate_error",  # parts of what the README names
    "keep_checkpoints", "keep_rollouts", "keep_logprobs", "reward_servers", "max_infra_errors",  # change no weights
}  # fmt: skip


def test_no_setting_of_training_is_forgotten():
    """Each is in a template, or known to change nothing there."""
    text = " ".join(file.read_text() for file in TEMPLATES.iterdir())
    sections = (Stage, StageDetails, DifficultyFilter, SequenceImportance, Training, TrainingDetails, Optimizer, Lora)
    names = {name for section in sections for name in section.model_fields}
    assert {name for name in names if not re.search(rf"\b{name}\b", text)} - {"max_difficulty", "mix"} == NOT_IN_VERL


@pytest.mark.parametrize(("settings", "overrides", "notes"), [
    (["training.stages.0.lr_scheduler_type=cosine"], ["actor.optim.lr_scheduler_type=cosine"], []),
    (["training.stages.0.lr_scheduler_type=linear"], ["actor.optim.lr_scheduler_type=cosine"], ["falls linearly"]),
    (["training.advanced.lora={rank: 8, target: [q_proj, v_proj]}", "training.hardware.zero_stage=2"],
     ["model.lora_rank=8", "model.lora_alpha=32", "model.target_modules=[q_proj,v_proj]"], ["lora_adapter"]),
    (["training.advanced.optimizer.betas=[0.9, 0.98]"], ["actor.optim.betas=[0.9, 0.98]"], []),
    (["training.stages.0.advanced={difficulty_filter: {easy: 0.9, hard: 0, skip_epochs: 2}, tail_batching: 0.5}"], [],
     ["of 0.9 or more, or of 0 or less, for 2 epochs", "Tail batching, 0.5"]),
])  # fmt: skip
def test_a_setting_is_an_override_of_verl_or_said(settings, overrides, notes, curated, tmp_path):
    write_runs(load_recipe("7b-8gpu", settings, fit=False), curated, tmp_path)
    lines = next(tmp_path.glob("01-*/overrides.txt")).read_text().splitlines()
    assert {f"actor_rollout_ref.{line}" for line in overrides} <= {*lines}
    readme = (tmp_path / "README.md").read_text()
    assert [words for words in notes if words not in readme] == []


def test_a_curriculum_whose_problems_are_not_curated_says_so(tmp_path):
    with pytest.raises(RatchetError, match="math problems of acereason-7b are not curated here"):
        in_process("export", "runs", "acereason-7b", "--output", tmp_path / "runs", "--home", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", STAGES)
def test_verl_composes_every_stage(peer, recipe, curated, tmp_path):
    pytest.importorskip("reasoning_gym", reason="reasoning-gym is not installed")
    runs = tmp_path / "runs"
    write_runs(load_recipe(recipe, fit=False), curated, runs)
    printed = peer("verl", "verl_compose.py", *sorted(path for path in runs.iterdir() if path.is_dir()))
    for config, stage in zip(printed.values(), load_recipe(recipe).training.stages, strict=True):
        actor, rollout = config["actor_rollout_ref"]["actor"], config["actor_rollout_ref"]["rollout"]
        assert config["data"]["max_response_length"] == stage.max_response_tokens == rollout["response_length"]
        assert config["data"]["train_batch_size"] == stage.prompts_per_batch
        assert actor["ppo_mini_batch_size"] * stage.updates_per_batch == stage.prompts_per_batch
        first = [v[0] if isinstance(v, tuple) else v for v in (stage.rollouts, stage.temperature)]
        assert [rollout["n"], rollout["temperature"]] == first
        assert (actor["clip_ratio_low"], actor["clip_ratio_high"]) == (stage.clip_low, stage.clip_high)
        assert actor["optim"]["lr"] == stage.learning_rate and actor["use_kl_loss"] is (stage.kl_coefficient > 0)
        assert config["trainer"]["total_training_steps"] == stage.steps
        assert config["algorithm"]["rollout_correction"]["rollout_is_threshold"] == stage.importance_cap
        own = config["reward"]["custom_reward_function"]
        assert own["path"].endswith("adapters.verl")
        assert own["reward_kwargs"]["graded"] == ",".join(stage.advanced.graded)


@pytest.mark.slow
def test_verl_composes_what_the_readme_says(peer, exported, tmp_path):
    usage = EXPORTS["verl"].usage.format(train="t.parquet", validation="v.parquet")
    command = usage.split("main_ppo", 1)[1].replace("\\\n", " ").replace("`", "")
    (tmp_path / "overrides.txt").write_text("\n".join(shlex.split(command)))
    [config] = peer("verl", "verl_compose.py", tmp_path).values()
    assert config["data"]["val_files"] == "v.parquet" and config["algorithm"]["adv_estimator"] == "grpo"
