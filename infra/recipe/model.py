"""The part of a recipe about the model and its prompts."""

from ratchet.data_curation.base.prompts import PromptFormat
from ratchet.data_curation.base.section import Section


class GrownModel(Section):
    """A Llama-architecture model with random weights, as in the tiny recipe; no download needed."""

    hidden_size: int = 64
    """Width of the model; the defaults train on a laptop in minutes."""
    layers: int = 2
    """Transformer layers."""
    attention_heads: int = 2
    """Query heads per layer."""
    key_value_heads: int = 1
    """Key-value heads per layer, shared by the query heads."""
    intermediate_size: int = 192
    """Width of the feed-forward layers."""
    vocabulary: int = 512
    """Tokens of the tokenizer trained on the traces."""
    max_positions: int = 256
    """Most tokens of a prompt and its response together."""

    @property
    def head_dim(self) -> int:
        """Width of an attention head; 32 is the smallest that vLLM decodes on a CPU."""
        return max(32, self.hidden_size // self.attention_heads)


class Model(Section):
    path: str | None = None
    """A Hub name or a directory with a Hugging Face causal language model; none: `grow` one."""
    grow: GrownModel = GrownModel()
    """The shape of a new model, if there is no `path`."""
    prompt: PromptFormat = PromptFormat()
    """Templates of the user turn."""
