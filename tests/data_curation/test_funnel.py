import pyarrow as pa

from ratchet.data_curation.data_card import card
from ratchet.data_curation.funnel import funnel, samples
from ratchet.data_curation.split import REJECTED_SCHEMA
from tests.data_curation.conftest import problems

SUMMARIES = [
    {"step": "rules", "rows_in": 100, "dropped": {"proof": 10, "figure": 0}},
    {"step": "deduplicate", "rows_in": 90, "dropped": {"exact": 5}},
]


def test_each_rule_starts_where_the_one_before_it_ended():
    rows = [tuple(row.values()) for row in funnel(SUMMARIES).to_pylist()]
    assert rows == [
        ("rules", "proof", 100, 10, 90),
        ("rules", "figure", 90, 0, 90),
        ("deduplicate", "exact", 90, 5, 85),
    ]


def rejected(*rules: str) -> pa.Table:
    rows = [
        {
            "step": "rules",
            "rule": rule,
            "source": "a",
            "source_id": str(n),
            "prompt": "Prove `it`.\n# now",
            "evidence": "{}",
        }
        for n, rule in enumerate(rules)
    ]
    return pa.Table.from_pylist(rows, schema=REJECTED_SCHEMA)


def manifest(step: str, inputs: list[str], parameters: dict, **summary) -> dict:
    named = [{"name": name, "key": "0123456789abcdef" * 4} for name in inputs]
    return {
        "step": step,
        "step_version": 3,
        "code": "abc",
        "parameters": parameters,
        "inputs": named,
        "summary": summary,
    }


def test_the_card_says_where_the_rows_come_from_and_what_was_done():
    self_test = {"items": 5, "recall": 0.998, "recall_by_disguise": {"verbatim": 1.0}, "unprotected": []}
    steps = [
        manifest("normalise", ["raw|file.json"], {"domain": "math"}),
        manifest("decontaminate", ["x", "aime24"], {"ngram": 9, "limits": {"coverage": 0.4, "released_after": None}},
                 items=5, preset="coverage", paper_hits=30, coverage_hits=4, self_test=self_test),
    ]  # fmt: skip
    text = card(
        "math", funnel(SUMMARIES), problems("math", "a", "b"), rejected("proof"), steps, {"length": "no teacher"}
    )
    assert text.startswith("---\npretty_name: Curated math problems\n") and "size_categories: [n<1K]" in text
    assert "100 rows in, 2 kept" in text and "**Not done:** `length` (no teacher)" in text
    assert "| raw\\|file.json | `0123456789abcdef…` |" in text
    assert "| decontaminate | ngram 9, limits.coverage 0.4 | 3 | code abc |" in text
    assert "5 items of aime24 by 9-grams" in text and "takes 4 rows; `paper` would take 30" in text and "99.8%" in text
    assert "| answer | large_string | 0% |" in text and "| rules | proof | 100 | 10 | 90 |" in text
    assert "`rules:proof`, row 0 of a: `Prove 'it'. # now`" in text


def test_samples_come_from_all_parts():
    found = samples(rejected(*["proof", "figure"] * 50, "rare"), count=5)
    assert {name: [row["source_id"] for row in rows] for name, rows in found.items()} == {
        ("rules", "proof"): ["0", "20", "40", "60", "80"],
        ("rules", "figure"): ["1", "21", "41", "61", "81"],
        ("rules", "rare"): ["100"],
    }
