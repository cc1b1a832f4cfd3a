import json
import re
from pathlib import Path

import numpy as np
import pytest
from datasketch import MinHash, MinHashLSH

from ratchet.data_curation.deduplication import minhash
from ratchet.data_curation.deduplication.copies import deduplicate, near_copies
from ratchet.data_curation.deduplication.minhash import MAX_MISSED, SEED, Shingles, bands_of, ngrams, shingle
from ratchet.data_curation.deduplication.same_problem import same_problem
from ratchet.data_curation.settings.curation import Deduplication
from tests.data_curation.conftest import problems

BASE = (
    "A farmer has 17 sheep and 12 goats in two fields beside the river. Each morning she counts the animals in the "
    "northern field first, then walks over a bridge to count the others. How many animals does she count in a week?"
)
NEAR = BASE.replace("week", "weekk")  # the same with a slip of the pen
FAR = "How many multiples of 7 lie between 100 and 1000 if those that end in a zero are left out of the count entirely?"
CONFIG = Deduplication()


def run(table, config=CONFIG):
    split = deduplicate(table, config)
    return split, {r["source_id"]: (r["rule"], json.loads(r["evidence"])) for r in split.rejected.to_pylist()}


def similarity_of(sets: Shingles, one: int, other: int) -> float:
    mine, theirs = (set(sets.hashes[sets.bounds[text] : sets.bounds[text + 1]].tolist()) for text in (one, other))
    return len(mine & theirs) / len(mine | theirs)


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
    split, rejected = run(problems("math", BASE, BASE, BASE, NEAR, answer=["5", "203", "203", "203"]))
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
    assert len(split.kept) > 1
    (sets,) = shingle([chain], ngrams(5))
    for row, (_, evidence) in rejected.items():
        similarity = similarity_of(sets, int(row), int(evidence["kept"]["source_id"]))
        assert similarity == pytest.approx(evidence["jaccard"], abs=1e-4) and similarity >= 0.7


def test_the_copy_of_a_copy_names_the_row_that_stays_and_what_came_between():
    url, tests = "https://leetcode.com/problems/two-sum/", ['[{"output": 1}]', None, None]
    columns = {"golden_solutions": [["s"]] * 3, "source_url": [url, url, None], "tests": tests}
    table = problems("code", BASE, FAR, FAR.upper(), **columns)
    _, rejected = run(table)
    assert rejected["2"][0] == "exact" and rejected["2"][1]["kept"]["source_id"] == "0"
    assert rejected["2"][1]["by"]["source_id"] == "1" and rejected["2"][1]["jaccard"] < 0.1
    assert "by" not in rejected["1"][1]


def all_buckets(sets: Shingles) -> tuple[np.ndarray, np.ndarray]:
    return minhash.buckets(
        minhash.band_keys(sets, minhash.PERMUTATIONS, *bands_of(CONFIG)), np.arange(len(sets.wholes))
    )


def sentences(count: int) -> list[str]:
    """Pairs of texts of 80 words, the second with one to four words changed."""
    rng, texts = np.random.default_rng(0), []
    for _ in range(count):
        words = [f"w{k}" for k in rng.integers(0, 5000, 80)]
        copy = list(words)
        for at in rng.choice(80, rng.integers(1, 5), replace=False):
            copy[at] = "changed" + str(at)
        texts += [" ".join(words), " ".join(copy)]
    return texts


def test_every_pair_above_the_threshold_is_found_and_none_below():
    texts = sentences(120)
    (sets,) = shingle([texts], ngrams(5))
    found = {row for row, _ in near_copies(sets, all_buckets(sets), CONFIG.jaccard, int)}
    pairs = ((i, i + 1) for i in range(0, len(texts), 2))
    above = {two for one, two in pairs if similarity_of(sets, one, two) >= CONFIG.jaccard}
    assert found <= above and len(found) >= (1 - 3 * MAX_MISSED) * len(above) and 20 < len(above) < 120


SALE = (
    "You are given an array prices where prices[i] is the price of a stock on day i. You may hold at most one share at "
    "any time and may buy and sell on the same day. Return the maximum profit that you can achieve with any trades."
)
TESTS = '[{"call": {"args": [[1, 2]], "kwargs": {}}, "output": 1}]'
OTHER_TESTS = '[{"call": {"args": [[1, 2]], "kwargs": {}}, "output": 2}]'


@pytest.mark.parametrize(
    ("domain", "other", "columns", "is_copy"),
    [
        # problems of a series
        ("math", BASE.replace("17", "18"), {}, False),
        ("math", BASE.replace("week", "month"), {}, False),
        ("math", BASE.replace("week", "fortnight"), {"answer": ["203", "203"]}, False),
        ("math", BASE.replace("week", "month"), {"answer": ["203", "203"]}, False),  # another question
        ("math", BASE.replace("week", "month"), {"answer": ["3", "3"]}, False),
        ("math", BASE + " Explain.", {"answer": ["True", "True"]}, True),
        ("math", BASE.replace("in a week", "every week"), {"answer": ["203", "211"]}, False),
        ("math", BASE.replace("in a week", "every week"), {"answer": [r"\frac{1}{2}", "0.5"]}, True),
        ("math", BASE.replace("17", "seventeen"), {"answer": ["203", "203"]}, True),
        ("math", BASE.replace("the animals", "the two animals"), {"answer": ["203", "203"]}, False),
        ("code", SALE.replace("any trades", "two trades"), {}, False),
        ("code", SALE.replace("maximum profit", "distinct maximum profit"), {}, False),
        ("code", SALE.replace("trades", "trdaes").replace("prices[i]", "`prices[i]`"), {}, True),
        ("code", SALE.replace("any trades", "all trades"), {"tests": [TESTS, TESTS]}, True),
        ("code", SALE, {"tests": [TESTS, OTHER_TESTS], "entry_point": ["f", "g"]}, False),
        ("code", SALE, {"entry_point": ["f", "g"]}, True),  # of two functions, and no exact copy
        # what other domains judge by says nothing of the problem
        ("instructions", BASE.replace("week", "month"), {"tests": ['[{"id": "punctuation:no_comma"}]'] * 2}, False),
        ("science", BASE.replace("week", "month"), {"tests": ['{"unit": "m"}'] * 2, "answer": ["3", "3"]}, False),
        # other ways to write the same
        ("math", "Problem 12. " + BASE, {}, True),
        ("math", "![](farm.png) " + BASE, {}, True),
        ("math", BASE.replace("17", "$17$").replace("week", "weeks"), {}, True),
    ],
)
def test_near_copies_are_the_same_problem(domain, other, columns, is_copy):
    split, rejected = run(problems(domain, SALE if domain == "code" else BASE, other, **columns))
    assert [rule for rule, _ in rejected.values()] == (["near"] if is_copy else []), rejected
    assert len(split.kept) == 2 - is_copy


RIDE = (
    "Tom rode 14 miles on Monday and 23 miles on Tuesday. "
    "On Friday he rode twice as far as on both days. How far was it?"
)


@pytest.mark.parametrize(
    ("other", "answers", "is_copy"),
    [
        ("On Monday Tom rode 14 miles. On Tuesday he rode 23 miles. How far was his ride on Friday, which was 2 times "
         "as far as on both days?", ["74", "74"], True),  # another order, a number in digits
        (RIDE.replace("Tom", "Anna").replace("he ", "she "), ["74", "74"], True),
        (RIDE.replace("rode", "cycled").replace("How far", "What distance"), ["74", "74"], True),
        (RIDE.replace("rode", "cycled"), ["74", "75"], False),
        (RIDE.replace("rode", "cycled"), ["74", None], False),
        (RIDE.replace("Tuesday", "Thursday").replace("23", "24"), ["74", "74"], False),
        (RIDE.replace("14", "32").replace("23", "14").replace("32", "23"), ["74", "74"], False),  # exchanged
        ("A shop sold 14 red hats and 23 blue ones; it ordered 2 times as many. How many are on order?", ["74", "74"],
         False),
    ],
)  # fmt: skip
def test_copies_in_other_words_have_the_same_numbers_and_answer(other, answers, is_copy):
    _, rejected = run(problems("math", RIDE, FAR, other, answer=[answers[0], "129", answers[1]]))
    assert [rule for rule, _ in rejected.values()] == (["reworded"] if is_copy else []), rejected
    assert not is_copy or 0.25 <= rejected["2"][1]["words"] <= 1
    assert not run(problems("math", RIDE, other, answer=answers), Deduplication(reworded=False))[1]


def test_texts_that_differ_in_one_meaningful_word_are_different_problems():
    """Each line of the file holds two: `Tom is 5 years [older|younger] than Ann`."""
    lines = Path(__file__).with_name("different.txt").read_text(encoding="utf-8").splitlines()
    texts = [re.sub(r"\[(.*)\|(.*)\]", rf"\{side}", line) for line in lines for side in (1, 2)]
    assert len(texts) == 260
    for answer in ("7", "128", None):
        assert not run(problems("math", *texts, answer=[answer] * len(texts)))[1]


LEAST = "Find the least value of $x^2+37y^2$ for whole numbers $x$ and $y$ whose product is 74, and explain."


@pytest.mark.parametrize(
    ("text", "other", "is_copy"),
    [
        (LEAST, LEAST.replace("least", "greatest"), False),
        (f"{BASE} How many are left?", f"{BASE} How many in all?", False),
        ("6 storks and 3 birds sat there. 2 more birds came. How many more storks than birds sit there now?",
         "6 birds and 3 storks sat there. 2 more storks came. How many more birds than storks sit there now?", False),
        ("Jo got 6 mails in the morning, 3 at noon and some at night, 10 in all. How many did Jo get at noon?",
         "Jo got 3 mails at noon, 6 in the morning and some at night, 10 in all. How many did Jo get at night?", False),
        ("3 birds sat on a fence of 25 m. 2 more birds and 6 more storks came to join them. How many sit there?",
         "3 birds sat on a fence of 25 m. 6 more storks and 2 more birds came to join them. How many sit there?", True),
        ("Al has a car for 250 dollars. The car needs 4 tires of 35 dollars. What does the car cost in total?",
         "Bo has a van for 250 dollars. The van needs 4 tires of 35 dollars. What does the van cost altogether?", True),
    ],
)  # fmt: skip
def test_the_opposite_and_another_comparison_are_other_problems_and_a_new_name_is_none(text, other, is_copy):
    _, rejected = run(problems("math", text, other, answer=["11", "11"]))
    assert len(rejected) == is_copy


@pytest.mark.parametrize(
    ("words", "digits", "is_same"),
    [
        ("a dozen eggs", "12 eggs", True),
        ("two hundred and fifty-five eggs", "255 eggs", True),
        ("twice as many eggs", "2 times as many eggs", True),
        ("5 million eggs", "5,000,000 eggs", True),
        ("two thirds of the eggs", "2/3 of the eggs", True),
        ("three eggs", "13 eggs", False),
        ("two dozen eggs", "two eggs", False),
        ("the third egg", "3 eggs", False),
        ("two " * 2000 + "eggs", "2 eggs", False),
        ("one of the eggs", "1 of the eggs", True),
        ("one of the eggs", "the eggs", True),
        ("1 of the eggs", "the eggs", False),
    ],
)
def test_a_number_is_the_same_in_digits_and_in_words(words, digits, is_same):
    rows = [{"domain": "math", "prompt": text, "answer": "203", "tests": None} for text in (words, digits)]
    assert same_problem(*rows) is is_same


def test_exact_copies_that_disagree_are_counted_and_dropped_by_choice():
    answers = ["5", "203", "203", None, "1/2", "0.5"]
    table = problems("math", BASE, BASE, BASE, BASE, FAR, FAR, answer=answers)
    split, rejected = run(table)
    assert split.kept["source_id"].to_pylist() == ["1", "4"] and split.summary["disagreeing"] == 4
    split, rejected = run(table, Deduplication(drop_disagreeing=True))
    assert split.kept["source_id"].to_pylist() == ["4"]
    assert {rejected[row][0] for row in "0123"} == {"disagreement"} and rejected["5"][0] == "exact"
    assert rejected["0"][1]["answers"] == ["5", "203"]


@pytest.mark.parametrize(
    ("text", "other"),
    [
        (r"What is $88 \div 4 \div 2$?", r"What is $88 \div (4 \div 2)$?"),  # both of MATH's training set
        (r"Compute $(2+3)\cdot 4$.", r"Compute $2+3\cdot 4$."),
        (r"Compute $(2+3)\cdot 4$.", r"Compute $2+(3\cdot 4)$."),
        ("Compute $2^{3+1}$.", "Compute $2^3+1$."),
        (r"Compute $\sqrt{9+16}$.", r"Compute $\sqrt{9}+16$."),
        ("Let $f(x)=x^3$. Find $f'(2)$.", "Let $f(x)=x^3$. Find $f(2)$."),
        ("Find the last digit of $7!$, please.", "Find the last digit of $7$, please."),
        ("How many integers are in $[1,5)$?", "How many integers are in $(1,5)$?"),
        ("How many integers are in $(1, 5)$?", r"How many integers are in $\{1, 5\}$?"),
        ("What is $f(1.5)$ if $f$ is the sum?", "What is $f(1,5)$ if $f$ is the sum?"),
        ("Print $N$ if $n$ is less, else 0.", "Print $n$ if $N$ is less, else 0."),
        ("Print the text with every '.' replaced.", "Print the text with every ',' replaced."),
        ("Print 'a' as often as it is read.", "Print 'A' as often as it is read."),
    ],
)
def test_texts_whose_marks_differ_are_the_same_if_answer_or_test_says_so(text, other):
    for answers, is_copy in ((("4", "7"), False), ((None, None), False), ((r"\frac{1}{2}", "0.5"), True)):
        _, rejected = run(problems("math", text, other, answer=answers))
        assert [rule for rule, _ in rejected.values()] == ["exact"] * is_copy
    for tests, is_copy in (([TESTS, OTHER_TESTS], False), ([TESTS, TESTS], True)):
        assert len(run(problems("code", text, other, tests=tests))[1]) == is_copy


@pytest.mark.parametrize(
    ("text", "other"),
    [
        (r"Find $f\left( 3 \right)$.", r"Find \(f(3)\)."),
        (r"Find $\frac{\sqrt{2}}{2}$.", r"Find $\dfrac{\sqrt2}2$."),
        ("Find $1{,}000+10^{5}$.", "Find $1,000+10^5$."),
        ("Find $x y$ for $(3, 5)$.", "Find $xy$ for $(3,5)$."),
        ("Find $x^{n+1}$ for a pair $n$ and $N$.", "Find $x^(n+1)$ for A pair n and N."),
        (r"What is \text{one of them}? Good luck!", "What is one of them? Good luck."),
        ("Find $f'(x)$ and $k^{}_{}$ for the graphs' sum.", "Find $f’(x)$ and $k$ for the graphs sum."),
        ('Print "no" if `prices[i]` is 3.', "Print 'no' if prices[i] is 3."),
    ],
)
def test_texts_in_other_spelling_are_copies_without_an_answer(text, other):
    assert [rule for rule, _ in run(problems("math", text, other))[1].values()] == ["exact"]


def test_copies_in_other_spelling_vote_apart_from_another_problem():
    texts = ["Compute $2^{3+1}$.", "Compute $2^3+1$.", "Compute $2^3 + 1$."]
    split, rejected = run(problems("math", *texts, answer=["16", "9", "9"]), Deduplication(drop_disagreeing=True))
    assert split.kept["answer"].to_pylist() == ["16", "9"] and list(rejected) == ["2"]
    assert split.summary["disagreeing"] == 0


def test_signatures_and_candidates_are_datasketchs_own():
    texts = [*sentences(60), BASE, NEAR, "Two words", "two words!", "", *(f"{BASE} {FAR} {n} " * 9 for n in range(3))]
    (sets,) = shingle([texts[:50], [], texts[50:]], ngrams(5))
    signed = minhash.signatures(sets.hashes, sets.bounds, 128)
    bands, rows = bands_of(CONFIG)
    index = MinHashLSH(num_perm=128, params=(bands, rows))
    minhashes = {}
    for text in range(len(texts)):
        oracle = minhashes[text] = MinHash(num_perm=128, seed=SEED, scheme=minhash.SCHEME, hashfunc=int)
        oracle.update_batch(sets.hashes[sets.bounds[text] : sets.bounds[text + 1]].tolist())
        assert (signed[:, text] == oracle.hashvalues).all()
        index.insert(text, oracle)
    members, numbers = all_buckets(sets)
    for text, oracle in minhashes.items():
        ours = set(members[np.isin(numbers, numbers[members == text])].tolist()) | {text}
        assert ours == set(index.query(oracle))


@pytest.mark.parametrize("threshold", [0.5, 0.8, 0.95])
def test_bands_miss_one_pair_at_the_threshold_in_a_hundred(threshold):
    bands, rows = bands_of(Deduplication(jaccard=threshold))
    assert (1 - threshold**rows) ** bands <= MAX_MISSED and bands * rows <= 128
    assert (1 - threshold ** (rows + 1)) ** (128 // (rows + 1)) > MAX_MISSED


def test_no_rows_and_one_row():
    for texts in ([], [BASE]):
        split, rejected = run(problems("math", *texts))
        assert len(split.kept) == len(texts) and not rejected


def test_the_variants_of_a_template_are_not_all_compared_with_each_other(monkeypatch):
    """Twice the variants are compared about twice as often, and no copy is lost."""

    def compared(variants: int) -> int:
        numbers = [(17 + k, 912 - k) for k in range(variants)]
        texts = [BASE.replace("17", str(one)).replace("12", str(two)) for one, two in numbers]
        texts += [text.replace("week", "weekk") for text in texts[:5]]
        calls = 0
        jaccard = minhash.jaccard

        def counted(one, other):
            nonlocal calls
            calls += 1
            return jaccard(one, other)

        with monkeypatch.context() as patched:
            patched.setattr(minhash, "jaccard", counted)
            _, rejected = run(problems("math", *texts))
        assert sorted(int(row) for row in rejected) == [variants + k for k in range(5)]
        return calls

    assert compared(400) <= 3 * compared(200) + 50
