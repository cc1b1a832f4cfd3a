import json
from itertools import repeat

import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.base.problem_table import from_table
from ratchet.evaluation.grading import without_answers
from ratchet.evaluation.main import main
from ratchet.evaluation.tables import warnings
from ratchet.infra.recipe.evaluation import Benchmark
from ratchet.verifiers.math.answer_patterns import answer_by
from tests.evaluation.conftest import first_benchmark, write


@pytest.mark.parametrize(
    ("pattern", "response", "answer"),
    [
        ("####", "16 - 3 = 13\n#### 1,234.\n\nQuestion: another?\n#### 7", "1,234"),
        ("####", "#### $18", "$18"),
        ("####", "the answer is 18", None),
        ("choice", "The answer is (I).", "I"),
        ("choice", "Answer: **C) dogs**", "C"),
        ("choice", "the answer is a dog", None),
        ("choice", "The answer is I do not know", None),
        ("the answer is", "So the answer is 3.5 dollars. Good.", "3.5 dollars"),
        ("the answer is", "Therefore, the answer (arabic numerals) is 70.", "70"),
        ("answer:", "She has 3.\nA: 18", "18"),
        ("answer:", "**Final answer:** 42", "42"),
        ("answer:", "**Final answer:**\n\n$\\frac34$. I hope it is correct.", "$\\frac34$"),
        ("answer:", "Answer: 4:15 p.m. on Monday.", "4:15 p.m. on Monday"),
        ("the answer is", "The answer is 4:15 p.m. on Monday. Good.", "4:15 p.m. on Monday"),
        ("last number", "it costs $1,200.50.", "1,200.50"),
        ("last number", "<think>17", None),
        ("boxed", r"\boxed{4}", "4"),
        (r"=> (\w+)", "=> 3\n=> 4", "4"),
    ],
)
def test_an_answer_is_read_as_its_community_writes_it(pattern, response, answer):
    assert answer_by(pattern, response) == answer


def test_the_strictest_preset_that_reads_most_responses_is_proposed():
    found = without_answers("boxed", ["a\n#### 1", "b\n#### 2", "c 3"])
    assert found == {"examples": ["a #### 1", "b #### 2", "c 3"], "preset": "####", "reads": 2 / 3}
    assert without_answers("####", ["nothing", ""])["preset"] is None


def test_a_score_without_answers_is_called_doubtful():
    scores = {
        "pass_at": {"1": {"value": 0.0, "low": 0.0, "high": 0.1}}, "empty_rate": 0.0, "no_answer_rate": 0.99,
        "answer_pattern": "boxed", "without_answers": without_answers("boxed", ["so\n#### 4"] * 5),
    }  # fmt: skip
    unread, none_passed = warnings(scores)
    assert unread.startswith("99.0%") and '`answer_pattern: "####"`' in unread and "“… so #### 4”" in unread
    assert none_passed.startswith("no response passed")


@pytest.mark.parametrize(
    ("pattern", "fault"), [("(a)(b)", "2 groups"), ("a(", "no regular expression"), ("hash", "0 groups")]
)
def test_an_unknown_pattern_is_refused(pattern, fault):
    with pytest.raises(ValueError, match=fault):
        Benchmark(name="own", domain="math", path="x.json", advanced={"answer_pattern": pattern})


@pytest.mark.parametrize("text", ["answer is " + " " * 200_000 + "x", "\n" * 200_000, "*" * 200_000, "#### " * 40_000])
@pytest.mark.parametrize("pattern", ["####", "choice", "the answer is", "answer:", "last number"])
def test_long_responses_are_read_in_linear_time(pattern, text):
    answer_by(pattern, text)


@pytest.mark.parametrize("pattern, score, preset", [("boxed", 0, "####"), ("####", 1, None)])
def test_a_pattern_scores_responses_without_a_box(spec, server, tmp_path, benchmark_files, pattern, score, preset):
    problems = from_table(pq.read_table(benchmark_files["math"]))
    server.replies = {p.prompt: repeat({"content": f"so\n#### {p.answer}"}) for p in problems}
    spec["model"] = {"identity": "m", "endpoint": {"base_url": server.url, "model": "m"}}
    spec = first_benchmark(spec, samples=1, advanced={"answer_pattern": pattern})
    assert main(write(spec, tmp_path)) == 0
    found = json.loads((tmp_path / "work" / "scores.json").read_text())["benchmarks"]["small-math"]
    assert found["pass_at"]["1"]["value"] == score
    assert (found["without_answers"] or {}).get("preset") == preset
