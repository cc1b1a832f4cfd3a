import json

import numpy as np
import pytest
from datasketch import MinHash

from data_curation.deduplication import MAX_MISSED, SEED, _bands, _jaccard, _shingles, _signatures, deduplicate
from data_curation.tokens import tokenise
from infra.recipe.model import Deduplication
from tests.data_curation.conftest import problems

BASE = (
    "A farmer has 17 sheep and 12 goats in two fields beside the river. Each morning she counts the animals in the "
    "northern field first, then walks over a bridge to count the others. How many animals does she count in a week?"
)
NEAR = BASE.replace("week", "month")
FAR = "How many multiples of 7 lie between 100 and 1000 if those that end in a zero are left out of the count entirely?"
CONFIG = Deduplication()


def run(table, config=CONFIG):
    split = deduplicate(table, config)
    return split, {r["source_id"]: (r["rule"], json.loads(r["evidence"])) for r in split.rejected.to_pylist()}


def test_exact_copies_in_other_typesetting_and_near_copies_leave_one_row():
    split, rejected = run(problems("math", BASE, FAR, BASE.upper().replace(" 17 ", " $17$ "), NEAR))
    assert split.kept.column("source_id").to_pylist() == ["0", "1"]
    assert rejected["2"][0] == "exact" and rejected["3"][0] == "near"
    assert rejected["3"][1]["kept"]["source_id"] == "0" and 0.8 <= rejected["3"][1]["jaccard"] < 1
    assert split.summary["minhash"]["scheme"] == "affine32" and split.summary["minhash"]["datasketch"]


def test_the_row_with_solution_then_tests_then_the_common_answer_stays():
    code = problems(
        "code", BASE, BASE, BASE,
        golden_solutions=[[], ["s"], ["s"]], tests=['[{"output": 1}, {"output": 2}]', "[]", '[{"output": 1}]'],
    )  # fmt: skip
    assert run(code)[0].kept.column("source_id").to_pylist() == ["2"]
    split, rejected = run(problems("math", BASE, BASE, BASE, NEAR, answer=["5", "203", "203", "7"]))
    assert split.kept.column("source_id").to_pylist() == ["1"]
    assert rejected["0"][1]["answers"] == ["5", "203"] and "answers" not in rejected["2"][1]


def test_one_problem_under_two_addresses():
    urls = ["https://codeforces.com/contest/1/problem/A", "https://codeforces.com/problemset/problem/1/A", None]
    _, rejected = run(problems("code", BASE, FAR, "Unlike both of them.", source_url=urls))
    assert rejected["1"][0] == "url" and rejected["1"][1]["url"] == "codeforces:1/a"
    assert list(rejected) == ["1"]


def test_a_chain_of_small_changes_does_not_remove_what_resembles_nothing_kept():
    words = [f"word{i}" for i in range(60)]
    chain = [" ".join(words[:i] + [f"new{k}" for k in range(i)] + words[2 * i :]) for i in (0, 3, 6, 9, 12, 15)]
    split, rejected = run(problems("math", *chain), Deduplication(jaccard=0.7))
    prompts = dict(
        zip(split.kept.column("source_id").to_pylist(), split.kept.column("prompt").to_pylist(), strict=True)
    )
    assert len(prompts) > 1
    for row, (_, evidence) in rejected.items():
        ours, kept = _shingles(tokenise([chain[int(row)], prompts[evidence["kept"]["source_id"]]]), 5)
        assert _jaccard(ours, kept) == pytest.approx(evidence["jaccard"], abs=1e-4) and evidence["jaccard"] >= 0.7


def test_every_pair_above_the_threshold_is_found_and_none_below():
    rng = np.random.default_rng(0)
    texts = []
    for _ in range(120):
        words = [f"w{k}" for k in rng.integers(0, 5000, 80)]
        copy = list(words)
        for at in rng.choice(80, rng.integers(1, 5), replace=False):
            copy[at] = "changed" + str(at)
        texts += [" ".join(words), " ".join(copy)]
    _, rejected = run(problems("math", *texts))
    sets = _shingles(tokenise(texts), 5)
    above = {str(i + 1) for i in range(0, len(texts), 2) if _jaccard(sets[i], sets[i + 1]) >= CONFIG.jaccard}
    assert set(rejected) <= above and len(rejected) >= (1 - 3 * MAX_MISSED) * len(above) and 20 < len(above) < 120


def test_signatures_are_datasketchs_own():
    [values] = _shingles(tokenise([BASE]), 5)
    oracle = MinHash(num_perm=64, seed=SEED, scheme="affine32", hashfunc=int)
    for value in values.tolist():
        oracle.update(value & 0xFFFFFFFF)
    assert (_signatures([values], 64)[0] == oracle.hashvalues).all()


@pytest.mark.parametrize("threshold", [0.5, 0.8, 0.95])
def test_bands_miss_one_pair_at_the_threshold_in_a_hundred(threshold):
    bands, rows = _bands(Deduplication(jaccard=threshold))
    assert (1 - threshold**rows) ** bands <= MAX_MISSED and bands * rows <= 128
    assert (1 - threshold ** (rows + 1)) ** (128 // (rows + 1)) > MAX_MISSED


def test_the_same_statement_for_two_functions_is_two_problems():
    split, rejected = run(problems("code", FAR, FAR, entry_point=["f", "g"]))
    assert rejected["1"][0] == "near" and len(split.kept) == 1
