"""Models that would fail hours later, or learn something else, are refused at once."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from infra.errors import RatchetError
from training.model import load_model


@pytest.fixture
def copied(micro_model, tmp_path) -> Path:
    shutil.copytree(micro_model, tmp_path / "model")
    return tmp_path / "model"


def edit(file: Path, **changes) -> None:
    settings = {**json.loads(file.read_text()), **changes}
    file.write_text(json.dumps({name: value for name, value in settings.items() if value is not None}))


def test_a_model_without_an_end_of_sequence_token(copied):
    edit(copied / "tokenizer_config.json", eos_token=None)
    with pytest.raises(RatchetError, match="names no end-of-sequence token: set eos_token"):
        load_model(str(copied), "float32")


def test_a_model_without_a_chat_template(copied):
    (copied / "chat_template.jinja").unlink()
    with pytest.raises(RatchetError, match=r"has no chat template.*chat_template\.jinja"):
        load_model(str(copied), "float32")


def test_the_tokenizer_of_another_model(copied):
    _, tokenizer = load_model(str(copied), "float32")
    tokenizer.add_tokens([f"<word-{i}>" for i in range(100)])
    tokenizer.save_pretrained(copied)
    with pytest.raises(RatchetError, match=r"ids up to \d+, and its embedding only 320 rows.*another model"):
        load_model(str(copied), "float32")


def test_a_directory_that_is_no_model(tmp_path):
    with pytest.raises(RatchetError, match="cannot read a causal language model"):
        load_model(str(tmp_path), "float32")


def test_dropout_is_off_because_the_ratio_would_not_be_one(copied):
    edit(copied / "config.json", attention_dropout=0.5)
    model, _ = load_model(str(copied), "float32")
    ids = torch.arange(3, 40)[None]
    with torch.no_grad():
        assert torch.equal(model.train()(input_ids=ids).logits, model.eval()(input_ids=ids).logits)
