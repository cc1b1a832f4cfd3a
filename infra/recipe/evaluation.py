"""The part of a recipe that says on which benchmarks, and how, models are scored."""

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, field_validator, model_validator

from ratchet.infra.recipe.model import PromptFormat
from ratchet.infra.section import Section, Where

CATALOGUE: Mapping[str, Mapping[str, Any]] = yaml.safe_load((Path(__file__).parent / "benchmarks.yaml").read_text())
"""Fields of the benchmarks that are known by name; `generate` of those whose file is made and not fetched
(`recipe.Generator`)."""


def benchmark_name(name: str) -> str:
    """The catalogue's spelling of a name in any case, with or without dashes (AIME24, humaneval+); others as is."""
    spellings = {known.replace("-", ""): known for known in CATALOGUE}
    return spellings.get(re.sub(r"[-_ ]", "", name.lower().replace("+", "plus")), name)


def named_path(name: str) -> str:
    """Where a benchmark of the catalogue is, by its name; anything else, and a file that is called so, as it is."""
    known = CATALOGUE.get(benchmark_name(name))
    return str(known["path"]) if known and not Path(name).exists() else name


class Benchmark(Section):
    """A benchmark. What is not said of one that is known by name (docs/evaluation.md) comes from the catalogue."""

    name: str = Field(..., pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    domain: str
    path: Where[str | None] = None
    """A file in its published format, `hf://datasets/OWNER/NAME/FILE`, or one that the recipe generates
    (`generated://NAME/FILE`)."""
    samples: int = Field(default=16, ge=1)
    """Responses per problem: n of pass@k."""
    pass_at: tuple[Annotated[int, Field(ge=1)], ...] | None = None
    """k of pass@k, none above `samples`; None means the evaluation's."""
    limit: int | None = Field(default=None, ge=1)
    """Ask only so many of its questions, always the same ones: for a quick look, not for a number to publish."""
    prompt: dict[str, str] = {}
    """What this benchmark wants otherwise than `model.prompt`."""
    questions: int | None = Field(default=None, ge=1)
    """How many questions the published benchmark has; the report flags a file with another number."""
    released: date | None = None
    """When the first of its problems was public."""
    window: Where[tuple[date, date] | None] = None  # the problems made from the file have it in their key
    """Only problems released from the first day up to, not including, the second."""

    @model_validator(mode="before")
    @classmethod
    def _known_by_name(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
            return value
        name = benchmark_name(value["name"])
        given = {field: said for field, said in value.items() if said is not None}
        if "domain" not in given and name not in CATALOGUE:
            raise ValueError(
                f"{name} is no benchmark that is known by name; give its domain and path. Known are "
                f"{', '.join(CATALOGUE)}"
            )
        known = {field: said for field, said in CATALOGUE.get(name, {}).items() if field != "generate"}
        return {**known, **given, "name": name}

    def prompt_format(self, default: PromptFormat) -> PromptFormat:
        """How its problems are asked, where the recipe's own way is `default`."""
        return default.model_copy(update=self.prompt)


class Endpoint(Section):
    """A model behind an OpenAI-compatible endpoint, as `ratchet evaluate --model URL#NAME` gives it."""

    base_url: str = ""
    model: str = ""
    api_key_env: Where[str] = "OPENAI_API_KEY"
    """The name of the environment variable that holds the key; never the key."""
    concurrency: Where[int] = Field(default=64, ge=1)
    timeout_s: Where[float] = 3600.0
    """Per answer: a reasoning model thinks for minutes, and a call that times out is paid for."""
    patience_s: Where[float] = 86400.0
    """How long an endpoint may fail without one answer before the evaluation stops; what was answered is kept."""


class Evaluation(Section):
    benchmarks: tuple[Benchmark, ...] = ()
    after: tuple[str, ...] = ("start",)
    """When to evaluate: `start` (before the first stage) and names of stages."""
    pass_at: tuple[Annotated[int, Field(ge=1)], ...] = (1, 2, 4, 8, 16)
    temperature: float = Field(default=0.6, ge=0)
    top_p: float = Field(default=0.95, gt=0, le=1)
    max_tokens: int = Field(default=32768, ge=1)
    seed: int = 0
    endpoint: Endpoint = Endpoint()
    """How an endpoint is asked, where the model is one."""

    @field_validator("benchmarks")
    @classmethod
    def _each_once(cls, benchmarks: tuple[Benchmark, ...]) -> tuple[Benchmark, ...]:
        names = [benchmark.name for benchmark in benchmarks]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"given twice: {', '.join(twice)}")
        return benchmarks
