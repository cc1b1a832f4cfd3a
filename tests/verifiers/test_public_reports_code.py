"""Inputs of public reports about judges of code: each gets the right verdict from ours (docs/evidence)."""

from tests.verifiers.public_reports_code import REPORTS, judged

BY_RULE = {"NVIDIA-NeMo/Gym/issues/820"}
"""Judged otherwise by a documented rule: the last block marked as Python is the answer."""


def test_public_reports_are_judged_right():
    verdicts = judged(REPORTS)
    wrong = [
        (report["source"], report["about"], verdict)
        for report, verdict in zip(REPORTS, verdicts, strict=True)
        if (verdict.passed != (report["right"] == "passed")) != (report["source"] in BY_RULE)
    ]
    assert not wrong
    assert len(REPORTS) >= 50
