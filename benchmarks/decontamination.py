"""Decontamination: rows a second, and what is found, against the way open-r1 does it.

Both run here, one after the other, in this process, on the same rows. The other way: lower-case, collapse white space,
split, sets of word n-grams, one pass over all rows for each benchmark (the structure of open-r1's
`scripts/decontaminate.py`, written anew from its description, any shared n-gram drops). It folds no LaTeX and says
neither which item was met nor how much of it, and an item of fewer than n words has no n-gram.

    python benchmarks/decontamination.py ../shared/data --repeat 5
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import pyarrow as pa

from data_curation.decontamination import BenchmarkIndex, decontaminate
from data_curation.injection import injection_recall
from data_curation.normalisation import read_and_normalise
from data_curation.readers import read_benchmark
from data_curation.tokens import tokenise
from infra.recipe.model import Decontamination

ROWS = ("math_raw/math_train.json", "math_raw/aime_1983_2023.json")
ITEMS = (
    "benchmarks/math500.json",
    "benchmarks/aime24.json",
    "benchmarks/amc22_23.json",
    "benchmarks/olympiad_bench.json",
)
N = 9


def word_ngrams(text: str) -> set[str]:
    words = " ".join(text.lower().split()).split(" ")
    return {" ".join(words[i : i + N]) for i in range(len(words) - N + 1)}


def one_benchmark_after_the_other(rows: list[str], benchmarks: list[list[str]]) -> int:
    """Rows that share a word n-gram with a benchmark."""
    contaminated = [False] * len(rows)
    for items in benchmarks:
        lookup = set().union(*map(word_ngrams, items))
        for number, row in enumerate(rows):
            contaminated[number] |= bool(lookup & word_ngrams(row))
    return sum(contaminated)


def fastest(work, times: int) -> tuple[float, object]:
    best, result = float("inf"), None
    for _ in range(times):
        started = time.process_time()
        result = work()
        best = min(best, time.process_time() - started)
    return best, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the directory that holds math_raw/ and benchmarks/")
    parser.add_argument("--copies", type=int, default=10, help="how often the rows are taken, for a larger table")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each, of which the fastest counts")
    arguments = parser.parse_args()

    once = read_and_normalise([arguments.data / file for file in ROWS], "math").kept
    table = pa.concat_tables([once] * arguments.copies)
    tables = [read_benchmark(arguments.data / file, "math").kept for file in ITEMS]
    items = pa.concat_tables(tables)
    rows = table.column("prompt").to_pylist()
    settings = Decontamination(ngram=N)

    def find() -> int:
        names = list(zip(*(items.column(c).to_pylist() for c in ("source", "source_id")), strict=True))
        index = BenchmarkIndex(items.column("prompt").to_pylist(), names, N)
        return sum(overlap.items_hit > 0 for overlap in index.compare(rows)[0])

    tokenise(rows[:1])  # tables that are built once in a process
    theirs, hits = fastest(
        lambda: one_benchmark_after_the_other(rows, [t.column("prompt").to_pylist() for t in tables]), arguments.repeat
    )
    ours, paper_hits = fastest(find, arguments.repeat)
    step, split = fastest(lambda: decontaminate(table, items, settings), arguments.repeat)

    unprotected = sum(not word_ngrams(text) for text in items.column("prompt").to_pylist())
    lines = [
        ("word n-grams, one benchmark after the other", theirs, hits, unprotected),
        ("finding, `paper` rule", ours, paper_hits, "0 (matched whole)"),
        ("the whole step, `coverage`, with evidence", step, len(split.rejected), "0 (matched whole)"),
    ]
    print(f"{len(rows):,} rows, {len(items):,} items of {len(tables)} benchmarks, n = {N}; CPU time of one core\n")
    print("| | rows/s | times | rows flagged | items without an n-gram |\n|---|---:|---:|---:|---:|")
    for name, seconds, flagged, without in lines:
        print(f"| {name} | {len(rows) / seconds:,.0f} | {theirs / seconds:.1f} | {flagged:,} | {without} |")
    print("\nRecall of disguised items (`coverage`):")
    for name, found in injection_recall(items, settings).items():
        print(f"- {name}: {found['recall']:.3f} of {found['items']}")


if __name__ == "__main__":
    main()
