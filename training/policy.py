"""The model in training: a Hugging Face causal language model inside a DeepSpeed engine.

Three terms: a *micro-batch* fits on one rank, a *step* is all micro-batches of all ranks between two changes of the
weights, and a *batch* was sampled together.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any

import deepspeed
import numpy as np
import torch
from deepspeed.runtime.sequence_parallel import parallel_state_sp
from torch import nn

from ratchet.infra.inference.products import multiply_by_onednn
from ratchet.infra.recipe.training import Hardware, Optimizer
from ratchet.training import ranks
from ratchet.training.adapter import Adapter, share_frozen, trained
from ratchet.training.attention import check_attention, share_attention
from ratchet.training.model import ScoredModel, load_model
from ratchet.training.packing import MicroBatch, Sample, collate, plan_micro_batches, shard
from ratchet.training.reference import FILE as REFERENCE
from ratchet.training.reference import Reference
from ratchet.training.snapshot import HostCopies, Writes, has_room, universal

BETAS = (0.9, 0.95)
"""Decay rates of AdamW's moments; 0.95 is usual where gradients are noisy (GPT-3, Llama)."""
BUCKET = 2**29
"""Bytes of weights gathered at once under ZeRO-3: a 14B model in 55 collectives instead of 443."""
TokenLoss = Callable[[MicroBatch, torch.Tensor, torch.Tensor], torch.Tensor]
"""(micro-batch, log-probabilities [tokens], entropies [tokens]) to the scalar to differentiate."""


def configuration(hardware: Hardware, optimizer: Optimizer) -> dict[str, Any]:
    """DeepSpeed's."""
    zero: dict[str, Any] = {"stage": hardware.sharding}
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
        self, path: str, hardware: Hardware, optimizer: Optimizer, with_reference: bool = False,
        adapter: Adapter | None = None,
    ) -> None:  # fmt: skip
        self.rank, self.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.hardware, self.device = hardware, ranks.device()
        sharded = hardware.zero_stage == 3
        self._adapter = adapter
        read = adapter.load(path, hardware.dtype) if adapter else load_model(path, hardware.dtype, sharded)
        model, self.tokenizer = read
        if hardware.activation_checkpointing:
            model.gradient_checkpointing_enable()
        check_attention(model, hardware)
        if hardware.advanced.sequence_ranks > 1:
            share_attention(model, hardware.advanced.sequence_ranks)
        scored = ScoredModel(model.to(self.device))
        if sharded:
            # ScoredModel reads the head's weight, so it must be gathered there too.
            deepspeed.zero.register_external_parameter(scored, model.get_output_embeddings().weight)
        self.model = model
        learned = list(trained(model).values())
        parameters, own = (sum(getattr(p, "ds_numel", p.numel()) for p in ps) for ps in (model.parameters(), learned))
        of_adapter = f", {own:,} of them in an adapter" if adapter else ""
        self.shape = f"{model.config.model_type}, {parameters:,} parameters{of_adapter}"
        """A checkpoint must be of the same shape."""
        config = model.config.get_text_config()
        self._even = parameters / config.num_hidden_layers / config.hidden_size
        self.checkpoint_bytes = 12 * own + 4 * parameters
        """Weights, optimizer moments, 32-bit copies of 16-bit weights, and the saved model."""
        self._clip_norm, self._gradient_norm = optimizer.max_gradient_norm, 0.0
        self._adam = torch.optim.AdamW(learned, lr=0.0, betas=BETAS, weight_decay=optimizer.weight_decay, fused=True)
        # In plain float32 DeepSpeed does not wrap our optimizer, and clips without reporting the norm.
        self._plain = hardware.sharding == 0
        if self._plain:
            self._adam.register_step_pre_hook(lambda *_: self._clip())
        self._whole: Any = None
        self.reference = None
        if with_reference:
            start = share_frozen(model) if adapter else load_model(path, hardware.dtype, sharded)[0]
            if hardware.advanced.sequence_ranks > 1:
                share_attention(start, hardware.advanced.sequence_ranks)
            self.reference = Reference(start.to(self.device), hardware)
        engine, *_ = deepspeed.initialize(model=scored, optimizer=self._adam, config=configuration(hardware, optimizer))
        self.engine: Any = engine

    def _clip(self) -> None:
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self._clip_norm, foreach=True)
        self._gradient_norm = float(norm)

    def micro_batches(self, samples: Sequence[Sample]) -> list[MicroBatch]:
        """This rank's part of the plan for one step, padded with zero-loss micro-batches."""
        sharers = self.hardware.advanced.sequence_ranks  # ranks that compute a sequence together
        packed = self.hardware.packed or sharers > 1
        budget = sharers * self.hardware.micro_batch_tokens
        plan = plan_micro_batches(samples, self.ranks // sharers, budget, packed, sharers == 1, self._even)
        padding = Sample(-1, np.zeros(1, np.int32), np.zeros(1, np.int32))
        batches = [
            collate(share or [padding], self.device, float(bool(share)), packed, share_prompts=sharers == 1)
            for share in plan[self.rank // sharers]
        ]
        return batches if sharers == 1 else [shard(b, self.rank % sharers, sharers) for b in batches]

    @property
    def positions(self) -> int | None:
        """Most tokens of a prompt and its response together; None if the model has no limit."""
        return getattr(self.model.config, "max_position_embeddings", None)

    @property
    def version(self) -> int:
        """Optimizer steps taken: a response sampled after fewer steps is not on-policy."""
        return self.engine.global_steps

    @torch.no_grad()
    def score(self, batch: MicroBatch, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities and entropies [tokens] without gradient. Collective."""
        # Ranks share attention only in training mode and over packed sequences.
        self.model.train(self.hardware.advanced.sequence_ranks > 1 and batch.sequences is not None)
        return self.engine(batch, temperature)

    def update(self, batches: Sequence[MicroBatch], loss: TokenLoss, temperature: float, learning_rate: float) -> float:
        """One optimizer step over this rank's micro-batches; the gradient's norm before clipping. Collective. `loss` is
        a micro-batch's part of the step's loss (`losses.loss.part_of_step`): gradients are averaged over ranks."""
        self.accumulate(batches, loss, temperature)
        return self.step(learning_rate)

    def accumulate(self, batches: Sequence[MicroBatch], loss: TokenLoss, temperature: float) -> None:
        """Add the gradient of this rank's micro-batches to the next step's. Collective."""
        if not self.model.training:
            self.engine.train()
        for batch in batches:
            self.engine.backward(loss(batch, *self.engine(batch, temperature)))

    def step(self, learning_rate: float, divisor: float = 1.0) -> float:
        """Change the weights by the accumulated gradient, divided by `divisor`; its norm before clipping.
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

    def sum_over_sharers(self, values: torch.Tensor) -> torch.Tensor:
        """The sum of `values`, any shape, over the ranks that share this rank's sequences. Collective among them."""
        if self.hardware.advanced.sequence_ranks == 1:
            return values
        total = values.clone()
        torch.distributed.all_reduce(total, group=parallel_state_sp.get_sequence_parallel_group())
        return total

    def reset(self, optimizer: bool) -> None:
        """ProRL's hard reset (arXiv 2505.24864, section 3.2.2): the reference becomes the policy, and with `optimizer`
        its moments become zero. Collective. The optimizer's 32-bit copies of 16-bit weights stay, being the policy."""
        for state in self._adam.state.values() if optimizer else ():
            for value in state.values():
                value.zero_()
        if self.reference is not None:
            self.reference.follow(self.model)

    def weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Name and whole current tensor of every weight, one at a time, for an inference engine. Tied weights come
        under each of their names: vLLM may have a packed copy of the head. Collective."""
        for name, weight in self._gathered():
            yield name, weight.detach().clone() if hasattr(weight, "ds_id") else self._merged(weight)

    def named_weights(self) -> Iterator[tuple[str, Any]]:
        """Name and parameter of every weight that the model has without an adapter, tied ones under each name."""
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
        """The model with all of its current weights in evaluation mode, for decoding. With an adapter a copy, and under
        ZeRO-3 one on every rank, because ranks do not decode in step. Collective."""
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
        """Write a directory that transformers loads: configuration, safetensors, tokenizer. Collective."""
        for write in self._model_writes(directory, copy=lambda state: state).values():
            write()

    def _model_writes(self, directory: Path, copy: Callable[[Any], Any]) -> Writes:
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
        elif self.rank == 0:
            state = copy(state)
        if self.rank:
            return {}
        # Read now: a tokenizer cannot be saved by one thread while another uses it.
        tokenizer = self._tokenizer_files
        write_adapter = self._adapter.writer(directory, self.model, copy) if self._adapter else None

        def write() -> None:
            self.model.save_pretrained(directory, state_dict=state)
            for name, content in tokenizer.items():
                (directory / name).parent.mkdir(exist_ok=True)
                (directory / name).write_bytes(content)
            if write_adapter:
                write_adapter()

        return {directory: write}

    @cached_property
    def _tokenizer_files(self) -> dict[str, bytes]:
        with tempfile.TemporaryDirectory() as scratch:
            self.tokenizer.save_pretrained(scratch)
            files = [file for file in Path(scratch).rglob("*") if file.is_file()]
            return {str(file.relative_to(scratch)): file.read_bytes() for file in files}

    def snapshot(self, directory: Path) -> Writes:
        """Functions that write the current state, each rank its part: weights, optimizer moments and counters, the
        reference, and the model as `save_model` does. A host without memory for a copy writes at once. Collective."""
        room = has_room(self.checkpoint_bytes / self.hardware.machines)
        copies = HostCopies(room)
        usual, self.engine.checkpoint_engine = self.engine.checkpoint_engine, copies
        try:
            self.engine.save_checkpoint(
                str(directory), tag="engine", save_latest=False, exclude_frozen_parameters=self._adapter is not None
            )
        finally:
            self.engine.checkpoint_engine = usual
        writes = copies.writes | self._model_writes(directory / "model", copies.copy)
        if self.reference is not None and self.reference.reset:
            writes |= self.reference.snapshot(directory / REFERENCE, self.rank)
        for path in () if room else list(writes):
            writes[path]()
            writes[path] = lambda: None
        return writes

    def load_state(self, directory: Path, other_ranks: bool = False) -> None:
        """The reverse of `snapshot`, bit for bit. If another number of ranks wrote it, through DeepSpeed's universal
        form. Collective."""
        if other_ranks and self.hardware.sharding:
            self._load_universal(directory)
        else:
            self._load_engine(directory)
        if self.reference is not None and (directory / REFERENCE).exists():
            self.reference.load(directory)

    def _load_engine(self, directory: Path) -> None:
        self.engine.load_checkpoint(str(directory), tag="engine", load_module_strict=self._adapter is None)

    def _load_universal(self, directory: Path) -> None:
        scratch = directory.with_name(f".universal-{directory.name}")

        def convert() -> None:
            shutil.rmtree(scratch, ignore_errors=True)  # from a killed run
            universal(directory / "engine", scratch / "engine")

        ranks.first(convert, self.checkpoint_bytes, self.hardware.advanced.timeout_minutes)
        self.engine._config.load_universal_checkpoint = True
        self._load_engine(scratch)
        self.engine._config.load_universal_checkpoint = False
        torch.distributed.barrier()
        if self.rank == 0:
            shutil.rmtree(scratch)
