import json
from datetime import date
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.data_curation.decontamination.overlaps import CLEAN, BenchmarkIndex, find, shared_runs
from ratchet.data_curation.decontamination.problems import decontaminate
from ratchet.data_curation.decontamination.self_test import CARRIER
from ratchet.data_curation.read import read_problems
from ratchet.data_curation.settings.curation import Decontamination
from ratchet.data_curation.steps import StepContext, run_steps
from ratchet.data_curation.tokens import cut
from tests.data_curation.conftest import problems, token_texts

ITEM = r"Let $a$ and $b$ be positive integers with $\dfrac{a}{b} = 0.3$ in lowest terms. Find the value of $a + b$."
SHORT = r"Compute $\sin 60^\circ$."
TINY = "Find $x^2$."
BOILERPLATE = "where $m$ and $n$ are relatively prime positive integers. Find $m+n$."
LONG_ITEM = f"A wheel of radius 7 rolls along a straight road for 12 turns; it goes $m/n$ kilometers, {BOILERPLATE}"
COVERAGE, PAPER = Decontamination(ngram=9), Decontamination(ngram=9, preset="paper")


def against(*items: str):
    return problems("math", *items)


def run(rows, items, config=COVERAGE):
    split = decontaminate(rows, items, config)
    rejected = {r["source_id"]: (r["rule"], json.loads(r["evidence"]), r["prompt"]) for r in split.rejected.to_pylist()}
    return split, rejected


@pytest.mark.parametrize(
    "row",
    [
        ITEM,
        r"let \(a\) and \(b\) be positive integers with \(\frac a b = 0.3\)  in lowest terms;find the value of \(a+b\)",
        f"In class. {ITEM} Show your work.",
        f"Élève №5 · «à côté»: {ITEM}".replace("=", "＝").replace("＝", "="),
    ],
)
def test_copies_in_other_typesetting_or_in_other_text_are_found(row):
    items = against("Something else entirely about the colors of a rainbow after the rain.", ITEM)
    _, rejected = run(problems("math", row), items)
    rule, evidence, prompt = rejected["0"]
    assert (rule, evidence["benchmark"], evidence["item"]) == ("ngram", "test", "1")
    assert evidence["coverage"] >= 0.3 and evidence["shared_ngrams"] >= 3 and evidence["paper_hit"]
    assert cut(prompt, evidence["span"]) == evidence["text"]
    assert cut(ITEM, evidence["item_span"]) == evidence["item_text"]
    same = [token for token, _, _ in token_texts(evidence["text"])]
    assert same == [token for token, _, _ in token_texts(evidence["item_text"])] and len(same) >= 9


KEEP = COVERAGE.model_copy(update={"variants": "keep"})
SERIES = "A tap fills a barrel of {} liters in {} minutes. How many liters flow from it in {} minutes?"


@pytest.mark.parametrize(
    ("row", "item", "numbers"),
    [
        (ITEM.replace("0.3", "0.4"), ITEM, [["4"], ["3"]]),
        (LONG_ITEM.replace("12 turns", "13 turns"), LONG_ITEM, [["13"], ["12"]]),
        (f"In class. {LONG_ITEM.replace('7', '1,250')} Show 5 steps.", LONG_ITEM, [["1250"], ["7"]]),
        (SERIES.format(8, 5, 20), SERIES.format(96, 12, 30), [["20", "5", "8"], ["12", "30", "96"]]),
        (SERIES.format("eight", 5, "twenty"), SERIES.format(96, 12, 30), [["20", "5", "8"], ["12", "30", "96"]]),
    ],
)
def test_an_item_with_other_numbers_is_dropped_or_kept_by_choice_and_counted_apart(row, item, numbers):
    rows, items = problems("math", row, "nothing of the kind"), against(item)
    split, rejected = run(rows, items)
    rule, evidence, _ = rejected["0"]
    assert (rule, evidence["item"]) == ("variant", "0")
    assert [evidence["numbers"], evidence["item_numbers"]] == numbers
    assert split.summary["variants"] == 1 and split.summary["dropped"]["variant"] == 1
    split, rejected = run(rows, items, KEEP)
    found = json.loads(split.kept.column("metadata")[0].as_py())["decontaminate"]
    assert not rejected and found["match"] == "variant" and found["item"] == "0"
    assert split.summary["variants"] == 1 and not any(split.summary["dropped"].values())


@pytest.mark.parametrize(
    "copy",
    [
        LONG_ITEM.replace("7", "seven").replace("12 turns", "a dozen turns"),
        LONG_ITEM.replace("rolls along", "runs on").replace("12 turns", r"$12$ turns"),
        LONG_ITEM.split(", where")[0] + ". Then 3 dogs follow it for 4 hours.",
    ],
)
def test_the_same_numbers_in_other_words_make_no_variant(copy):
    for config in (COVERAGE, KEEP):
        split, rejected = run(problems("math", copy), against(LONG_ITEM), config)
        assert [rule for rule, _, _ in rejected.values()] == ["ngram"] and split.summary["variants"] == 0


def test_a_copy_among_variants_is_found():
    items = against(SERIES.format(8, 5, 20), SERIES.format(96, 12, 31), SERIES.format(96, 12, 30))
    rows = problems("math", "So: " + SERIES.format(96, 12, 30), SERIES.format(7, 6, 50))
    _, rejected = run(rows, items, KEEP)
    assert {row: (rule, evidence["item"]) for row, (rule, evidence, _) in rejected.items()} == {"0": ("ngram", "2")}


PASSAGES = yaml.safe_load((Path(__file__).parents[3] / "research" / "shared_passages.yaml").read_text())


def test_another_problem_with_the_same_passage_stays():
    rows, items = ([pair[side] for pair in PASSAGES] for side in ("row", "item"))
    split, rejected = run(problems("math", *rows), against(*items))
    assert not rejected and len(PASSAGES) == 24
    assert split.summary["passages"] == split.summary["coverage_hits"] >= 20
    _, rejected = run(problems("math", PASSAGES[0]["row"]), against(PASSAGES[0]["item"]), PAPER)
    assert rejected["0"][0] == "ngram", "the paper's rule knows no passages"


def test_boilerplate_is_a_hit_of_the_papers_rule_and_no_contamination():
    row = f"The probability that the game ends on Sunday is $m/n$, {BOILERPLATE}"
    split, rejected = run(problems("math", row), against(LONG_ITEM))
    assert not rejected
    found = json.loads(split.kept.column("metadata")[0].as_py())["decontaminate"]
    assert found["paper_hit"] and 0 < found["coverage"] < 0.3 and found["item"] == "0"
    assert (split.summary["paper_hits"], split.summary["coverage_hits"]) == (1, 0)
    _, rejected = run(problems("math", row), against(LONG_ITEM), PAPER)
    assert rejected["0"][0] == "ngram"


def test_a_clean_row_says_so():
    split, _ = run(problems("math", "Nothing in this row has been seen in any of the tests at all."), against(ITEM))
    found = json.loads(split.kept.column("metadata")[0].as_py())["decontaminate"]
    assert found == {"coverage": 0.0, "paper_hit": False, "coverage_hit": False}


def test_items_shorter_than_n_are_matched_whole():
    texts = r"compute \(\sin 60^{\circ}\)", f"{SHORT} Explain.", "Find $x^2$", f"If $x=3$: {TINY} Now.", "Find x"
    split, rejected = run(problems("math", *texts), against(SHORT, TINY))
    # Five tokens may stand in a longer row; four ("find x ^ 2") must be the row.
    assert {row: (rule, evidence["item"]) for row, (rule, evidence, _) in rejected.items()} == {
        "0": ("whole_match", "0"), "1": ("whole_match", "0"), "2": ("whole_match", "1"),
    }  # fmt: skip
    assert split.summary["items_without_ngram"] == 2
    assert cut(rejected["1"][2], rejected["1"][1]["span"]) == r"Compute $\sin 60^\circ"


QUESTIONS = "What is the value of x?", "Find the area of the triangle.", "How many apples are there?"


@pytest.mark.parametrize(
    ("row", "is_copy"),
    [
        ("A number x plus 7 is 12, and y is twice x. What is the value of x?", False),
        ("The legs of a right triangle are 3 and 4. Find the area of the triangle.", False),
        ("Find the area of the triangle with corners at the points (0,0), (3,0) and (0,7).", False),
        ("Find the area of the triangle to 2 decimal places.", True),
        ("Problem 12. Find the area of the triangle.", True),
        ("Find the area of the triangle. Round the result to 2 decimal places, as in the 14 examples.", True),
        (f"{CARRIER}What is the value of x? Explain each step.", True),
        ("In the figure below, what is the value of x? All of the angles are drawn to scale.", True),
        ("Tim has 3 boxes. Find the area of the triangle, if $x^2$ is known. How many apples are there?", False),
        ("Tim has 3 red boxes. How many apples are there? Compute $\\sin 60^\\circ$.", True),
    ],
)
def test_a_question_without_numbers_is_no_copy_behind_those_of_another_problem(row, is_copy):
    _, rejected = run(problems("math", row), against(*QUESTIONS, SHORT))
    assert [rule for rule, *_ in rejected.values()] == ["whole_match"] * is_copy


def test_items_that_cannot_be_judged_are_held_out_by_their_statement(tmp_path):
    chat = [{"role": "user", "content": f"{LONG_ITEM} Explain."}, {"role": "assistant", "content": "No."}]
    asked = [(ITEM, {"x": 1}), (chat, {"x": 1}), (f"{SHORT} If you know.", "7"), (" ", "1"), (3, "1")]
    texts = [f"In class. {ITEM} Show your work.", f"{LONG_ITEM} Explain.", "How many hats are there in all of Rome?"]
    for columns in (None, {"prompt": "asked.text", "answer": "answer"}):
        file = tmp_path / "held_out.json"
        rows = [{"asked": {"text": text}} if columns else {"prompt": text} for text, _ in asked]
        answers = [{"answer": answer} for _, answer in asked]
        file.write_text(json.dumps([row | answer for row, answer in zip(rows, answers, strict=True)]))
        benchmark, said = read_problems(file, "math", columns), list[str]()
        assert len(benchmark.kept) == 1
        context = StepContext("math", benchmarks=[*benchmark], warning=said.append)
        (split,) = run_steps(problems("math", *texts), ["decontaminate"], context)
        assert split.kept["prompt"].to_pylist() == texts[2:]
        assert split.summary["items"] == 3 and split.summary["items_without_text"] == 2
        assert said[0].startswith("2 rows of the benchmarks have no statement")
        assert decontaminate(problems("math", *texts), benchmark).kept.equals(split.kept)


def test_the_item_named_is_the_one_covered_most_not_the_one_hit_most():
    beginning = " ".join(f"word{chr(97 + i)}" for i in range(20))
    long_item = beginning + " " + " ".join(f"other{chr(97 + i)}" for i in range(26))
    short_item = " ".join(f"last{chr(97 + i)}" for i in range(10))
    _, rejected = run(problems("math", f"{beginning} {short_item}"), against(long_item, short_item), PAPER)
    assert rejected["0"][1]["item"] == "1" and rejected["0"][1]["coverage"] == 1.0
    assert rejected["0"][1]["items_hit"] == 2


def test_an_item_with_few_ngrams_is_protected_by_all_it_has():
    item = " ".join(f"w{chr(97 + i)}" for i in range(9))  # one 9-gram, fewer than min_shared_ngrams
    _, rejected = run(problems("math", f"before {item} after"), against(item))
    assert rejected["0"][0] == "ngram"


@pytest.mark.parametrize(("coverage", "caught"), [(0.2, True), (0.9, False)])
def test_the_threshold_moves_the_result(coverage, caught):
    half = f"{ITEM[: len(ITEM) * 2 // 3]} and then say which of the two has the larger number of different divisors."
    _, rejected = run(problems("math", half), against(ITEM), COVERAGE.model_copy(update={"coverage": coverage}))
    assert bool(rejected) is caught
    split, _ = run(problems("math", ITEM), against(ITEM), COVERAGE.model_copy(update={"coverage": 1.0}))
    assert split.summary["coverage_hits"] == 1, "as much as the threshold is enough"


def test_drawings_do_not_count_where_there_are_words_enough():
    code = "; ".join(f"draw(({i},{i + 1})--({i + 2},0))" for i in range(30))
    story = "A farmer divides a long narrow field into {} equal strips with straight fences of wood and of wire"
    asks = "and walks along each of them twice. How many meters does the farmer walk in the end?"
    item = f"{story.format(12)} {asks} [asy] {code} [/asy]"
    copy = f"{story.format(12)} {asks}"
    asks = "Find the number of triangles in the picture that have no side in common with any of the rectangles"
    other = f"{asks} around it. [asy] {code} [/asy]"
    short = f"What is its area? [asy] {code} [/asy]"
    _, rejected = run(problems("math", copy, other, short), against(item, short))
    assert rejected["0"][1]["coverage"] == 1.0, "without the drawing the item is all there"
    assert rejected["2"][1]["item"] == "1", "an item of little else is known by its drawing"
    assert rejected["1"][1]["item"] == "1", "and so is a row that has it"
    assert not run(problems("math", other), against(item))[1], "but a drawing makes no copy where both say something"


def test_release_date_and_address():
    rows = problems(
        "code", "old and unlike anything", "new and unlike anything", "no date here at all", "same address",
        "at a mirror", released=[date(2024, 8, 1), date(2024, 8, 2), None, None, date(2024, 8, 1)],
        source_url=[None, None, "https://leetcode.com/problems/other/",
                    "https://leetcode.cn/problems/two-sum/description/", "https://m1.codeforces.com/contest/1520/problem/A"],
    )  # fmt: skip
    urls = ["https://leetcode.com/problems/two-sum/", "https://codeforces.com/contest/1520/problem/A"]
    items = problems("code", "held out", "held out too", source_url=urls)
    _, rejected = run(rows, items, Decontamination(ngram=14, released_after=date(2024, 8, 1)))
    assert {row: rule for row, (rule, _, _) in rejected.items()} == {"1": "released_after", "3": "url", "4": "url"}
    assert (rejected["3"][1]["item"], rejected["4"][1]["item"]) == ("0", "1")
    strict = Decontamination(ngram=14, released_after=date(2024, 8, 1), undated="drop")
    split, rejected = run(rows, items, strict)
    rules = {"1": "released_after", "2": "undated", "3": "undated", "4": "url"}
    assert {row: rule for row, (rule, _, _) in rejected.items()} == rules
    assert split.summary["undated"] == 2


WORDS = st.lists(st.sampled_from(["aa", "bb", "cc", "dd", "ee", "ff", "gg"]), max_size=30).map(" ".join)


@settings(max_examples=60)
@given(st.lists(WORDS, min_size=1, max_size=8), st.lists(WORDS, min_size=1, max_size=6), st.integers(1, 5))
def test_overlaps_agree_with_sets_of_tuples(rows, items, n):
    def grams(text):
        words = text.split()
        return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}

    index = BenchmarkIndex(items, [("b", str(i)) for i in range(len(items))], n)
    all_facts, rejections = find(rows, index, Decontamination(preset="paper", ngram=n))
    for row, text in enumerate(rows):
        shared = [len(grams(text) & grams(item)) for item in items]
        size = len(text.split()) - n + 1
        coverage = [k / min(len(grams(item)), size) if k else 0.0 for k, item in zip(shared, items, strict=True)]
        facts = all_facts.get(row, CLEAN)
        assert facts["coverage"] == round(max(coverage), 4)
        assert facts.get("items_hit", 0) == sum(k > 0 for k in shared)
        assert "item" not in facts or shared[int(facts["item"])] == facts["shared_ngrams"]
        assert (row in rejections) == (max(shared) > 0 or any(held(text, item, n) for item in items))
        if row in rejections:
            evidence = rejections[row].evidence
            its = cut(items[int(evidence["item"])], evidence["item_span"])
            assert cut(text, evidence["span"]).split() == its.split()


def held(row: str, item: str, n: int) -> bool:
    """Whether an item without an n-gram is the row, or is long enough to be looked for in it."""
    row, item = row.split(), item.split()
    if not 0 < len(item) < n:
        return False
    return row == item or (len(item) >= 5 and any(row[i : i + len(item)] == item for i in range(len(row))))


@given(st.text("ab", max_size=14), st.text("ab", max_size=14), st.integers(1, 4))
def test_shared_runs_are_all_that_cannot_be_made_longer(one, other, n):
    def at(text, place):
        return text[place] if 0 <= place < len(text) else None

    found = {(s, t, length) for s in range(len(one)) for t in range(len(other)) for length in range(n, len(one) + 1)
             if one[s : s + length] == other[t : t + length] and len(one[s : s + length]) == length
             and (at(one, s - 1) is None or at(other, t - 1) is None or at(one, s - 1) != at(other, t - 1))
             and (at(one, s + length) is None or at(one, s + length) != at(other, t + length))}  # fmt: skip
    hashes = [np.array([ord(c) for c in text], np.uint64) for text in (one, other)]
    assert set(shared_runs(*hashes, n)) == found


def test_of_equally_covered_items_the_one_with_the_longest_shared_text_is_named():
    words = [f"{a}{b}" for a in "abcdefgh" for b in "stuv"]
    torn = " ".join([*words[:10], "x", *words[12:22], "y", *words[23:32]])  # 10, 10 and 9 words of the row in a row
    whole = " ".join(words[:16])
    rows = problems("math", " ".join(words))
    _, rejected = run(rows, against(whole, torn, " ".join(words[:29]), "nothing of this is in the row at all here"))
    evidence = rejected["0"][1]
    assert (evidence["item"], evidence["tokens"], evidence["coverage"]) == ("2", 29, 1.0)


def test_the_self_test_finds_disguised_items_and_names_what_nothing_protects():
    items = against(ITEM, LONG_ITEM, SHORT, r"Evaluate $\int_0^1 x^2 \, dx \leq \infty$ as a fraction.", "!")
    split, _ = run(problems("math", "a clean row"), items)
    report = split.summary["self_test"]
    assert report["unprotected"] == ["test:4"] and all("test:4" in missed for missed in report["missed"])
    for name, recall in report["recall_by_disguise"].items():
        count = report["disguised"][name]
        assert recall == (0.8 if count == 5 else 1.0), name  # "!" is changed by the disguises that change all items
    assert report["disguised"]["superscripts"] == 1 and report["disguised"]["verbatim"] == 5
    assert "vulgar fractions" not in report["disguised"], "what a disguise changes nothing of is not measured"
    strict, _ = run(problems("math", "a clean row"), items, COVERAGE.model_copy(update={"ngram": 40}))
    assert strict.summary["self_test"]["recall_by_disguise"]["embedded"] == 0.8, "longer n-grams: matched whole"


GALLON = (
    "A bucket held 0.75 of a gallon of water. Later, 0.25 of a gallon of it ran out. How much is left in the bucket?"
)


@pytest.mark.parametrize(
    ("row", "answers", "is_item"),
    [
        (GALLON.replace(" of a gallon", " gallon"), ["0.5", "0.5"], True),
        (GALLON.replace(" of a gallon", " gallon"), ["1/2", None], True),
        (GALLON.replace(" of a gallon", " gallon").replace("bucket", "barrel"), ["0.5", "0.5"], True),
        (GALLON.replace(" of a gallon", " gallon").replace("0.25", "0.35"), ["0.4", "0.5"], False),
        (GALLON.replace(" of a gallon", " gallon").replace("0.25", "0.35"), [None, None], False),
        (GALLON.replace(" of a gallon", " gallon").replace("is left", "was there at first"), ["0.75", "0.5"], False),
        ("A tank held 0.75 of a ton of oil, a can 0.25 of a gallon of water. What is the ratio?", [None, None], False),
    ],
)
def test_a_short_item_in_nearly_the_same_words_is_found_by_its_numbers(row, answers, is_item):
    items = problems("math", GALLON, source=["bench"], answer=[answers[1]])
    split = decontaminate(problems("math", row, answer=[answers[0]]), items, Decontamination())
    assert not split.summary["coverage_hits"]
    assert split.summary["dropped"]["reworded"] == len(split.rejected) == is_item
    if is_item:
        evidence = json.loads(split.rejected["evidence"][0].as_py())
        assert evidence["item_text"] == GALLON and evidence["benchmark"] == "bench" and evidence["words"] > 0.5


def test_kept_rows_that_share_an_n_gram_are_counted():
    items = problems("math", GALLON, source=["bench"])
    passage = "0.25 of a gallon of it ran out. How much did the 19 others lose on a cold day?"
    rows = problems("math", GALLON, passage, "No.")
    assert decontaminate(rows, items, Decontamination()).summary["kept_sharing"] == 1
