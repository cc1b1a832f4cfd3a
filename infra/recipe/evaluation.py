"""The `evaluation` section of a recipe: benchmarks and sampling settings."""

import re
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from ratchet.data_curation.base.bounds import Count, Day, Level, Samples, Temperature, Tokens, TopP
from ratchet.data_curation.base.metadata import difficulty_of
from ratchet.data_curation.base.prompts import PromptFormat
from ratchet.data_curation.base.section import NotInKey, Section
from ratchet.verifiers.math.answer_patterns import ANSWER_PATTERNS, BOXED
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.registry import Registry
from ratchet.verifiers.yaml_files import load_yaml


class Catalog(Mapping[str, Mapping[str, Any]]):
    """Fields of the benchmarks known by name: shipped ones, and those that installed packages offer as mappings under
    the entry point group `ratchet.benchmarks`, imported when they are used. `generate` is for benchmarks whose file is
    generated instead of fetched (`recipe.Generator`)."""

    def __init__(self) -> None:
        self._shipped: Mapping[str, Mapping[str, Any]] = load_yaml(Path(__file__).parent / "benchmarks.yaml")
        self._installed: Registry[Mapping[str, Any]] = Registry(
            "benchmark", {}, lambda value: isinstance(value, Mapping), group="ratchet.benchmarks"
        )

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        if name in self._shipped:
            return self._shipped[name]
        return self._installed.load(self._installed.installed[name])

    def __iter__(self) -> Iterator[str]:
        yield from dict.fromkeys([*self._shipped, *self._installed.names])

    def __len__(self) -> int:
        return sum(1 for _ in self)


CATALOG = Catalog()


PassAt = Annotated[tuple[Samples, ...], Field(min_length=1)]


def benchmark_name(name: str) -> str:
    """The catalog's spelling of a name in any case, with or without dashes (AIME24, humaneval+); other names as
    given."""
    spellings = {re.sub(r"[-_]", "", known): known for known in CATALOG}
    return spellings.get(re.sub(r"[-_ ]", "", name.lower().replace("+", "plus")), name)


def named_path(name: str) -> str:
    """The path of a benchmark of the catalog by its name; any other name, and an existing file, as given."""
    entry = CATALOG.get(benchmark_name(name))
    return str(entry["path"]) if entry and not Path(name).exists() else name


class BenchmarkDetails(Section):
    """Rarely needed settings of a benchmark."""

    answer_pattern: str = BOXED
    """Pattern of the answer in a response, never for rewards, for responses that are not asked for a box: `####`
    (GSM8K's), `choice` (the letter in "the answer is (B)" or "Answer: B"), `the answer is`, `answer:`, `last number`,
    or a regular expression with one group, of which the last match counts; or `stated`, a box or else the statement
    that ends the response."""
    questions: Count | None = None
    """Number of questions of the published benchmark; the report warns if the file has another."""
    released: Day | None = None
    """Date on which the first of the questions was public."""
    part: tuple[Count, Count] | None = None
    """A part of the questions: [1, 2] is the first of two. A stage can validate on one part while the other, a
    benchmark of its own with the same path, is reported: no rule has read that score."""
    max_difficulty: Level | None = None
    """Use only questions whose file states a difficulty or level of at most this: 2 for MATH-500's levels 1 and 2."""
    not_held_out: NotInKey[str] = ""
    """The reason why curation of its domain does not compare with it. Without a reason, plans and runs warn."""
    window: NotInKey[tuple[Day, Day] | None] = None  # in the key of the problems that are made from the file
    """Dates [from, to): only questions released from the first day up to, but not including, the second."""

    @field_validator("part")
    @classmethod
    def _is_a_part(cls, part: tuple[int, int] | None) -> tuple[int, int] | None:
        if part and part[0] > part[1]:
            raise ValueError(f"there is no part {part[0]} of {part[1]}: give [NUMBER, PARTS], counted from 1")
        return part

    @field_validator("window")
    @classmethod
    def _in_order(cls, window: tuple[date, date] | None) -> tuple[date, date] | None:
        if window and window[0] >= window[1]:
            raise ValueError("no day is in it: the first must be before the second")
        return window

    @field_validator("answer_pattern")
    @classmethod
    def _has_one_group(cls, pattern: str) -> str:
        if pattern in (BOXED, "stated", *ANSWER_PATTERNS):
            return pattern
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            raise ValueError(f"{pattern!r} is no regular expression ({error})") from error
        if groups != 1:
            raise ValueError(
                f"{pattern!r} is none of boxed, stated, {', '.join(ANSWER_PATTERNS)}, and as a regular "
                f"expression it has {groups} groups instead of one, the answer"
            )
        return pattern


def _at_most(difficulty: float | str | None, most: float) -> bool:
    return isinstance(difficulty, float) and difficulty <= most


class Benchmark(Section):
    """A benchmark. One that is known by name (docs/reference/evaluation.md) takes its other fields from the catalog."""

    name: str = Field(..., pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """Name in the report and on the command line; a name of the catalog fills in the other fields."""
    domain: str
    """Domain whose verifier judges its responses."""
    path: NotInKey[str | None] = None
    """A file in its published format, `hf://datasets/OWNER/NAME/FILE`, or a file that the recipe generates
    (`generated://NAME/FILE`)."""
    samples: Samples = 16
    """Responses per question: n of pass@k."""
    pass_at: PassAt | None = None
    """The k of pass@k, none above `samples`; default: `evaluation.pass_at`."""
    limit: Count | None = None
    """Use only this many questions, always the same ones: for a quick look, not for a published number."""
    prompt: dict[str, str] = {}
    """Fields of `model.prompt` that this benchmark replaces."""
    advanced: BenchmarkDetails = BenchmarkDetails()
    """Rarely needed settings."""

    @model_validator(mode="before")
    @classmethod
    def _known_by_name(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
            return value
        name = benchmark_name(value["name"])
        fields = {field: content for field, content in value.items() if content is not None}
        if "domain" not in fields and name not in CATALOG:
            raise ValueError(
                f"{name} is not in the catalog; give its domain and path. In the catalog: {', '.join(CATALOG)}"
            )
        catalogued = {field: content for field, content in CATALOG.get(name, {}).items() if field != "generate"}
        if isinstance(fields.get("advanced"), Mapping):
            fields["advanced"] = {**catalogued.get("advanced", {}), **fields["advanced"]}
        return {**catalogued, **fields, "name": name}

    @model_validator(mode="after")
    def _defined(self) -> "Benchmark":
        if "chat_template_kwargs" in self.prompt:
            raise ValueError("prompt replaces texts; chat_template_kwargs are model.prompt's, for all benchmarks")
        if beyond := [f"pass@{k}" for k in self.pass_at or () if k > self.samples]:
            raise ValueError(
                f"{self.name} has {self.samples} responses per question, for {', '.join(beyond)}: undefined. Raise its "
                "samples, or lower pass_at"
            )
        return self

    def select(self, problems: Mapping[str, Problem]) -> list[str]:
        """Select the questions to ask among problems by their ids, which are hashes: those of the benchmark's part and
        difficulty, at most `limit`. Parts are of all questions, so that no difficulty makes two of them overlap."""
        number, parts = self.advanced.part or (1, 1)
        most = self.advanced.max_difficulty
        part = sorted(problems)[number - 1 :: parts]
        return [i for i in part if most is None or _at_most(difficulty_of(problems[i]), most)][: self.limit]

    def prompt_format(self, default: PromptFormat) -> PromptFormat:
        """The recipe's prompt format with this benchmark's changes."""
        return default.model_copy(update=self.prompt)


class Evaluation(Section):
    benchmarks: tuple[Benchmark, ...] = ()
    """Benchmarks that models are scored on."""
    after: tuple[str, ...] = ("start",)
    """Evaluations during training: `start` (before the first stage) and names of stages."""
    pass_at: PassAt = (1, 2, 4, 8, 16)
    """The k of pass@k. By default, a benchmark leaves out those above its number of responses."""
    temperature: Temperature = 0.6
    """Sampling temperature. It is AceReason's and ProRL's, as are `top_p` and `max_tokens`."""
    top_p: TopP = 0.95
    """Nucleus sampling; 1 turns it off."""
    max_tokens: Tokens = 32768
    """Tokens per response; longer ones are truncated and count as wrong."""

    @field_validator("benchmarks")
    @classmethod
    def _each_once(cls, benchmarks: tuple[Benchmark, ...]) -> tuple[Benchmark, ...]:
        names = [benchmark.name for benchmark in benchmarks]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"named twice: {', '.join(twice)}")
        return benchmarks

    def pass_at_of(self, benchmark: Benchmark) -> tuple[int, ...]:
        """The k of a benchmark's pass@k: its own, or those of `pass_at`, up to its number of responses."""
        return tuple(k for k in benchmark.pass_at or self.pass_at if k <= benchmark.samples) or (1,)
