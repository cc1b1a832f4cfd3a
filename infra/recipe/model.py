"""What a recipe can say. Every default of the product lives here, with its unit and its reason.

Nothing heavy is imported: a recipe is read, checked and printed in well under a second on a machine that has
neither torch nor Prefect. All models are frozen and refuse unknown keys.
"""

from __future__ import annotations

from datetime import date
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Domain = Literal["math", "code"]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


# --------------------------------------------------------------------------------------------- model


class GrownModel(Section):
    """A Llama-architecture model grown from random weights: what the tiny recipe trains, no download needed."""

    hidden_size: int = 64
    layers: int = 2
    attention_heads: int = 2
    key_value_heads: int = 1
    head_dim: int = 32
    """Of one attention head; 32 is the smallest that vLLM decodes on a CPU."""
    intermediate_size: int = 192
    vocabulary: int = 512
    initializer_range: float = 0.08
    """0.02, the usual value, learns far slower at this width."""
    max_positions: int = 256


class PromptFormat(Section):
    """How a problem becomes the user turn: `{prompt}` and `{starter_code}` are filled in, then the chat template."""

    math: str = "{prompt}\n\nReason step by step and put the final answer in \\boxed{{}}."
    code: str = "{prompt}\n\nWrite Python code that solves the problem, in one fenced ```python block."
    code_with_starter: str = (
        "{prompt}\n\nStart from this function header:\n```\n{starter_code}\n```\n\n"
        "Give the whole program in one fenced ```python block."
    )
    response_prefix: str = ""
    """Text the response starts with, given to the model; R1 distills start inside `<think>`."""


class Model(Section):
    path: str | None = None
    """A hub name or a directory with a Hugging Face causal language model; none means `grow` one."""
    grow: GrownModel = GrownModel()
    prompt: PromptFormat = PromptFormat()


# ------------------------------------------------------------------------------------------ curation


class TinyWorld(Section):
    """How much raw material the procedural world makes, dirt included."""

    math_problems: int = Field(2400, ge=20)
    code_problems: int = Field(900, ge=20)
    benchmark_problems: int = Field(64, ge=1)
    """Held-out problems per domain."""


class Teacher(Section):
    """Who answers each problem several times: its answers vote, and its failures measure difficulty."""

    kind: Literal["none", "procedural", "openai"] = "none"
    model: str = ""
    base_url: str | None = None
    """An OpenAI-compatible endpoint, e.g. http://127.0.0.1:8000/v1."""
    api_key_env: str = "OPENAI_API_KEY"
    """The name of the environment variable that holds the key; never the key."""
    attempts: int = Field(8, ge=1, le=64)
    temperature: float = 0.6
    top_p: float = 0.95
    max_tokens: int = 32768
    concurrency: int = Field(64, ge=1)
    timeout_s: float = 3600.0
    """Per answer. Long on purpose: a reasoning model thinks for minutes, and a call that times out is paid for."""


class Rules(Section):
    """Limits of the rule filters. Which rules there are: docs/curation.md."""

    min_prompt_words: int = 5
    """Fewer words than this is too brief to state a problem."""
    max_answer_characters: int = 100
    max_answer_numbers: int = 8
    """An answer with more numbers than this is long or complex, and hard to verify."""


class Decontamination(Section):
    preset: Literal["paper", "coverage"] = "coverage"
    """`paper`: any shared n-gram. `coverage`: share of one benchmark item's n-grams. Both are recorded for each row."""
    ngram: int = Field(9, ge=1)
    coverage: float = Field(0.3, gt=0, le=1)
    min_shared_ngrams: int = 3
    released_after: date | None = None
    """Drop rows released after this day (AceReason code: 2024-08-01)."""


class CodeDecontamination(Decontamination):
    """Longer n-grams for code: statements share more boilerplate."""

    ngram: int = Field(14, ge=1)


class Deduplication(Section):
    ngram: int = 5
    permutations: int = 128
    jaccard: float = Field(0.8, gt=0, le=1)
    """Rows at least this similar (exact Jaccard of token n-grams) are one problem."""


class LengthFilter(Section):
    """By the teacher's mean response length: what is solved in few tokens teaches little."""

    drop_below_tokens: int = 2000
    downsample_below_tokens: int = 4000
    downsample_keep: float = Field(0.5, ge=0, le=1)
    """Share kept between the two limits. The paper does not give it: ours."""


class TestValidation(Section):
    """Code: the golden solution must pass, and the tests must be able to tell right from wrong."""

    __test__ = False  # not a pytest class
    min_tests: int = 3
    min_mutants_killed: float = Field(0.5, ge=0, le=1)
    """Share of small faults put into the golden solution that the tests must notice."""
    max_mutants: int = 12


class MathCuration(Section):
    inputs: tuple[str, ...] = ()
    """Raw files in any published format; with `curation.tiny_world`, none means the world's own."""
    benchmarks: tuple[str, ...] = ()
    """Held-out files that nothing kept may be contaminated with."""
    max_rejected: float = Field(0.98, gt=0, le=1)
    """A step that rejects a larger share than this stops the run: something is wrong with the input."""
    rules: Rules = Rules()
    decontaminate: Decontamination = Decontamination()
    deduplicate: Deduplication = Deduplication()
    teacher: Teacher = Teacher()
    length: LengthFilter = LengthFilter()


class CodeCuration(Section):
    inputs: tuple[str, ...] = ()
    benchmarks: tuple[str, ...] = ()
    max_rejected: float = Field(0.98, gt=0, le=1)
    rules: Rules = Rules()
    decontaminate: CodeDecontamination = CodeDecontamination()
    deduplicate: Deduplication = Deduplication()
    validation: TestValidation = TestValidation()
    teacher: Teacher = Teacher()
    max_difficulty: int = 7
    """Failed attempts out of eight; 8, which the teacher never solves, is dropped."""


class Curation(Section):
    tiny_world: TinyWorld | None = None
    """Make procedural raw material and benchmarks; without it, raw files must be given."""
    math: MathCuration = MathCuration()
    code: CodeCuration = CodeCuration()


# ------------------------------------------------------------------------------------------ training


class WarmStart(Section):
    """Supervised start on the teacher's traces, wrong ones included: RL is what corrects them."""

    traces: int = 44000
    """Teacher answers to learn from, over both domains."""
    math_share: float = Field(0.6, ge=0, le=1)
    batch_size: int = 16
    learning_rate: float = 3e-3
    weight_decay: float = 0.01
    warmup_steps: int = 20
    final_learning_rate: float = Field(0.05, ge=0, le=1)
    """Where the cosine ends, as a share of `learning_rate`."""
    checkpoint_every: int = 500


class Stage(Section):
    """One stage of the curriculum: one domain, one response length, one set of knobs."""

    name: str = Field(..., pattern=r"^[a-z0-9][a-z0-9-]*$")
    domain: Domain
    max_response_tokens: int = Field(..., ge=1)
    steps: int = Field(..., ge=1)
    """Batches of prompts, each sampled, judged and learnt from: the most the stage runs."""
    plateau_evaluations: int | None = None
    """End earlier, after this many validations in a row without a new best; none means run all steps."""
    validate_every: int = 50
    """Steps between validations, where a plateau ends the stage."""
    prompts_per_batch: int = 128
    rollouts: int | tuple[int, ...] = 16
    """Responses per prompt; a list is a schedule over epochs, its last value holding on."""
    temperature: float | tuple[float, ...] = 1.0
    """Sampling temperature; a list is a schedule over epochs, its last value holding on."""
    learning_rate: float = 1e-6
    warmup_steps: int = 0
    updates_per_batch: int = Field(1, ge=1)
    """1 is strictly on-policy: the probability ratio is identically one, and checked."""
    clip_low: float = 0.2
    clip_high: float = 0.2
    truncation: Literal["zero_reward", "mask"] = "zero_reward"
    """A response cut at the limit: reward 0 and trained on, or left out of group statistics and loss."""
    max_difficulty: int | None = None
    """Only problems with at most this many failed teacher attempts."""
    max_pass_rate: float | None = None
    """Only prompts the current policy solves at most this often, measured before the stage."""
    pass_rate_rollouts: int = 16
    drop_easy_each_epoch: bool = False
    """After each epoch, leave out the prompts whose every rollout passed in it."""
    replay_share: float = Field(0.0, ge=0, lt=1)
    """Share of each batch drawn from the other domain, so that what was learnt there is not lost."""
    code_reward: Literal["all_tests", "fraction"] = "all_tests"


class Optimizer(Section):
    """AdamW."""

    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.0
    max_gradient_norm: float = 1.0


class Hardware(Section):
    """How one stage is spread over processes. Says nothing about what is computed, only where."""

    processes: int = 1
    """Ranks of the process group on this machine, one a GPU or one a CPU core."""
    zero_stage: int = Field(0, ge=0, le=3)
    dtype: Literal["float32", "bfloat16"] = "float32"
    micro_batch_tokens: int = 3000
    """Tokens of one forward-backward pass on one rank; bounds memory."""
    logprob_chunk_tokens: int = 1024
    """Tokens whose logits exist at the same time: tokens x vocabulary is never held."""
    activation_checkpointing: bool = False
    rollout_batch: int = 256
    """Responses decoded together on one rank."""


class Training(Section):
    warm_start: WarmStart | None = None
    stages: tuple[Stage, ...] = ()
    optimizer: Optimizer = Optimizer()
    hardware: Hardware = Hardware()
    checkpoint_every: int = 20
    """Steps between checkpoints; a killed stage loses at most this many."""
    max_infra_errors: float = Field(0.05, ge=0, le=1)
    """Share of a batch's verdicts that may be our machine's fault before the run stops."""
    reward_servers: tuple[str, ...] = ()
    """URLs of reward servers (`ratchet judge serve`), which then judge instead of this machine, in curation and
    evaluation too. Their token is in the environment: RATCHET_JUDGE_TOKEN. No part of any artifact's key: a verdict is
    the same wherever it is given."""

    @model_validator(mode="after")
    def _unique_stages(self) -> Training:
        names = [stage.name for stage in self.stages]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"stage names must be unique, given twice: {sorted(twice)}")
        return self


# ---------------------------------------------------------------------------------------- evaluation


class Benchmark(Section):
    name: str = Field(..., pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    domain: Domain
    path: str | None = None
    """A file in its published format; with `curation.tiny_world`, none means the world's held-out problems."""
    samples: int = Field(16, ge=1)
    """Responses per problem: n of pass@k."""


class Evaluation(Section):
    benchmarks: tuple[Benchmark, ...] = ()
    after: tuple[str, ...] = ("start",)
    """When to evaluate: `start` (before the first stage) and names of stages."""
    pass_at: tuple[int, ...] = (1, 2, 4, 8, 16)
    temperature: float = 0.6
    top_p: float = 0.95
    max_tokens: int = 32768
    seed: int = 0


# -------------------------------------------------------------------------------------------- recipe


# --------------------------------------------------------------------------------------- verification


class Verification(Section):
    """What judging a model's programs demands of the machine: never part of what is made, so of no artifact's key."""

    minimum_isolation: Literal["A", "B", "C"] = "C"
    """The lowest rung of the isolation ladder (docs/sandbox.md) on which a model's code may run; a machine that offers
    less refuses. C, so that a stock container works: it confines everything but the reading of files."""


class Recipe(Section):
    """Everything that decides what a pipeline makes, and nothing about the machine it runs on."""

    name: str = Field(..., pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    description: str = ""
    seed: int = 0
    model: Model = Model()
    curation: Curation = Curation()
    training: Training = Training()
    evaluation: Evaluation = Evaluation()
    verification: Verification = Verification()

    @model_validator(mode="after")
    def _evaluated_stages_exist(self) -> Recipe:
        known = ["start", *(stage.name for stage in self.training.stages)]
        for name in self.evaluation.after:
            if name not in known:
                raise ValueError(f"evaluation.after names {name!r}; there is {', '.join(known)}")
        return self
