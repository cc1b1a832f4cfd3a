"""Science from worked solutions to a curated set: references retrieved, a teacher over HTTP."""

import json

import pyarrow.parquet as pq
import pytest

from tests.infra.tiny_endpoint import SolvingEndpoint

ROWS = [
    {"problem": "A ball falls from a height of 2.0 m. How fast is it at the ground?",
     "matched_solution": "$v = \\sqrt{2gh} = 6.3 \\mathrm{~m} / \\mathrm{s}$."},
    {"problem": "By which mechanism does a primary halide react with a strong nucleophile?",
     "matched_solution": "It is \\boxed{\\text{bimolecular substitution}}."},
    {"problem": "What happens to the entropy of an isolated system over time?",
     "matched_solution": "Heat flows until the temperatures are equal, and so on."},
    {"problem": "Which of these substances is a base?\n(A) HCl\n(B) NaOH\n(C) NaCl",
     "matched_solution": "It takes up protons. The answer is (B)."},
]  # fmt: skip
HELD_OUT = [{"problem": "How many moles are in 36 g of water, at most and at least?", "answer": "2.0 mol"}]
ANSWERS = {"falls": "6.26 m/s", "halide": "\\text{bimolecular substitution}", "substances": "C"}
RECIPE = """
name: science
curation:
  science:
    inputs: [rows.json]
    benchmarks: [held_out.json]
    teacher: {kind: openai, model: teacher, base_url: URL, attempts: 2}
"""


def says(text: str) -> str:
    return next(f"So \\boxed{{{answer}}}." for word, answer in ANSWERS.items() if word in text)


@pytest.mark.slow
def test_worked_solutions_become_problems(ratchet, ready_home, tmp_path):
    endpoint = SolvingEndpoint(says)
    try:
        (tmp_path / "rows.json").write_text(json.dumps(ROWS))
        (tmp_path / "held_out.json").write_text(json.dumps(HELD_OUT))
        recipe = tmp_path / "science.yaml"
        recipe.write_text(RECIPE.replace("URL", endpoint.url))
        done = ratchet("curate", "science", recipe, "--home", ready_home)
        assert done.returncode == 0, done.stdout + done.stderr
        (made,) = (ready_home / "artifacts" / "problems").glob("science-curated-*")
        kept = {row["answer"]: row for row in pq.read_table(made / "kept.parquet").to_pylist()}
        assert {answer: row["teacher_passes"] for answer, row in kept.items()} == {
            "6.3": 2, "\\text{bimolecular substitution}": 2
        }  # fmt: skip
        dropped = {row["source_id"]: row for row in pq.read_table(made / "rejected.parquet").to_pylist()}
        assert {row: facts["rule"] for row, facts in dropped.items()} == {"2": "no_answer", "3": "unsolved"}
        assert json.loads(dropped["2"]["evidence"])["solution_ends"] == ROWS[2]["matched_solution"]
        total = len(endpoint.asked)
        again = ratchet("curate", "science", recipe, "--home", ready_home, "--refresh", "difficulty")
        assert again.returncode == 0 and len(endpoint.asked) == total, "what was answered is asked no more"
    finally:
        endpoint.close()
