"""Decontamination against its peers, in one run on the same rows: CPU time, and what each finds.

The rows are made of the published problems: each is one with its numbers drawn again, half of them followed by a
sentence of another problem, so that no two are alike. The peers are

- *word n-grams*, the way of open-r1's `scripts/decontaminate.py`, from its description: lower-case, split,
  join each n-gram, look it up in a set, one pass over all rows for each benchmark;
- *one set*, the same with the n-grams of all benchmarks in one set, and one pass;
- *datatrove's* `NGramsDecontFilter`, the real one, in an interpreter where it is installed (`--datatrove PYTHON`).

None of them says which item was met or how much of it, and an item of fewer than n words has no n-gram.

    python benchmarks/decontamination.py DATA --datatrove .datatrove/bin/python
    python benchmarks/decontamination.py DATA --million   # peak memory of `ratchet decontaminate`
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.decontamination.overlaps import BenchmarkIndex, find
from ratchet.data_curation.decontamination.problems import decontaminate
from ratchet.data_curation.decontamination.self_test import self_test
from ratchet.data_curation.read import read_files, read_problems
from ratchet.data_curation.settings.curation import Decontamination
from ratchet.data_curation.split import joined, set_column
from ratchet.data_curation.tokens import tokenised_batches

ROWS = ("math_raw/math_train.json", "math_raw/aime_1983_2023.json")
ITEMS = ("math500.json", "aime24.json", "amc22_23.json", "olympiad_bench.json")
N = 9


def augmented(texts: list[str], count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)

    def another(number: re.Match[str]) -> str:
        return "".join(draw.choice("123456789") for _ in number[0])

    rows = []
    for _ in range(count):
        row = re.sub(r"\d+", another, draw.choice(texts))
        if draw.random() < 0.5:
            row += " " + draw.choice(draw.choice(texts).split(". "))
        rows.append(row)
    return rows


def word_ngrams(text: str) -> list[str]:
    words = re.sub(r"\s+", " ", text.lower().strip()).split()
    return [" ".join(words[i : i + N]) for i in range(len(words) - N + 1)]


def one_benchmark_after_the_other(rows: list[str], benchmarks: list[list[str]]) -> int:
    """Rows that share a word n-gram with a benchmark."""
    contaminated = [False] * len(rows)
    for items in benchmarks:
        lookup = {ngram for item in items for ngram in word_ngrams(item)}
        for number, row in enumerate(rows):
            contaminated[number] |= any({ngram in lookup for ngram in set(word_ngrams(row))})
    return sum(contaminated)


DATATROVE = """
import json, sys, time
from pathlib import Path
import numpy as np
from datatrove.data import Document
from datatrove.pipeline.decont.n_grams import NGramsDecontConfig, NGramsDecontFilter
from datatrove.utils.text import ngrams, simplify_text
folder, n = Path(sys.argv[1]), int(sys.argv[2])
config = NGramsDecontConfig(n_grams=n, find_query_ngrams=True)
step = NGramsDecontFilter(str(folder / "index"), config)
for name, items in json.loads((folder / "items.json").read_text()).items():
    words = [step.tokenizer.word_tokenize(simplify_text(text, config.norm_config)) for text in items]
    hashes = {step.hash_func(" ".join(gram)) for text in words for gram in ngrams(text, n)}
    np.array(sorted(hashes), dtype=config.hash_config.np_descr).tofile(folder / "index" / f"{name}.index.hashes")
documents = [Document(text, str(i)) for i, text in enumerate(json.loads((folder / "rows.json").read_text()))]
step.filter(Document("warm up", "0"))
started = time.process_time()
dropped = sum(step.filter(document) is not True for document in documents)
print(json.dumps([time.process_time() - started, dropped]))
"""


def datatrove(python: str, rows: list[str], benchmarks: list[list[str]]) -> tuple[float, int]:
    """CPU seconds of the real filter, its index made before with its own tokens and hashes, and the rows it drops."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "index").mkdir()
        (Path(folder) / "rows.json").write_text(json.dumps(rows))
        (Path(folder) / "items.json").write_text(json.dumps(dict(zip(map(str, range(9)), benchmarks, strict=False))))
        done = subprocess.run([python, "-c", DATATROVE, folder, str(N)], capture_output=True, text=True, check=True)
    seconds, dropped = json.loads(done.stdout.splitlines()[-1])
    return seconds, dropped


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.process_time()
    result = work()
    return time.process_time() - started, result


def million(data: Path) -> None:
    """Peak memory of the command on a million short problems, and its CPU time."""
    texts = joined(read_files([data / file for file in ROWS], "math")).kept.column("prompt").to_pylist()
    short = [text for text in texts if len(text) < 250]
    with tempfile.TemporaryDirectory() as folder:
        rows = augmented(short, 1_000_000)
        file = Path(folder) / "rows.parquet"
        pq.write_table(pa.table({"problem": rows, "n": range(len(rows))}), file)
        size = sum(map(len, rows)) / 2**20
        del rows
        command = [
            sys.executable,
            "-m",
            "ratchet.cli.main",
            "decontaminate",
            "--input",
            str(file),
            "--output",
            f"{folder}/out",
        ]
        for item in ITEMS:
            command += ["--benchmark", str(data / "benchmarks" / item)]
        started = resource.getrusage(resource.RUSAGE_CHILDREN)
        process, peak = subprocess.Popen(command), 0
        while process.poll() is None:
            # Not ru_maxrss, which counts this process too: a child begins as a copy of it.
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak = max(peak, *map(int, re.findall(r"VmHWM:\s+(\d+)", status)), 0)
            time.sleep(0.02)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime - started.ru_utime - started.ru_stime
    print(f"\n1,000,000 rows, {size:.0f} MiB of text: peak memory {peak / 1024:.0f} MiB, CPU time {seconds:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the directory that holds math_raw/ and benchmarks/")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument(
        "--repeat", type=int, default=3, help="runs of each but datatrove's, of which the median counts"
    )
    parser.add_argument("--datatrove", metavar="PYTHON", help="an interpreter that has datatrove and spacy")
    parser.add_argument("--million", action="store_true", help="only measure memory, on a million short problems")
    arguments = parser.parse_args()
    if arguments.million:
        return million(arguments.data)

    once = joined(read_files([arguments.data / file for file in ROWS], "math")).kept
    rows = augmented(once.column("prompt").to_pylist(), arguments.rows)
    table = pa.concat_tables([once] * (len(rows) // len(once) + 1)).slice(0, len(rows))
    table = set_column(table, "prompt", rows)
    tables = [read_problems(arguments.data / "benchmarks" / file, "math").kept for file in ITEMS]
    items, benchmarks = pa.concat_tables(tables), [t.column("prompt").to_pylist() for t in tables]
    names = list(zip(*(items.column(c).to_pylist() for c in ("source", "source_id")), strict=True))
    settings, everything = Decontamination(ngram=N), [text for texts in benchmarks for text in texts]

    def pairs() -> int:
        index = BenchmarkIndex(everything, names, N)
        batches = tokenised_batches(table.column("prompt"))
        return sum(len(index.compare(tokens)) for tokens in batches)

    ways: dict[str, Callable[[], int]] = {
        "word n-grams, a pass for each benchmark (open-r1)": lambda: one_benchmark_after_the_other(rows, benchmarks),
        "word n-grams, one set": lambda: one_benchmark_after_the_other(rows, [everything]),
        "Ratchet: every row's coverage of every item": pairs,
        "Ratchet: the same, and evidence of what is dropped": lambda: len(
            find(table.column("prompt"), BenchmarkIndex(everything, names, N), settings).rejections
        ),
        "Ratchet: the whole step, metadata and self-test too": lambda: len(
            decontaminate(table, items, settings).rejected
        ),
    }
    pairs()  # tables that are built once in a process
    measured = {name: [timed(way) for _ in range(arguments.repeat)] for name, way in ways.items()}
    medians = {name: (statistics.median(s for s, _ in runs), runs[0][1]) for name, runs in measured.items()}
    if arguments.datatrove:
        medians["datatrove NGramsDecontFilter"] = datatrove(arguments.datatrove, rows, benchmarks)

    size = sum(map(len, rows)) / 2**20
    print(f"{len(rows):,} rows, {size:.0f} MiB, {len(items):,} items of {len(tables)} benchmarks, n = {N}; CPU time\n")
    baseline = next(iter(medians.values()))[0]
    slowest = medians.get("datatrove NGramsDecontFilter", (0.0, 0))[0]
    print("| | rows/s | times open-r1 | times datatrove | rows flagged |\n|---|---:|---:|---:|---:|")
    for name, (seconds, flagged) in medians.items():
        against = f"{slowest / seconds:.1f}" if slowest else "–"
        print(f"| {name} | {len(rows) / seconds:,.0f} | {baseline / seconds:.1f} | {against} | {flagged:,} |")
    print(f"\nItems without a word n-gram: {sum(not word_ngrams(text) for text in everything)} of {len(everything):,}.")
    test = self_test(BenchmarkIndex(everything, names, N), settings)
    print(f"Ratchet's self-test: recall {test['recall']:.4f}, {len(test['unprotected'])} items unprotected;")
    print(", ".join(f"{name} {recall}" for name, recall in test["recall_by_disguise"].items()))


if __name__ == "__main__":
    main()
