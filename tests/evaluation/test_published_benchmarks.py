"""Whole benchmarks, graded: the references as responses, nothing as responses, and rewritings of the references, as a
model might write them.

A part of each on every change, all of them at night.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.read import read_problems
from ratchet.evaluation.benchmarks import load_problems
from ratchet.evaluation.grading import Grading
from ratchet.evaluation.sampling import GENERATION_SCHEMA
from ratchet.evaluation.scores import score
from ratchet.infra.recipe.evaluation import Benchmark
from ratchet.verifiers.math.equivalence import reference_text
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.local_pool import VerifierPool
from ratchet.verifiers.serving.pool import Pool

FILES = {"aime24": "math", "amc22_23": "math", "math500": "math", "olympiad_bench": "math", "HumanEval": "code"}
PART = {"aime24": 1, "amc22_23": 2, "math500": 10, "olympiad_bench": 10, "HumanEval": 33}  # every n-th question

REWRITINGS = 20
AROUND_MATH = (
    "{}", "The answer is {}.", "<think>\nMaybe \\boxed{{0}}?\n</think>\n\n{}", "First \\boxed{{17}}, but no: {}",
    "$${}$$", "\\[ {} \\]", "**Final answer:** {}\n", "{}\n\nI hope it is correct.", "Thus ${}$, and we are done.",
    "So\n\n\\begin{{aligned}} x &= {} \\end{{aligned}}",
)  # fmt: skip
AROUND_CODE = (
    "```python\n{}\n```", "```py\n{}\n```", "```\n{}\n```",
    "<think>\n```python\npass\n```\n</think>\n```python\n{}\n```",
    "Here it is:\n\n```python\n{}\n```\n\nIt runs in linear time.", "```python\npass\n```\nBetter:\n```Python\n{}\n```",
    "```python3\n{}\n\n```", "1. Do it:\n   ```python\n{}\n   ```", "```python \n{}\n``` ",
    "## Code\n```python\n# solution\n{}\n```",
)  # fmt: skip


def published(directory: Path, name: str, scratch: Path) -> tuple[Problem, ...]:
    """A published file as an evaluation reads it."""
    ending = "jsonl.gz" if name == "HumanEval" else "json"
    split = read_problems(directory / "benchmarks" / f"{name}.{ending}", FILES[name])
    assert len(split.rejected) == 0
    pq.write_table(split.kept, scratch / f"{name}.parquet")
    return load_problems(Benchmark(name=name, domain=FILES[name]), scratch / f"{name}.parquet")


def golden(problem: Problem) -> str:
    if problem.domain == "math":
        return f"\\boxed{{{reference_text(problem.answer)}}}"
    return f"```python\n{problem.golden_solutions[0]}\n```"


def rewritings(problem: Problem) -> Iterator[str]:
    """Twenty of them."""
    if problem.domain == "code":
        solution = problem.golden_solutions[0]
        for text in (solution, f"\n{solution}\n\n"):
            yield from (around.format(text) for around in AROUND_CODE)
        return
    answer = reference_text(problem.answer)
    ways = [answer, f" {answer} ", f"{answer}.", f"\\displaystyle {answer}", f"{{{answer}}}"]
    ways.append(f"${answer}$" if "$" not in answer else answer)
    ways.append(answer.replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac").replace("\\frac", "\\dfrac"))
    ways += [answer.replace("\\left", "").replace("\\right", ""), f"\\, {answer}", f"{answer}\\;"]
    for way, around in zip(ways, AROUND_MATH, strict=True):
        yield around.format(f"\\boxed{{{answer}}}")
        yield f"\\boxed{{{way}}}"


def scores_of(pool: Pool, given: Sequence[Problem], responses: dict[str, list[str]]) -> dict:
    """What an evaluation reports when these are the model's responses, by problem_id."""
    rows = [
        {"benchmark": "given", "problem_id": problem, "sample": i, "text": text, "finish_reason": "stop", "tokens": 1}
        for problem, texts in responses.items()
        for i, text in enumerate(texts)
    ]
    grading = Grading(pool, {"given": given}, {"given": ""})
    grading.submit(rows)
    grading.collect()
    graded = grading.graded(pa.Table.from_pylist(rows, schema=GENERATION_SCHEMA)).to_pandas()
    asked = [problem for problem in given if problem.problem_id in responses]
    return score(graded, asked, (1,), vote=given[0].domain == "math")


@pytest.fixture(scope="module")
def pool():
    with VerifierPool(2) as pool:
        yield pool


@pytest.mark.parametrize("part", ["part", pytest.param("whole", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FILES)
def test_golden_answers_pass_and_empty_ones_do_not(pool, shared_data, name, part, tmp_path):
    given = published(shared_data, name, tmp_path)
    some = given[:: PART[name] if part == "part" else 1]
    asked = some if FILES[name] == "code" else given
    right = scores_of(pool, given, {p.problem_id: [golden(p)] for p in asked})
    assert right["pass_at"]["1"]["value"] == 1.0
    empty = scores_of(pool, given, {p.problem_id: ["", "\n", "```python\n```", "\\boxed{}"] for p in some})
    assert empty["pass_at"]["1"]["value"] == 0.0 and empty["no_answer_rate"] == 1.0
    rewritten = scores_of(pool, given, {p.problem_id: list(rewritings(p)) for p in some})
    assert rewritten["samples"] == REWRITINGS * len(some)
    assert rewritten["pass_at"]["1"]["value"] >= 0.99
