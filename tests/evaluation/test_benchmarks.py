import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.base.problem_table import from_table, to_table
from ratchet.evaluation.benchmarks import content_hash, disagreeing, load_problems
from ratchet.infra.recipe.evaluation import Benchmark
from ratchet.verifiers.errors import RatchetError

MINE = Benchmark(name="m", domain="math")
GOOD = {"problem_id": "p1", "domain": "math", "prompt": "1 + 1?", "answer": "2"}


def test_content_hash_is_of_the_content_and_not_of_the_file(tmp_path):
    pq.write_table(to_table([GOOD]), tmp_path / "a.parquet")
    pq.write_table(to_table([GOOD]), tmp_path / "b.parquet", compression="zstd")
    pq.write_table(to_table([{**GOOD, "answer": "3"}]), tmp_path / "c.parquet")
    a, b, c = (load_problems(MINE, tmp_path / f"{name}.parquet") for name in "abc")
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
    pq.write_table(to_table(rows), tmp_path / "bad.parquet")
    with pytest.raises(RatchetError, match=complaint):
        load_problems(MINE, tmp_path / "bad.parquet")


def test_a_repeated_row_is_one_question(tmp_path):
    rows = [named("p1", "a"), {**GOOD, "problem_id": "p2"}, named("p1", "c")]
    pq.write_table(to_table(rows), tmp_path / "kept.parquet")
    assert [problem.problem_id for problem in load_problems(MINE, tmp_path / "kept.parquet")] == ["p1", "p2"]


def test_the_users_own_file_and_row_are_named(tmp_path):
    pq.write_table(to_table([{**GOOD, "source_id": "7", "answer": None}]), tmp_path / "kept.parquet")
    with pytest.raises(
        RatchetError, match=r"benchmark m: mine\.jsonl, row 7 \(problem p1\): .*it has no reference answer"
    ):
        load_problems(MINE.model_copy(update={"path": "mine.jsonl"}), tmp_path / "kept.parquet")


def test_a_question_with_different_references_is_set_aside_and_one_in_other_notation_is_not(tmp_path):
    other = {**GOOD, "problem_id": "p9", "prompt": "one half?", "answer": "0.5"}
    rows = [GOOD, {**GOOD, "answer": "3"}, other, {**other, "answer": r"\frac{1}{2}"}]
    pq.write_table(to_table(rows), tmp_path / "some.parquet")
    left = load_problems(Benchmark(name="m", domain="math"), tmp_path / "some.parquet")
    assert [problem.problem_id for problem in left] == ["p9"]
    reasons = disagreeing(list(from_table(pq.read_table(tmp_path / "some.parquet"))))
    assert [*reasons] == [GOOD["problem_id"]] and "answer: another row" in reasons[GOOD["problem_id"]]
