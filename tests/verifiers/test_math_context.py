r"""What the question decides: its unit, base, modulus, conditions and names may be left out, its form may not."""

from pathlib import Path

import pytest
import yaml

from ratchet.verifiers import Problem, verify_all

ROWS = yaml.safe_load(Path(__file__).with_name("math_context.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", ROWS, ids=[row["question"][:60] for row in ROWS])
def test_the_question_decides(row):
    problem = Problem.of("math", row["question"], answer=row["reference"])
    answers = [row["reference"], *row["right"], *row["wrong"]]
    responses = [answer if "\\boxed" in answer else f"\\boxed{{{answer}}}" for answer in answers]
    verdicts = verify_all([(problem, response) for response in responses], workers=1)
    passed = [answer for answer, verdict in zip(answers, verdicts, strict=True) if verdict.passed]
    assert passed == [row["reference"], *row["right"]], [verdict.detail for verdict in verdicts]
