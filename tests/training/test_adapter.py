"""LoRA: what is trained, what engines and checkpoints get, and how a stage continues."""

from __future__ import annotations

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

from ratchet.data_curation.base.protocol import Request, Sampling
from ratchet.infra.inference.with_transformers import EmbeddedEngine
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.recipe.training import Hardware, Lora, Optimizer, Training
from ratchet.training.adapter import DIRECTORY, Adapter, trained
from ratchet.training.checkpoint import Checkpoints
from ratchet.training.learner import Learner
from ratchet.training.policy import Policy
from ratchet.training.sampler import Sampler
from ratchet.verifiers.errors import RatchetError
from tests.training.batch import groups, largest_difference, same_bits, stage

LORA = Lora(rank=4, alpha=8)


def adapted(base: str, path: str | None = None, lora: Lora = LORA, reference: bool = False, seed: int = 0, **hardware):
    return Policy(
        path or base, Hardware(**hardware), Optimizer(max_gradient_norm=1e9), (path or base) if reference else None,
        Adapter(lora, base, seed),
    )  # fmt: skip


def learned(base: str, **settings) -> Policy:
    """A policy whose adapter is no longer zero."""
    policy = adapted(base, **settings)
    Learner(policy, stage(learning_rate=1e-2)).learn(groups(0), 1.0)
    return policy


def values(policy: Policy) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in trained(policy.model).items()}


@pytest.mark.parametrize("zero_stage", [0, 2])
def test_only_the_adapter_learns(alone, micro_model, zero_stage):
    policy = adapted(micro_model, zero_stage=zero_stage)
    before = {name: weight.detach().clone() for name, weight in policy.model.named_parameters()}
    Learner(policy, stage(learning_rate=1e-2)).learn(groups(0), 1.0)
    changed = {n for n, weight in policy.model.named_parameters() if not torch.equal(weight, before[n])}
    assert changed == {name for name in before if ".lora_B" in name}, "A has no gradient while B is zero"
    Learner(policy, stage(learning_rate=1e-2)).learn(groups(1, policy.version), 1.0)
    changed = {n for n, weight in policy.model.named_parameters() if not torch.equal(weight, before[n])}
    assert changed == {name for name in before if ".lora_" in name}
    assert sum(p.numel() for group in policy._adam.param_groups for p in group["params"]) == sum(
        weight.numel() for weight in trained(policy.model).values()
    )


def test_gradients_are_those_of_pefts_own_forward(alone, micro_model):
    policy = learned(micro_model)
    base = AutoModelForCausalLM.from_pretrained(micro_model)
    config = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
    other = get_peft_model(base, config)
    with torch.no_grad():
        for name, weight in trained(policy.model).items():
            other.get_parameter(f"base_model.model.{name}").copy_(weight)
    batch = groups(3, policy.version)
    policy._adam.state.clear()
    Learner(policy, stage(learning_rate=0.0)).learn(batch, 1.0)
    found = gradient_of_trained(policy)
    loss, tokens = torch.zeros(()), 0
    for members in batch:
        advantages = members.advantages.values
        for rollout, advantage, valid in zip(members.rollouts, advantages, members.valid, strict=True):
            if valid:
                ids = torch.tensor([*rollout.prompt, *rollout.response]).long()
                scores = other(input_ids=ids[None]).logits[0, :-1].log_softmax(-1)
                own = scores.gather(-1, ids[1:, None])[len(rollout.prompt) - 1 :]
                loss, tokens = loss - advantage * own.sum(), tokens + len(rollout.response)
    (loss / tokens).backward()
    wanted = {name: other.get_parameter(f"base_model.model.{name}").grad for name in found}
    assert largest_difference(found, wanted) < 1e-4


def gradient_of_trained(policy: Policy) -> dict[str, torch.Tensor]:
    share = 1 - Optimizer().betas[0]
    return {n: policy._adam.state[w]["exp_avg"].clone() / share for n, w in trained(policy.model).items()}


def test_recomputed_activations_give_the_same_gradient(alone, micro_model):
    found = []
    for recomputed in (False, True):
        policy = learned(micro_model, activation_checkpointing=recomputed)
        policy._adam.state.clear()
        Learner(policy, stage(learning_rate=0.0)).learn(groups(3, policy.version), 1.0)
        found.append(gradient_of_trained(policy))
    assert largest_difference(*found) < 1e-5


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_saved_and_sent_weights_are_merged(alone, micro_model, tmp_path, dtype):
    policy = learned(micro_model, dtype=dtype)
    policy.save_model(tmp_path / "model")
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=getattr(torch, dtype))
    start = AutoModelForCausalLM.from_pretrained(micro_model, dtype=getattr(torch, dtype))
    wanted = dict(plain.named_parameters())
    assert same_bits(dict(policy.weights()), wanted) and same_bits(
        dict(policy.whole_model().named_parameters()), wanted
    )
    changed = {name for name, weight in start.named_parameters() if not torch.equal(weight, wanted[name])}
    assert changed == {name for name in wanted if "_proj" in name}, "not the head, the embedding and the norms"
    ids = torch.tensor([[5, 9, 17, 40]])
    merged, beside = (model.eval()(input_ids=ids).logits.float() for model in (plain, policy.model))
    torch.testing.assert_close(merged, beside, atol=2e-5 if dtype == "float32" else 0.05, rtol=0)
    if dtype == "float32":
        read = PeftModel.from_pretrained(start, str(tmp_path / "model" / DIRECTORY)).merge_and_unload()
        assert same_bits(dict(policy.weights()), dict(read.named_parameters())), "as PEFT reads the adapter"


def test_merging_in_bfloat16_keeps_changes_below_its_precision(alone, micro_model):
    policy = adapted(micro_model, dtype="bfloat16")
    base = dict(AutoModelForCausalLM.from_pretrained(micro_model, dtype=torch.bfloat16).named_parameters())
    torch.manual_seed(0)
    for name, weight in trained(policy.model).items():
        weight.data.copy_(torch.randn_like(weight) * (5e-4 if "lora_B" in name else 1e-2))
    parts = {name: weight.detach().float() for name, weight in trained(policy.model).items()}
    kept = nearest = wanted = 0.0
    for name, merged in policy.weights():
        if "_proj" not in name:
            assert torch.equal(merged, base[name])
            continue
        down, up = (parts[name.replace("weight", f"lora_{which}.default.weight")] for which in "AB")
        change = LORA.alpha / LORA.rank * (up @ down)
        start = base[name].detach().float()
        kept += float(((merged.float() - start) * change).sum())
        nearest += float((((start + change).bfloat16().float() - start) * change).sum())
        wanted += float((change * change).sum())
    assert nearest / wanted < 0.5
    assert kept / wanted == pytest.approx(1, abs=0.1)


def test_the_next_stage_continues_the_adapter(alone, micro_model, tmp_path, capsys):
    policy = learned(micro_model)
    policy.save_model(tmp_path / "model")
    model = str(tmp_path / "model")
    assert same_bits(values(adapted(micro_model, model, seed=7)), values(policy))
    assert "a new one" not in capsys.readouterr().err
    (tmp_path / "other").mkdir()
    learned(micro_model, seed=3).save_model(tmp_path / "other" / "model")
    for base, lora in ((micro_model, Lora(rank=2, alpha=8)), (str(tmp_path / "other" / "model"), LORA)):
        fresh = adapted(base, model, lora)
        assert same_bits(dict(fresh.weights()), dict(policy.weights())), "a new adapter on the merged weights"
        assert all((weight == 0).all() for name, weight in values(fresh).items() if "lora_B" in name)
        assert "a new one starts on its weights" in capsys.readouterr().err


@pytest.mark.parametrize("zero_stage", [0, 2])
def test_a_resumed_run_ends_with_the_same_bits(alone, micro_model, tmp_path, zero_stage):
    policy = learned(micro_model, zero_stage=zero_stage, reference=True)
    learner = Learner(policy, stage(learning_rate=1e-2, kl_coefficient=0.1))
    learner.reset(optimizer=False)  # the reference is a copy of the adapter from now on
    learner.learn(groups(1, policy.version), 1.0)
    Checkpoints(tmp_path, policy).save(2, {"learner": learner.state_dict()})
    learner.learn(groups(2, policy.version), 1.0)
    other = adapted(micro_model, zero_stage=zero_stage, reference=True)
    resumed = Learner(other, stage(learning_rate=1e-2, kl_coefficient=0.1))
    _, state = Checkpoints(tmp_path, other).restore()
    resumed.load_state_dict(state["learner"])
    resumed.learn(groups(2, other.version), 1.0)
    assert same_bits(values(other), values(policy)) and same_bits(dict(other.weights()), dict(policy.weights()))
    directory = tmp_path / "step-00000002"
    size = sum(file.stat().st_size for file in (directory / "engine").rglob("*"))
    assert size < 4 * sum(w.numel() for w in policy.model.parameters()), "without the base"
    assert (directory / "model" / DIRECTORY / "adapter_config.json").is_file()


def test_the_reference_is_the_base_until_a_reset(alone, micro_model):
    policy = adapted(micro_model, reference=True)
    learner = Learner(policy, stage(learning_rate=1e-2, kl_coefficient=0.1))
    assert learner.learn(groups(0), 1.0)["kl"] == 0
    assert learner.learn(groups(0, policy.version), 1.0)["kl"] > 1e-6
    learner.reset()
    assert learner.learn(groups(0, policy.version), 1.0)["kl"] == 0, "a copy of the adapter"


def test_a_stale_merge_is_found(alone, micro_model, monkeypatch):
    policy = learned(micro_model)
    engine = EmbeddedEngine(policy, 8)
    sampler = Sampler(policy, engine)
    requests = [[Request(0, 1, (5, 6, 7))]]
    assert engine.has_own_weights and list(sampler.generate(requests, Sampling(max_tokens=4)))
    assert sampler.facts["weight_probe"] < 1e-5
    Learner(policy, stage(learning_rate=1e-2)).learn(groups(1, policy.version), 1.0)
    monkeypatch.setattr(policy, "_gathered", lambda: iter(()))  # the copy keeps what was merged before the update
    with pytest.raises(RatchetError, match="does not have all of them"):
        list(sampler.generate(requests, Sampling(max_tokens=4)))


def test_what_cannot_work_is_refused_in_the_recipe():
    with pytest.raises(ValueError, match="zero_stage 0, 1 or 2"):
        Training.model_validate({"advanced": {"lora": {}}, "hardware": {"zero_stage": 3}})
    with pytest.raises(ValueError, match="names none"):
        Recipe.model_validate({"name": "r", "training": {"advanced": {"lora": {}}}})
    with pytest.raises(ValueError, match="dropout"):
        Training.model_validate({"advanced": {"lora": {"dropout": 0.1}}})
    with pytest.raises(ValueError, match="target"):
        Training.model_validate({"advanced": {"lora": {"target": ["lm_head"]}}})
