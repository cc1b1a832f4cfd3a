"""A stage of the curriculum in a recipe."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, JsonValue, Tag, field_validator, model_validator

from ratchet.data_curation.base import bounds
from ratchet.data_curation.base.section import Section
from ratchet.infra.recipe.evaluation import benchmark_name
from ratchet.infra.recipe.interventions import Change, Intervention, Mix

TRUNCATED_SAMPLING = ("top_p", "top_k", "min_p")


class SequenceImportance(Section):
    """Importance weights by response: `{sequence: [0.999, 1.002]}` excludes responses on which engine and trainer
    differ by more, as NeMo RL's ProRLv2 (`seq-mask-tis`) and verl's `rollout_rs` do; docs/reference/losses.md."""

    sequence: bounds.RatioBand
    """Bounds of a response's ratio, the geometric mean of its tokens' ratios of trainer to engine."""
    outside: Literal["mask", "truncate"] = "mask"
    """Treatment of a response outside of the bounds: it has no gradient, or the bound it exceeds as its weight."""
    tokens: bounds.ImportanceCap | None = None
    """Weights of the tokens of the responses inside (with `mask`), as in `importance_cap` without a sequence form.
    None: the response's ratio."""

    @model_validator(mode="after")
    def _belong_together(self) -> "SequenceImportance":
        if self.outside == "truncate" and self.tokens is not None:
            raise ValueError("outside: truncate weighs whole responses, and tokens single ones: give outside: mask")
        return self


def _importance_form(value: Any) -> str:
    by_response = isinstance(value, dict | SequenceImportance)
    return bounds.NESTED if by_response else bounds.SEVERAL if isinstance(value, list | tuple) else bounds.ONE


Importance = Annotated[
    Annotated[bounds.RatioCap, Tag(bounds.ONE)]
    | Annotated[bounds.RatioBand, Tag(bounds.SEVERAL)]
    | Annotated[SequenceImportance, Tag(bounds.NESTED)],
    Discriminator(_importance_form),
]


class DifficultyFilter(Section):
    """Prompts to skip, decided after each epoch from their rollouts: `{easy: 1.0}` drops those whose every rollout
    of the epoch passed."""

    easy: bounds.Probability = 1.0
    """Skip a prompt whose pass rate is at least this."""
    hard: bounds.BelowOne | None = None
    """Skip a prompt whose pass rate is at most this; 0: one that no rollout solved. None: none."""
    memory: bounds.BelowOne = 0.0
    """Weight of the earlier pass rate when a prompt is sampled again; 0: the last epoch alone counts."""
    skip_epochs: bounds.Count | None = None
    """Epochs for which a prompt is skipped before it is tried again. None: for the rest of the stage."""

    @model_validator(mode="after")
    def _apart(self) -> "DifficultyFilter":
        if self.hard is not None and self.hard >= self.easy:
            raise ValueError(f"hard ({self.hard:g}) must be below easy ({self.easy:g}): nothing would be left")
        return self


class StageDetails(Section):
    """Rarely needed settings of a stage."""

    renamed: ClassVar[Mapping[str, str]] = {
        "drop_easy_each_epoch": "drop_easy_each_epoch is now difficulty_filter: "
        "true is `difficulty_filter: {easy: 1.0}`"
    }
    graded: tuple[str, ...] = ()
    """Domains whose reward is the verifier's fraction (code: the share of tests passed) instead of 1 or 0."""
    total_time_limit_s: bounds.Seconds | None = None
    """Seconds for all tests of a program together; later tests fail. None: 10, or four times the problem's limit per
    test. ProRL (arXiv 2505.24864) uses 5."""
    validation_rollouts: bounds.Samples = 4
    """Responses per validation problem."""
    result: Literal["last", "best"] = "last"
    """The weights that the stage passes on: those of its last step, or of its best validation, which may be the one
    before its first step: then its start."""
    kl_estimator: Literal["k1", "k2", "k3"] = "k2"
    """Estimator of the KL term. k2 has the gradient of the reverse KL; that of k1 is zero in expectation."""
    reference_model: str | None = None
    """The model of the KL term, for on-policy distillation: a checkpoint, a directory, or a Hub name, with the policy's
    tokenizer. None: the stage's start, or the last reset."""
    entropy_bonus: bounds.Coefficient = 0.0
    """Fixed weight of the entropy in the loss."""
    entropy_target: bounds.Nats | None = None
    """Entropy in nats per token below which an adaptive weight, instead of the fixed one, is on."""
    mismatch_limit: bounds.Nats | None = 0.1
    """Mean divergence between sampling engine and trainer (`mismatch_kl`, nats per token) above which a step ends the
    stage. bfloat16 starts near 0.001, and runs that collapsed passed 0.1 (arXiv 2510.26788, figure 3). None: no
    limit."""
    overlong_buffer_tokens: bounds.TokensOrZero = 0
    """Tokens before the limit over which the penalty of `soft_overlong` grows to 1."""
    pass_rate_rollouts: bounds.Samples = 16
    """Most responses per prompt in the measurement for `max_pass_rate`."""
    pass_rate_error: bounds.BelowOne = 0.075
    """Largest probability that all `pass_rate_rollouts` would decide otherwise, at which a prompt gets no further
    responses; 0: once they cannot. Most need a third of the responses or fewer (docs/reference/training.md)."""
    difficulty_filter: DifficultyFilter | None = None
    """Skip the prompts that the policy has become too good for, or cannot solve, by their own rollouts. None: off."""
    tail_batching: bounds.Probability = 0.0
    """Share of prompts that a step samples beyond `prompts_per_batch`, to learn from the shorter groups; the longer
    groups' prompts wait for a step of their own. 0: off."""
    max_staleness: bounds.Rounds = 0
    """Long responses span updates, and engines apart sample while the policy learns: no token is learned from more than
    this many batches after it was sampled, with importance weights (`importance_cap`). 0: off, strictly on-policy."""


class Stage(Section):
    """One stage of the curriculum: a mix of domains, a response length, and settings (docs/reference/training.md)."""

    name: str = Field(..., pattern=r"^[a-z0-9][a-z0-9-]*$")
    """Unique in the recipe; part of the checkpoint's name."""
    mix: Mix
    """Shares of each batch's prompts by domain, largest first; they need not sum to one. `domain: math` is short for
    `mix: {math: 1.0}`. Schedules follow the first domain's epochs."""
    max_response_tokens: bounds.Tokens
    """Longest response in tokens; longer ones are truncated."""
    steps: bounds.Steps
    """Most batches that the stage samples, judges and learns from."""
    interventions: tuple[Intervention, ...] = ()
    """Changes during the stage and their triggers: resets, longer responses, another domain, an early end. Checked in
    this order after each step; each one taken is a line of decisions.jsonl with its cause."""
    validate_every: bounds.Steps = 50
    """Steps between validations, if the stage validates: it names benchmarks, or a plateau, a floor or its best result
    depends on them."""
    validation: dict[str, bounds.Weight] = {}
    """Weights of the validation benchmarks by name. By default, where something depends on the score, the benchmarks of
    the stage's domains."""
    keep: dict[str, bounds.OpenProbability] = {}
    """Domains or benchmarks that the stage may not forget, and how far their validation scores may fall below those of
    the stage's start. `{below_floor: 1}` triggers interventions; a validation below a floor is never the best."""
    prompts_per_batch: bounds.Prompts = 128
    """Prompts per step; 128 as in AceReason."""
    rollouts: bounds.RolloutSchedule = 16
    """Responses per prompt; a list is a schedule over epochs, whose last value continues."""
    temperature: bounds.TemperatureSchedule = 1.0
    """Sampling temperature; a list is a schedule over epochs, whose last value continues."""
    learning_rate: bounds.LearningRate = 1e-6
    """AdamW's learning rate after warm-up; 1e-6 as in AceReason."""
    lr_scheduler_type: Literal["constant", "linear", "cosine"] = "constant"
    """The learning rate after warm-up: constant, as both papers have it, or a decay towards 0 at the stage's end."""
    warmup_steps: bounds.StepsOrZero = 0
    """Optimizer steps of linear warm-up."""
    loss: str = "grpo"
    """The policy loss: grpo, dr_grpo, gspo, cispo, or the import path of your own; docs/reference/losses.md."""
    advantage: str = "grpo"
    """The advantage: grpo, dr_grpo, rloo, reinforce_pp, reinforce_pp_baseline, none (the KL term alone trains), or the
    import path of your own."""
    loss_settings: dict[str, JsonValue] = {}
    """Settings of a loss or an advantage of your own, which reads them as `settings.loss_settings["beta"]`."""
    updates_per_batch: bounds.Prompts = 1
    """Optimizer steps per batch; 1 is strictly on-policy: the probability ratio is one."""
    clip_low: bounds.LowerClip = 0.2
    """Distance below 1 at which the ratio is clipped."""
    clip_high: bounds.UpperClip = 0.2
    """Distance above 1 at which the ratio is clipped; more than `clip_low` lets unlikely tokens grow (DAPO). Acts from
    the second update on."""
    kl_coefficient: bounds.Coefficient = 0.0
    """Weight of the KL term to the reference policy: the stage's start, or the last reset."""
    importance_cap: Importance | None = None
    """Weight of tokens by the ratio of trainer to sampling engine. A number truncates it; a pair, such as IcePop's
    [0.5, 5.0], masks tokens outside; `{sequence: [0.999, 1.002]}` masks responses by the geometric mean of their
    tokens' ratios. None: off."""
    dynamic_sampling_rounds: bounds.Rounds = 0
    """Further rounds of sampling to replace prompts whose rollouts all have the same reward; 0: off."""
    truncation: Literal["zero_reward", "mask", "soft_overlong"] = "zero_reward"
    """Treatment of a truncated response: it has reward 0 and is trained on; is excluded from statistics and loss; or is
    penalized by length, as is one that comes near the limit."""
    unfinished_penalty: bounds.Coefficient = 0.0
    """Penalty that is subtracted from the reward of a truncated response."""
    max_difficulty: bounds.Difficulty | None = None
    """Highest number of failed teacher attempts of a problem; unmeasured ones pass."""
    max_pass_rate: bounds.Probability | None = None
    """Highest pass rate of a prompt under the starting policy, measured before the stage."""
    advanced: StageDetails = StageDetails()
    """Rarely needed settings."""

    @field_validator("validation", "keep")
    @classmethod
    def _known_names(cls, numbers: dict[str, float]) -> dict[str, float]:
        return {benchmark_name(name): number for name, number in numbers.items()}

    @property
    def validates(self) -> bool:
        """True if the stage measures validation scores: its recipe names benchmarks, or something depends on them."""
        return bool(self.validation) or self.depends_on_validation

    @property
    def depends_on_validation(self) -> bool:
        """True if validation scores decide something: its result, its floors or a plateau."""
        return self.validates_start or self.has_plateau

    @property
    def has_plateau(self) -> bool:
        """True if an intervention is triggered by a plateau of the validation score."""
        return any(each.when.plateau for each in self.interventions)

    @property
    def validates_start(self) -> bool:
        """True if later validations are compared with one before the first step: for floors and the best weights."""
        return bool(self.keep) or self.advanced.result == "best"

    @property
    def domains(self) -> tuple[str, ...]:
        """All domains, including those of interventions."""
        mixes = (self.mix, *(each.do.mix or {} for each in self.interventions))
        return tuple(dict.fromkeys(domain for mix in mixes for domain in mix))

    @property
    def longest_response(self) -> int:
        """The longest response limit in tokens, including interventions."""
        return max([self.max_response_tokens, *(each.do.max_response_tokens or 0 for each in self.interventions)])

    @property
    def most_rollouts(self) -> int:
        """The most responses per prompt in any epoch, including interventions."""
        now = max(self.rollouts) if isinstance(self.rollouts, tuple) else self.rollouts
        return max([now, *(each.do.rollouts or 0 for each in self.interventions)])

    @property
    def fewest_rollouts(self) -> int:
        """The fewest responses per prompt in any epoch, including interventions."""
        now = min(self.rollouts) if isinstance(self.rollouts, tuple) else self.rollouts
        return min([now, *(each.do.rollouts or now for each in self.interventions)])

    def with_details(self, **details: Any) -> "Stage":
        """The stage with these fields of `advanced`."""
        return self.model_copy(update={"advanced": self.advanced.model_copy(update=details)})

    @property
    def updates(self) -> int:
        """The most optimizer steps."""
        return self.steps * self.updates_per_batch

    def after(self, change: Change) -> "Stage":
        """The stage with the settings of an intervention."""
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
        if not isinstance(domain, str | None):
            raise ValueError(f"domain is one name, not {domain!r}; for several give mix: {{math: 0.7, code: 0.3}}")
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
        if self.advantage == "none" and not self.kl_coefficient:
            raise ValueError("advantage: none leaves the KL term alone to train: give a kl_coefficient, such as 1.0")
        if self.advanced.reference_model and not self.kl_coefficient:
            raise ValueError("advanced.reference_model is the model of the KL term: give a kl_coefficient, such as 1.0")
        if self.truncation == "mask" and self.unfinished_penalty:
            raise ValueError(
                "truncation: mask leaves truncated responses out, and unfinished_penalty is for them: give truncation: "
                "zero_reward, or no penalty"
            )
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
        if self.lr_scheduler_type != "constant" and self.warmup_steps >= self.updates:
            raise ValueError(
                f"lr_scheduler_type: {self.lr_scheduler_type} begins after warmup_steps ({self.warmup_steps}), and the "
                f"stage has only {self.updates} optimizer steps: lower warmup_steps"
            )
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
                first = trigger == "plateau" and not self.validates_start  # the first validation is the best so far
                last, of = validations - first, f"{self.steps} steps with a validation every {self.validate_every}"
            else:
                of = f"{self.steps} steps"
            if trigger != "truncated_above" and limit > last and not each.do.stop:
                raise ValueError(
                    f"interventions.{number}: {trigger} {limit} cannot happen in {of}: "
                    + (f"give at most {last}" if last > 0 else "raise steps, or remove it")
                )
            if each.do.reset and self.advanced.reference_model:
                raise ValueError(
                    f"interventions.{number}: reset makes the policy the reference, and advanced.reference_model is "
                    "fixed: give one of them"
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
