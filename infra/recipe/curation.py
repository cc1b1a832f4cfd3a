"""The part of a recipe that says how the problems of a domain are curated, and which steps of that are taken."""

from datetime import date
from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema, field_validator, model_validator

from ratchet.infra.errors import RatchetError
from ratchet.infra.inference.engine import TEACHERS
from ratchet.infra.section import Section, Where


class Teacher(Section):
    """Who answers each problem several times: its answers vote, and its failures measure difficulty."""

    kind: str = "none"
    """`none`, `openai`, or an engine of your own by its import path (`infra.inference.engine.TeacherEngine`)."""
    model: str = ""
    base_url: Where[str | tuple[str, ...] | None] = None
    """An OpenAI-compatible endpoint, e.g. http://127.0.0.1:8000/v1, or a list of several that serve the same model."""
    api_key_env: Where[str | tuple[str, ...]] = "OPENAI_API_KEY"
    """The name of the environment variable that holds the key, never the key; or a list, one for each base_url."""
    left_out: Where[tuple[Literal["temperature", "top_p", "seed", "stream_options"], ...]] = ()
    """What the endpoints do not take. One that refuses a field by name is understood without this."""
    attempts: int = Field(default=8, ge=1, le=64)
    early_stop: bool = False
    """Ask no more about a problem once its majority vote cannot change any more: cheaper, and difficulty is then
    measured on fewer attempts."""
    temperature: float = 0.6
    top_p: float = 0.95
    max_tokens: int = 32768
    tokenizer: str = ""
    """A directory with tokenizer.json, or a hub name: counts the tokens where the endpoint does not."""
    prompt_price: Where[float] = Field(default=0.0, ge=0)
    """Per million tokens, in the currency of your bill; `response_price` likewise."""
    response_price: Where[float] = Field(default=0.0, ge=0)
    expected_tokens: Where[int] = Field(default=8000, ge=1)
    """Of one answer: for the estimate, until the first answers say better."""
    max_cost: Where[float | None] = Field(default=None, gt=0)
    """No call is begun that is expected to bring the cost of all answers, those paid for earlier included, above it."""
    concurrency: Where[int] = Field(default=64, ge=1, le=1000)
    """The most calls that are open at a time; fewer while the endpoint pushes back."""
    timeout_s: Where[float] = 3600.0
    """Per answer. Long on purpose: a reasoning model thinks for minutes, and a call that times out is paid for."""
    silence_s: Where[float] = 600.0
    """Between two pieces of a streamed answer: after this long, the connection is taken for dead."""

    @property
    def addresses(self) -> tuple[tuple[str | None, str], ...]:
        """Each base_url with the name of its key's variable."""
        urls = self.base_url if isinstance(self.base_url, tuple) else (self.base_url,)
        names = self.api_key_env if isinstance(self.api_key_env, tuple) else (self.api_key_env,) * len(urls)
        return tuple(zip(urls, names, strict=True))

    @model_validator(mode="after")
    def _a_key_for_each(self) -> "Teacher":
        urls, names = (value if isinstance(value, tuple) else None for value in (self.base_url, self.api_key_env))
        if urls == () or (names is not None and len(names) != len(urls or (None,))):
            raise ValueError(
                "base_url is one address or a list of them, and api_key_env one name, or as many as addresses"
            )
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
    """Limits of the rule filters. Which rules there are: docs/curation.md."""

    off: tuple[str, ...] = ()
    """Rules that are not applied."""
    max_answer_characters: int = 100
    max_answer_numbers: int = 8
    """An answer with more numbers than this is long or complex, and hard to verify."""
    max_answer_words: int = 4
    """An answer with more words than this is a sentence."""


class Decontamination(Section):
    preset: Literal["paper", "coverage"] = "coverage"
    """`paper`: any shared n-gram. `coverage`: share of the n-grams of the shorter of row and benchmark item that the
    other has too. Both are recorded for each row."""
    ngram: int | None = Field(default=None, ge=1)
    """None: what the domain takes, 9 for math, 14 for code, where statements share more boilerplate."""
    coverage: float = Field(default=0.4, gt=0, le=1)
    """The highest, in tenths, that drops 95 % of the contaminated pairs that were labelled by hand."""
    min_shared_ngrams: int = Field(default=3, ge=1)
    released_after: date | None = None
    """Drop rows released after this day (AceReason code: 2024-08-01)."""
    undated: Literal["keep", "drop"] = "keep"
    """What becomes of rows without a date where `released_after` is given. They are counted either way."""


class Judge(Teacher):
    """A model that is asked to decide, as a teacher is: settings and defaults are a teacher's, but for these."""

    attempts: int = Field(default=1, ge=1, le=64)
    """Replies to each question; most of them decide."""
    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 4096
    expected_tokens: Where[int] = Field(default=300, ge=1)

    @model_validator(mode="after")
    def _answers_all(self) -> "Judge":
        if self.early_stop:
            raise ValueError("judge.early_stop: there is no majority vote to wait for")
        return self


class Paraphrases(Section):
    """A second pass after decontamination, for benchmark items that are told in other words. Off by default: it takes a
    model that reads to tell them from the same story with other numbers."""

    by: Literal["none", "words", "sentence-transformers", "endpoint"] = "none"
    """What makes the shortlist: `words` needs no model; `sentence-transformers` and `endpoint` (`/v1/embeddings`) take
    `model`. With `none` the step is not taken."""
    model: str = ""
    """A directory or a name on the Hugging Face Hub, or the endpoint's name for it."""
    base_url: Where[str | None] = None
    """Of `by: endpoint`; none is OpenAI's own."""
    api_key_env: Where[str] = "OPENAI_API_KEY"
    """The name of the environment variable that holds the key; never the key."""
    nearest: int = Field(default=3, ge=1, le=50)
    """Items that each row is compared with more closely, at the most."""
    min_similarity: float | None = Field(default=None, ge=-1, le=1)
    """Less is not shortlisted. None: what the domain takes, 0.25, and 0.15 for code. That is for `words`; vectors of a
    model are nearer to each other, so look at a shortlist of yours first."""
    judge: Judge = Judge()
    """Who decides; with `kind: none`, nobody, and the shortlist is reported."""

    @model_validator(mode="after")
    def _belong_together(self) -> "Paraphrases":
        if self.by in ("sentence-transformers", "endpoint") and not self.model:
            raise ValueError(f"by: {self.by} needs model, the name of what turns a text into a vector")
        if self.by == "none" and self.judge.kind != "none":
            raise ValueError("by: none takes no such step; say what makes the shortlist, by: words for example")
        return self


class Deduplication(Section):
    ngram: int = 5
    permutations: int = 128
    jaccard: float = Field(default=0.8, gt=0, le=1)
    """Rows at least this similar (exact Jaccard of token n-grams) are one problem, where numbers, answers and the words
    that decide agree."""
    drop_disagreeing: bool = False
    """Drop all exact copies of a problem whose answers disagree: one of them is wrong. Otherwise the answer of most
    stays; they are counted either way."""


class LengthFilter(Section):
    """By the teacher's mean response length: what is solved in few tokens teaches little."""

    drop_below_tokens: int = 2000
    downsample_below_tokens: int = 4000
    downsample_keep: float = Field(default=0.5, ge=0, le=1)
    """Share kept between the two limits. The paper does not give it: ours."""


class TestValidation(Section):
    """Code: the golden solution must pass, and the tests must be able to tell right from wrong."""

    __test__ = False  # not a pytest class
    min_tests: int = 3
    min_mutants_killed: float = Field(default=0.5, ge=0, le=1)
    """Share of small faults put into the golden solution that the tests must detect."""
    max_mutants: int = 12


class Curation(Section):
    """How the problems of one domain are curated. Which of these steps it takes: docs/curation.md."""

    inputs: tuple[str, ...] = ()
    """Raw files in any published format: files, directories, globs, names on the Hugging Face Hub (`org/name`,
    `hf://datasets/org/name/file`), or files that the recipe generates (`generated://NAME/FILE`)."""
    benchmarks: tuple[str, ...] = ()
    """Held-out files that nothing kept may be contaminated with, named as `inputs`."""
    columns: dict[str, str] = {}
    """Which columns of the inputs hold what: a problem's field, or `metadata.NAME`, to the column's name, as in
    `{prompt: question, answer: target}`. None: a published layout, told by the columns there are."""
    max_rejected: float = Field(default=0.98, gt=0, le=1)
    """A step that rejects a larger share than this stops the run: something is wrong with the input."""
    rules: Rules = Rules()
    decontaminate: Decontamination = Decontamination()
    paraphrases: Paraphrases = Paraphrases()
    deduplicate: Deduplication = Deduplication()
    validation: TestValidation = TestValidation()
    teacher: Teacher = Teacher()
    judge: Judge = Judge()
    """Who is asked whether a teacher's answer agrees with the reference where the verifier could not compare the two;
    with `kind: none`, nobody, and such an answer is wrong."""
    min_votes: int = Field(default=1, ge=1)
    """A problem needs so many attempts with an answer (code: that could be judged), or it is set aside: a majority of
    one vote, the others being truncated, says little."""
    length: LengthFilter = LengthFilter()
    max_difficulty: int = 7
    """Failed attempts out of eight; 8, which the teacher never solves, is dropped."""


CURATION_STEPS = (
    "normalise", "rules", "decontaminate", "paraphrases", "deduplicate", "validate_tests", "teacher_attempts",
    "majority_vote", "difficulty", "length", "curated",
)  # fmt: skip
CurationStep = Annotated[str, WithJsonSchema({"type": "string", "enum": CURATION_STEPS})]


class Steps(Section):
    """Which steps of a curation to take, beside the recipe; with nothing said, all that are not made yet."""

    only: CurationStep | None = None
    """Take this step and no other. What it reads must be there, except benchmarks: `decontaminate` reads those in."""
    start: CurationStep | None = None
    """Take this step and what follows from it, and none before. What they read must be there."""
    refresh: tuple[CurationStep, ...] = ()
    """Make these again though they are there; what follows from them too, where they come out different."""
