import json
import re
from collections import Counter

import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.base.problem_table import PROBLEM_SCHEMA
from ratchet.examples.tiny_world import code_problems, math_problems
from ratchet.examples.tiny_world.world import TRUTH_SCHEMA, generate_world

SIZES = {"math_rows": 400, "code_rows": 200, "benchmark_problems": 32}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    directory = tmp_path_factory.mktemp("world")
    generate_world(directory, 0, **SIZES)
    return directory


def _rows(world, domain):
    raw = pq.read_table(world / f"{domain}_raw.parquet").to_pylist()
    truth = pq.read_table(world / f"{domain}_truth.parquet").to_pylist()
    return list(zip(raw, truth, strict=True))


def test_the_same_seed_makes_the_same_files_and_another_seed_the_same_benchmarks(world, tmp_path):
    for seed in (0, 1):
        (tmp_path / str(seed)).mkdir()
        generate_world(tmp_path / str(seed), seed, **SIZES)
    for name in ("math_raw", "code_raw", "math_truth", "code_truth", "math_benchmark", "code_benchmark"):
        first = (world / f"{name}.parquet").read_bytes()
        assert (tmp_path / "0" / f"{name}.parquet").read_bytes() == first
        assert ((tmp_path / "1" / f"{name}.parquet").read_bytes() == first) == name.endswith("benchmark")


def test_sizes_and_schemas(world):
    for domain, size in (("math", 400), ("code", 200)):
        assert len(_rows(world, domain)) == size
        assert pq.read_schema(world / f"{domain}_truth.parquet").equals(TRUTH_SCHEMA)
        benchmark = pq.read_table(world / f"{domain}_benchmark.parquet")
        assert benchmark.schema.equals(PROBLEM_SCHEMA)
        assert len(benchmark) == 32


def test_every_kind_of_defect_is_there_in_many_wordings(world):
    for domain, column in (("math", "problem"), ("code", "question")):
        labels = Counter(truth["label"] for _, truth in _rows(world, domain))
        assert labels["clean"] > 0.5 * sum(labels.values())
        assert len(labels) == {"math": 17, "code": 19}[domain]
        for label, count in labels.items():
            assert count >= 3
            texts = {raw[column] for raw, truth in _rows(world, domain) if truth["label"] == label}
            assert len(texts) > 0.7 * count or label in ("malformed", "no_answer")


def test_sound_rows_are_right(world):
    for raw, truth in _rows(world, "math"):
        if truth["label"] == "clean":
            chain = math_problems.parse(raw["problem"])
            assert raw["answer"] == chain.answer
            assert not chain.is_held_out()
        elif truth["label"] == "wrong_answer":
            assert raw["answer"] != math_problems.parse(raw["problem"]).answer
    for raw, truth in _rows(world, "code"):
        if truth["label"] == "clean":
            task = code_problems.parse(raw["question"])
            tests = json.loads(raw["input_output"])
            outputs = [value[0] if isinstance(value, list) else value for value in tests["outputs"]]
            assert [task.run(*arguments) for arguments in tests["inputs"]] == outputs
            assert not task.is_held_out()
            assert raw["date"] is None or raw["date"] < "2024-08-01"


def test_copies_point_to_their_originals_and_ask_the_same(world):
    for domain, column, parse in (
        ("math", "problem", math_problems.parse),
        ("code", "question", code_problems.parse),
    ):
        rows = _rows(world, domain)
        copies = [(raw, truth) for raw, truth in rows if truth["partner"] is not None]
        assert copies
        for raw, truth in copies:
            original, fact = rows[truth["partner"]]
            assert fact["label"] == "clean"
            assert truth["label"] != "two_urls" or raw["url"] != original["url"]
            if "duplicate" not in truth["label"] or _words(raw[column]) == _words(original[column]):
                assert parse(raw[column]) == parse(original[column])


def test_contaminated_rows_name_an_item_of_the_benchmark(world):
    for domain in ("math", "code"):
        items = set(pq.read_table(world / f"{domain}_benchmark.parquet")["problem_id"].to_pylist())
        named = [truth["benchmark_item"] for _, truth in _rows(world, domain) if "benchmark" in truth["label"]]
        assert named
        assert set(named) <= items


def test_sound_rows_share_no_long_run_of_words_with_a_benchmark_item(world):
    """Nine words for math and fourteen for code: what decontamination at coverage 0.3 would flag."""
    for domain, column, n in (("math", "problem", 9), ("code", "question", 14)):
        items = [
            _ngrams(text, n) for text in pq.read_table(world / f"{domain}_benchmark.parquet")["prompt"].to_pylist()
        ]
        sound = [raw[column] for raw, truth in _rows(world, domain) if truth["label"] == "clean"]
        flagged = sum(
            any(len(item & grams) >= 0.3 * len(item) for item in items)
            for grams in (_ngrams(text, n) for text in sound)
        )
        assert flagged <= 1


def _words(text):
    return re.findall(r"[a-z]+|\d+", text.lower())


def _ngrams(text, n):
    words = _words(text)
    return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)} or {tuple(words)}
