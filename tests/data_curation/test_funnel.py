import pyarrow as pa

from ratchet.data_curation.funnel import funnel, samples
from ratchet.data_curation.split import REJECTED_SCHEMA

SUMMARIES = [
    {"step": "rules", "rows_in": 100, "dropped": {"proof": 10, "figure": 0}},
    {"step": "deduplicate", "rows_in": 90, "dropped": {"exact": 5}},
]


def test_each_rule_starts_where_the_one_before_it_ended():
    rows = [tuple(row.values()) for row in funnel(SUMMARIES).to_pylist()]
    assert rows == [
        ("rules", "proof", 100, 10, 90), ("rules", "figure", 90, 0, 90), ("deduplicate", "exact", 90, 5, 85),
    ]  # fmt: skip


def rejected(*rules: str) -> pa.Table:
    about = {"step": "rules", "source": "a", "prompt": "Prove `it`.\n# now", "evidence": "{}"}
    rows = [about | {"rule": rule, "source_id": str(n)} for n, rule in enumerate(rules)]
    return pa.Table.from_pylist(rows, schema=REJECTED_SCHEMA)


def test_samples_come_from_all_parts():
    found = samples(rejected(*["proof", "figure"] * 50, "rare"), count=5)
    assert {name: [row["source_id"] for row in rows] for name, rows in found.items()} == {
        ("rules", "proof"): ["0", "20", "40", "60", "80"],
        ("rules", "figure"): ["1", "21", "41", "61", "81"],
        ("rules", "rare"): ["100"],
    }
