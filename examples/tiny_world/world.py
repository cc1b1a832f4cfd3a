"""The tiny world's raw files: sound problems among the defects of published sets, and the truth about each row.

    math_raw.parquet, code_raw.parquet               as NuminaMath and TACO publish theirs
    math_benchmark.parquet, code_benchmark.parquet   held-out problems, `PROBLEM_SCHEMA`
    math_truth.parquet, code_truth.parquet           `TRUTH_SCHEMA`: the defect of each row; curation never reads it

Sound problems are independent: no two share half of their word triples, nor do a problem and a benchmark item.
Everything is a function of (configuration, seed); the benchmarks do not depend on the seed.
"""

import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.base.bounds import Count
from ratchet.examples.tiny_world import code_problems, math_problems
from ratchet.examples.tiny_world.code_problems import CodeProblem
from ratchet.examples.tiny_world.code_rows import CodeRows
from ratchet.examples.tiny_world.math_rows import MathRows
from ratchet.examples.tiny_world.raw_rows import Row, benchmark_table

VERSION = 2
"""Raise it when a change gives other files for the same settings and seed."""
TRUTH_SCHEMA = pa.schema(
    [
        pa.field("row", pa.int64(), nullable=False),  # row number in the raw file, from 0: `source_id` after reading
        pa.field("label", pa.string(), nullable=False),  # `clean`, `look_alike` (also clean), or the defect
        pa.field("expected", pa.string()),  # "step:rule"; null for a clean row
        pa.field("acceptable", pa.list_(pa.string()), nullable=False),
        pa.field("partner", pa.int64()),  # of a copy: its original's row number
        pa.field("benchmark_item", pa.string()),  # of a contaminated row: the item's problem_id
    ]
)


def generate_world(
    directory: Path, seed: int, math_rows: Count = 2400, code_rows: Count = 900, benchmark_problems: Count = 64
) -> None:
    """Write the six files into `directory`. Sizes: raw rows, defects included, and held-out problems per domain."""
    held_out_math = math_problems.benchmark_problems(benchmark_problems)
    held_out_code = code_problems.benchmark_problems(benchmark_problems)
    math_items = [
        {"prompt": p.prompt, "answer": p.answer, "metadata": json.dumps({"level": p.level})} for p in held_out_math
    ]
    tables = {
        "math_benchmark": benchmark_table("math", math_items),
        "code_benchmark": benchmark_table("code", map(_code_item, held_out_code)),
    }
    math = MathRows(Random(f"tiny world, math {seed}"), held_out_math)
    code = CodeRows(Random(f"tiny world, code {seed}"), held_out_code)
    for name, world, size in (("math", math, math_rows), ("code", code, code_rows)):
        rows = world.rows(size)
        tables[f"{name}_raw"] = pa.Table.from_pylist([row.columns for row in rows])
        tables[f"{name}_truth"] = _truth(rows)
    for name, table in tables.items():
        pq.write_table(table, directory / f"{name}.parquet")


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


def _code_item(problem: CodeProblem) -> dict[str, Any]:
    tests = [{"call": {"args": [list(xs)], "kwargs": {}}, "output": wanted} for xs, wanted in problem.tests]
    return {
        "prompt": problem.prompt,
        "tests": json.dumps(tests),
        "entry_point": code_problems.ENTRY_POINT,
        "golden_solutions": [problem.golden_solution],
        "metadata": json.dumps({"level": problem.level}),
    }
