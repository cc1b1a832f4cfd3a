"""The part of a recipe about the training of the model."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Tag, model_validator

from ratchet.data_curation.base import bounds
from ratchet.data_curation.base.section import NotInKey, Section
from ratchet.data_curation.settings.teacher import Teacher
from ratchet.infra.inference.engine import AnyEngine, chosen_engine
from ratchet.infra.recipe.hardware import Hardware
from ratchet.infra.recipe.stage import Stage


class WarmStart(Section):
    """Supervised start on the teacher's traces, wrong ones included, or on your own; RL corrects them."""

    weight_decay: ClassVar[float] = 0.01
    """AdamW's weight decay, during the warm start only."""

    files: NotInKey[tuple[str, ...] | dict[str, tuple[str, ...]]] = ()
    """Your own traces instead of the teacher's, named like `inputs`: chats (`messages`), prompts and responses, or
    problems with worked solutions; docs/howto/warm_start.md. A recipe with several domains names each domain's, as in
    `{math: [gsm8k.jsonl], code: [mbpp.jsonl]}`."""
    columns: NotInKey[dict[str, str]] = {}
    """The files' columns, as in `{prompt: question, response: reply}`. Default: the usual names. `domain` names the
    column with each row's domain."""
    domain: NotInKey[str | None] = None
    """The domain of a list of files, whose prompt template their problems get. None: the recipe's only domain."""
    template: NotInKey[Literal["as_written", "recipe"]] = "as_written"
    """The user turns of chats and prompts in the files: as they are, or their statements in the recipe's template, as
    in training and evaluation. The run and the report say how many differ."""
    teacher: Teacher | None = None
    """Teacher that writes the traces. Default: each domain's `curation.DOMAIN.teacher`."""
    traces: bounds.Count = 44000
    """Number of traces to learn from, over all domains; with files, the most."""
    mix: dict[str, bounds.Weight] = {}
    """Share of each domain. Default: equal shares of the recipe's domains, of files in proportion to their rows."""
    epochs: bounds.Count = 1
    """Passes over the traces, each in an order of its own."""
    batch_size: bounds.Count = 16
    """Traces per optimizer step."""
    learning_rate: bounds.LearningRate = 3e-3
    """Peak learning rate of the schedule; it suits the tiny model, a pretrained one needs less."""
    warmup_steps: bounds.StepsOrZero = 20
    """Optimizer steps of linear warm-up."""
    max_tokens: bounds.Tokens | None = None
    """Longest trace in tokens with its prompt; longer ones are left out. None: the model's positions. One that does not
    fit into `hardware.micro_batch_tokens` is an error."""

    @property
    def file_names(self) -> tuple[str, ...]:
        """The files of all domains."""
        named = self.files.values() if isinstance(self.files, dict) else [self.files]
        return tuple(name for names in named for name in names)

    @model_validator(mode="after")
    def _fills_a_batch(self) -> "WarmStart":
        if self.traces < self.batch_size:
            raise ValueError(f"traces ({self.traces}) must be at least batch_size ({self.batch_size}): one step's")
        return self


class Optimizer(Section):
    """Settings of AdamW."""

    weight_decay: bounds.WeightDecay = 0.0
    """Decoupled weight decay in the stages, of all weights, those of norms and biases too."""
    betas: tuple[bounds.BelowOne, bounds.BelowOne] = (0.9, 0.95)
    """Decay rates of the moments. 0.95 is usual where gradients are noisy (GPT-3, Llama); torch, TRL and verl have
    (0.9, 0.999), a second moment over a thousand steps instead of twenty."""
    max_gradient_norm: bounds.GradientNorm = 1.0
    """Norm to which gradients are clipped."""


Projection = Literal["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


class Lora(Section):
    """A low-rank adapter (arXiv 2106.09685), trained instead of the model's weights, for one small GPU;
    docs/howto/lora.md. It has no dropout, with which the trained network would not be the one that sampled."""

    rank: bounds.Rank = 16
    """Rank of the change of each adapted matrix."""
    alpha: bounds.Rank = 32
    """Scale of the change, which is multiplied by alpha / rank."""
    target: Literal["all-linear"] | tuple[Projection, ...] = "all-linear"
    """The adapted matrices of every layer, such as [q_proj, v_proj]; all of them learn best
    (https://thinkingmachines.ai/blog/lora)."""


class TrainingDetails(Section):
    """Rarely needed settings of training."""

    optimizer: Optimizer = Optimizer()
    """AdamW's settings, for all stages."""
    lora: Lora | None = None
    """Train an adapter. None: all weights."""
    keep_logprobs: NotInKey[bounds.Flag] = False
    """Keep the engine's log-probabilities of kept rollouts too, which about doubles their size."""
    max_infra_errors: bounds.Probability = 0.05
    """Share of a batch's verdicts that may be infrastructure errors before the run stops."""


def _word_or_number(value: Any) -> str:
    return bounds.WORD if isinstance(value, str) else bounds.ONE


KeptRollouts = Annotated[
    Annotated[Literal["all", "samples"], Tag(bounds.WORD)] | Annotated[bounds.Steps, Tag(bounds.ONE)],
    Discriminator(_word_or_number),
]


class Training(Section):
    warm_start: WarmStart | None = None
    """Supervised training before the first stage. None: the first stage starts from `model.path`."""
    stages: tuple[Stage, ...] = ()
    """The curriculum; each stage starts from the checkpoint of the one before."""
    hardware: Hardware = Hardware()
    """Ranks, sharding and batch sizes."""
    engine: AnyEngine = chosen_engine("transformers")
    """The engine that samples responses in training and evaluation: docs/reference/engines.md. A name is short for its
    `kind`."""
    checkpoint_every: NotInKey[bounds.Steps] = 20
    """Steps of a stage between checkpoints; a killed stage loses at most this many, a killed warm start ten minutes."""
    keep_checkpoints: NotInKey[bounds.CountOrZero] = 0
    """Newest checkpoints that stay with a finished stage, with the optimizer's state: to evaluate and train from
    (`--model checkpoint/NAME@STEP`), and, with 2 or more, to continue the stage when its `steps` are raised."""
    keep_rollouts: NotInKey[KeptRollouts] = "all"
    """Rollouts that a stage keeps as Parquet beside its checkpoint: `all`; those of the given number of most recent
    steps; or `samples`, three of each domain every 20 steps. `ratchet plan` estimates their size."""
    reward_servers: NotInKey[tuple[str, ...]] = ()
    """URLs of reward servers (`ratchet-judge serve`), which judge instead of this machine, also in curation and
    evaluation, with the same verdicts. Their token is in the environment variable RATCHET_JUDGE_TOKEN."""
    advanced: TrainingDetails = TrainingDetails()
    """Rarely needed settings."""

    @model_validator(mode="after")
    def _consistent(self) -> "Training":
        self.engine.check_hardware(self.hardware)
        for stage in self.stages:
            self._check_batches(f"stages.{stage.name}", stage)
        longest = (self.warm_start and self.warm_start.max_tokens) or 0
        if longest > self.hardware.micro_batch_tokens:
            raise ValueError(
                f"warm_start.max_tokens ({longest}) is above hardware.micro_batch_tokens "
                f"({self.hardware.micro_batch_tokens}), which must hold a whole trace: lower it, or raise the other"
            )
        if self.advanced.lora and self.hardware.zero_stage == 3:
            raise ValueError(
                "advanced.lora needs hardware.zero_stage 0, 1 or 2: weights that ZeRO-3 shards cannot be merged"
            )
        names = [stage.name for stage in self.stages]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"stage names must be unique, given twice: {sorted(twice)}")
        return self

    def _check_batches(self, field: str, stage: Stage) -> None:
        tokens, ranks = self.hardware.micro_batch_tokens, self.hardware.ranks
        if tokens < stage.longest_response:
            raise ValueError(
                f"hardware.micro_batch_tokens ({tokens}) is below the longest response of {field}, "
                f"{stage.longest_response} tokens, which could not be learned from in that memory: raise it"
            )
        responses = stage.prompts_per_batch // stage.updates_per_batch * stage.fewest_rollouts
        if responses < ranks:
            raise ValueError(
                f"{field}: an optimizer step learns from {responses} responses (prompts_per_batch / updates_per_batch "
                f"x rollouts), and hardware has {ranks} ranks, which would have nothing to do: raise prompts_per_batch"
            )
