"""A recipe's curriculum as runs of verl, a directory for each stage: docs/howto/other_trainers.md.

What can be known before training is in the files: the problems that the stage's limits keep, Hydra overrides, a script
that passes each stage's weights on. `by_hand` says the rest.
"""

from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ratchet.data_curation.exports import export_problems
from ratchet.infra.recipe import Recipe
from ratchet.infra.recipe.stage import SequenceImportance, Stage
from ratchet.verifiers.domains import DOMAINS, own_domain_variables
from ratchet.verifiers.errors import RatchetError

ESTIMATORS = {
    "grpo": "grpo", "dr_grpo": "grpo", "rloo": "rloo", "reinforce_pp": "reinforce_plus_plus",
    "reinforce_pp_baseline": "reinforce_plus_plus_baseline",
}  # fmt: skip
LOSSES = {  # verl's loss, and how it sums tokens
    "grpo": ("vanilla", "token-mean"), "dr_grpo": ("vanilla", "seq-mean-token-sum-norm"),
    "gspo": ("gspo", "seq-mean-token-mean"), "cispo": ("cispo", "token-mean"),
}  # fmt: skip
MAX_PROMPT_TOKENS = 4096
_SCRIPT = """#!/usr/bin/env bash
# Trains stage after stage, each from the weights of the one before; a stage that has a model is not run again.
# Arguments are further overrides of every stage.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
%s
model=${MODEL:-%s}
run() {
  stage=$1
  if [ ! -e "$stage/model/config.json" ]; then
    mapfile -t overrides < "$stage/overrides.txt"
    data=$PWD/$stage/train.parquet
    python -m verl.trainer.main_ppo "${overrides[@]}" actor_rollout_ref.model.path="$model" data.train_files="$data" \\
      data.val_files="$data" trainer.default_local_dir="$PWD/$stage/checkpoints" "${@:2}"
    step=$(cat "$stage/checkpoints/latest_checkpointed_iteration.txt")
    python -m verl.model_merger merge --backend fsdp --local_dir "$stage/checkpoints/global_step_$step/actor" \\
      --target_dir "$stage/model"
  fi
  model=$PWD/$stage/model
}
"""


def write_runs(recipe: Recipe, curated: Mapping[str, Path], output: Path) -> list[str]:
    """Write the runs, and return a line for each stage. `curated` are the files of the curated problems by domain.

    Raises RatchetError for a domain that is not among them, and for a stage that keeps no problem.
    """
    for domain in (domain for stage in recipe.training.stages for domain in stage.mix):
        if domain not in curated:
            raise RatchetError(
                f"The {domain} problems of {recipe.name} are not curated here: run `ratchet curate {domain} "
                f"{recipe.name}` first, with the same --set."
            )
    lines, script = [], [_SCRIPT % (_own_domains(recipe), recipe.model.path or "MODEL")]
    notes = [f"# {recipe.name}: what verl cannot do", "", "`bash run.sh` runs the stages. By hand:"]
    if recipe.training.warm_start:
        notes += ["", "- Before the first stage: the recipe has a supervised start. Give its model as `MODEL=…`."]
    for number, stage in enumerate(recipe.training.stages, 1):
        name = f"{number:02}-{stage.name}"
        directory = output / name
        directory.mkdir(parents=True, exist_ok=True)
        count = _write_data(recipe, stage, curated, directory / "train.parquet")
        settings = overrides(recipe, stage)
        (directory / "overrides.txt").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        script.append(f'run {name} "$@"')
        notes += ["", f"## {name}", "", *(f"- {note}" for note in by_hand(stage))]
        lines.append(f"{name}: {count:,} rows, {len(settings)} overrides")
    (output / "run.sh").write_text("\n".join(script) + "\n")
    (output / "README.md").write_text("\n".join(notes) + "\n", encoding="utf-8")
    return lines


def overrides(recipe: Recipe, stage: Stage) -> dict[str, Any]:
    """Hydra overrides of verl's `ppo_trainer` for this stage, but for the paths. A schedule begins with its first
    value."""
    training, details = recipe.training, stage.advanced
    loss, summed = LOSSES.get(stage.loss, LOSSES["grpo"])
    actor, rollout, reward = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "reward.custom_reward_function"
    longest = MAX_PROMPT_TOKENS + stage.max_response_tokens
    settings: dict[str, Any] = {
        "algorithm.adv_estimator": ESTIMATORS.get(stage.advantage, "grpo"),
        "algorithm.norm_adv_by_std_in_grpo": stage.advantage != "dr_grpo",
        "data.train_batch_size": stage.prompts_per_batch,
        "data.max_prompt_length": MAX_PROMPT_TOKENS,
        "data.max_response_length": stage.max_response_tokens,
        "data.filter_overlong_prompts": True,
        f"{actor}.policy_loss.loss_mode": loss,
        f"{actor}.loss_agg_mode": summed,
        f"{actor}.ppo_mini_batch_size": stage.prompts_per_batch // stage.updates_per_batch,
        f"{actor}.use_dynamic_bsz": True,
        f"{actor}.ppo_max_token_len_per_gpu": max(training.hardware.micro_batch_tokens, longest),
        f"{actor}.clip_ratio_low": stage.clip_low,
        f"{actor}.clip_ratio_high": stage.clip_high,
        f"{actor}.use_kl_loss": stage.kl_coefficient > 0,
        f"{actor}.kl_loss_coef": stage.kl_coefficient,
        f"{actor}.kl_loss_type": details.kl_estimator,
        f"{actor}.entropy_coeff": details.entropy_bonus,
        f"{actor}.grad_clip": training.advanced.optimizer.max_gradient_norm,
        f"{actor}.optim.lr": stage.learning_rate,
        f"{actor}.optim.lr_warmup_steps": stage.warmup_steps,
        f"{actor}.optim.weight_decay": training.advanced.optimizer.weight_decay,
        "actor_rollout_ref.model.enable_gradient_checkpointing": training.hardware.activation_checkpointing,
        f"{rollout}.name": "vllm",
        f"{rollout}.n": _first(stage.rollouts),
        f"{rollout}.temperature": _first(stage.temperature),
        f"{reward}.path": "pkg://ratchet.verifiers.adapters.verl",
        f"+{reward}.reward_kwargs.graded": "'" + ",".join(details.graded) + "'",
        "trainer.total_training_steps": stage.steps,
        "trainer.total_epochs": stage.steps,  # more than it needs: the steps end it
        "trainer.save_freq": training.checkpoint_every,
        "trainer.val_before_train": False,
        "trainer.test_freq": -1,
        "trainer.nnodes": training.hardware.machines,
        "trainer.n_gpus_per_node": training.hardware.processes,
        "trainer.project_name": recipe.name,
        "trainer.experiment_name": stage.name,
    }
    if details.total_time_limit_s:
        settings[f"+{reward}.reward_kwargs.total_s"] = details.total_time_limit_s
    if recipe.verification.math == "either":
        settings[f"+{reward}.reward_kwargs.either"] = True
    if isinstance(stage.importance_cap, float):
        settings["algorithm.rollout_correction.rollout_is"] = "token"
        settings["algorithm.rollout_correction.rollout_is_threshold"] = stage.importance_cap
    if stage.dynamic_sampling_rounds:
        settings["algorithm.filter_groups.enable"] = True
        settings["algorithm.filter_groups.max_num_gen_batches"] = 1 + stage.dynamic_sampling_rounds
    if stage.truncation == "soft_overlong":
        buffer = "+reward.reward_kwargs.overlong_buffer_cfg"
        settings |= {
            "reward.reward_manager.name": "dapo", "+reward.reward_kwargs.max_resp_len": stage.max_response_tokens,
            f"{buffer}.enable": True, f"{buffer}.len": details.overlong_buffer_tokens, f"{buffer}.penalty_factor": 1.0,
            f"{buffer}.log": False,
        }  # fmt: skip
    return settings


def by_hand(stage: Stage) -> list[str]:
    """Settings of this stage that verl does not have, with what to do."""
    details, notes = stage.advanced, []
    for each in stage.interventions:
        rule = each.model_dump_json(exclude_defaults=True)
        notes.append(f"Intervention `{rule}`: watch its metric, stop the run, and start it again with the change.")
    for name in ("rollouts", "temperature"):
        if isinstance(values := getattr(stage, name), tuple):
            notes.append(f"Schedule of {name} over epochs, {list(values)}: start again with the next value.")
    if stage.max_pass_rate is not None:
        notes.append(
            f"Only prompts that the starting model solves at most {stage.max_pass_rate:g} of the time: sample "
            f"{details.pass_rate_rollouts} responses of each with the model of the stage before, drop the others' rows."
        )
    if wanted := details.difficulty_filter:
        notes.append(f"After each epoch, drop the rows with a pass rate of {wanted.easy:g} or more, and start again.")
    if stage.truncation == "zero_reward":
        notes.append("A truncated response is wrong in Ratchet; verl judges its text.")
    if stage.truncation == "mask":
        notes.append("A truncated response is left out in Ratchet; verl learns from it.")
    if stage.unfinished_penalty:
        notes.append(f"A truncated response loses {stage.unfinished_penalty:g}: verl has no such penalty.")
    if isinstance(stage.importance_cap, tuple):
        notes.append(f"The importance band {list(stage.importance_cap)}: see verl's `algorithm.rollout_correction`.")
    if isinstance(stage.importance_cap, SequenceImportance):
        band = list(stage.importance_cap.sequence)
        notes.append(f"The band {band} of responses: see `rollout_rs` in verl's `algorithm.rollout_correction`.")
    if details.max_staleness:
        notes.append(f"Tokens up to {details.max_staleness} batches old: see verl's `fully_async_policy`.")
    if details.entropy_target is not None:
        notes.append(f"The entropy target {details.entropy_target:g}: set `actor.entropy_coeff` while it is below.")
    if details.mismatch_limit is not None:
        notes.append(f"Stop above a divergence of {details.mismatch_limit:g} between engine and trainer: watch it.")
    if stage.validates or details.result == "best":
        notes.append("Validation: export the benchmarks' questions, give `data.val_files`, `trainer.test_freq`.")
    if details.result == "best":
        notes.append("The stage passes on its best weights: merge that step's checkpoint instead of the last.")
    for kind, name, names in (("loss", stage.loss, LOSSES), ("advantage", stage.advantage, ESTIMATORS)):
        if name not in names:
            notes.append(f"The {kind} {name} is not verl's: the overrides have GRPO's.")
    return notes


def _own_domains(recipe: Recipe) -> str:
    own = recipe.domains or any(name not in DOMAINS for stage in recipe.training.stages for name in stage.mix)
    return f"export {own_domain_variables()}" if own else ""


def _write_data(recipe: Recipe, stage: Stage, curated: Mapping[str, Path], target: Path) -> int:
    """The stage's problems, each at least once; those of domains with few are repeated until shares are the mix's."""
    kept = {domain: _kept(stage, curated[domain]) for domain in stage.mix}
    if empty := [domain for domain, problems in kept.items() if not len(problems)]:
        raise RatchetError(f"stage {stage.name} keeps no problem of {', '.join(empty)}: see its max_difficulty.")
    total = max(len(kept[domain]) / share for domain, share in stage.mix.items())
    rows = {domain: round(total * share) for domain, share in stage.mix.items()}
    repeated = [pa.concat_tables([kept[d]] * ceil(count / len(kept[d])))[:count] for d, count in rows.items() if count]
    return export_problems(pa.concat_tables(repeated), target, "verl", recipe.model.prompt)[0]


def _kept(stage: Stage, file: Path) -> pa.Table:
    """Problems within the stage's difficulty; unmeasured ones pass."""
    difficulty, problems = pc.field("difficulty"), pq.read_table(file)
    if stage.max_difficulty is None:
        return problems
    return problems.filter(difficulty.is_null() | (difficulty <= stage.max_difficulty))


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, tuple) else value
