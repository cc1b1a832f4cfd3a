"""Each rule against its labeled corpus (`labeled.py` prints the same scores), and what no corpus can show."""

import json
from collections import Counter
from pathlib import Path

import pytest
import yaml

from ratchet.data_curation.domains import plan_of
from ratchet.data_curation.rule_filter import filter_by_rules
from ratchet.data_curation.rules.patterns import PATTERNS, AnyOf, find, literals, read_patterns
from ratchet.data_curation.settings.curation import Rules
from ratchet.data_curation.tokens import cut
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import Problem
from tests.data_curation.conftest import problems
from tests.data_curation.rules import labeled as corpus
from tests.data_curation.rules import public_labels

LIMITS = Rules()
OF_DOMAIN = {domain: plan_of(domain).rules for domain in ("math", "code")}
RULES = {
    (domain, rule.__name__): rule
    for domain, rules in OF_DOMAIN.items()
    for rule in rules
    if rule.__name__ not in ("no_answer", "unverifiable")  # which read no text
}
LABELED = list(corpus.rows())
RECALL = {"figure": 0.35, "image": 0.45}
"""Where nothing but what is certain is taken."""


def test_every_rule_has_a_corpus_of_its_own_of_sixty_and_sixty():
    counts = Counter((row["domain"], row["rule"], row["takes"]) for row in LABELED)
    assert {key[:2] for key in counts} == set(RULES) and min(counts.values()) >= 60
    columns = ("domain", "rule", "text", *corpus.COLUMNS)
    contents = Counter(str([row.get(column) for column in columns]) for row in LABELED)
    assert max(contents.values()) == 1, contents.most_common(1)


def test_no_statement_is_labeled_twice():
    for domain in ("math", "code"):
        for rule in {row["rule"] for row in public_labels.labels() if row["domain"] == domain}:
            mine = [row for row in public_labels.labels() if (row["domain"], row["rule"]) == (domain, rule)]
            ids = [key for row in mine for key in (*row["takes"], *row["leaves"])]
            assert (domain, rule) in RULES and len(ids) == len(set(ids)) >= 100


@pytest.mark.parametrize(("domain", "name"), sorted(RULES))
def test_precision_and_recall_on_the_labeled_corpus(domain, name):
    [score] = corpus.scores(row for row in LABELED if (row["domain"], row["rule"]) == (domain, name))
    assert score.precision >= 0.95 and score.recall >= RECALL.get(score.rule, 0.90)


def test_a_rule_shows_the_very_words_it_took():
    for row in LABELED:
        found = corpus.evidence(row)
        if found and "span" in found:
            assert row["text"][slice(*found["span"])].strip() == found["text"].strip() != "", row


def problem(domain, text="Count the ways.", **columns):
    return Problem("id", domain, text, **{"golden_solutions": ["print(1)"]} | columns)


def test_what_the_source_declares_counts():
    for rule, mark in (("multiple_choice", "MCQ"), ("proof", "proof")):
        row = problem("math", "Find the number of ways.", answer="3", metadata=f'{{"question_type": "{mark}"}}')
        assert RULES["math", rule](row, LIMITS) == {"field": "question_type", "value": mark}


def test_the_first_rule_that_applies_is_named():
    table = problems("math", "Prove that this holds for all n.", "Name twice three and four.", answer=["proof", "14"])
    split = filter_by_rules(table, LIMITS)
    assert split.rejected.column("rule").to_pylist() == ["proof"]
    assert list(split.summary["dropped"]) == [rule.__name__ for rule in OF_DOMAIN["math"]]


def test_rules_are_switched_off_one_by_one():
    table = problems("math", "Prove that this holds for all n.", "Is it so?", answer=["proof", "yes"])
    split = filter_by_rules(table, Rules(off=("proof",)))
    assert split.rejected.column("rule").to_pylist() == ["true_false"] and "proof" not in split.summary["dropped"]
    with pytest.raises(RatchetError, match=rf"called 'prof'; there are {OF_DOMAIN['math'][0].__name__}"):
        filter_by_rules(table, Rules(off=("prof",)))


FILLERS = [
    " ", "\n", "(", "$", "A) ", "\\(", "a", "1.", "? ", "![", "\\[", "many a ", "print ", "<", "a_", "order of ",
    "(a) ", "shown ", "the figure ", "A. ", "\\item ", "any ", "hidden ", "you ", "at most ", '["', "given ", "__ ",
    "how many ",
]  # fmt: skip


@pytest.mark.parametrize("domain", OF_DOMAIN)
def test_no_statement_takes_a_rule_long(domain):
    for filler in FILLERS:
        row = problem(domain, filler * (20_000 // len(filler)), answer="7")
        for rule in OF_DOMAIN[domain]:
            rule(row, LIMITS)  # quadratic patterns take minutes here


def test_evidence_counts_the_bytes_of_a_prompt_with_other_than_ascii_characters():
    table = problems("math", "Für π ≤ x: prove that 𝑥² ≥ 0.")
    (row,) = filter_by_rules(table, LIMITS).rejected.to_pylist()
    evidence = json.loads(row["evidence"])
    assert row["rule"] == "proof" and cut(row["prompt"], evidence["span"]) == evidence["text"]


STATEMENTS = yaml.safe_load((Path(__file__).parent / "statements.yaml").read_text(encoding="utf-8"))
KEPT = STATEMENTS["kept"]


@pytest.mark.parametrize("rule", KEPT)
def test_a_word_of_a_rule_alone_drops_nothing(rule):
    domain = "code" if ("code", rule) in RULES else "math"
    count = len(KEPT[rule])
    table = problems(domain, *KEPT[rule], answer=["7"] * count, golden_solutions=[["print(int(input()))"]] * count)
    assert filter_by_rules(table).rejected.to_pylist() == []


@pytest.mark.parametrize("said", STATEMENTS["pictures"])
def test_a_picture_that_is_shown_and_not_described_is_missed(said):
    for statement in STATEMENTS["pictures"][said]:
        is_taken = RULES["math", "figure"](problem("math", statement), LIMITS) is not None
        assert is_taken == (said == "needed"), statement


EXAMPLES = {(sign, name): each for sign, some in read_patterns().items() for name, each in some.items()}


@pytest.mark.parametrize(("sign", "name"), EXAMPLES)
def test_a_pattern_is_found_in_its_example_and_not_in_the_similar_text(sign, name):
    each = EXAMPLES[sign, name]
    assert each.keys() == {"find", "hits", "misses"}
    alone = AnyOf(each["find"])
    assert alone.search(each["hits"]) and find(sign, each["hits"]) and not alone.search(each["misses"])


def test_alternatives_tried_by_their_words_match_what_one_pattern_matches():
    texts = [str(value) for row in LABELED for value in row.values()]
    texts += [each[kind] for each in EXAMPLES.values() for kind in ("hits", "misses")]
    assert len(PATTERNS) > 50 and len(texts) > 5000
    matched = 0
    for sign, pattern in PATTERNS.items():
        for text in texts:
            fast, plain = pattern.search(text), pattern.whole.search(text)
            assert (fast and fast.span()) == (plain and plain.span()), (sign, text)
            matched += fast is not None
    assert matched > 5000


@pytest.mark.parametrize(
    ("pattern", "needed"),
    [
        (r"\bprint any(?: one)?\b", [["print any"]]),
        (r"(?:Print|return) (?:it )?(?:\w+ )?in any order", [["in any order"], ["print", "return"]]),  # the longest
        (r"(?:ab|\d)c?", []),  # no string that every match has
        (r"(?:xyz)*ab{2,}", [["a"], ["b"]]),
        (r"(?!not)any", [["any"]]),
    ],
)
def test_the_strings_that_each_match_has(pattern, needed):
    assert [*map(tuple, literals(pattern))] == [*map(tuple, needed)]
