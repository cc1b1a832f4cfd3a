from pathlib import Path

import torch

from ratchet.training.new_model import create
from tests.training.conftest import MICRO

TEXTS = ["Start at 12.\nThe answer is \\boxed{34}.", "def solve(xs):\n    return xs\n", "Start at 7."] * 20


def test_what_is_written_is_what_transformers_loads(tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

    create(MICRO, TEXTS, 0, tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    text = "def solve(xs):\n    return 12\n<think>x</think>```π"
    ids = tokenizer(text).input_ids
    assert tokenizer.decode(ids) == text
    tokens = tokenizer.convert_ids_to_tokens(ids)
    assert "1" in tokens and "2" in tokens  # digits alone
    assert {"<think>", "</think>", "```"} <= set(tokens)
    assert tokenizer.decode(tokenizer("\n    return").input_ids[:1]) == "\n    "
    assert len(tokenizer) <= MICRO.vocabulary == model.config.vocab_size
    assert GenerationConfig.from_pretrained(tmp_path / "model").eos_token_id == tokenizer.eos_token_id
    assert model.lm_head.weight is not model.model.embed_tokens.weight
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    begun = tokenizer.apply_chat_template(turns[:1], add_generation_prompt=True, tokenize=False)
    assert begun == "<|user|>a<|assistant|>"
    assert tokenizer.apply_chat_template(turns, tokenize=False) == "<|user|>a<|assistant|>b<|end|>"
    assert len(tokenizer("<|user|><|assistant|><|end|>").input_ids) == 3, "one token each"


def test_growing_is_a_function_of_the_seed(tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        torch.rand(3)  # whatever was drawn before must not matter
        create(MICRO, TEXTS, seed, tmp_path / name)

    def content(name: str, file: str) -> bytes:
        return Path(tmp_path / name / file).read_bytes()

    assert content("a", "model.safetensors") == content("b", "model.safetensors") != content("c", "model.safetensors")
    assert content("a", "tokenizer.json") == content("b", "tokenizer.json")
