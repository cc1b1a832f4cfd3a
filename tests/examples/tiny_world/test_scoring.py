"""What `rule_scores.py` calls right, missed and wrong."""

import pyarrow as pa
import pytest

from ratchet.examples.tiny_world.world import TRUTH_SCHEMA
from tests.examples.tiny_world.rule_scores import score_rules


def _scores(rows, rejected, kept):
    truth = [
        {"row": number, "label": "", "acceptable": acceptable, "partner": partner, "benchmark_item": None}
        | {"expected": acceptable[0] if acceptable else None}
        for number, (acceptable, partner) in enumerate(rows)
    ]
    taken = [{"source_id": str(row), "step": s.split(":")[0], "rule": s.split(":")[1]} for row, s in rejected.items()]
    columns = pa.schema([(name, pa.string()) for name in ("source_id", "step", "rule")])
    scores = score_rules(
        pa.Table.from_pylist(truth, schema=TRUTH_SCHEMA), pa.Table.from_pylist(taken, schema=columns),
        pa.table({"source_id": [str(row) for row in kept]}),
    )  # fmt: skip
    return {score.rule: (score.precision, score.recall) for score in scores}


CLEAN, COPY = ([], None), (["deduplicate:exact"], 0)
PROOF, FIGURE, ANY_RULE = (["rules:proof"], None), (["rules:figure"], None), (["rules:*"], None)
OF_BENCHMARK = (["decontaminate:ngram", "decontaminate:whole_match"], None)
CASES = {  # rows, those that were rejected, (precision, recall) of each rule
    "some right, some missed, one wrong": (
        [PROOF, PROOF, PROOF, CLEAN, CLEAN], {0: "rules:proof", 1: "rules:proof", 3: "rules:proof"},
        {"rules:proof": (2 / 3, 2 / 3)},
    ),
    "missed by the rule it names, wrong for another": (
        [FIGURE, CLEAN], {0: "rules:proof"}, {"rules:proof": (0, None), "rules:figure": (None, 0)},
    ),
    "any acceptable rule": (
        [OF_BENCHMARK, OF_BENCHMARK], {0: "decontaminate:ngram", 1: "decontaminate:whole_match"},
        {"decontaminate:ngram": (1, 1), "decontaminate:whole_match": (1, None)},
    ),
    "any rule of a step": (
        [ANY_RULE, ANY_RULE, ANY_RULE], {0: "rules:proof", 1: "length:too_short"},
        {"rules:proof": (1, None), "length:too_short": (None, None), "rules:*": (None, 1 / 3)},
    ),
    "an original": ([CLEAN, COPY], {0: "deduplicate:exact"}, {"deduplicate:exact": (1, 1)}),
    "its copy": ([CLEAN, COPY], {1: "deduplicate:exact"}, {"deduplicate:exact": (1, 1)}),
    "all of a cluster": (
        [CLEAN, COPY, COPY], dict.fromkeys((0, 1, 2), "deduplicate:exact"), {"deduplicate:exact": (2 / 3, 1)},
    ),
    "nothing of a cluster": ([CLEAN, COPY, COPY], {}, {"deduplicate:exact": (None, 0)}),
    "an original dropped by design": (
        [CLEAN, COPY], {1: "deduplicate:exact", 0: "length:too_short"},
        {"deduplicate:exact": (1, 1), "length:too_short": (None, None)},
    ),
    "a choice has no precision, a contradicted answer has": (
        [CLEAN, CLEAN], {0: "majority_vote:tie", 1: "majority_vote:likely_wrong_reference"},
        {"majority_vote:tie": (None, None), "majority_vote:likely_wrong_reference": (0, None)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_precision_and_recall(name):
    rows, rejected, expected = CASES[name]
    assert _scores(rows, rejected, [row for row in range(len(rows)) if row not in rejected]) == expected


@pytest.mark.parametrize("rejected, kept", [({}, []), ({0: "rules:proof"}, [0]), ({0: "rules:proof"}, [7])])
def test_rows_that_do_not_add_up_are_an_error(rejected, kept):
    with pytest.raises(ValueError, match="once each"):
        _scores([CLEAN], rejected, kept)
