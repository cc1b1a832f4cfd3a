"""Make a new model: a tokenizer trained on the traces and a small Llama with random weights."""

from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from ratchet.data_curation.base.files import replace_directory
from ratchet.data_curation.base.protocol import derive_seed
from ratchet.infra.recipe.model import NewModelConfig
from ratchet.training import ranks

USER, ASSISTANT, END = "<|user|>", "<|assistant|>", "<|end|>"
TEXT_TOKENS = ("<think>", "</think>", "```")
"""Texts that are one token each, but ordinary text, since judges look for them in responses."""
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '" + USER + "' if message['role'] == 'user' else '" + ASSISTANT + "' }}{{ message['content'] }}"
    "{% if message['role'] != 'user' %}" + END + "{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}" + ASSISTANT + "{% endif %}"
)

NARROW = 256
"""Width below which the usual 0.02 for the standard deviation of initial weights learns far slower than 0.08."""


def create(shape: NewModelConfig, texts: Sequence[str], seed: int, directory: Path) -> None:
    """Write a model directory for transformers, with weights drawn from `seed` and a vocabulary learned from
    `texts`."""
    tokenizer = train_tokenizer(texts, shape.vocabulary)
    stop = tokenizer.convert_tokens_to_ids(END)
    assert isinstance(stop, int)  # of one token
    # Not Qwen2: for it transformers replaces the tokenizer's splitting with Qwen's.
    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.attention_heads,
        num_key_value_heads=shape.key_value_heads,
        head_dim=shape.head_dim,
        max_position_embeddings=shape.max_positions,
        initializer_range=0.08 if shape.hidden_size < NARROW else 0.02,
        tie_word_embeddings=False,  # the head must be free to grow where two digits share a context
        eos_token_id=stop,
        pad_token_id=stop,
        bos_token_id=None,
    )
    torch.manual_seed(derive_seed(seed, "grow"))
    model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(eos_token_id=stop, pad_token_id=stop)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def create_once(shape: NewModelConfig, texts: Sequence[str], seed: int, directory: Path) -> Path:
    """The new model in `directory`, written once and kept, so that a resumed run starts from the same one.
    Collective."""
    if ranks.rank() == 0 and not directory.is_dir():
        draft = directory.with_name(f".{directory.name}")
        create(shape, texts, seed, draft)
        replace_directory(draft, directory)
    ranks.barrier()
    return directory


def train_tokenizer(texts: Sequence[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """Train byte-level BPE of at most `vocabulary` tokens. Merges may cross spaces (SuperBPE, Liu et al. 2025, arXiv
    2503.13423), so that a frequent phrase is one token. Each digit is a token; a line end includes the next line's
    indentation, as Python code needs."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\n *"), "isolated"),
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    own = [USER, ASSISTANT, END]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(own) - len(TEXT_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in own])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in TEXT_TOKENS])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token=END, chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )  # fmt: skip
