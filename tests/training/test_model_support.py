"""Engine and trainer compute what a checkpoint's own forward pass computes, or refuse it while the run is planned."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from ratchet.infra.inference import attention, model_code, twin
from ratchet.infra.inference.model_code import own_logits, windows
from ratchet.training import model_support
from ratchet.training.logprobs import own_logprobs
from ratchet.training.model_support import Support, check_support, support
from ratchet.verifiers.errors import RatchetError
from tests.flows.commands import in_process

AS_THEY_ARE = Support("", "", "")
CONFIGURATIONS = [
    *((family, {}) for family in twin.PLAIN),
    ("granite", {"logits_scaling": 8.0, "attention_multiplier": 0.3}),  # a scale after the head
    ("cohere2", {}),  # a scale, and windows in some layers
    ("gemma2", {}),  # soft caps after the head and in attention
    ("gemma3_text", {}),
    ("nanochat", {}),
    ("mistral", {"sliding_window": 4096}),  # a window without `layer_types`
    ("mixtral", {"sliding_window": 4096}),
    ("phi3", {"sliding_window": 2047}),
    ("starcoder2", {"sliding_window": 4096}),
    ("opt", {}),  # dropout by function
    ("seed_oss", {}),
    ("olmo3", {}),
]


def configuration(family: str, **settings):
    return AutoConfig.for_model(family, **settings)


@pytest.mark.parametrize(("family", "settings"), CONFIGURATIONS, ids=str)
def test_a_model_is_computed_as_it_is(family, settings):
    assert support(configuration(family, **settings)) == AS_THEY_ARE


def test_an_ignored_scale_is_noticed(monkeypatch):
    monkeypatch.setattr("ratchet.training.model.plain_head", lambda config: True)
    monkeypatch.setattr("ratchet.infra.inference.transformers_engine.plain_head", lambda config: True)
    found = fresh(configuration("granite", logits_scaling=8.0))
    assert "nats" in found.engine and "nats" in found.padded and "nats" in found.packed


def test_an_ignored_window_is_noticed(monkeypatch):
    monkeypatch.setattr("ratchet.infra.inference.transformers_engine.windows", lambda config: {"full_attention": None})
    monkeypatch.setattr(attention, "_band", lambda length, window, device: torch.ones(length, length).tril().bool())
    found = fresh(configuration("starcoder2", sliding_window=4096))
    assert "nats" in found.engine and not found.padded and "nats" in found.packed


def test_dropout_by_function_is_noticed(monkeypatch):
    monkeypatch.setattr(model_support, "stop_randomness", lambda model: None)
    found = fresh(configuration("seed_oss", residual_dropout=0.1))
    assert "nats" in found.padded and not found.engine


def test_angles_that_depend_on_the_neighbors_are_refused():
    """Phi-3's long rope: a response's probabilities depend on the longest of its batch."""
    factors = {
        "rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 48, "long_factor": [3.0] * 48,
        "original_max_position_embeddings": 4096, "factor": 32.0,
    }  # fmt: skip
    config = configuration("phi3", max_position_embeddings=131072, rope_parameters=factors)
    found = support(config)
    assert "nats" in found.engine
    with pytest.raises(RatchetError, match=r"cannot sample from M \(phi3\): .*nats.*kind=vllm"):
        check_support("M", config, trained=False, packed=False, embedded=True)
    check_support("M", config, trained=False, packed=False, embedded=False)


def test_a_router_that_draws_while_it_is_trained_is_refused():
    with pytest.raises(RatchetError, match=r"M \(phimoe\) cannot be trained: log-probabilities differ"):
        check_support("M", configuration("phimoe"), trained=True, packed=False, embedded=False)


def fresh(config):
    model_support._measured.cache_clear()
    found = support(config)
    model_support._measured.cache_clear()
    return found


def test_windows_by_layer_and_for_all():
    assert windows(configuration("llama")) == {"full_attention": None}
    assert windows(configuration("mistral", sliding_window=8)) == {"sliding_attention": 8}
    both = {"sliding_attention": 8, "full_attention": None}
    assert windows(configuration("gemma2", sliding_window=8)) == both


def test_own_logits_have_the_gradient_of_the_models_own_loss():
    model = twin.small_twin(configuration("gemma2"))
    ids = torch.arange(3, 20)[None]
    model(input_ids=ids).logits[0, :-1].double().log_softmax(-1).gather(-1, ids[0, 1:, None]).sum().backward()
    wanted = {name: weight.grad.clone() for name, weight in model.named_parameters()}
    model.zero_grad()
    hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state[0, :-1]
    logprobs, entropies = own_logprobs(model, hidden, ids[0, 1:], 1.0)
    logprobs.sum().backward()
    for name, weight in model.named_parameters():
        assert torch.allclose(weight.grad, wanted[name], atol=2e-4 * max(1.0, float(wanted[name].abs().max()))), name
    assert torch.allclose(
        entropies, torch.distributions.Categorical(logits=own_logits(model, hidden)).entropy(), atol=1e-5
    )
    assert model.base_model is model.model and not isinstance(model.model, model_code._Given)


def test_a_dry_run_says_it(micro_model, tmp_path):
    model = twin.small_twin(configuration("phimoe"))
    tokenizer = AutoTokenizer.from_pretrained(micro_model)
    config = AutoConfig.from_pretrained(micro_model)
    assert config.vocab_size <= 500
    model.config.vocab_size = config.vocab_size
    larger = AutoModelForCausalLM.from_config(model.config)
    larger.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    with pytest.raises(RatchetError, match=r"\(phimoe\) cannot be trained with packed sequences: .*does not help"):
        in_process("train", "tiny", "--home", tmp_path / "home", "--dry-run", "--model", tmp_path / "model")
    assert not (tmp_path / "home" / "artifacts").exists()
