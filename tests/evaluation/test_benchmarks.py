import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.base.problem_table import from_table, to_table
from ratchet.evaluation.benchmarks import content_hash, load_problems
from ratchet.infra.recipe.evaluation import Benchmark
from ratchet.infra.recipe.questions import disagreeing
from ratchet.verifiers.errors import RatchetError

MINE = Benchmark(name="m", domain="math")
GOOD = {"problem_id": "p1", "domain": "math", "prompt": "1 + 1?", "answer": "2"}


def loaded(path, rows, benchmark=MINE, **options):
    pq.write_table(to_table(rows), path, **options)
    return load_problems(benchmark, path)


def test_content_hash_is_of_the_content_and_not_of_the_file(tmp_path):
    a, b = loaded(tmp_path / "a.parquet", [GOOD]), loaded(tmp_path / "b.parquet", [GOOD], compression="zstd")
    c = loaded(tmp_path / "c.parquet", [{**GOOD, "answer": "3"}])
    assert content_hash(a) == content_hash(b) != content_hash(c)
    assert [p.answer for p in a] == ["2"]


def named(problem: str, published: str) -> dict:
    return {**GOOD, "problem_id": problem, "metadata": f'{{"unique_id": "{published}"}}'}


@pytest.mark.parametrize(
    "rows, complaint",
    [
        ([GOOD, {**GOOD, "problem_id": "p2", "answer": None}], r"row 1 \(problem p2\): .*it has no reference answer"),
        ([GOOD, {**GOOD, "answer": "3"}], "with different references"),
        ([{**GOOD, "domain": "code", "tests": "[]"}], "row 0 .*domain is 'code'"),
        ([], "has no problems"),
    ],
)
def test_what_cannot_be_graded_is_named(tmp_path, rows, complaint):
    with pytest.raises(RatchetError, match=complaint):
        loaded(tmp_path / "bad.parquet", rows)


def test_a_repeated_row_is_one_question(tmp_path):
    rows = [named("p1", "a"), {**GOOD, "problem_id": "p2"}, named("p1", "c")]
    assert [problem.problem_id for problem in loaded(tmp_path / "kept.parquet", rows)] == ["p1", "p2"]


def test_the_users_own_file_and_row_are_named(tmp_path):
    row, mine = {**GOOD, "source_id": "7", "answer": None}, MINE.model_copy(update={"path": "mine.jsonl"})
    with pytest.raises(RatchetError, match=r"benchmark m: mine\.jsonl, row 7 \(problem p1\): .*no reference answer"):
        loaded(tmp_path / "kept.parquet", [row], mine)


def test_a_question_with_different_references_is_set_aside_and_one_in_other_notation_is_not(tmp_path):
    other = {**GOOD, "problem_id": "p9", "prompt": "one half?", "answer": "0.5"}
    rows = [GOOD, {**GOOD, "answer": "3"}, other, {**other, "answer": r"\frac{1}{2}"}]
    assert [problem.problem_id for problem in loaded(tmp_path / "some.parquet", rows)] == ["p9"]
    reasons = disagreeing(list(from_table(to_table(rows))))
    assert [*reasons] == [GOOD["problem_id"]] and "answer: another row" in reasons[GOOD["problem_id"]]
