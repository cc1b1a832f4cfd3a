"""The tiny world's raw files: sound problems, buried among what published sets are full of, and the truth of each row.

    math_raw.parquet, code_raw.parquet               as NuminaMath and TACO publish theirs
    math_benchmark.parquet, code_benchmark.parquet   held-out problems, `PROBLEM_SCHEMA`
    math_truth.parquet, code_truth.parquet           `TRUTH_SCHEMA`: what was done to each row; curation never reads it

Sound problems are independent of one another by construction: none shares half of its word triples with another one or
with a benchmark item. Everything is a function of (configuration, seed); the benchmarks do not depend on the seed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.tiny_world import code_problems, math_problems
from ratchet.data_curation.tiny_world.code_problems import CodeProblem
from ratchet.data_curation.tiny_world.code_rows import CodeRows
from ratchet.data_curation.tiny_world.math_problems import MathProblem
from ratchet.data_curation.tiny_world.math_rows import MathRows
from ratchet.data_curation.tiny_world.raw_rows import Row
from ratchet.data_curation.tiny_world.score import TRUTH_SCHEMA
from ratchet.infra.problems import problem_id, to_table
from ratchet.infra.recipe.model import TinyWorld


def generate_world(directory: Path, config: TinyWorld, seed: int) -> None:
    """Write the six files into `directory`, each whole or not at all."""
    held_out_math = math_problems.benchmark_problems(config.benchmark_problems)
    held_out_code = code_problems.benchmark_problems(config.benchmark_problems)
    tables = {"math_benchmark": _math_benchmark(held_out_math), "code_benchmark": _code_benchmark(held_out_code)}
    math = MathRows(Random(f"tiny world, math {seed}"), held_out_math)
    code = CodeRows(Random(f"tiny world, code {seed}"), held_out_code)
    for name, world, size in (("math", math, config.math_problems), ("code", code, config.code_problems)):
        rows = world.rows(size)
        tables[f"{name}_raw"] = pa.Table.from_pylist([row.columns for row in rows])
        tables[f"{name}_truth"] = _truth(rows)
    for name, table in tables.items():
        _write(directory / f"{name}.parquet", table)


def _truth(rows: list[Row]) -> pa.Table:
    numbers = {id(row): number for number, row in enumerate(rows)}
    facts = [
        {
            "row": number,
            "label": row.label,
            "expected": row.acceptable[0] if row.acceptable else None,
            "acceptable": list(row.acceptable),
            "partner": numbers[id(row.original)] if row.original else None,
            "benchmark_item": row.benchmark_item,
        }
        for number, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(facts, schema=TRUTH_SCHEMA)


def _math_benchmark(problems: list[MathProblem]) -> pa.Table:
    return to_table(
        {
            "problem_id": problem_id("math", problem.prompt),
            "domain": "math",
            "source": "tiny-math",
            "source_id": str(number),
            "prompt": problem.prompt,
            "answer": problem.answer,
            "metadata": json.dumps({"level": problem.level}),
        }
        for number, problem in enumerate(problems)
    )


def _code_benchmark(problems: list[CodeProblem]) -> pa.Table:
    return to_table(
        {
            "problem_id": problem_id("code", problem.prompt, code_problems.ENTRY_POINT),
            "domain": "code",
            "source": "tiny-code",
            "source_id": str(number),
            "prompt": problem.prompt,
            "tests": json.dumps(
                [{"call": {"args": [list(xs)], "kwargs": {}}, "output": wanted} for xs, wanted in problem.tests]
            ),
            "entry_point": code_problems.ENTRY_POINT,
            "golden_solutions": [problem.golden_solution],
            "metadata": json.dumps({"level": problem.level}),
        }
        for number, problem in enumerate(problems)
    )


def _write(path: Path, table: pa.Table) -> None:
    temporary = path.with_name(f".{path.name}.partial")
    pq.write_table(table, temporary)
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(temporary, path)
