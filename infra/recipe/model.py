"""The part of a recipe about the model and its prompts."""

from pydantic import ConfigDict

from ratchet.infra.section import Section


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


class PromptFormat(Section):
    """How a problem becomes the user turn. Fields besides `response_prefix` are templates by name, which replace the
    domains': `{prompt}` and `{starter_code}` are filled in, then the chat template is applied."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, str] = {}  # pyright: ignore[reportIncompatibleVariableOverride]
    response_prefix: str = ""
    """Text given to the model as the response's start; R1 distills start inside `<think>`."""

    @property
    def templates(self) -> dict[str, str]:
        return self.__pydantic_extra__ or {}


class Model(Section):
    path: str | None = None
    """A Hub name or a directory with a Hugging Face causal language model; none: `grow` one."""
    grow: GrownModel = GrownModel()
    """The shape of a new model, if there is no `path`."""
    prompt: PromptFormat = PromptFormat()
    """Templates of the user turn."""
