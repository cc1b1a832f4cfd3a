"""Distribution of training over machines and GPUs, in a recipe."""

from typing import Literal

from pydantic import model_validator

from ratchet.data_curation.base import bounds
from ratchet.data_curation.base.section import NotInKey, Section


class HardwareDetails(Section):
    """Rarely needed settings of the hardware."""

    cpu_offload: bounds.Flag = False
    """Optimizer state and update in CPU memory (DeepSpeed); needs bfloat16, or zero_stage 1 or more."""
    hierarchical: NotInKey[bounds.Flag | None] = None
    """ZeRO-3 keeps a second copy of the weights on each machine, shared by its ranks, so that most gathers stay
    within it (ZeRO++'s hpZ). It changes no bit. None: on four machines or more, if a rank's part is at most a tenth of
    a GPU's memory."""
    logits: Literal["float32", "bfloat16"] = "float32"
    """Type of a bfloat16 model's logits, in the trainer and the embedded engine. bfloat16 rounds a logit of 20 to steps
    of 0.06, differently on each side, and saves time and memory on a CPU."""
    overlap_gradients: bounds.Flag = False
    """ZeRO 1 and 2 average gradients while the backward pass goes on (DeepSpeed's `overlap_comm`), for a second
    bucket of them in memory. ZeRO-3 always does."""
    timeout_minutes: NotInKey[bounds.Minutes] = 30
    """Minutes that a rank may wait for the others before the run stops."""


COPY_SHARE, COPY_MACHINES = 0.1, 4
"""Largest share of a GPU's memory for a second copy of the weights, and fewest machines for one. With fewer machines a
third of the gathered data stays within one anyway, and each rank's part of everything else is larger."""


class Hardware(Section):
    """Distribution of a stage. All fields but the timeout may change the order of additions, and so rounding."""

    machines: bounds.Machines = 1
    """Machines of the process group; docs/howto/slurm.md says how they are started."""
    processes: bounds.Processes = 1
    """Ranks on each machine, one per GPU or CPU core."""
    zero_stage: bounds.ZeroStage = 0
    """DeepSpeed's sharding: 1 optimizer, 2 also gradients, 3 also weights. In bfloat16 0 and 1 are 2, DeepSpeed's first
    that sums gradients in float32 and divides them by any number."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of weights and activations, in trainer and engine."""
    micro_batch_tokens: bounds.Tokens = 3000
    """Tokens of one forward-backward pass on one rank; bounds memory."""
    packed: bounds.Flag = False
    """Concatenate a micro-batch's sequences instead of padding them; memory is then linear in their tokens."""
    activation_checkpointing: bounds.Flag = False
    """Recompute activations in the backward pass instead of keeping them."""
    rollout_batch: bounds.Responses = 256
    """Responses decoded together on one rank."""
    advanced: HardwareDetails = HardwareDetails()
    """Rarely needed settings."""

    @property
    def sharding(self) -> int:
        """DeepSpeed's sharding stage that is in use."""
        return max(2, self.zero_stage) if self.dtype == "bfloat16" else self.zero_stage

    @property
    def rounded_logits(self) -> bool:
        """True if logits have the 16-bit type of the weights."""
        return self.advanced.logits == "bfloat16"

    @property
    def ranks(self) -> int:
        """The number of ranks in the whole process group."""
        return self.machines * self.processes

    def copied_among(self, weights: float, gpu: float | None, machines: int, on_each: int) -> int:
        """The number of neighboring ranks that share a second copy of the model's `weights` (bytes); 1 if there is
        none. `gpu`: bytes of one GPU's memory, None on a CPU."""
        wanted = self.advanced.hierarchical
        if wanted is None:
            wanted = gpu is not None and weights / on_each <= COPY_SHARE * gpu and machines >= COPY_MACHINES
        return on_each if wanted and self.zero_stage == 3 and machines > 1 else 1

    @model_validator(mode="after")
    def _belong_together(self) -> "Hardware":
        if self.advanced.cpu_offload and not self.sharding:
            raise ValueError("cpu_offload needs zero_stage 1 or more in float32")
        if self.advanced.hierarchical and self.zero_stage < 3:
            raise ValueError("hierarchical keeps a second copy of weights that are sharded: it needs zero_stage 3")
        if self.advanced.logits == "bfloat16" and self.dtype == "float32":
            raise ValueError("logits: bfloat16 is for dtype bfloat16")
        if self.advanced.overlap_gradients and (self.zero_stage == 3 or not self.sharding):
            raise ValueError(
                "overlap_gradients is for ZeRO 1 and 2: ZeRO-3 always overlaps, and float32 without ZeRO cannot"
            )
        return self
