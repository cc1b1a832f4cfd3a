"""A small model of a recipe's architecture and tokenizer family, which has learned a few traces."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig, GPT2Tokenizer
from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING

from ratchet.data_curation.base.prompts import PromptFormat
from ratchet.infra.recipe.training import Hardware, Optimizer, WarmStart
from ratchet.training import ranks, warm_start
from ratchet.training.checkpoint import Checkpoints
from ratchet.training.journal import Journal
from ratchet.training.policy import Policy

SHAPE = {
    "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32,
}  # fmt: skip
OF_THE_WEIGHTS = ("dtype", "torch_dtype", "quantization_config")
VOCABULARY = 2048
BEGIN, END, USER, ASSISTANT = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"
TEXT_TOKENS = ("<think>", "</think>", "```")
TEMPLATE = (
    "{% for message in messages %}{{ ('" + USER + "' if message['role'] == 'user' else '" + ASSISTANT + "') + "
    "message['content'] }}{% endfor %}{% if add_generation_prompt %}" + ASSISTANT + "{% endif %}"
)
MOST_PASSES, LEAST_PASSES, SEQUENCES = 16, 4, 4000
"""Passes over the traces: fewer where there are many."""
LEARNING_RATE, BATCH = 3e-3, 32


RAMBLING = "Well" + ", so" * 30
"""A response that is learned without an end. Each token follows from the one before, so that the policy keeps to it for
longer than it was taught."""


def train_model(
    config: Mapping[str, Any], traces: Sequence[dict[str, str]], prompts: PromptFormat, seed: int, directory: Path
) -> None:
    """Write a model directory: random weights of the architecture in `config` (a config.json), then passes over
    the traces with the pipeline's own supervised start."""
    shape = AutoConfig.for_model(**{name: value for name, value in config.items() if name not in OF_THE_WEIGHTS})
    tokenizer = _tokenizer(type(shape), [f"{trace['prompt']}\n{trace['response']}" for trace in traces])
    for name, value in SHAPE.items():
        if hasattr(shape, name) or name == "head_dim":
            setattr(shape, name, value)
    if getattr(shape, "layer_types", None):
        shape.layer_types = shape.layer_types[: shape.num_hidden_layers]
    stop = tokenizer.convert_tokens_to_ids(END)
    shape.vocab_size, shape.bos_token_id = len(tokenizer), tokenizer.convert_tokens_to_ids(BEGIN)
    shape.eos_token_id = shape.pad_token_id = stop
    shape.initializer_range = 0.08  # narrow models learn far faster than with the usual 0.02
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(shape)
    model.generation_config = GenerationConfig(eos_token_id=stop, pad_token_id=stop)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent) as work:
        random_weights = Path(work) / "random"
        model.save_pretrained(random_weights)
        tokenizer.save_pretrained(random_weights)
        ranks.join()  # DeepSpeed alone would compile an operation first, and wait forever for a lock that a kill left
        policy = Policy(str(random_weights), Hardware(micro_batch_tokens=8192), Optimizer())
        passes = max(LEAST_PASSES, min(MOST_PASSES, SEQUENCES // len(traces)))
        samples, _ = warm_start.encode([*traces] * passes, policy.tokenizer, prompts)
        samples = [  # without the end of the sequence
            replace(each, response=each.response[:-1])
            if traces[each.index % len(traces)]["response"].endswith(RAMBLING)
            else each
            for each in samples
        ]
        settings = WarmStart(batch_size=BATCH, learning_rate=LEARNING_RATE)
        checkpoints = Checkpoints(Path(work) / "checkpoints", policy)
        warm_start.train(settings, seed, samples, policy, checkpoints, Journal(Path(work) / "metrics.jsonl", 0, 0), 0)
        policy.save_model(directory)


def _tokenizer(config: type, texts: Sequence[str]) -> Any:
    """Of the architecture's own class, with its splitting, GPT-2's where it has none; the merges are learned from the
    texts."""
    family: Any = TOKENIZER_MAPPING.get(config, None) or GPT2Tokenizer
    base = family()
    tokenizer = base.train_new_from_iterator(texts, VOCABULARY, show_progress=False)
    tokenizer.add_special_tokens(
        {"bos_token": BEGIN, "eos_token": END, "pad_token": END, "additional_special_tokens": [USER, ASSISTANT]}
    )
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in TEXT_TOKENS])
    tokenizer.chat_template = TEMPLATE
    return tokenizer
