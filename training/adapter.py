"""Train a frozen base model with small trainable matrices, through peft: LoRA (Hu et al. 2021, arXiv 2106.09685).

Engines and checkpoints get the model with the matrices merged, so nothing else knows of them. Beside a checkpoint's
merged model is `adapter/`, in peft's format, which the next stage continues.
"""

import hashlib
import json
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from ratchet.data_curation.base.protocol import derive_seed
from ratchet.infra.recipe.training import Lora
from ratchet.training import ranks
from ratchet.training.model import load_model
from ratchet.verifiers.errors import RatchetError

DIRECTORY, FILE = "adapter", "adapter_model.safetensors"
FACTS = "ratchet"
"""Entry of the file's metadata: the adapter's settings, and the hash of the base that it was trained on."""
WRAPPER = "base_model.model."
"""Prefix of the names of weights in peft's files."""


class Adapter:
    """The adapter of one policy."""

    def __init__(self, lora: Lora, base: str, seed: int) -> None:
        self._lora, self._base, self._seed = lora, base, seed
        self._facts: dict[str, Any] = {"lora": lora.model_dump(mode="json")}
        self._layers: dict[Any, Any] = {}  # peft's layer of each adapted weight

    @classmethod
    def of(cls, lora: Lora | None, base: str | None, seed: int) -> "Adapter | None":
        """A new adapter on the model `base`, for each policy; None if all weights are trained."""
        return None if lora is None else cls(lora, str(base), seed)

    def load(self, path: str, dtype: str) -> tuple[Any, Any]:
        """Load the model in `path`, of which only the adapter is trained, and its tokenizer.

        The adapter beside the model continues if it has these settings and was trained on the recipe's model; otherwise
        a new one starts on the weights in `path`. Both have the same probabilities, up to the rounding of merged
        weights. Raises RatchetError if a model cannot be read, or has none of the targets.
        """
        from peft import LoraConfig, inject_adapter_in_model
        from peft.tuners.lora import LoraLayer

        stored = Path(path) / DIRECTORY / FILE
        before: dict[str, Any] = {}
        if stored.is_file():
            with safe_open(stored, "pt") as file:
                before = json.loads((file.metadata() or {}).get(FACTS, "{}"))
        continues = before.get("lora") == self._facts["lora"]
        model, tokenizer = load_model(self._base if continues else path, dtype)
        digest = _digest(model)
        if continues and before["base_sha256"] != digest:
            continues = False
            model, tokenizer = load_model(path, dtype)
            digest = _digest(model)
        self._facts["base_sha256"] = digest
        target = self._lora.target
        self._config = LoraConfig(
            r=self._lora.rank, lora_alpha=self._lora.alpha, task_type="CAUSAL_LM",
            target_modules=target if isinstance(target, str) else [*map(str, target)],
        )  # fmt: skip
        torch.manual_seed(derive_seed(self._seed, "lora"))  # the same matrices on every rank
        try:
            inject_adapter_in_model(self._config, model)
        except ValueError as error:
            raise RatchetError(f"{path} has no layers for training.advanced.lora.target: {error}") from error
        self._config.target_modules = sorted(self._config.target_modules or ())  # a set, which is written in any order
        self._layers = {m.base_layer.weight: m for m in model.modules() if isinstance(m, LoraLayer)}
        if continues:
            with safe_open(stored, "pt") as file, torch.no_grad():
                for name, weight in trained(model).items():
                    weight.copy_(file.get_tensor(_stored_name(name)))
        elif before and ranks.rank() == 0:
            print(f"{path}: its adapter has another base or settings; a new one starts on its weights", file=sys.stderr)
        return model, tokenizer

    def merged(self, weight: Any) -> torch.Tensor:
        """The whole value of one of the model's own weights, with the adapter merged."""
        layer, whole = self._layers.get(weight), weight.detach()
        if layer is None:
            return whole
        down, up = (part["default"].weight.detach().float() for part in (layer.lora_A, layer.lora_B))
        change = layer.scaling["default"] * (up @ down)
        return dithered(whole.float() + (change.T if layer.fan_in_fan_out else change), whole.dtype)

    def save(self, directory: Path, model: Any) -> None:
        """Write the adapter of `model` below `directory`."""
        directory /= DIRECTORY
        directory.mkdir(exist_ok=True)  # a killed save may have left it
        self._config.save_pretrained(str(directory))
        state = {_stored_name(name): weight.detach() for name, weight in trained(model).items()}
        # One entry: safetensors writes several in any order, and equal checkpoints must be equal files.
        save_file(state, directory / FILE, {FACTS: json.dumps(self._facts)})


def dithered(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The tensor `exact` in `dtype`; in bfloat16 rounded up or down by a fixed pattern, so that the mean error is zero.

    Rounding to the nearest would lose each change smaller than half a step of bfloat16, because the base's weights are
    values of bfloat16: after a few steps at a usual rate, engines would sample from a model between the base and the
    trained one.
    """
    if dtype != torch.bfloat16:
        return exact.to(dtype)
    bits = exact.contiguous().view(torch.int32)  # the upper 16 are those of bfloat16
    index = torch.arange(bits.numel(), dtype=torch.int32, device=bits.device)
    up = (index * -0x61C88647 >> 16) & 0xFFFF  # a Weyl sequence: 2^32 divided by the golden ratio, as a signed number
    return ((bits + up.view(bits.shape)) & ~0xFFFF).view(torch.float32).to(dtype)


def trained(model: Any) -> dict[str, Any]:
    """The weights that training changes, by name."""
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}


def share_frozen(model: Any) -> Any:
    """A copy of `model` with its own adapter and the same base."""
    return deepcopy(model, {id(weight): weight for weight in model.parameters() if not weight.requires_grad})


def _stored_name(name: str) -> str:
    return WRAPPER + name.replace(".default.", ".")


def _digest(model: Any) -> str:
    """SHA-256 of all weights in the order of their names."""
    digest = hashlib.sha256()
    for _, weight in sorted(model.named_parameters()):
        digest.update(weight.detach().contiguous().view(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
