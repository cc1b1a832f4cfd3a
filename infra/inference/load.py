"""The recipe's engine with a model that nobody trains: for evaluation."""

from __future__ import annotations

import os

import torch

from ratchet.infra.inference.transformers_engine import TransformersEngine
from ratchet.infra.inference.vllm_engine import VllmEngine
from ratchet.infra.recipe.model import InferenceEngine


def load_engine(
    settings: InferenceEngine, model_dir: str, dtype: str, batch_size: int, index: int
) -> TransformersEngine | VllmEngine:
    """The engine of sampling process `index`, on GPUs of its own where there are any. vLLM always runs inside the
    process, with the whole GPU. Raises RatchetError when the model cannot be read or served."""
    if settings.kind == "vllm":
        mine = range(index * settings.tensor_parallel, (index + 1) * settings.tensor_parallel)
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        known = visible.split(",") if visible else None
        # vLLM takes the first GPUs that it sees. CUDA reads this once, and nothing before has asked it anything.
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(known[i % len(known)] if known else str(i) for i in mine)
        alone = settings.model_copy(update={"weight_transfer": "disk", "memory_share": 0.9})
        return VllmEngine(model_dir, dtype, batch_size, alone)
    device = f"cuda:{index % torch.cuda.device_count()}" if torch.cuda.is_available() else "cpu"
    return TransformersEngine.load(model_dir, dtype=dtype, device=device, batch_size=batch_size)
