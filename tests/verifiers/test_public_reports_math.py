"""Inputs of public reports on math verifiers: what is wrong is never accepted, and what is right is rejected only by a
rule that its row names."""

from tests.verifiers.public_reports_math import ours, rows


def test_public_reports_are_decided_as_their_rows_say():
    all_rows = rows()
    assert len(all_rows) >= 250
    expected = [row["right"] and "rejected" not in row for row in all_rows]
    assert [row for row, right in zip(all_rows, expected, strict=True) if ours(row) != right] == []
