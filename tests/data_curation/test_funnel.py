import pyarrow as pa

from data_curation.funnel import card, figure, funnel
from data_curation.split import REJECTED_SCHEMA

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


def test_the_card_shows_examples_and_what_was_not_done():
    row = {
        "step": "rules",
        "rule": "proof",
        "source": "a",
        "source_id": "7",
        "prompt": "Prove `it`.\n# now",
        "evidence": "{}",
    }
    text = card(
        "math", funnel(SUMMARIES), pa.Table.from_pylist([row], schema=REJECTED_SCHEMA), {"length": "no teacher"}
    )
    assert "100 rows in, 85 kept" in text
    assert "**Not done:** `length` (no teacher)" in text
    assert "`rules:proof`, row 7 of a: `Prove 'it'. # now`" in text


def test_the_figure_is_a_picture():
    assert figure(funnel(SUMMARIES), "math").startswith(b"\x89PNG")
