"""The part of a recipe that says how the model is trained."""

from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from ratchet.data_curation.base.bounds import (
    Coefficient,
    Count,
    Difficulty,
    Flag,
    GradientNorm,
    ImportanceCap,
    LearningRate,
    LowerClip,
    Machines,
    Minutes,
    Nats,
    OpenProbability,
    Probability,
    Processes,
    Prompts,
    Rank,
    Responses,
    RolloutSchedule,
    Rounds,
    Samples,
    Seconds,
    Steps,
    StepsOrZero,
    TemperatureSchedule,
    Tokens,
    TokensOrZero,
    UpperClip,
    Weight,
    WeightDecay,
    ZeroStage,
)  # fmt: skip
from ratchet.data_curation.base.section import NotInKey, Section
from ratchet.data_curation.settings.teacher import Teacher
from ratchet.infra.inference.engine import AnyEngine, chosen_engine
from ratchet.infra.recipe.evaluation import benchmark_name
from ratchet.infra.recipe.interventions import Change, Intervention, Mix


class WarmStart(Section):
    """Supervised start on the teacher's traces, wrong ones included, or on your own; RL corrects them."""

    weight_decay: ClassVar[float] = 0.01
    """AdamW's, during the warm start only."""

    files: NotInKey[tuple[str, ...] | dict[str, tuple[str, ...]]] = ()
    """Your own traces instead of the teacher's, named like `inputs`: chats (`messages`), prompts and responses, or
    problems with worked solutions; docs/reference/training.md. A recipe with several domains names each domain's, as in
    `{math: [gsm8k.jsonl], code: [mbpp.jsonl]}`."""
    columns: NotInKey[dict[str, str]] = {}
    """The files' columns, as in `{prompt: question, response: reply}`; none: the usual names. `domain` names the column
    with each row's domain."""
    domain: NotInKey[str | None] = None
    """The domain of a list of files, whose prompt template their problems get. None: the recipe's only domain."""
    template: NotInKey[Literal["as_written", "recipe"]] = "as_written"
    """The user turns of chats and prompts in the files: as they stand there, or their statements in the recipe's
    template, as in training and evaluation. The run and the report say how many differ."""
    teacher: Teacher | None = None
    """Who writes the traces; none: each domain's `curation.DOMAIN.teacher`."""
    traces: Count = 44000
    """Traces to learn from, over all domains; with files, at most."""
    mix: dict[str, Weight] = {}
    """Share of each domain; none: equal shares of the recipe's domains, of files in proportion to their rows."""
    batch_size: Count = 16
    """Traces per optimizer step."""
    learning_rate: LearningRate = 3e-3
    """Peak of the schedule; suits the tiny model, a pretrained one needs less."""
    warmup_steps: StepsOrZero = 20
    """Optimizer steps of linear warm-up."""

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


TRUNCATED_SAMPLING = ("top_p", "top_k", "min_p")


class StageDetails(Section):
    """Rarely needed settings of a stage."""

    graded: tuple[str, ...] = ()
    """Domains whose reward is the verifier's fraction (code: the share of tests passed) instead of 1 or 0."""
    total_time_limit_s: Seconds | None = None
    """Seconds for all tests of a program together; later tests fail. None: 10, or four times the problem's limit per
    test. ProRL (arXiv 2505.24864) uses 5."""
    validation_rollouts: Samples = 4
    """Responses per validation problem."""
    result: Literal["last", "best"] = "last"
    """The weights that the stage passes on: of its last step, or of its best validation."""
    kl_estimator: Literal["k1", "k2", "k3"] = "k2"
    """k2 has the gradient of the reverse KL; that of k1 is zero in expectation."""
    entropy_bonus: Coefficient = 0.0
    """Fixed weight of the entropy in the loss."""
    entropy_target: Nats | None = None
    """Adaptive weight instead: on while the entropy (nats per token) is below this."""
    mismatch_limit: Nats | None = 0.1
    """A step whose mean divergence between sampling engine and trainer (`mismatch_kl`, nats per token) is larger ends
    the stage. bfloat16 starts near 0.001, and runs that collapsed passed 0.1 (arXiv 2510.26788, figure 3). None: no
    limit."""
    overlong_buffer_tokens: TokensOrZero = 0
    """For `soft_overlong`: tokens before the limit over which the penalty grows to 1."""
    pass_rate_rollouts: Samples = 16
    """Responses per prompt in the measurement for `max_pass_rate`."""
    drop_easy_each_epoch: Flag = False
    """After each epoch, drop the prompts whose every rollout passed."""
    tail_batching: Probability = 0.0
    """Share of prompts that a step samples beyond `prompts_per_batch`, to learn from the shorter groups; those of the
    longer ones wait for a step of their own. 0: off."""
    max_staleness: Rounds = 0
    """Long responses span updates, and engines apart sample while the policy learns: no token is learned from more than
    this many batches after it was sampled, with importance weights (`importance_cap`). 0: off, strictly on-policy."""


class Stage(Section):
    """One stage of the curriculum: a mix of domains, a response length, their settings (docs/reference/training.md)."""

    name: str = Field(..., pattern=r"^[a-z0-9][a-z0-9-]*$")
    """Unique in the recipe; part of the checkpoint's name."""
    mix: Mix
    """Shares of each batch's prompts by domain, largest first; they need not sum to one. `domain: math` is short for
    `mix: {math: 1.0}`. Schedules follow the first domain's epochs."""
    max_response_tokens: Tokens
    """Longest response in tokens; longer ones are truncated."""
    steps: Steps
    """Most batches that the stage samples, judges and learns from."""
    interventions: tuple[Intervention, ...] = ()
    """Changes during the stage and their triggers: resets, longer responses, another domain, an early end. Checked in
    this order after each step; each one taken is a line of decisions.jsonl with its cause."""
    validate_every: Steps = 50
    """Steps between validations, if anything depends on them."""
    validation: dict[str, Weight] = {}
    """Weights of the validation benchmarks by name; none: the benchmarks of the stage's domains."""
    keep: dict[str, OpenProbability] = {}
    """What the stage may not forget: domains or benchmarks, and how far their validation scores may fall below those of
    the stage's start. `{below_floor: 1}` triggers interventions; a validation below a floor is never the best."""
    prompts_per_batch: Prompts = 128
    """Prompts per step; 128 as in AceReason."""
    rollouts: RolloutSchedule = 16
    """Responses per prompt; a list is a schedule over epochs, whose last value continues."""
    temperature: TemperatureSchedule = 1.0
    """Sampling temperature; a list is a schedule over epochs, whose last value continues."""
    learning_rate: LearningRate = 1e-6
    """AdamW's, constant after warm-up; 1e-6 as in AceReason."""
    warmup_steps: StepsOrZero = 0
    """Optimizer steps of linear warm-up."""
    loss: str = "grpo"
    """grpo, dr_grpo, gspo, cispo, or the import path of your own; docs/reference/training.md."""
    advantage: str = "grpo"
    """grpo, dr_grpo, rloo, reinforce_pp, reinforce_pp_baseline, or the import path of your own."""
    updates_per_batch: Prompts = 1
    """Optimizer steps per batch; 1 is strictly on-policy: the probability ratio is one."""
    clip_low: LowerClip = 0.2
    """The ratio is clipped below 1 - this."""
    clip_high: UpperClip = 0.2
    """The ratio is clipped above 1 + this; more than `clip_low` lets unlikely tokens grow (DAPO). Acts from the second
    update on."""
    kl_coefficient: Coefficient = 0.0
    """Weight of the KL term to the reference policy: the stage's start, or the last reset."""
    importance_cap: ImportanceCap | None = None
    """Weight of tokens by the ratio of trainer to sampling engine. A number truncates it; a pair, such as IcePop's
    [0.5, 5.0], masks tokens outside. None: off."""
    dynamic_sampling_rounds: Rounds = 0
    """Further rounds of sampling to replace prompts whose rollouts all have the same reward; 0: off."""
    truncation: Literal["zero_reward", "mask", "soft_overlong"] = "zero_reward"
    """A truncated response has reward 0 and is trained on; is left out of statistics and loss; or is penalized by
    length, as is one that comes near the limit."""
    unfinished_penalty: Coefficient = 0.0
    """Subtracted from the reward of a truncated response."""
    max_difficulty: Difficulty | None = None
    """Only problems with at most this many failed teacher attempts; unmeasured ones pass."""
    max_pass_rate: Probability | None = None
    """Only prompts that the starting policy solves at most this often, measured before the stage."""
    advanced: StageDetails = StageDetails()
    """Rarely needed settings."""

    @field_validator("validation", "keep")
    @classmethod
    def _known_names(cls, numbers: dict[str, float]) -> dict[str, float]:
        return {benchmark_name(name): number for name, number in numbers.items()}

    @property
    def validates(self) -> bool:
        rules = {each.when.trigger[0] for each in self.interventions}
        return self.advanced.result == "best" or bool(self.keep) or "plateau" in rules

    @property
    def domains(self) -> tuple[str, ...]:
        """All domains, including those of interventions."""
        mixes = (self.mix, *(each.do.mix or {} for each in self.interventions))
        return tuple(dict.fromkeys(domain for mix in mixes for domain in mix))

    @property
    def longest_response(self) -> int:
        """Tokens, including interventions."""
        return max([self.max_response_tokens, *(each.do.max_response_tokens or 0 for each in self.interventions)])

    @property
    def most_rollouts(self) -> int:
        """Responses per prompt, in any epoch, including interventions."""
        now = max(self.rollouts) if isinstance(self.rollouts, tuple) else self.rollouts
        return max([now, *(each.do.rollouts or 0 for each in self.interventions)])

    @property
    def fewest_rollouts(self) -> int:
        """Responses per prompt, in any epoch, including interventions."""
        now = min(self.rollouts) if isinstance(self.rollouts, tuple) else self.rollouts
        return min([now, *(each.do.rollouts or now for each in self.interventions)])

    def after(self, change: Change) -> "Stage":
        return self.model_copy(update=change.settings)

    @model_validator(mode="before")
    @classmethod
    def _mixed(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        for name in TRUNCATED_SAMPLING:
            if name in value:
                raise ValueError(
                    f"training samples from the whole distribution; {name} is for evaluation and teachers: with it the "
                    "trainer's probabilities are not those sampled from, and every ratio is wrong"
                )
        fields = {key: field for key, field in value.items() if key not in ("domain", "mix") or field is not None}
        if ("domain" in fields) == ("mix" in fields):
            raise ValueError("give either domain: math or mix: {math: 0.7, code: 0.3} (domain=null removes it)")
        domain = fields.pop("domain", None)
        return fields if domain is None else {**fields, "mix": {domain: 1.0}}

    @model_validator(mode="after")
    def _belong_together(self) -> "Stage":
        self._check()
        self._check_triggers()
        for number, each in enumerate(self.interventions):
            try:
                self.after(each.do)._check()
            except ValueError as error:
                raise ValueError(f"after interventions.{number}: {error}") from error
        return self

    def _check(self) -> None:
        if self.prompts_per_batch < len(self.mix):
            raise ValueError(f"prompts_per_batch must be at least {len(self.mix)}, a prompt for each domain of the mix")
        if unknown := sorted(set(self.advanced.graded) - set(self.mix)):
            raise ValueError(f"graded names {', '.join(unknown)}, but the stage's mix has only {', '.join(self.mix)}")
        if (self.truncation == "soft_overlong") != bool(self.advanced.overlong_buffer_tokens):
            raise ValueError("truncation soft_overlong and overlong_buffer_tokens are given together or not at all")
        if not self.keep and any(each.when.below_floor for each in self.interventions):
            raise ValueError("below_floor needs floors: name in keep what the stage may not forget, as in {math: 0.02}")
        if self.advanced.overlong_buffer_tokens > self.max_response_tokens:
            raise ValueError(f"overlong_buffer_tokens must be at most max_response_tokens ({self.max_response_tokens})")
        if self.advanced.entropy_bonus and self.advanced.entropy_target is not None:
            raise ValueError("entropy_bonus (fixed) and entropy_target (adaptive) exclude each other: give one")
        if self.dynamic_sampling_rounds and self.updates_per_batch > 1 and isinstance(self.temperature, tuple):
            raise ValueError(
                "with dynamic sampling and several updates per batch, groups are carried over to the next step, which "
                "must have the same temperature: give one temperature instead of a schedule"
            )
        if self.advanced.tail_batching and (self.dynamic_sampling_rounds or len(self.domains) > 1):
            why = "dynamic sampling replaces groups" if self.dynamic_sampling_rounds else "domains differ in length"
            raise ValueError(
                f"tail_batching waits with the longest groups of one domain, and {why}: give one domain and "
                "dynamic_sampling_rounds=0, or tail_batching=0"
            )
        self._check_staleness()
        if self.prompts_per_batch < self.updates_per_batch:
            raise ValueError("prompts_per_batch must be at least updates_per_batch: each update needs prompts")

    def _check_triggers(self) -> None:
        """Refuse a change that cannot happen in the stage's steps; nothing is due after the last one. A stop may be
        further away than the stage's end: then `steps` ends it."""
        validations = (self.steps - 1) // self.validate_every
        if self.advanced.result == "best" and self.validate_every > self.steps:
            raise ValueError(
                f"result: best needs a validation, and validate_every ({self.validate_every}) is above steps "
                f"({self.steps}): lower it"
            )
        for number, each in enumerate(self.interventions):
            (trigger, limit), last = each.when.trigger, self.steps - 1
            if trigger in ("plateau", "below_floor"):
                first = trigger == "plateau"  # the first validation is the best so far
                last, of = validations - first, f"{self.steps} steps with a validation every {self.validate_every}"
            else:
                of = f"{self.steps} steps"
            if trigger != "truncated_above" and limit > last and not each.do.stop:
                raise ValueError(
                    f"interventions.{number}: {trigger} {limit} cannot happen in {of}: "
                    + (f"give at most {last}" if last > 0 else "raise steps, or remove it")
                )
            if each.do.reset == "reference" and not self.kl_coefficient:
                raise ValueError(
                    f"interventions.{number}: reset: reference changes only the KL term, and kl_coefficient is 0"
                )

    def _check_staleness(self) -> None:
        stale, why = self.advanced.max_staleness, ""
        if not stale:
            return
        if self.importance_cap is None:
            why = "stale tokens need importance weights: give importance_cap, such as 2.0"
        elif self.dynamic_sampling_rounds:
            why = "dynamic sampling replaces groups within a step, and stale groups are from earlier ones: give "
            why += "dynamic_sampling_rounds=0"
        elif self.advanced.tail_batching:
            why = "tail batching lets long groups wait, which staleness does by itself: give tail_batching=0"
        elif len(self.domains) > 1:
            why = f"a batch takes the oldest complete groups of one domain, not of {', '.join(self.domains)}"
        elif stale > self.max_response_tokens:
            why = f"responses of at most {self.max_response_tokens} tokens cannot span {stale} rounds"
        if why:
            raise ValueError(f"max_staleness={stale}: {why}; or give max_staleness=0")


class Optimizer(Section):
    """AdamW."""

    weight_decay: WeightDecay = 0.0
    """Decoupled weight decay in the stages."""
    max_gradient_norm: GradientNorm = 1.0
    """Gradients are clipped to this norm."""


class HardwareDetails(Section):
    """Rarely needed settings of the hardware."""

    cpu_offload: Flag = False
    """Optimizer state and update in CPU memory (DeepSpeed); needs zero_stage 1 or more."""
    hierarchical: NotInKey[Flag | None] = None
    """Under ZeRO-3 keep a second copy of the weights on each machine, shared by its ranks, so that most gathers stay
    within it (ZeRO++'s hpZ). It changes no bit. None: on four machines or more, if a rank's part is at most a tenth of
    a GPU's memory."""
    overlap_gradients: Flag = False
    """Under ZeRO 1 and 2 average gradients while the backward pass goes on (DeepSpeed's `overlap_comm`), for a second
    bucket of them in memory. ZeRO-3 always does."""
    timeout_minutes: NotInKey[Minutes] = 30
    """A rank that waits longer for the others stops the run."""


COPY_SHARE, COPY_MACHINES = 0.1, 4
"""Of a GPU's memory: the most that a second copy of the weights takes by itself. With fewer machines a third of what is
gathered stays within one anyway, and each rank's part of everything else is larger."""


class Hardware(Section):
    """How a stage is distributed. All fields but the timeout may change the order of additions, and so rounding."""

    machines: Machines = 1
    """Machines of the process group; docs/reference/training.md, "Several machines", says how they are started."""
    processes: Processes = 1
    """Ranks on each machine, one per GPU or CPU core."""
    zero_stage: ZeroStage = 0
    """DeepSpeed's sharding: 1 optimizer, 2 also gradients, 3 also weights. In bfloat16 0 and 1 are 2, DeepSpeed's first
    that sums gradients in float32 and divides them by any number."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of weights and activations, in trainer and engine."""
    micro_batch_tokens: Tokens = 3000
    """Tokens of one forward-backward pass on one rank; bounds memory."""
    packed: Flag = False
    """Concatenate a micro-batch's sequences instead of padding them; memory is then linear in their tokens."""
    activation_checkpointing: Flag = False
    """Recompute activations in the backward pass instead of keeping them."""
    rollout_batch: Responses = 256
    """Responses decoded together on one rank."""
    advanced: HardwareDetails = HardwareDetails()
    """Rarely needed settings."""

    @property
    def sharding(self) -> int:
        """DeepSpeed's stage in use."""
        return max(2, self.zero_stage) if self.dtype == "bfloat16" else self.zero_stage

    @property
    def ranks(self) -> int:
        """Ranks of the whole process group."""
        return self.machines * self.processes

    def copied_among(self, weights: float, gpu: float | None, machines: int, on_each: int) -> int:
        """Neighboring ranks that share a second copy of the model's `weights` (bytes); 1: there is none. `gpu`: bytes
        of one GPU's memory, None on a CPU."""
        wanted = self.advanced.hierarchical
        if wanted is None:
            wanted = gpu is not None and weights / on_each <= COPY_SHARE * gpu and machines >= COPY_MACHINES
        return on_each if wanted and self.zero_stage == 3 and machines > 1 else 1

    @model_validator(mode="after")
    def _belong_together(self) -> "Hardware":
        if self.advanced.cpu_offload and not self.zero_stage:
            raise ValueError("cpu_offload needs zero_stage 1 or more")
        if self.advanced.hierarchical and self.zero_stage < 3:
            raise ValueError("hierarchical keeps a second copy of weights that are sharded: it needs zero_stage 3")
        if self.advanced.overlap_gradients and (self.zero_stage == 3 or not self.sharding):
            raise ValueError(
                "overlap_gradients is for ZeRO 1 and 2: ZeRO-3 always overlaps, and float32 without ZeRO cannot"
            )
        return self


Projection = Literal["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


class Lora(Section):
    """A low-rank adapter (arXiv 2106.09685), trained instead of the model's weights, for one small GPU;
    docs/reference/training.md. It has no dropout, with which the trained network would not be the one that sampled."""

    rank: Rank = 16
    """Rank of the change of each adapted matrix."""
    alpha: Rank = 32
    """The change is scaled by alpha / rank."""
    target: Literal["all-linear"] | tuple[Projection, ...] = "all-linear"
    """The adapted matrices of every layer, such as [q_proj, v_proj]; all of them learn best
    (https://thinkingmachines.ai/blog/lora)."""


class TrainingDetails(Section):
    """Rarely needed settings of training."""

    optimizer: Optimizer = Optimizer()
    """AdamW's settings, for all stages."""
    lora: Lora | None = None
    """Train an adapter; none: all weights."""
    max_infra_errors: Probability = 0.05
    """Share of a batch's verdicts that may be infrastructure errors before the run stops."""


class Training(Section):
    warm_start: WarmStart | None = None
    """Supervised training before the first stage; none: the first stage starts from `model.path`."""
    stages: tuple[Stage, ...] = ()
    """The curriculum; each stage starts from the checkpoint of the one before."""
    hardware: Hardware = Hardware()
    """Ranks, sharding and batch sizes."""
    engine: AnyEngine = chosen_engine("transformers")
    """The engine that samples responses in training and evaluation: docs/reference/engines.md. A name is short for its
    `kind`."""
    checkpoint_every: NotInKey[Steps] = 20
    """Steps between checkpoints; a killed stage loses at most this many."""
    reward_servers: NotInKey[tuple[str, ...]] = ()
    """URLs of reward servers (`ratchet-judge serve`), which judge instead of this machine, also in curation and
    evaluation, with the same verdicts. Their token is in the environment variable RATCHET_JUDGE_TOKEN."""
    advanced: TrainingDetails = TrainingDetails()
    """Rarely needed settings."""

    @model_validator(mode="after")
    def _consistent(self) -> "Training":
        self.engine.check_hardware(self.hardware)
        for number, stage in enumerate(self.stages):
            self._check_batches(f"stages.{number}", stage)
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
