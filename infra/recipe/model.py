"""The part of a recipe about the model and its prompts."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import model_validator

from ratchet.data_curation.base.bounds import Layers, Tokens, Vocabulary, Width
from ratchet.data_curation.base.prompts import PromptFormat
from ratchet.data_curation.base.section import Section


class NewModelConfig(Section):
    """A Llama-architecture model with random weights, as in the tiny recipe; no download needed."""

    hidden_size: Width = 64
    """Width of the model; the defaults train on a laptop in minutes."""
    layers: Layers = 2
    """Transformer layers."""
    attention_heads: Layers = 2
    """Query heads per layer."""
    key_value_heads: Layers = 1
    """Key-value heads per layer, shared by the query heads."""
    intermediate_size: Width = 192
    """Width of the feed-forward layers."""
    vocabulary: Vocabulary = 512
    """Tokens of the tokenizer trained on the traces."""
    max_positions: Tokens = 256
    """Most tokens of a prompt and its response together."""

    @property
    def head_dim(self) -> int:
        """Width of an attention head; 32 is the smallest that vLLM decodes on a CPU."""
        return max(32, self.hidden_size // self.attention_heads)

    @model_validator(mode="after")
    def _shapes_fit(self) -> "NewModelConfig":
        for whole, part in (("hidden_size", "attention_heads"), ("attention_heads", "key_value_heads")):
            if getattr(self, whole) % getattr(self, part):
                raise ValueError(f"{part} ({getattr(self, part)}) must divide {whole} ({getattr(self, whole)})")
        if self.head_dim % 2:
            raise ValueError(f"hidden_size / attention_heads is {self.head_dim}: rotary positions need an even width")
        return self


class Model(Section):
    """The model to train, and how it is prompted."""

    renamed: ClassVar[Mapping[str, str]] = {"grow": "model.grow is now model.from_config"}
    path: str | None = None
    """A Hub name or a directory with a Hugging Face causal language model. Default: a new one, `from_config`. A
    recipe that extends one with a path has that one, unless it says `path: null`."""
    from_config: NewModelConfig = NewModelConfig()
    """The shape of a new model with random weights, if there is no `path`."""
    prompt: PromptFormat = PromptFormat()
    """Templates of the user turn."""
