"""The part of a recipe about the curation of a domain's problems, and the choice of its steps."""

from datetime import date
from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema, model_validator

from ratchet.infra.recipe.teacher import Judge, Teacher
from ratchet.infra.section import NotInKey, Section


class Rules(Section):
    """The rule filters; docs/curation.md lists the rules."""

    off: tuple[str, ...] = ()
    """Rules to switch off."""
    open_questions: bool = False
    """Rewrite a question whose options are in a column of their own as an open one, if the right option has a value and
    the question can be asked without them; the metadata keep what was removed as `rewritten_as_open`."""


class Decontamination(Section):
    preset: Literal["paper", "coverage"] = "coverage"
    """`paper` drops a row for any n-gram shared with an item; `coverage` for the share of n-grams of the shorter text.
    Both results are recorded for each row."""
    ngram: int | None = Field(default=None, ge=1)
    """Tokens per n-gram. Default: the domain's, 9 for math and 14 for code, whose statements share more boilerplate."""
    coverage: float = Field(default=0.4, gt=0, le=1)
    """Share from which `coverage` drops; the highest tenth that found 95 % of the pairs labeled as contaminated."""
    released_after: date | None = None
    """Drop rows released after this day (AceReason code: 2024-08-01)."""
    undated: Literal["keep", "drop"] = "keep"
    """Whether to drop rows without a date where `released_after` is set; they are counted either way."""


class Paraphrases(Section):
    """A second pass after decontamination, for benchmark items in other words. Off by default: only a judge model can
    tell them from the same story with other numbers."""

    by: Literal["none", "words", "endpoint"] = "none"
    """Similarity for the shortlist: `words` (TF-IDF), `endpoint` (`/v1/embeddings` of `model`), or `none`: off."""
    model: str = ""
    """The endpoint's name of an embedding model."""
    base_url: NotInKey[str | None] = None
    """The endpoint's URL; default: OpenAI's own."""
    api_key_env: NotInKey[str] = "OPENAI_API_KEY"
    """The environment variable with the API key; never the key itself."""
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


class CurationDetails(Section):
    """Rarely needed settings of a curation."""

    max_rejected: float = Field(default=0.98, gt=0, le=1)
    """A step that rejects a larger share stops the run: something is wrong with the input."""
    min_votes: int = Field(default=1, ge=1)
    """Smallest number of attempts with an answer (code: of judged attempts); problems with fewer are dropped."""
    exclusions: Judge = Judge()
    """A model that is asked about the few rows that a word marks (figure, several questions, proof, special judge,
    interactive); it overrules the rules. With `kind: none`, the rules alone decide."""
    paraphrases: Paraphrases = Paraphrases()
    """Search for benchmark items in other words; off by default."""


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
    rules: Rules = Rules()
    """The rule filters."""
    decontaminate: Decontamination = Decontamination()
    """Comparison with the benchmarks."""
    deduplicate: Deduplication = Deduplication()
    """Removal of copies."""
    validation: TestValidation = TestValidation()
    """Validation of code tests."""
    teacher: Teacher = Teacher()
    """The teacher; without one, the steps that need its answers are left out."""
    length: LengthFilter = LengthFilter()
    """Filter by the teacher's response length."""
    max_difficulty: int = 7
    """Most failed attempts out of eight; the default drops only what the teacher never solves."""
    advanced: CurationDetails = CurationDetails()
    """Rarely needed settings."""


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
