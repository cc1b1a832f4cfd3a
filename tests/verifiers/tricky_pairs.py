"""The labeled pairs of `math_pairs.jsonl`, and of formulas in `math_formulas.jsonl`, composed by hand, several in each
kind of answer.

A row has `kind`, `gold`, either `pred` (a bare answer) or `response` (a whole one), `equivalent`, and where the label
is not obvious a `note`. Labels follow mathematics, and where that leaves a choice the policy that
`docs/reference/math_verifier.md` states.
`ratchet verify math --input tests/verifiers/math_pairs.jsonl --output …` runs them all.
"""

import json
from pathlib import Path

FILE = Path(__file__).with_name("math_pairs.jsonl")
FORMULAS = FILE.with_name("math_formulas.jsonl")
ROWS = [json.loads(line) for file in (FILE, FORMULAS) for line in file.read_text(encoding="utf-8").splitlines()]
BARE = [(row["kind"], row["gold"], row["pred"], row["equivalent"]) for row in ROWS if "pred" in row]
