"""How many rephrased benchmark items the second pass finds, and what else it shortlists.

    python benchmarks/paraphrases.py DATA REPHRASED [--part 0|1] [--judge URL --model NAME]

DATA holds the published files in `word_problems/`, `math_raw/` and `benchmarks/`. REPHRASED holds items in other words:
`rephrase_gsm8k.jsonl` and `humaneval_python.jsonl` of lm-sys/llm-decontaminator (row n is item n of GSM8K's test set,
of HumanEval), and `gsmplus_testmini.jsonl` of qtli/GSM-Plus (each with its seed question and the kind of change). What
is missing is skipped. Rows are in one of two parts by hashes of file and number: the step was made on part 0. Of the
rephrased items of GSM8K and HumanEval part 1 is a quarter, because the way to compare was chosen on one half and the
floor on another.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.decontamination.paraphrases import (
    NEAREST,
    WORDS,
    Embed,
    Item,
    Shortlist,
    by_words,
    judge_prompts,
    replies,
    shortlist,
)
from ratchet.data_curation.decontamination.problems import decontaminate
from ratchet.data_curation.domains import plan_of
from ratchet.data_curation.read import read_problems
from ratchet.data_curation.teacher.attempts import collect_attempts
from ratchet.infra.inference.openai_engine import OpenAIEngine
from ratchet.infra.recipe.curation import Decontamination, Paraphrases
from ratchet.infra.recipe.teacher import Judge
from ratchet.infra.store.problem_table import to_table

Set = list[tuple[str, int]]
"""Rows, each with the number of the item that it is; -1 for none."""


def lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else open(path) as file:
        return [json.loads(line) for line in file]


def part_of(rows: Set, part: int | None, *names: str) -> Set:
    """Those of one part that say anything at all: of part 1 is what is odd under each of the names."""
    of_part = [min(hashlib.sha256(f"{name}:{n}".encode()).digest()[0] % 2 for name in names) for n in range(len(rows))]
    return [row for row, its in zip(rows, of_part, strict=True) if part in (None, its) and row[0].strip()]


def statement(program: str) -> str:
    """A rephrased function up to the end of its docstring: a problem's statement, without the solution."""
    found = re.search(r'"""(.*?)"""|\'\'\'(.*?)\'\'\'', program, re.DOTALL)
    return program[: found.end()] if found else program


def table_of(texts: Sequence[str], source: str) -> pa.Table:
    return to_table(
        {"problem_id": f"{source}{n}", "domain": "math", "source": source, "source_id": str(n), "prompt": text}
        for n, text in enumerate(texts)
    )


def find(rows: Set, items: Sequence[Item], embed: Embed, least: float, nearest: int = NEAREST) -> Shortlist:
    table = table_of([text for text, _ in rows], "row")
    settings = Paraphrases(by="words", min_similarity=least)
    return shortlist(lambda: [table], items, embed, settings, nearest=nearest)


def place(found: Shortlist, rows: Set, items: Sequence[Item]) -> np.ndarray:
    """Where each row's own item stands in its shortlist; 10**6 where it does not."""
    own = [[pair.item for pair in found.get(n, [])] for n in range(len(rows))]
    return np.array(
        [near.index(items[n]) if n >= 0 and items[n] in near else 10**6 for near, (_, n) in zip(own, rows, strict=True)]
    )


def ways(sample: Sequence[str]) -> dict[str, Embed]:
    """The step's way to compare, and others with the same library."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Normalizer

    words = TfidfVectorizer(token_pattern=WORDS, ngram_range=(1, 2), sublinear_tf=True)
    characters = TfidfVectorizer(analyzer="char_wb", ngram_range=(4, 4), sublinear_tf=True)
    reduced = make_pipeline(TfidfVectorizer(token_pattern=WORDS, sublinear_tf=True), TruncatedSVD(256), Normalizer())
    others = {"words and pairs": words, "four characters": characters, "256 latent dimensions": reduced}
    return {"both (the step's)": by_words(sample)} | {name: way.fit(sample).transform for name, way in others.items()}


def report(domain: str, items: Sequence[Item], positive: dict[str, Set], other: dict[str, Set]) -> None:
    least, ngram = plan_of(domain).likeness, plan_of(domain).ngram
    sample = [item.text for item in items] + [text for rows in other.values() for text, _ in rows]
    print(f"\n{domain}: {len(items):,} items")
    print(f"{'':24} {'rows':>6} {'own item at 1':>13} {'at 3':>6} {'at 10':>6}")
    for way, embed in ways(sample).items():
        for name, rows in positive.items():
            at = place(find(rows, items, embed, -1.0, nearest=10), rows, items)
            shares = "  ".join(f"{np.mean(at < k):6.3f}" for k in (1, 3, 10))
            print(f"{way:24} {len(rows):6,} {shares}   {name}")
    embed = by_words(sample)
    print(f"\nwith nearest {NEAREST}, min_similarity {least:g}; n-grams: dropped before")
    print(f"{'':36} {'rows':>6} {'n-grams':>8} {'in the shortlist':>17} {'own item':>9} {'pairs a row':>12}")
    benchmark = table_of([item.text for item in items], "item")
    for name, rows in (positive | other).items():
        began = time.process_time()
        found = find(rows, items, embed, least)
        seconds = time.process_time() - began
        split = decontaminate(table_of([text for text, _ in rows], "row"), benchmark, Decontamination(ngram=ngram))
        dropped = len(split.rejected) / len(rows)
        pairs = sum(map(len, found.values()))
        listed, own = len(found) / len(rows), np.mean(place(found, rows, items) < NEAREST)
        shown = f"{own:9.3f}" if name in positive else f"{'–':>9}"
        print(f"{name:36} {len(rows):6,} {dropped:8.3f} {listed:17.3f} {shown} {pairs / len(rows):12.2f}"
              f"   {len(rows) / seconds:,.0f} rows/s")  # fmt: skip
    thresholds = (0.3, 0.4, 0.5, 0.6, 0.7)
    print(f"\nrows at least so like an item{'  '.join(f'{t:6g}' for t in thresholds)}")
    for name, rows in (positive | other).items():
        found = find(rows, items, embed, -1.0, nearest=1)
        print(
            f"{name:28} "
            + "  ".join(
                f"{sum(near[0].similarity >= t for near in found.values()) / len(rows):6.3f}" for t in thresholds
            )
        )


def judge(url: str, model: str, items: Sequence[Item], positive: dict[str, Set], other: dict[str, Set]) -> None:
    """What a judge says of the shortlists: a row counts as taken when one of its pairs is judged the same."""
    sample = [item.text for item in items] + [text for rows in other.values() for text, _ in rows]
    embed, least = by_words(sample), plan_of("math").likeness
    teacher = Judge(kind="openai", model=model, base_url=url)
    print(f"\njudged by {model}")
    for name, rows in (positive | other).items():
        table = table_of([text for text, _ in rows], "row")
        found = find(rows, items, embed, least)
        with tempfile.TemporaryDirectory() as work:
            engine = OpenAIEngine.for_teacher(teacher)
            output = Path(work) / "replies.parquet"
            try:
                prompts = judge_prompts(lambda table=table: [table], found)
                bill = collect_attempts(prompts, engine, teacher, Path(work) / "journal.jsonl", 0, output)
            finally:
                engine.close()
            said = replies(pq.ParquetFile(output).iter_batches())
        taken = np.mean([any(said[pair.number].same for pair in found.get(row, ())) for row in range(len(rows))])
        print(f"{name:36} {len(rows):6,} rows, taken {taken:.3f}, {bill.answered:,} replies, {bill.summary()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("rephrased", type=Path)
    parser.add_argument("--part", type=int, choices=(0, 1))
    parser.add_argument("--judge", metavar="URL")
    parser.add_argument("--model", default="")
    given = parser.parse_args()

    def read(path: Path, text: Callable[[dict[str, Any]], str]) -> list[str]:
        if not path.exists():
            print(f"skipped: {path} is not there")
            return []
        rows = json.loads(path.read_text()) if path.suffix == ".json" else lines(path)
        return [text(row) for row in rows]

    def rows(path: Path, text: Callable[[dict[str, Any]], str], own: str = "") -> Set:
        found = [(said, n if own else -1) for n, said in enumerate(read(path, text))]
        return part_of(found, given.part, path.name, *filter(None, [own]))

    def problem(row: dict[str, Any]) -> str:
        return row["problem"]

    def rephrased(row: dict[str, Any]) -> str:
        return row["text"].split("\nAnswer:")[0]

    def question(row: dict[str, Any]) -> str:
        return row["question"]

    gsm8k = read(given.data / "word_problems/gsm8k_test.jsonl.gz", question)
    items = [Item("gsm8k", str(n), text) for n, text in enumerate(gsm8k)]
    math500 = read(given.data / "benchmarks/math500.json", problem)
    items += [Item("math500", str(n), text) for n, text in enumerate(math500)]
    positive = {"GSM8K rephrased": rows(given.rephrased / "rephrase_gsm8k.jsonl", rephrased, "gsm8k")}
    other = {
        "GSM8K train": rows(given.data / "word_problems/gsm8k_train.jsonl.gz", question),
        "MATH train": rows(given.data / "math_raw/math_train.json", problem),
    }
    places = {text.strip(): n for n, text in enumerate(gsm8k)}
    plus = given.rephrased / "gsmplus_testmini.jsonl"
    for kind in ("problem understanding", "numerical substitution") if plus.exists() else ():
        changed = [row for row in lines(plus) if row["perturbation_type"] == kind]
        numbered = [(row["question"], places.get(row["seed_question"].strip(), -1)) for row in changed]
        chosen = part_of(numbered, given.part, f"{plus.name} {kind}")
        (positive if kind == "problem understanding" else other)[f"GSM-Plus, {kind}"] = chosen
    positive, other = ({name: rows for name, rows in sets.items() if rows} for sets in (positive, other))
    if gsm8k and positive:
        report("math", items, positive, other)
        if given.judge:
            judge(given.judge, given.model, items, positive, other)
    prompts = read(given.data / "benchmarks/HumanEval.jsonl.gz", lambda row: row["prompt"])
    programs = {
        "HumanEval rephrased": rows(
            given.rephrased / "humaneval_python.jsonl", lambda row: statement(row["text"]), "humaneval"
        )
    }
    leetcode = given.data / "code_raw/LeetCodeDataset-v0.2.0-train.jsonl.gz"
    statements = read_problems(leetcode, "code").kept["prompt"].to_pylist() if leetcode.exists() else []
    unrelated = {"LeetCode train": part_of([(text, -1) for text in statements], given.part, leetcode.name)}
    if prompts and all(programs.values()) and all(unrelated.values()):
        report("code", [Item("humaneval", str(n), text) for n, text in enumerate(prompts)], programs, unrelated)


if __name__ == "__main__":
    main()
