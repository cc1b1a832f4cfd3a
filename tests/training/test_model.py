"""Models that would fail hours later, or learn something else, are refused at once."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from ratchet.infra.inference.models import check_model, read_generation_config
from ratchet.training.model import load_model
from ratchet.verifiers.errors import RatchetError
from tests.flows.commands import in_process


@pytest.fixture
def copied(micro_model, tmp_path) -> Path:
    shutil.copytree(micro_model, tmp_path / "model")
    return tmp_path / "model"


def edit(file: Path, **changes) -> None:
    settings = {**json.loads(file.read_text()), **changes}
    file.write_text(json.dumps({name: value for name, value in settings.items() if value is not None}))


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("tokenizer_config.json", {"eos_token": None}, "names no end-of-sequence token: set eos_token"),
        ("chat_template.jinja", "deleted", r"has no chat template.*chat_template\.jinja"),
        ("generation_config.json", {"eos_token_id": [2, 151645]}, r"ends responses with id 151645.*320 rows"),
        ("config.json", {"num_hidden_layers": 5}, r"do not match its config.json: model\.layers\S+ is missing"),
        ("config.json", {"intermediate_size": 20}, r"do not match its config.json: \S+ has another shape"),
        ("model.safetensors", "cut", "cannot read a causal language model from"),
        ("tokenizer.json", "cut", "cannot read a causal language model from"),
        ("config.json", "cut", "cannot read a causal language model from"),
    ],
)
def test_a_file_that_does_not_fit_the_others_or_was_cut(alone, copied, file, change, message, sharded):
    file = copied / file
    if change == "deleted":
        file.unlink()
    elif change == "cut":
        file.write_bytes(file.read_bytes()[:700])
    else:
        edit(file, **change)
    with pytest.raises(RatchetError, match=message):
        load_model(str(copied), "float32", sharded)


def test_the_tokenizer_of_another_model(copied):
    _, tokenizer = load_model(str(copied), "float32")
    tokenizer.add_tokens([f"<word-{i}>" for i in range(100)])
    tokenizer.save_pretrained(copied)
    with pytest.raises(RatchetError, match=r"ids up to \d+, but its embedding only 320 rows.*another model"):
        load_model(str(copied), "float32")


def test_a_directory_that_is_no_model(tmp_path):
    with pytest.raises(RatchetError, match="cannot read a causal language model"):
        load_model(str(tmp_path), "float32")


def test_a_padding_token_that_only_the_tokenizer_knows_is_no_harm(copied):
    _, tokenizer = load_model(str(copied), "float32")
    while len(tokenizer) < 320:
        tokenizer.add_tokens([f"<word-{len(tokenizer)}>"])
    tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    tokenizer.save_pretrained(copied)
    assert load_model(str(copied), "float32")[1].pad_token_id == 320


@pytest.mark.parametrize("settings", [{"do_sample": False, "temperature": 0.6}, {"length_penalty": 2.0}, {"top_k": 5}])
@pytest.mark.parametrize("sharded", [False, True])
def test_generation_settings_that_could_not_be_saved_with_a_checkpoint(alone, copied, settings, sharded):
    edit(copied / "generation_config.json", **settings)
    with pytest.raises(RatchetError, match=rf"cannot be saved with its generation_config.json.*{list(settings)[-1]}"):
        load_model(str(copied), "float32", sharded)
    assert check_model(str(copied))  # an evaluation saves nothing


@pytest.mark.parametrize("text", ["{", '{"early_stopping": "maybe"}', '{"watermarking_config": {"x": 1}}'])
def test_generation_settings_that_cannot_be_read(copied, text):
    (copied / "generation_config.json").write_text(text)
    with pytest.raises(RatchetError, match=f"cannot read a causal language model from {copied}"):
        check_model(str(copied))


def test_without_a_generation_config_responses_end_as_config_json_says(copied):
    (copied / "generation_config.json").unlink()
    edit(copied / "config.json", eos_token_id=[2, 7])
    assert read_generation_config(str(copied)).eos_token_id == [2, 7]
    assert load_model(str(copied), "float32")[0].generation_config.eos_token_id == [2, 7]


def test_weights_in_several_files_of_another_type(alone, copied):
    """Read whole, and read as shards that nobody has a full copy of."""
    whole, _ = load_model(str(copied), "float32")
    whole.to(torch.float64).save_pretrained(copied, max_shard_size="20KB")
    (copied / "model.safetensors").unlink()
    shards, _ = load_model(str(copied), "float32", sharded=True)
    assert not any(weight.numel() for weight in shards.parameters())
    assert shards.generation_config.eos_token_id == whole.generation_config.eos_token_id
    for name, weight in shards.named_parameters():
        assert torch.equal(weight.ds_tensor, whole.get_parameter(name).float().flatten())
    for name, buffer in shards.named_buffers():
        assert torch.equal(buffer, whole.float().get_buffer(name)) and buffer.dtype == torch.float32


def test_a_model_is_checked_before_anything_is_made(copied, tmp_path):
    (copied / "chat_template.jinja").unlink()
    arguments = ("train", "tiny", "--home", tmp_path / "home", "--dry-run")
    with pytest.raises(RatchetError, match="has no chat template"):
        in_process(*arguments[:-1], "--set", f"model.path={copied}")
    assert not (tmp_path / "home" / "artifacts").exists()
    for override, message in (
        (("--model", copied), "has no chat template"),
        (("--set", f"model.path={copied}"), "has no chat template"),
        (("--set", f"model.path={tmp_path / 'nothing'}"), "there is no such directory"),
        (("--set", "training.warm_start=null"), "has no model to train"),
    ):
        with pytest.raises(RatchetError, match=message):
            in_process(*arguments, *override)


def test_a_model_with_other_files_is_another_model(copied, tmp_path):
    def planned() -> str:
        overrides = ("--set", f"model.path={copied}", "--set", "training.warm_start=null")
        shown = in_process("train", "tiny", "--home", tmp_path / "home", "--dry-run", *overrides)
        return next(line for line in shown.splitlines() if line.startswith("first checkpoint"))

    before = planned()
    assert planned() == before
    (copied / "model.safetensors").write_bytes(b"other weights")
    assert planned() != before


def test_dropout_is_off_because_the_ratio_would_not_be_one(copied):
    edit(copied / "config.json", attention_dropout=0.5)
    model, _ = load_model(str(copied), "float32")
    ids = torch.arange(3, 40)[None]
    with torch.no_grad():
        assert torch.equal(model.train()(input_ids=ids).logits, model.eval()(input_ids=ids).logits)
