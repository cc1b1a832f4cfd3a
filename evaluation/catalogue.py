"""Benchmarks that Ratchet knows by name: where each is published, when, how it is asked, and how often.

Samples per problem follow AceReason (arXiv 2505.16400, table 2) where it reports the benchmark; others are ours, so
many that the error at fixed questions is small beside the one across questions. Release days are first days of months.
A window is half-open, so that no contest is in two of them. Columns are read by `data_curation.readers`, which
knows each layout; `questions` is the published number, and a file with another one is flagged in the report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from ratchet.infra.recipe.model import Domain


@dataclass(frozen=True)
class Declared:
    name: str
    domain: Domain
    """Which verifier judges: answers by equivalence with the reference, or programs by their tests."""
    hub: str
    """As `data_curation.readers.local_files` reads it."""
    samples: int
    released: date
    """When the first of its problems was public."""
    questions: int | None = None
    window: tuple[date, date] | None = None
    """Only problems released from the first day up to, not including, the second."""
    prompt: Mapping[str, str] = field(default_factory=dict)
    """Fields of `PromptFormat` that this benchmark wants otherwise than the recipe."""


FUNCTION = (
    "Write the Python function that this header and its documentation describe, whole, in one fenced ```python block.\n"
    "```python\n{starter_code}\n```"
)
STATEMENT_AND_HEADER = (
    "{prompt}\n\nBegin with this function header:\n```python\n{starter_code}\n```\n\n"
    "Give the whole program in one fenced ```python block."
)

_ALL = (
    Declared("aime24", "math", "hf://datasets/HuggingFaceH4/aime_2024/data/train-*.parquet", 64, date(2024, 1, 1), 30),
    Declared("aime25", "math", "hf://datasets/MathArena/aime_2025/data/train-*.parquet", 64, date(2025, 2, 1), 30),
    Declared("hmmt25", "math", "hf://datasets/MathArena/hmmt_feb_2025/data/train-*.parquet", 64, date(2025, 2, 1), 30),
    Declared("brumo25", "math", "hf://datasets/MathArena/brumo_2025/data/train-*.parquet", 64, date(2025, 4, 1), 30),
    Declared("math500", "math", "hf://datasets/HuggingFaceH4/MATH-500/test.jsonl", 4, date(2021, 3, 1), 500),
    Declared(
        "amc", "math", "hf://datasets/AI-MO/aimo-validation-amc/data/train-*.parquet", 16, date(2022, 11, 1), 83
    ),
    Declared("minerva", "math", "hf://datasets/math-ai/minervamath/test.jsonl", 4, date(2022, 6, 1), 272),
    Declared(
        "olympiadbench", "math",
        "hf://datasets/Hothan/OlympiadBench/OlympiadBench/OE_TO_maths_en_COMP/*.parquet", 4, date(2024, 2, 1), 674,
    ),
    Declared(
        "livecodebench-v5", "code", "hf://datasets/livecodebench/code_generation_lite/test[456].jsonl", 8,
        date(2024, 8, 1), 279, (date(2024, 8, 1), date(2025, 2, 1)),
    ),
    Declared(
        "livecodebench-v6", "code", "hf://datasets/livecodebench/code_generation_lite/test[56].jsonl", 8,
        date(2025, 2, 1), 175, (date(2025, 2, 1), date(2025, 5, 1)),
    ),
    Declared(
        "humaneval", "code", "hf://datasets/openai/openai_humaneval/openai_humaneval/test-*.parquet", 4,
        date(2021, 7, 1), 164, prompt={"code_with_starter": FUNCTION},
    ),
    Declared(
        "humaneval-plus", "code", "hf://datasets/evalplus/humanevalplus/data/test-*.parquet", 4,
        date(2021, 7, 1), 164, prompt={"code_with_starter": FUNCTION},
    ),
    Declared(
        "mbpp", "code", "hf://datasets/google-research-datasets/mbpp/full/test-*.parquet", 4,
        date(2021, 8, 1), 500, prompt={"code_with_starter": STATEMENT_AND_HEADER},
    ),
    Declared(
        "mbpp-plus", "code", "hf://datasets/evalplus/mbppplus/data/test-*.parquet", 4,
        date(2021, 8, 1), 378, prompt={"code_with_starter": STATEMENT_AND_HEADER},
    ),
    Declared(
        "codecontests", "code", "hf://datasets/deepmind/code_contests/data/test-*.parquet", 8, date(2021, 7, 1), 165
    ),
    Declared("apps", "code", "hf://datasets/codeparrot/apps/test.jsonl", 4, date(2021, 5, 1), 5000),
    Declared(
        "taco", "code", "hf://datasets/BAAI/TACO@refs%2Fconvert%2Fparquet/ALL/test/*.parquet", 4,
        date(2023, 12, 1), 1000,
    ),
    Declared(
        "codeforces", "code", "hf://datasets/open-r1/codeforces/data/test-*.parquet", 8, date(2024, 1, 1)
    ),
)  # fmt: skip

CATALOGUE: Mapping[str, Declared] = {declared.name: declared for declared in _ALL}
