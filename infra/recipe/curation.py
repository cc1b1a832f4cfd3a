"""The part of a recipe about the curation of a domain's problems, and the choice of its steps."""

from datetime import date
from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema, field_validator, model_validator

from ratchet.infra.inference.engine import TEACHERS
from ratchet.infra.section import Section, Where
from ratchet.verifiers.errors import RatchetError


class Teacher(Section):
    """A model that answers each problem several times: its answers vote, and its failures measure difficulty."""

    kind: str = "none"
    """`none`, `openai`, or the import path of your own engine (`infra.inference.engine.TeacherEngine`)."""
    model: str = ""
    """The endpoint's name of the model."""
    base_url: Where[str | tuple[str, ...] | None] = None
    """An OpenAI-compatible endpoint, e.g. http://127.0.0.1:8000/v1, or a list of several with the same model."""
    api_key_env: Where[str | tuple[str, ...]] = "OPENAI_API_KEY"
    """The environment variable with the API key, never the key itself; or a list, one per base_url."""
    left_out: Where[tuple[Literal["temperature", "top_p", "seed", "stream_options"], ...]] = ()
    """Request fields to leave out; fields that the endpoint rejects by name are left out automatically."""
    attempts: int = Field(default=8, ge=1, le=64)
    """Answers per problem; difficulty is scaled to eight, as in the paper."""
    early_stop: bool = False
    """Stop asking once a majority vote is decided: cheaper, but difficulty rests on fewer attempts."""
    temperature: float = 0.6
    """Sampling temperature; the default is DeepSeek-R1's recommendation, as is `top_p`."""
    top_p: float = 0.95
    """Nucleus sampling: the probability mass that is sampled from."""
    max_tokens: int = 32768
    """Longest answer in tokens; the default is the paper's longest response."""
    tokenizer: str = ""
    """A directory with tokenizer.json, or a Hub name: counts tokens where the endpoint does not."""
    prompt_price: Where[float] = Field(default=0.0, ge=0)
    """Price per million prompt tokens, in the currency of your bill."""
    response_price: Where[float] = Field(default=0.0, ge=0)
    """Price per million response tokens."""
    expected_tokens: Where[int] = Field(default=8000, ge=1)
    """Expected tokens per answer, for the cost estimate until answers arrive."""
    max_cost: Where[float | None] = Field(default=None, gt=0)
    """Ceiling for the cost of all answers, earlier runs included; no call is begun that is expected to exceed it."""
    concurrency: Where[int] = Field(default=64, ge=1, le=1000)
    """Largest number of open calls per endpoint; reduced while the endpoint returns overload errors."""
    timeout_s: Where[float] = 3600.0
    """Seconds per answer. Long on purpose: models think for minutes, and a call that times out is paid for."""
    silence_s: Where[float] = 600.0
    """Seconds without data from a stream before its connection counts as dead."""

    @property
    def addresses(self) -> tuple[tuple[str | None, str], ...]:
        """Each base_url with the environment variable of its key."""
        urls = self.base_url if isinstance(self.base_url, tuple) else (self.base_url,)
        names = self.api_key_env if isinstance(self.api_key_env, tuple) else (self.api_key_env,) * len(urls)
        return tuple(zip(urls, names, strict=True))

    @model_validator(mode="after")
    def _a_key_for_each(self) -> "Teacher":
        urls, names = (value if isinstance(value, tuple) else None for value in (self.base_url, self.api_key_env))
        if urls == () or (names is not None and len(names) != len(urls or (None,))):
            raise ValueError("base_url is one URL or a list, and api_key_env one name or as many as there are URLs")
        return self

    @field_validator("kind")
    @classmethod
    def _exists(cls, kind: str) -> str:
        try:
            if kind != "none" and kind not in TEACHERS.shipped:
                TEACHERS.get(kind)
        except RatchetError as error:
            raise ValueError(str(error)) from error
        return kind


class Rules(Section):
    """Limits of the rule filters; docs/curation.md lists the rules."""

    off: tuple[str, ...] = ()
    """Rules to switch off."""
    open_questions: bool = False
    """Rewrite a question whose options are in a column of their own as an open one, if the right option has a value and
    the question can be asked without them; the metadata keep what was removed as `rewritten_as_open`."""
    max_answer_characters: int = 100
    """Longer answers are hard to verify and are dropped as `long_answer`."""
    max_answer_numbers: int = 8
    """Answers with more numbers are dropped as `long_answer`."""
    max_answer_words: int = 4
    """Answers with more words are sentences and are dropped as `long_answer`."""


class Decontamination(Section):
    preset: Literal["paper", "coverage"] = "coverage"
    """`paper` drops a row for any n-gram shared with an item; `coverage` for the share of n-grams of the shorter text.
    Both results are recorded for each row."""
    ngram: int | None = Field(default=None, ge=1)
    """Tokens per n-gram. Default: the domain's, 9 for math and 14 for code, whose statements share more boilerplate."""
    coverage: float = Field(default=0.4, gt=0, le=1)
    """Share from which `coverage` drops; the highest tenth that found 95 % of the pairs labeled as contaminated."""
    min_shared_ngrams: int = Field(default=3, ge=1)
    """Fewer shared n-grams never drop a row under `coverage`."""
    released_after: date | None = None
    """Drop rows released after this day (AceReason code: 2024-08-01)."""
    undated: Literal["keep", "drop"] = "keep"
    """Whether to drop rows without a date where `released_after` is set; they are counted either way."""


class Judge(Teacher):
    """A model that decides whether two texts say the same; settings as for a teacher, with other defaults."""

    attempts: int = Field(default=1, ge=1, le=64)
    """Replies per question; the majority decides."""
    temperature: float = 0.0
    """Sampling temperature; 0 for a repeatable verdict."""
    top_p: float = 1.0
    """Nucleus sampling: the probability mass that is sampled from."""
    max_tokens: int = 4096
    """Longest reply in tokens."""
    expected_tokens: Where[int] = Field(default=300, ge=1)
    """Expected tokens per reply, for the cost estimate until replies arrive."""

    @model_validator(mode="after")
    def _answers_all(self) -> "Judge":
        if self.early_stop:
            raise ValueError("judge.early_stop: there is no majority vote to wait for")
        return self


class Paraphrases(Section):
    """A second pass after decontamination, for benchmark items in other words. Off by default: only a judge model can
    tell them from the same story with other numbers."""

    by: Literal["none", "words", "endpoint"] = "none"
    """Similarity for the shortlist: `words` (TF-IDF), `endpoint` (`/v1/embeddings` of `model`), or `none`: off."""
    model: str = ""
    """The endpoint's name of an embedding model."""
    base_url: Where[str | None] = None
    """The endpoint's URL; default: OpenAI's own."""
    api_key_env: Where[str] = "OPENAI_API_KEY"
    """The environment variable with the API key; never the key itself."""
    nearest: int = Field(default=3, ge=1, le=50)
    """Shortlisted items per row, at most."""
    min_similarity: float | None = Field(default=None, ge=-1, le=1)
    """Smallest similarity on the shortlist. Default: 0.25, and 0.15 for code, measured for `words`; embeddings need
    a higher one."""
    judge: Judge = Judge()
    """Decides about each pair; with `kind: none` the shortlist is only reported."""

    @model_validator(mode="after")
    def _belong_together(self) -> "Paraphrases":
        if self.by == "endpoint" and not self.model:
            raise ValueError("by: endpoint needs model, the endpoint's name of an embedding model")
        if self.by == "none" and self.judge.kind != "none":
            raise ValueError("by: none switches this step off; set by to words, for example, to use the judge")
        return self


class Deduplication(Section):
    ngram: int = 5
    """Tokens per n-gram of the sets that are compared."""
    permutations: int = 128
    """MinHash permutations: more find more near copies, and cost time in proportion."""
    jaccard: float = Field(default=0.8, gt=0, le=1)
    """Smallest exact Jaccard similarity of near copies; numbers, answers and deciding words must agree as well."""
    reworded: bool = True
    """Find copies in other words too, by their numbers, their answer and a share of their words."""
    drop_disagreeing: bool = False
    """Drop all exact copies whose answers disagree: one is wrong. Otherwise the most frequent answer stays."""


class LengthFilter(Section):
    """By the teacher's mean response length: problems solved in few tokens teach little."""

    drop_below_tokens: int = 2000
    """Shorter problems are dropped, as in the paper."""
    downsample_below_tokens: int = 4000
    """Shorter problems are downsampled, as in the paper."""
    downsample_keep: float = Field(default=0.5, ge=0, le=1)
    """Share kept between the two limits; our choice, since the paper does not give it."""


class TestValidation(Section):
    """Code: golden solutions must pass the tests, and the tests must detect faults."""

    __test__ = False  # not a pytest class
    min_tests: int = 3
    """Problems with fewer tests are dropped."""
    min_mutants_killed: float = Field(default=0.5, ge=0, le=1)
    """Smallest share of small faults put into the golden solution that the tests must detect."""
    max_mutants: int = 12
    """Small faults tried per problem, at most."""


class Curation(Section):
    """How the problems of one domain are curated; docs/curation.md lists the steps of each domain."""

    inputs: tuple[str, ...] = ()
    """Raw files in any published format: files, directories, globs, names on the Hugging Face Hub (`org/name`,
    `hf://datasets/org/name/file`), or files generated by the recipe (`generated://NAME/FILE`)."""
    benchmarks: tuple[str, ...] = ()
    """Held-out files that kept problems must not contain, named as `inputs`."""
    columns: dict[str, str] = {}
    """Maps fields of a problem, or `metadata.NAME`, to input columns: `{prompt: question, answer: target}`. Default:
    a published layout, recognized by its columns."""
    max_rejected: float = Field(default=0.98, gt=0, le=1)
    """A step that rejects a larger share stops the run: something is wrong with the input."""
    rules: Rules = Rules()
    """Limits of the rule filters."""
    exclusions: Judge = Judge()
    """A model that is asked about the few rows that a word marks (figure, several questions, proof, special judge,
    interactive); it overrules the rules. With `kind: none`, the rules alone decide."""
    decontaminate: Decontamination = Decontamination()
    """Comparison with the benchmarks."""
    paraphrases: Paraphrases = Paraphrases()
    """Search for benchmark items in other words; off by default."""
    deduplicate: Deduplication = Deduplication()
    """Removal of copies."""
    validation: TestValidation = TestValidation()
    """Validation of code tests."""
    teacher: Teacher = Teacher()
    """The teacher; without one, the steps that need its answers are left out."""
    judge: Judge = Judge()
    """Decides whether a teacher's answer agrees with the reference where the verifier cannot (science); with
    `kind: none` such answers are wrong."""
    min_votes: int = Field(default=1, ge=1)
    """Smallest number of attempts with an answer (code: of judged attempts); problems with fewer are dropped."""
    length: LengthFilter = LengthFilter()
    """Filter by the teacher's response length."""
    max_difficulty: int = 7
    """Most failed attempts out of eight; the default drops only what the teacher never solves."""


CURATION_STEPS = (
    "normalise", "exclusions", "rules", "decontaminate", "paraphrases", "deduplicate", "validate_tests",
    "teacher_attempts", "majority_vote", "difficulty", "length", "curated",
)  # fmt: skip
CurationStep = Annotated[str, WithJsonSchema({"type": "string", "enum": CURATION_STEPS})]


class Steps(Section):
    """Which steps of a curation to run; default: all that are not finished yet."""

    only: CurationStep | None = None
    """Run only this step. Its inputs must exist, except benchmarks: `decontaminate` reads those itself."""
    start: CurationStep | None = None
    """Run this step and those after it. Its inputs must exist."""
    refresh: tuple[CurationStep, ...] = ()
    """Run these steps again although they are finished, and those after them whose inputs change."""
