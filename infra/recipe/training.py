"""The part of a recipe that says how the model is trained."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from ratchet.infra.inference.engine import AnyEngine, chosen_engine
from ratchet.infra.recipe.evaluation import benchmark_name
from ratchet.infra.recipe.interventions import Change, Intervention, Mix
from ratchet.infra.section import Section, Where


class WarmStart(Section):
    """Supervised start on the teacher's traces, wrong ones included, or on one's own: RL is what corrects them."""

    files: Where[tuple[str, ...]] = ()
    """Traces of one's own, named as `inputs`, which then take the teacher's place: chats (`messages`), prompts and
    responses, or problems with worked solutions; docs/training.md."""
    columns: Where[dict[str, str]] = {}
    """Of the files, as in `{prompt: question, response: reply}`; none means the usual names."""
    domain: Where[str | None] = None
    """Of files with problems: whose prompt template they get. None: the recipe's only domain. These three enter a key
    with the traces that are read by them."""
    traces: int = 44000
    """Traces to learn from, over all domains: of files, the most."""
    mix: dict[str, Annotated[float, Field(gt=0)]] = {}
    """The share of each domain; none means equal shares of all that the recipe has."""
    batch_size: int = 16
    learning_rate: float = 3e-3
    weight_decay: float = 0.01
    warmup_steps: int = 20
    final_learning_rate: float = Field(default=0.05, ge=0, le=1)
    """Where the cosine ends, as a share of `learning_rate`."""
    checkpoint_every: Where[int] = 500


TRUNCATED_SAMPLING = ("top_p", "top_k", "min_p")
RENAMED = {
    "reset": "when: {plateau: 4}, do: reset",
    "plateau_evaluations": "when: {plateau: 5}, do: stop",
}
"""Fields that a stage had, and what to write instead."""


class Stage(Section):
    """One stage of the curriculum: one mix of domains, one response length, one set of knobs; docs/training.md."""

    name: str = Field(..., pattern=r"^[a-z0-9][a-z0-9-]*$")
    mix: Mix
    """Shares of each batch's prompts, by domain, largest first; they need not sum to one. `domain: math` is short for
    `mix: {math: 1.0}`. The first domain's epochs are those of the stage's schedules."""
    graded: tuple[str, ...] = ()
    """Domains that earn the fraction that the verifier gives (code: the share of tests passed), where they would else
    earn 1 or 0."""
    total_time_limit_s: float | None = Field(default=None, gt=0)
    """Seconds for all tests of one program together; tests that come after have failed. None: 10, or four times the
    problem's limit of one test. ProRL, arXiv 2505.24864, gives 5."""
    max_response_tokens: int = Field(..., ge=1)
    steps: int = Field(..., ge=1)
    """Batches of prompts, each sampled, judged and learnt from: the most the stage runs."""
    interventions: tuple[Intervention, ...] = ()
    """What changes on the way, and when: resets, a longer response, another domain, an early end. In each step they are
    looked at in this order; each that is taken is a line of decisions.jsonl with its cause."""
    validate_every: int = Field(default=50, ge=1)
    """Steps between validations, where something depends on them."""
    validation: dict[str, float] = {}
    """The blend that is validated on: weights by the name of the benchmark; none means those of the stage's domains."""
    validation_rollouts: int = Field(default=4, ge=1)
    result: Literal["last", "best"] = "last"
    """Which weights the stage hands on: those of its last step, or of its best validation."""
    prompts_per_batch: int = Field(default=128, ge=1)
    rollouts: int | tuple[int, ...] = 16
    """Responses per prompt; a list is a schedule over epochs, its last value holding on."""
    temperature: float | tuple[float, ...] = 1.0
    """Sampling temperature; a list is a schedule over epochs, its last value holding on."""
    learning_rate: float = 1e-6
    warmup_steps: int = Field(default=0, ge=0)
    loss: str = "grpo"
    """What each token's loss is: grpo, dr_grpo, gspo, cispo, or the import path of one's own; docs/training.md."""
    advantage: str = "grpo"
    """How rewards become advantages: grpo, dr_grpo, rloo, reinforce_pp, reinforce_pp_baseline, or an import path."""
    updates_per_batch: int = Field(default=1, ge=1)
    """1 is strictly on-policy: the probability ratio is identically one, and checked."""
    clip_low: float = Field(default=0.2, gt=0)
    clip_high: float = Field(default=0.2, gt=0)
    """Above `clip_low`, unlikely tokens have more room to grow (DAPO's clip-higher). Acts from the second update on."""
    kl_coefficient: float = Field(default=0.0, ge=0)
    """Weight of the KL term towards the reference policy, which is what the stage starts from, until a reset."""
    kl_estimator: Literal["k1", "k2", "k3"] = "k2"
    """k2 has the gradient of the reverse KL; that of k1 is zero in expectation."""
    entropy_bonus: float = Field(default=0.0, ge=0)
    """A fixed weight of the entropy, which is then held up."""
    entropy_target: float | None = Field(default=None, gt=0)
    """An adaptive weight instead: on while the entropy (nats per token) is below this."""
    entropy_step: float = Field(default=1e-4, gt=0)
    """How much the adaptive weight changes a step."""
    entropy_most: float = Field(default=5e-3, gt=0)
    """Its largest value."""
    importance_cap: Annotated[float, Field(gt=0)] | tuple[float, float] | None = None
    """Weigh tokens by the ratio of trainer to sampling engine. A number truncates it there; two, like the [0.5, 5.0] of
    IcePop, mask the tokens whose ratio is outside of them. None means off."""
    mismatch_limit: float | None = Field(default=0.1, gt=0)
    """Nats per token between the engine that sampled and the trainer (`mismatch_kl`). Above that the responses are not
    the policy's: verl's documentation calls more than 0.1 significant, bfloat16 begins near 0.001, and runs that
    collapsed passed 0.1 on the way (arXiv 2510.26788, figure 3). None means no limit."""
    mismatch_action: Literal["stop", "mask"] = "stop"
    """End the stage when a step's mean is above the limit; or leave every response whose own mean is above it out of
    the loss, though not of its denominator."""
    dynamic_sampling_rounds: int = Field(default=0, ge=0)
    """Further rounds of sampling to replace prompts whose rollouts all have the same reward; 0 means off."""
    truncation: Literal["zero_reward", "mask", "soft_overlong"] = "zero_reward"
    """A response cut at the limit: reward 0 and trained on; left out of group statistics and loss; or, with every
    response that comes near the limit, penalised by length."""
    overlong_buffer_tokens: int = Field(default=0, ge=0)
    """For `soft_overlong`: the penalty grows over this many tokens before the limit, to 1 at the limit."""
    unfinished_penalty: float = Field(default=0.0, ge=0)
    """Taken off the reward of a truncated response."""
    max_difficulty: int | None = None
    """Only problems with at most this many failed teacher attempts, where the teacher was asked."""
    max_pass_rate: float | None = Field(default=None, ge=0, le=1)
    """Only prompts the current policy solves at most this often, measured before the stage."""
    pass_rate_rollouts: int = Field(default=16, ge=1)
    drop_easy_each_epoch: bool = False
    """After each epoch, leave out the prompts whose every rollout passed in it."""
    false_positive_rewards: float = Field(default=0.0, ge=0, le=1)
    """For experiments: the share of wrong responses that are rewarded all the same."""
    false_negative_rewards: float = Field(default=0.0, ge=0, le=1)
    """For experiments: the share of right responses that are not rewarded."""

    @field_validator("validation")
    @classmethod
    def _known_names(cls, validation: dict[str, float]) -> dict[str, float]:
        return {benchmark_name(name): weight for name, weight in validation.items()}

    @property
    def validates(self) -> bool:
        """Whether anything depends on a validation score."""
        rules = {each.when.trigger[0] for each in self.interventions}
        return self.result == "best" or bool(rules & {"plateau", "validation_drop"})

    @property
    def domains(self) -> tuple[str, ...]:
        """Those that the stage trains on, at once or after an intervention."""
        mixes = (self.mix, *(each.do.mix or {} for each in self.interventions))
        return tuple(dict.fromkeys(domain for mix in mixes for domain in mix))

    @property
    def longest_response(self) -> int:
        """Tokens, at once or after an intervention."""
        return max([self.max_response_tokens, *(each.do.max_response_tokens or 0 for each in self.interventions)])

    @property
    def most_rollouts(self) -> int:
        """Responses per prompt, in any epoch or after an intervention."""
        now = max(self.rollouts) if isinstance(self.rollouts, tuple) else self.rollouts
        return max([now, *(each.do.rollouts or 0 for each in self.interventions)])

    def after(self, change: Change) -> "Stage":
        """The stage with the settings that the change gives it."""
        return self.model_copy(update=change.settings)

    @model_validator(mode="before")
    @classmethod
    def _mixed(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        for old, new in RENAMED.items():
            if old in value:
                raise ValueError(f"{old} is an intervention now: interventions: [{{{new}}}]")
        for name in TRUNCATED_SAMPLING:
            if name in value:
                raise ValueError(
                    f"training samples from the whole distribution, and {name} is for evaluation and teachers: with it "
                    "no token has the probability that the trainer computes, and every ratio is wrong"
                )
        given = {key: field for key, field in value.items() if key not in ("domain", "mix") or field is not None}
        if ("domain" in given) == ("mix" in given):
            raise ValueError(
                "give either domain: math or mix: {math: 0.7, code: 0.3}, and not both (domain=null takes it back)"
            )
        domain = given.pop("domain", None)
        return given if domain is None else {**given, "mix": {domain: 1.0}}

    @model_validator(mode="after")
    def _belong_together(self) -> "Stage":
        self._check()
        for number, each in enumerate(self.interventions):
            try:
                self.after(each.do)._check()
            except ValueError as error:
                raise ValueError(f"after interventions.{number}: {error}") from error
        return self

    def _check(self) -> None:
        if self.prompts_per_batch < len(self.mix):
            raise ValueError(f"prompts_per_batch must be at least {len(self.mix)}, a prompt for each domain of the mix")
        if strangers := sorted(set(self.graded) - set(self.mix)):
            raise ValueError(f"graded names {', '.join(strangers)}, and the stage's mix has only {', '.join(self.mix)}")
        if (self.truncation == "soft_overlong") != bool(self.overlong_buffer_tokens):
            raise ValueError("truncation soft_overlong and overlong_buffer_tokens are given together or not at all")
        if self.overlong_buffer_tokens > self.max_response_tokens:
            raise ValueError(f"overlong_buffer_tokens must be at most max_response_tokens ({self.max_response_tokens})")
        if isinstance(self.importance_cap, tuple) and not 0 <= self.importance_cap[0] < 1 < self.importance_cap[1]:
            raise ValueError("importance_cap as a pair is the band of ratios to learn from, such as [0.5, 5.0]")
        if self.entropy_bonus and self.entropy_target is not None:
            raise ValueError("entropy_bonus (fixed) and entropy_target (adaptive) exclude each other: give one")
        for name in ("rollouts", "temperature"):
            value = getattr(self, name)
            values = value if isinstance(value, tuple) else (value,)
            if not values or min(values) <= 0:
                raise ValueError(f"{name} must be positive, and a schedule must have a value")
        if (max(self.rollouts) if isinstance(self.rollouts, tuple) else self.rollouts) < 2:
            raise ValueError("rollouts must be at least 2: a group of one has nothing to compare with")
        if self.dynamic_sampling_rounds and self.updates_per_batch > 1 and isinstance(self.temperature, tuple):
            raise ValueError(
                "with dynamic sampling and several updates per batch, groups are carried over to the next step, which "
                "must have the same temperature: give one temperature and not a schedule"
            )
        if self.prompts_per_batch < self.updates_per_batch:
            raise ValueError("prompts_per_batch must be at least updates_per_batch: each update gets its own prompts")


class Optimizer(Section):
    """AdamW."""

    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.0
    max_gradient_norm: float = 1.0


class Hardware(Section):
    """How one stage is spread over processes. All of it but the timeout may change the order in which numbers are
    added, and with it their rounding."""

    machines: int = Field(default=1, ge=1)
    """Of the process group; what starts a process on each of several is docs/training.md's "Several machines"."""
    processes: int = Field(default=1, ge=1)
    """Ranks on each machine, one a GPU or one a CPU core."""
    zero_stage: int = Field(default=0, ge=0, le=3)
    cpu_offload: bool = False
    """Optimizer state and its update in the CPU's memory (DeepSpeed's); from zero_stage 1 on."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    micro_batch_tokens: int = Field(default=3000, ge=1)
    """Tokens of one forward-backward pass on one rank; bounds memory."""
    packed: bool = False
    """Sequences of a micro-batch one behind the other, without padding, instead of one above the other; each sees
    itself alone, in memory that is linear in their tokens."""
    sequence_ranks: int = Field(default=1, ge=1)
    """Ranks that share each micro-batch in the update (DeepSpeed's Ulysses), for responses that do not fit on one; they
    must divide `processes` and the model's key-value heads. It is packed, and each holds `micro_batch_tokens` of it."""
    logprob_chunk_tokens: int = Field(default=1024, ge=1)
    """Tokens whose logits exist at the same time: tokens x vocabulary is never held."""
    activation_checkpointing: bool = False
    """Compute activations again in the backward pass instead of keeping them."""
    rollout_batch: int = Field(default=256, ge=1)
    """Responses decoded together on one rank."""
    timeout_minutes: Where[float] = Field(default=30, gt=0)
    """A rank that has waited for the others for so long gives up, and the run stops."""

    @property
    def ranks(self) -> int:
        """Of the whole process group."""
        return self.machines * self.processes

    @model_validator(mode="after")
    def _belong_together(self) -> "Hardware":
        if self.cpu_offload and not self.zero_stage:
            raise ValueError("cpu_offload needs zero_stage 1 or more")
        if self.processes % self.sequence_ranks:
            raise ValueError(f"sequence_ranks ({self.sequence_ranks}) must divide processes ({self.processes})")
        return self


class Alarms(Section):
    """When a step's metrics are worth a warning in words. None of them stops a run."""

    entropy_below: float = 0.02
    """Nats per token: hardly anything is left to explore."""
    failed_above: float = 0.5
    """Share of prompts whose every response fails, above which low entropy is a collapse and not a solved task."""
    truncated_above: float = 0.5
    """Share of responses cut at the limit."""
    mismatch_above: float = 0.01
    """Nats per token between the engine that sampled and the trainer."""


class Training(Section):
    warm_start: WarmStart | None = None
    stages: tuple[Stage, ...] = ()
    optimizer: Optimizer = Optimizer()
    hardware: Hardware = Hardware()
    engine: AnyEngine = chosen_engine("transformers")
    """What samples responses, in training and in evaluation: docs/inference.md. A name alone is its `kind`."""
    checkpoint_every: Where[int] = 20
    """Steps between checkpoints; a killed stage loses at most this many."""
    max_infra_errors: float = Field(default=0.05, ge=0, le=1)
    """Share of a batch's verdicts that may be our machine's fault before the run stops."""
    samples_every: Where[int] = Field(default=20, ge=1)
    """Steps between tables of rollouts to read: best, worst, truncated."""
    alarms: Where[Alarms] = Alarms()

    @model_validator(mode="after")
    def _engine_serves_hardware(self) -> "Training":
        self.engine.check_hardware(self.hardware)
        return self

    reward_servers: Where[tuple[str, ...]] = ()
    """URLs of reward servers (`ratchet judge serve`), which then judge instead of this machine, in curation and
    evaluation too: a verdict is the same wherever it is given. Their token is in the environment:
    RATCHET_JUDGE_TOKEN."""

    @model_validator(mode="after")
    def _unique_stages(self) -> "Training":
        names = [stage.name for stage in self.stages]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"stage names must be unique, given twice: {sorted(twice)}")
        return self
