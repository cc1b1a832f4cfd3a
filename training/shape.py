"""The sizes of a model, and the arithmetic of its passes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from ratchet.infra.inference import unused_libraries_hidden
from ratchet.infra.recipe.training import Lora, Stage
from ratchet.verifiers.errors import RatchetError


@dataclass(frozen=True)
class Shape:
    """The sizes of a dense causal language model."""

    vocabulary: int
    hidden: int
    layers: int
    heads: int
    key_value_heads: int
    head_dim: int
    intermediate: int
    tied: bool

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Shape":
        """Read the sizes from a Hugging Face configuration. Raises RatchetError for a model that this arithmetic does
        not describe."""
        if any(name in config for name in ("num_experts", "num_local_experts", "n_routed_experts")):
            raise RatchetError("the model is a mixture of experts, which the estimate does not cover")
        try:
            hidden, heads = config["hidden_size"], config["num_attention_heads"]
            return cls(
                config["vocab_size"], hidden, config["num_hidden_layers"], heads,
                config.get("num_key_value_heads") or heads, config.get("head_dim") or hidden // heads,
                config["intermediate_size"], bool(config.get("tie_word_embeddings", False)),
            )  # fmt: skip
        except KeyError as error:
            raise RatchetError(f"the model's configuration has no {error.args[0]}") from error

    @property
    def attention(self) -> int:
        return self.heads * self.head_dim

    @property
    def cache_width(self) -> int:
        """Number of keys and values of one token in one layer."""
        return 2 * self.key_value_heads * self.head_dim

    @cached_property
    def parameters(self) -> int:
        attention = self.hidden * (2 * self.attention + self.cache_width)
        layer = attention + 3 * self.hidden * self.intermediate + 2 * self.hidden
        return self.layers * layer + self.vocabulary * self.hidden * (1 if self.tied else 2) + self.hidden

    @cached_property
    def multiplied(self) -> int:
        """Parameters that each token is multiplied with; an embedding is only looked up."""
        return self.parameters - (0 if self.tied else self.vocabulary * self.hidden)

    def update_flops(self, lengths: Sequence[float], adapter: int = 0) -> float:
        """Arithmetic of forward and backward over sequences; with an adapter, of that many parameters, the model's own
        weights have no gradient."""
        weights = 4 * self.multiplied + 6 * adapter if adapter else 6 * self.multiplied
        return weights * sum(lengths) + 6 * _squares(lengths) * self.layers * self.attention

    def decode_flops(self, lengths: Sequence[float]) -> float:
        """Arithmetic of sequences, token by token."""
        return 2 * self.multiplied * sum(lengths) + 2 * _squares(lengths) * self.layers * self.attention

    def adapter(self, lora: Lora | None) -> int:
        """Parameters of a LoRA adapter."""
        if lora is None:
            return 0
        sizes = {
            "q_proj": self.hidden + self.attention, "k_proj": self.hidden + self.cache_width // 2,
            "v_proj": self.hidden + self.cache_width // 2, "o_proj": self.attention + self.hidden,
            "gate_proj": self.hidden + self.intermediate, "up_proj": self.hidden + self.intermediate,
            "down_proj": self.intermediate + self.hidden,
        }  # fmt: skip
        chosen = sizes if lora.target == "all-linear" else lora.target
        return self.layers * lora.rank * sum(sizes[name] for name in chosen)


def _squares(lengths: Sequence[float]) -> float:
    return sum(each * each for each in lengths)


def reference_shape(stage: Stage) -> Shape | None:
    """The shape of the KL term's model, if it is not the policy's. Raises RatchetError if it cannot be read."""
    path = stage.advanced.reference_model
    return shape_of(path) if path else None


@cache
def shape_of(path: str) -> Shape:
    """The shape of the model in a directory or on the Hub. Raises RatchetError if it cannot be read."""
    with unused_libraries_hidden():
        from ratchet.infra.inference.models import read_config  # torch and transformers: seconds

        return Shape.of(read_config(path).to_dict())
