import pyarrow as pa
import pytest

from ratchet.data_curation.funnel import funnel, reason, samples
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


@pytest.mark.parametrize(("evidence", "said"), [
    ({"item": "7", "benchmark": "b", "share": 0.5}, "item 7 of b, share 0.5"),
    ({"kept": {"source": "a", "source_id": "3"}}, "a:3 stays"),
    ({"item": "7"}, "item 7"),
    ({"kept": {"id": 4}}, 'kept {"id": 4}'),
    ({"kept": "the longer one"}, "kept the longer one"),
])  # fmt: skip
def test_evidence_of_any_step_is_a_phrase(evidence, said):
    assert reason(evidence) == said


def test_samples_come_from_all_parts():
    found = samples(rejected(*["proof", "figure"] * 50, "rare"), count=5)
    assert {name: [row["source_id"] for row in rows] for name, rows in found.items()} == {
        ("rules", "proof"): ["0", "20", "40", "60", "80"],
        ("rules", "figure"): ["1", "21", "41", "61", "81"],
        ("rules", "rare"): ["100"],
    }
