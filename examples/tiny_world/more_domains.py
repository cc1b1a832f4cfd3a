"""Raw files of science and instruction following, in published layouts, with some of the usual defects.

    science_choices.parquet, science_numbers.parquet, instructions.parquet   as GPQA, SciBench and IFEval have theirs
    science_benchmark.parquet, instructions_benchmark.parquet                held-out problems, `PROBLEM_SCHEMA`

Everything is a function of (configuration, seed); the benchmarks do not depend on the seed.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.base.bounds import Count
from ratchet.data_curation.readers.columns import RawRow
from ratchet.data_curation.readers.instruction_formats import ifeval
from ratchet.data_curation.readers.science_formats import gpqa, scibench
from ratchet.examples.tiny_world.instruction_prompts import draw_prompt
from ratchet.examples.tiny_world.raw_rows import Row, benchmark_table, mixture
from ratchet.examples.tiny_world.science_questions import draw_choice, draw_number

VERSION = 1
"""Raise it when a change gives other files for the same settings and seed."""

Columns = dict[str, Any]
# Share of the raw rows with each defect; the rest is sound.
SHARES = {"exact_duplicate": 0.04, "benchmark_copy": 0.03, "unusable": 0.03}
# Changes that make a row of each file unusable.
NO_CHOICE = ({"Correct Answer": None}, {"Question": " "}, {"Incorrect Answer 2": None})
NO_NUMBER = ({"answer_number": ""}, {"answer_number": "it depends on the wind"}, {"problem_text": None})
NO_INSTRUCTIONS = (
    {"instruction_id_list": ["punctuation:no_semicolon"], "kwargs": [{}]},
    {"instruction_id_list": ["startend:end_checker"], "kwargs": [{}]},
    {"instruction_id_list": []},
)


def generate_more_domains(
    directory: Path,
    seed: int,
    science_rows: Count = 1200,
    instruction_rows: Count = 1000,
    benchmark_problems: Count = 64,
) -> None:
    """Write the five files into `directory`. Sizes: raw rows, defects included, and held-out problems a domain."""
    half = benchmark_problems // 2
    choices = _distinct("choices", half, lambda rng, held_out: draw_choice(rng, held_out).row())
    numbers = _distinct("numbers", benchmark_problems - half, lambda rng, held_out: draw_number(rng, held_out).row())
    prompts = _distinct("prompts", benchmark_problems, lambda rng, held_out: draw_prompt(rng, held_out).row())
    files = {
        "science_choices": (science_rows // 2, choices, NO_CHOICE, lambda rng: draw_choice(rng).row()),
        "science_numbers": (science_rows - science_rows // 2, numbers, NO_NUMBER, lambda rng: draw_number(rng).row()),
        "instructions": (instruction_rows, prompts, NO_INSTRUCTIONS, lambda rng: draw_prompt(rng).row()),
    }
    for name, (size, benchmark, broken, draw) in files.items():
        rng = Random(f"tiny world, {name} {seed}")
        _write(directory / f"{name}.parquet", _rows(rng, size, benchmark, broken, draw))
    science = [*map(gpqa, map(RawRow, choices)), *map(scibench, map(RawRow, numbers))]
    for domain, problems in (("science", science), ("instructions", map(ifeval, map(RawRow, prompts)))):
        pq.write_table(benchmark_table(domain, problems), directory / f"{domain}_benchmark.parquet")


def _distinct(name: str, count: int, draw: Callable[[Random, bool], Columns]) -> list[Columns]:
    """Distinct held-out rows, the same for every seed."""
    rng, distinct = Random(f"tiny world, {name} benchmark"), dict[str, Columns]()
    while len(distinct) < count:
        row = draw(rng, True)
        distinct.setdefault(json.dumps(row), row)
    return list(distinct.values())


def _rows(
    rng: Random, size: int, benchmark: list[Columns], broken: tuple[Columns, ...], draw: Callable[[Random], Columns]
) -> Iterator[Columns]:
    seen = set[str]()

    def sound(_: int) -> Row:
        row = draw(rng)
        for _ in range(100):  # only some hundreds of numbers differ; after that, a row repeats
            if json.dumps(row) not in seen:
                break
            row = draw(rng)
        seen.add(json.dumps(row))
        return Row(row)

    def defective(label: str, number: int, originals: Iterator[Row]) -> Row:
        if label == "exact_duplicate":
            return Row(next(originals).columns, label)
        if label == "benchmark_copy":
            return Row(rng.choice(benchmark), label)
        return Row(draw(rng) | broken[number % len(broken)], label)

    return (row.columns for row in mixture(rng, size, SHARES, sound, defective))


def _write(path: Path, rows: Iterable[Columns]) -> None:
    """Lists and objects as JSON text, as published Parquet often has them."""
    texts = [{k: json.dumps(v) if isinstance(v, list) else v for k, v in row.items()} for row in rows]
    pq.write_table(pa.Table.from_pylist(texts), path)
