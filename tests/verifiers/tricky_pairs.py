"""The labeled pairs of `math_pairs.jsonl`, and of formulas in `math_formulas.jsonl`, composed by hand, several in each
kind of answer.

A row has `kind`, `gold`, either `pred` (a bare answer) or `response` (a whole one), `equivalent`, and where the label
is not obvious a `note`. Labels follow mathematics, and where that leaves a choice the policy that
`docs/reference/math_verifier.md` states.
`ratchet verify math --input tests/verifiers/math_pairs.jsonl --output …` runs them all.
"""

from tests.verifiers.programs import rows

ROWS = rows("math_pairs") + rows("math_formulas")
BARE = [(row["kind"], row["gold"], row["pred"], row["equivalent"]) for row in ROWS if "pred" in row]
