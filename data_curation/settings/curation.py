"""The part of a recipe about the curation of a domain's problems, and the choice of its steps."""

from typing import Annotated, Any, Literal

from pydantic import WithJsonSchema, model_validator

from ratchet.data_curation.base.bounds import (
    CountOrZero,
    Day,
    Difficulty,
    Flag,
    Ngram,
    PositiveProbability,
    Probability,
    TokensOrZero,
)  # fmt: skip
from ratchet.data_curation.base.section import Section
from ratchet.data_curation.settings.teacher import Teacher


class Rules(Section):
    """The rule filters; docs/reference/rules.md lists the rules."""

    off: tuple[str, ...] = ()
    """Rules to switch off."""
    also: tuple[str, ...] = ()
    """More rules, after the domain's: names of installed packages' rules, or import paths: `my_lab.rules:lost_text`."""


class Decontamination(Section):
    preset: Literal["paper", "coverage"] = "coverage"
    """`paper` drops a row for any n-gram shared with an item; `coverage` for the share of n-grams of the shorter text.
    Both results are recorded for each row."""
    ngram: Ngram | None = None
    """Tokens per n-gram. Default: the domain's, 9 for math and 14 for code, whose statements share more boilerplate."""
    coverage: PositiveProbability = 0.4
    """Share of n-grams from which `coverage` drops; the highest tenth that found 95 % of the pairs labeled as
    contaminated."""
    variants: Literal["drop", "keep"] = "drop"
    """Drop or keep rows that are an item with other numbers, by the preset `coverage`; they are counted apart. A model
    that was trained on them has practiced the item's method, and its score on it says less."""
    released_after: Day | None = None
    """Drop rows released after this day (AceReason code: 2024-08-01)."""
    undated: Literal["keep", "drop"] = "keep"
    """Keep or drop rows without a date where `released_after` is set; they are counted either way."""


class Deduplication(Section):
    ngram: Ngram = 5
    """Tokens per n-gram of the sets that are compared."""
    jaccard: PositiveProbability = 0.8
    """Smallest exact Jaccard similarity of near copies; numbers, answers and deciding words must agree as well."""
    reworded: Flag = True
    """Find copies in other words too, by their numbers, their answer and a share of their words."""
    variants: Literal["keep", "drop"] = "keep"
    """Keep or drop rows that differ from another one only in their numbers. A variant has an answer of its own: it
    cannot be learned by heart, and templated sets (SVAMP, MultiArith) consist of them."""
    drop_disagreeing: Flag = False
    """Drop all exact copies whose answers disagree: one is wrong. Otherwise the most frequent answer stays."""


class LengthFilter(Section):
    """Filter by the teacher's mean response length: problems solved in few tokens teach little."""

    drop_below_tokens: TokensOrZero = 2000
    """Mean response tokens below which a problem is dropped, as in the paper."""
    downsample_below_tokens: TokensOrZero = 4000
    """Mean response tokens below which problems are downsampled, as in the paper."""
    downsample_keep: Probability = 0.5
    """Share kept between the two limits; the paper does not give it."""

    @model_validator(mode="after")
    def _in_order(self) -> "LengthFilter":
        if 0 < self.downsample_below_tokens < self.drop_below_tokens:
            raise ValueError(
                f"downsample_below_tokens ({self.downsample_below_tokens}) is below drop_below_tokens "
                f"({self.drop_below_tokens}), which drops all that it would downsample: raise it, or give 0"
            )
        return self


class TestValidation(Section):
    """Code: golden solutions must pass the tests, and the tests must detect faults."""

    __test__ = False  # not a pytest class
    min_tests: CountOrZero = 3
    """Fewest tests of a problem that is kept."""
    min_mutants_killed: Probability = 0.5
    """Smallest share of small faults put into the golden solution that the tests must detect."""
    max_mutants: CountOrZero = 12
    """Most small faults tried per problem."""

    @model_validator(mode="after")
    def _tries_faults(self) -> "TestValidation":
        if self.min_mutants_killed and not self.max_mutants:
            raise ValueError("max_mutants 0 tries no fault that tests could detect: give min_mutants_killed 0 too")
        return self


class CurationDetails(Section):
    """Rarely needed settings of a curation."""

    max_rejected: PositiveProbability = 0.98
    """Largest share of rows that a step may reject; above it the run stops, because something is wrong with the
    input."""
    max_shortened: Probability = 0.01
    """Largest share of a file's rows that may lose more than half of their own text to templates; above it, reading
    stops the run."""


StepChoice = str | dict[str, dict[str, Any]]
"""A step by its name or import path, alone or with its settings."""


class Curation(Section):
    """Settings by which the problems of one domain are curated; docs/reference/curation.md lists the steps of each
    domain."""

    inputs: tuple[str, ...] = ()
    """Raw files in any published format: files, directories, globs, names on the Hugging Face Hub (`org/name`,
    `hf://datasets/org/name/file`), or files generated by the recipe (`generated://NAME/FILE`)."""
    benchmarks: tuple[str, ...] = ()
    """Held-out files that kept problems must not contain, named as `inputs`."""
    columns: dict[str, str] = {}
    """Maps fields of a problem, or `metadata.NAME`, to input columns: `{prompt: question, answer: target}`; `context`
    and `options` become part of the statement. Default: a published layout, recognized by its columns."""
    steps: tuple[StepChoice, ...] = ()
    """The steps after reading, in order, by name, import path, or with settings: `[rules, deduplicate,
    {my_lab.steps:DropShort: {least_words: 8}}]`. Default: those of the domain's plan."""
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
    max_difficulty: Difficulty = 7
    """Most failed attempts out of eight; the default drops only what the teacher never solves."""
    advanced: CurationDetails = CurationDetails()
    """Rarely needed settings."""


CURATION_STEPS = (
    "normalize", "rules", "decontaminate", "deduplicate", "validate_tests", "teacher_attempts", "majority_vote",
    "difficulty", "length", "curated",
)  # fmt: skip
CurationStep = Annotated[str, WithJsonSchema({"type": "string", "enum": CURATION_STEPS})]


class Steps(Section):
    """The steps of a curation to run; default: all that are not finished yet."""

    only: CurationStep | None = None
    """Run only this step. Its inputs must exist, except benchmarks: `decontaminate` reads those itself."""
    start: CurationStep | None = None
    """Run this step and those after it. Its inputs must exist."""
    refresh: tuple[CurationStep, ...] = ()
    """Run these steps again although they are finished, and those after them whose inputs change."""
