"""Near duplicates: rows a second against datasketch's own loop, and whether both find the same clusters.

Both run here, one after the other, in this process, on the same rows and the same shingles (hashes of token 5-grams).
The other way is datasketch as its documentation has it: `MinHash.bulk`, then for each row, best first, `query` of a
`MinHashLSH` with the same bands, and `insert` if nothing kept is near; candidates are measured exactly in both. A row's
cluster is the row that stays.

Rows are thirds of three real statements of MATH and AIME, so that any number of different ones can be made; of some a
copy is planted with one to six words left out, exchanged or added, and a number in digits written in words or the other
way; its numbers and its answer are the same. One in five has another answer: that is a problem of a series, which the
whole step must keep.

    python benchmarks/deduplication.py DATA --rows 60000
    python benchmarks/deduplication.py DATA --rows 1000000 --alone   # peak memory, without the other way
"""

from __future__ import annotations

import argparse
import re
import resource
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from datasketch import MinHash, MinHashLSH

from ratchet.data_curation.base.problem_table import PROBLEM_SCHEMA
from ratchet.data_curation.deduplication import minhash
from ratchet.data_curation.deduplication.copies import deduplicate, near_copies
from ratchet.data_curation.deduplication.minhash import PERMUTATIONS, SCHEME, SEED, Shingles, bands_of, ngrams, shingle
from ratchet.data_curation.read import read_files
from ratchet.data_curation.settings.curation import Deduplication
from ratchet.data_curation.split import joined
from ratchet.verifiers.math.tokens import VOCABULARY

FILES = ("math_raw/math_train.json", "math_raw/aime_1983_2023.json")
PLANTED = 0.25
"""Share of the rows that are near copies of another."""


NAMES = VOCABULARY["numbers"]
COUNTS = {word: str(count) for count, word in enumerate(NAMES["ones"].split()) if count > 2}
COUNTS |= {word: str(10 * count) for count, word in enumerate(NAMES["tens"].split(), 2)}
IN_WORDS = {digits: word for word, digits in COUNTS.items()}
KEPT = re.compile(rf"\d|\[/?asy\]|zero|one|two|half|twice|hundred|thousand|million|{'|'.join(COUNTS)}", re.IGNORECASE)


def keeps_numbers(word: str) -> bool:
    """Whether a text with this word more or less has the same numbers, and the same drawing."""
    return not KEPT.search(word)


def near_copy(rng: Random, text: str, words: list[str]) -> str:
    parts = text.split(" ")
    for _ in range(rng.randint(1, 6)):
        place = rng.randrange(len(parts))
        if not keeps_numbers(parts[place]):
            continue
        kind = rng.randrange(3)
        parts[place : place + (kind != 2)] = [] if kind == 0 else [rng.choice(words)]
    alone = [keeps_numbers(part) for part in ["", *parts]]  # what stands before it is no part of the number
    numbers = [place for place, part in enumerate(parts) if (part in COUNTS or part in IN_WORDS) and alone[place]]
    if numbers:
        place = rng.choice(numbers)
        parts[place] = COUNTS.get(parts[place]) or IN_WORDS[parts[place]]
    return " ".join(parts)


def make_rows(statements: list[str], count: int) -> list[tuple[str, str]]:
    """(statement, answer) of each row: a number that only copies share."""
    rng = Random(0)
    words = [word for text in statements for word in text.split(" ") if word.isalpha() and keeps_numbers(word)]
    split = [text.split(" ") for text in statements]
    thirds = [[" ".join(t[i * len(t) // 3 : (i + 1) * len(t) // 3]) for i in range(3)] for t in split]
    originals = round(count * (1 - PLANTED))
    rows = [(" ".join(rng.choice(thirds)[i] for i in range(3)), str(10**6 + n)) for n in range(originals)]
    for number in range(originals, count):
        text, answer = rows[rng.randrange(originals)]
        rows.append((near_copy(rng, text, words), str(10**6 + number) if number % 5 == 0 else answer))
    rng.shuffle(rows)
    return rows


def jaccard(one: frozenset[int], other: frozenset[int]) -> float:
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared)


def datasketch_loop(shingles: Shingles, settings: Deduplication) -> tuple[dict[str, float], dict[int, int]]:
    """CPU seconds of its signatures and of its index; each near copy's kept row."""
    started = time.process_time()
    sets = [shingles.hashes[s:e].tolist() for s, e in zip(shingles.bounds[:-1], shingles.bounds[1:], strict=True)]
    made = MinHash.bulk(sets, num_perm=PERMUTATIONS, seed=SEED, scheme=SCHEME, hashfunc=int)
    signed = time.process_time()
    index = MinHashLSH(num_perm=PERMUTATIONS, params=bands_of(settings))
    set_of = lru_cache(1 << 14)(lambda row: frozenset(sets[row]))
    copies: dict[int, int] = {}
    for row, signature in enumerate(made):
        near = [(jaccard(set_of(row), set_of(kept)), kept) for kept in sorted(index.query(signature))]
        similarity, kept = max(near, key=lambda pair: pair[0], default=(0.0, -1))
        if similarity >= settings.jaccard:
            copies[row] = kept
        else:
            index.insert(row, signature, check_duplication=False)
    return {"signatures": signed - started, "clusters": time.process_time() - signed}, copies


def ours(shingles: Shingles, settings: Deduplication) -> tuple[dict[str, float], dict[int, int]]:
    started = time.process_time()
    keys = minhash.band_keys(shingles, PERMUTATIONS, *bands_of(settings))
    pairs = minhash.buckets(keys, np.arange(len(shingles.wholes)))
    bucketed = time.process_time()
    copies = dict(near_copies(shingles, pairs, settings.jaccard, preference=int))
    return {"signatures and buckets": bucketed - started, "clusters": time.process_time() - bucketed}, copies


def fastest(work: Callable[[], tuple[dict[str, float], Any]], times: int) -> tuple[dict[str, float], Any]:
    return min((work() for _ in range(times)), key=lambda result: sum(result[0].values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the directory that holds math_raw/")
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--repeat", type=int, default=3, help="runs of each, of which the fastest counts")
    parser.add_argument("--alone", action="store_true", help="only our step, and the memory it took")
    arguments = parser.parse_args()

    settings = Deduplication()
    read = joined(read_files([arguments.data / file for file in FILES], "math")).kept
    made = make_rows(read.column("prompt").to_pylist(), arguments.rows)
    texts, answers = ([row[side] for row in made] for side in (0, 1))
    columns: dict[str, Any] = {
        "prompt": texts,
        "answer": answers,
        "problem_id": [str(row) for row in range(len(texts))],
    }
    columns |= {"source_id": columns["problem_id"], "domain": ["math"] * len(texts)}
    table = pa.table(
        [pa.array(columns.get(f.name, [None] * len(texts)), f.type) for f in PROBLEM_SCHEMA], PROBLEM_SCHEMA
    )
    del columns

    if arguments.alone:
        del texts, read
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        started = time.process_time()
        split = deduplicate(table, settings)
        seconds = time.process_time() - started
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        print(
            f"{len(table):,} rows of {table.nbytes / 1e6:,.0f} MB in {seconds:.1f} s of CPU, the whole step: "
            f"{len(table) / seconds:,.0f} rows/s, {len(split.rejected):,} copies; {grown:,.0f} MB more than before it"
        )
        return

    started = time.process_time()
    (shingles,) = shingle([texts], ngrams(settings.ngram))
    shingled = time.process_time() - started
    theirs_s, theirs = fastest(lambda: datasketch_loop(shingles, settings), 1)
    ours_s, found = fastest(lambda: ours(shingles, settings), arguments.repeat)
    started = time.process_time()
    rejected = deduplicate(table, settings).rejected.to_pylist()
    step = time.process_time() - started

    bands, rows = bands_of(settings)
    print(
        f"{len(texts):,} rows, {len(shingles.hashes) / len(texts):.0f} shingles each; {PERMUTATIONS} "
        f"permutations, {bands} bands of {rows}; Jaccard {settings.jaccard}; CPU time of one core\n"
    )
    print("| | rows/s | times |\n|---|---:|---:|")
    total = sum(theirs_s.values())
    lines = (
        ("datasketch: bulk, MinHashLSH", total),
        ("ours, from the same shingles", sum(ours_s.values())),
        ("ours, the whole step from text, with evidence", step),
    )
    for name, seconds in lines:
        print(f"| {name} | {len(texts) / seconds:,.0f} | {total / seconds:.1f} |")
    for name, parts in (("datasketch", theirs_s), ("ours", ours_s | {"(shingles, not counted)": shingled})):
        print(f"\n{name}: " + ", ".join(f"{part} {seconds:.2f} s" for part, seconds in parts.items()))
    same = theirs == found
    print(f"\nnear copies: {len(found):,}; the same as datasketch's, each with the same kept row: {same}")
    copies = {pair for pair in found.items() if answers[pair[0]] == answers[pair[1]]}
    taken = {int(row["source_id"]) for row in rejected}
    merged = sum(row["rule"] == "near" and "answers" in row["evidence"] for row in rejected)
    merged_pairs = sum(not taken.isdisjoint(pair) for pair in copies)
    print(f"of the {len(copies):,} pairs with the same answer the step merges {merged_pairs:,}")
    print(f"near copies that it takes though the answers differ: {merged:,}")
    raise SystemExit(not same)


if __name__ == "__main__":
    main()
