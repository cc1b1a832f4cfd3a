"""The model in training: a Hugging Face causal language model inside a DeepSpeed engine.

Three terms: a *micro-batch* fits on one rank, a *step* is all micro-batches of all ranks between two changes of the
weights, and a *batch* was sampled together.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any

import deepspeed
import numpy as np
import torch
from deepspeed.runtime.checkpoint_engine import TorchCheckpointEngine
from torch import nn

from ratchet.infra.inference.matmul import limit_threads, multiply_by_onednn
from ratchet.infra.inference.models import max_positions
from ratchet.infra.recipe.training import Hardware, Optimizer
from ratchet.training import ranks
from ratchet.training.adapter import Adapter, share_frozen, trained
from ratchet.training.model import ScoredModel, check_attention, copied_among, load_model
from ratchet.training.packing import MicroBatch, Sample, collate, plan_micro_batches
from ratchet.training.reference import FILE as REFERENCE
from ratchet.training.reference import Reference
from ratchet.verifiers.errors import RatchetError

BUCKET = 2**29
"""Bytes of weights gathered at once under ZeRO-3: a 14B model in 55 collectives instead of 443."""
TokenLoss = Callable[[MicroBatch, torch.Tensor, torch.Tensor], torch.Tensor]
"""A function of (micro-batch, log-probabilities [tokens], entropies [tokens]) that returns the scalar to
differentiate."""


def configuration(hardware: Hardware, optimizer: Optimizer, copied_among: int = 1) -> dict[str, Any]:
    """DeepSpeed's configuration."""
    overlapped = hardware.advanced.overlap_gradients or hardware.sharding == 3
    zero: dict[str, Any] = {"stage": hardware.sharding, "overlap_comm": overlapped}
    if copied_among > 1:
        zero["zero_hpz_partition_size"] = copied_among
    if hardware.advanced.cpu_offload:
        zero["offload_optimizer"] = {"device": "cpu"}
    return {
        "train_micro_batch_size_per_gpu": 1,  # only for DeepSpeed's counters
        "gradient_accumulation_steps": 1,
        "managed_gradient_accumulation": False,  # only engine.step() ends a step
        # In plain float32 it clips without reporting the norm, so `Policy` does.
        "gradient_clipping": optimizer.max_gradient_norm if hardware.sharding else 0.0,
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,  # DeepSpeed's optimizer would take minutes to compile
        "bf16": {"enabled": hardware.dtype == "bfloat16"},
        "data_types": {"grad_accum_dtype": "fp32"},
        "steps_per_print": 10**9,
    }


class Policy:
    """One rank's handle on the model in training. All ranks must call a *collective* method together."""

    def __init__(
        self, path: str, hardware: Hardware, optimizer: Optimizer, reference: str | None = None,
        adapter: Adapter | None = None,
    ) -> None:  # fmt: skip
        self.rank, self.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.hardware, self.device = hardware, ranks.device()
        sharded = hardware.zero_stage == 3
        self._adapter = adapter
        read = adapter.load(path, hardware.dtype) if adapter else load_model(path, hardware.dtype, sharded, hardware)
        model, self.tokenizer = read
        if hardware.activation_checkpointing:
            model.gradient_checkpointing_enable()
        check_attention(model, hardware)
        self.copied_among = copied_among(model, hardware)
        if self.copied_among > 1 and self.rank == 0:
            print(
                f"each machine's {self.copied_among} ranks keep a second copy of the weights (ZeRO++'s hpZ); "
                "training.hardware.advanced.hierarchical=false keeps none",
                flush=True,
            )
        scored = ScoredModel(model.to(self.device), hardware.rounded_logits)
        if sharded:
            # ScoredModel reads the head's weight, so it must be gathered there too.
            deepspeed.zero.register_external_parameter(scored, model.get_output_embeddings().weight)
        self.model = model
        learned = list(trained(model).values())
        parameters, own = (sum(getattr(p, "ds_numel", p.numel()) for p in ps) for ps in (model.parameters(), learned))
        of_adapter = f", {own:,} of them in an adapter" if adapter else ""
        self.shape = f"{model.config.model_type}, {parameters:,} parameters{of_adapter}"
        """The shape that a checkpoint must have to be restored."""
        config = model.config.get_text_config()
        limit_threads(model)
        self._even = parameters / config.num_hidden_layers / config.hidden_size
        self.checkpoint_bytes = 12 * own + 4 * parameters
        """Bytes of a checkpoint: weights, optimizer moments, 32-bit copies of 16-bit weights, and the saved model."""
        self._clip_norm, self._gradient_norm = optimizer.max_gradient_norm, 0.0
        self._adam = torch.optim.AdamW(
            learned, lr=0.0, betas=optimizer.betas, weight_decay=optimizer.weight_decay, fused=True
        )
        # In plain float32 DeepSpeed does not wrap our optimizer, and clips without reporting the norm.
        self._plain = hardware.sharding == 0
        if self._plain:
            self._adam.register_step_pre_hook(lambda *_: self._clip())
        self._whole: Any = None
        self.reference = None
        if reference is not None:
            shared = adapter and reference == path
            scoring = share_frozen(model) if shared else self._read_reference(reference, sharded)
            self.reference = Reference(scoring.to(self.device), hardware)
        asked = configuration(hardware, optimizer, self.copied_among)
        engine, *_ = deepspeed.initialize(model=scored, optimizer=self._adam, config=asked)
        self.engine: Any = engine

    def _read_reference(self, path: str, sharded: bool) -> Any:
        """The model in `path`. Raises RatchetError if it does not read the policy's tokens."""
        model, tokenizer = load_model(path, self.hardware.dtype, sharded)
        if tokenizer.get_vocab() != self.tokenizer.get_vocab():
            raise RatchetError(
                f"advanced.reference_model: {path} has another tokenizer than the policy, so it cannot score the "
                "policy's tokens. Give a model of the same family."
            )
        return model

    def _clip(self) -> None:
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self._clip_norm, foreach=True)
        self._gradient_norm = float(norm)

    def micro_batches(self, samples: Sequence[Sample]) -> list[MicroBatch]:
        """This rank's part of the plan for one step, padded with zero-loss micro-batches."""
        packed = self.hardware.packed
        plan = plan_micro_batches(samples, self.ranks, self.hardware.micro_batch_tokens, packed, self._even)
        padding = Sample(-1, np.zeros(1, np.int32), np.zeros(1, np.int32))
        return [collate(b or [padding], self.device, float(bool(b)), packed) for b in plan[self.rank]]

    @property
    def positions(self) -> int | None:
        """Most tokens of a prompt and its response together; None if the model has no limit."""
        return max_positions(self.model.config)

    @property
    def version(self) -> int:
        """The number of optimizer steps taken: a response sampled after fewer steps is not on-policy."""
        return self.engine.global_steps

    @torch.no_grad()
    def score(self, batch: MicroBatch, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities and entropies [tokens] without gradient. Collective."""
        self.model.eval()
        return self.engine(batch, temperature)

    def update(self, batches: Sequence[MicroBatch], loss: TokenLoss, temperature: float, learning_rate: float) -> float:
        """Take one optimizer step over this rank's micro-batches; returns the gradient's norm before clipping.
        Collective. `loss` is a micro-batch's part of the step's loss (`losses.loss.part_of_step`): gradients are
        averaged over ranks."""
        self.accumulate(batches, loss, temperature)
        return self.step(learning_rate)

    def accumulate(self, batches: Sequence[MicroBatch], loss: TokenLoss, temperature: float) -> None:
        """Add the gradient of this rank's micro-batches to the next step's. Collective."""
        if not self.model.training:
            self.engine.train()
        for batch in batches:
            self.engine.backward(loss(batch, *self.engine(batch, temperature)))

    def step(self, learning_rate: float, divisor: float = 1.0) -> float:
        """Change the weights by the accumulated gradient, divided by `divisor`; returns its norm before clipping.
        Collective."""
        for group in self._adam.param_groups:
            group["lr"] = learning_rate
        with self._divided(divisor):
            self.engine.step()
        return self._gradient_norm if self._plain else float(self.engine.get_global_grad_norm())

    @contextmanager
    def _divided(self, divisor: float) -> Iterator[None]:
        """`engine.step` then divides the gradient before computing its norm. ZeRO's optimizers divide it by the scale
        of the loss, wherever they keep it."""
        if self.hardware.sharding:
            self.engine.optimizer.loss_scale = divisor
        elif divisor != 1:
            for weight in self.model.parameters():
                if weight.grad is not None:
                    weight.grad.div_(divisor)
        try:
            yield
        finally:
            if self.hardware.sharding:
                self.engine.optimizer.loss_scale = 1.0

    def reset(self, optimizer: bool) -> None:
        """Make the reference the policy, and with `optimizer` set its moments to zero: ProRL's hard reset (arXiv
        2505.24864, section 3.2.2). Collective. The optimizer's 32-bit copies of 16-bit weights stay, since they are the
        policy."""
        for state in self._adam.state.values() if optimizer else ():
            for value in state.values():
                value.zero_()
        if self.reference is not None:
            self.reference.follow(self.model)

    def weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The name and the whole current tensor of every weight, one at a time, for an inference engine. Tied weights
        come under each of their names: vLLM may have a packed copy of the head. Collective."""
        for name, weight in self._gathered():
            yield name, weight.detach().clone() if hasattr(weight, "ds_id") else self._merged(weight)

    def named_weights(self) -> Iterator[tuple[str, Any]]:
        """The name and parameter of every weight that the model has without an adapter, tied ones under each name."""
        for name, weight in self.model.named_parameters(remove_duplicate=False):
            if ".lora_" not in name:
                yield name.replace(".base_layer.", "."), weight

    def _merged(self, weight: Any) -> torch.Tensor:
        return self._adapter.merged(weight) if self._adapter else weight.detach()

    def _gathered(self) -> Iterator[tuple[str, Any]]:
        """`named_weights`; under ZeRO-3 gathered in buckets of `BUCKET` bytes, and whole until the next one is
        requested. Collective."""
        weights = list(self.named_weights())
        if self.hardware.zero_stage < 3:
            yield from weights
            return
        ends = list(accumulate(weight.ds_numel * weight.element_size() for _, weight in weights))
        for _, bucket in groupby(zip(ends, weights, strict=True), key=lambda each: each[0] // BUCKET):
            gathered = [named for _, named in bucket]
            with deepspeed.zero.GatheredParameters([weight for _, weight in gathered]):
                yield from gathered

    def whole_model(self) -> Any:
        """The model with all of its current weights in evaluation mode, for decoding. With an adapter it is a copy, and
        under ZeRO-3 a copy on every rank, because ranks do not decode in step. Collective."""
        if self.hardware.zero_stage < 3 and not self._adapter:
            return self.model.eval()
        if self._whole is None:
            with self.device:
                whole = type(self.model)._from_config(self.model.config, dtype=getattr(torch, self.hardware.dtype))
            multiply_by_onednn(whole)
            self._whole = whole.requires_grad_(False).eval()
            self._whole.generation_config = self.model.generation_config
        for name, present in self._gathered():
            self._whole.get_parameter(name).data.copy_(self._merged(present))
        return self._whole

    def save_model(self, directory: Path) -> None:
        """Write a directory that transformers loads: configuration, safetensors, tokenizer; and the adapter beside it.
        Collective."""
        state = self.model.state_dict()
        if self.hardware.zero_stage == 3 or self._adapter:  # rank 0 copies one weight after the other to host memory
            whole: dict[Any, torch.Tensor] = {}
            if self._adapter:  # the other entries are gathered below
                state = {name: state[name] for name, _ in self.model.named_buffers() if name in state}
            for name, weight in self._gathered():
                if self.rank == 0:
                    if weight not in whole:
                        whole[weight] = self._merged(weight).to("cpu", copy=True)
                    state[name] = whole[weight]
        if self.rank == 0:
            self.model.save_pretrained(directory, state_dict=state)
            self.tokenizer.save_pretrained(directory)
            if self._adapter:
                self._adapter.save(directory, self.model)

    def save_state(self, directory: Path) -> list[Path]:
        """Write the current state, each rank its part: weights, optimizer moments and counters, the reference, and the
        model as in `save_model`. Returns the files that this rank wrote. Collective."""
        writer = self.engine.checkpoint_engine = _Writer()
        frozen = self._adapter is not None
        self.engine.save_checkpoint(str(directory), tag="engine", save_latest=False, exclude_frozen_parameters=frozen)
        self.save_model(directory / "model")
        if self.reference is not None and self.reference.reset:
            self.reference.save(directory / REFERENCE, self.rank)
        whole = [file for file in directory.rglob("*") if file.parent.name != "engine"] if self.rank == 0 else []
        return writer.files + [file for file in whole if file.is_file()]

    def load_state(self, directory: Path) -> None:
        """Restore the state that `save_state` wrote, bit for bit, on the same number of ranks. Collective."""
        self.engine.load_checkpoint(str(directory), tag="engine", load_module_strict=self._adapter is None)
        if self.reference is not None and (directory / REFERENCE).exists():
            self.reference.load(directory)


class _Writer(TorchCheckpointEngine):
    """DeepSpeed's checkpoint writer, noting the files that it writes."""

    def __init__(self) -> None:
        super().__init__()
        self.files: list[Path] = []

    def save(self, state_dict: Any, path: str) -> None:
        torch.save(state_dict, path)
        self.files.append(Path(path))
