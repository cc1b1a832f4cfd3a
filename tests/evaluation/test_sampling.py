import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evaluation import sampling
from evaluation.spec import load_plan, read_spec
from infra.errors import RatchetError


def write(spec: dict, tmp_path: Path) -> Path:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(spec))
    return path


def sample_here(spec_path: Path, directory: Path, index: int = 0) -> pa.Table:
    """What a sampling process does, in this one."""
    directory.mkdir(exist_ok=True)
    sampling.main(spec_path, directory, index)
    plan = load_plan(read_spec(spec_path))
    tables = [sampling.read_shard(directory, batch) for batch in plan.batches]
    return pa.concat_tables([table for table in tables if table is not None])


def test_every_sample_once_in_order(spec, tmp_path):
    table = sample_here(write(spec, tmp_path), tmp_path / "shards")
    plan = load_plan(read_spec(tmp_path / "spec.json"))
    expected = [
        (benchmark.name, problem.problem_id, sample)
        for benchmark, samples in zip(plan.benchmarks, (6, 4), strict=True)
        for problem in benchmark.problems
        for sample in range(samples)
    ]
    got = zip(*(table[name].to_pylist() for name in ("benchmark", "problem_id", "sample")), strict=True)
    assert list(got) == expected
    assert len(set(table["text"].to_pylist())) > len(expected) / 4  # seeds differ
    assert set(table["finish_reason"].to_pylist()) == {"stop", "length"}
    lengths = table.filter(pa.compute.equal(table["finish_reason"], "length"))["tokens"].to_pylist()
    assert set(lengths) == {20}


def test_what_is_stored_is_not_sampled_again(spec, tmp_path):
    spec["processes"] = 2
    spec_path, shards = write(spec, tmp_path), tmp_path / "shards"
    whole = sample_here(spec_path, shards, 0)
    plan = load_plan(read_spec(spec_path))
    paths = [sampling.shard_path(shards, batch) for batch in plan.batches]
    assert [path.exists() for path in paths] == [batch.position % 2 == 0 for batch in plan.batches]
    paths[2].unlink()
    before = {path: path.stat().st_mtime_ns for path in paths if path.exists()}
    assert sample_here(spec_path, shards, 0).equals(whole)
    assert {path for path in paths if path.exists() and path.stat().st_mtime_ns != before.get(path)} == {paths[2]}


def test_an_unreadable_model_is_the_users_to_mend(spec, tmp_path):
    broken = tmp_path / "model"
    broken.mkdir()
    (broken / "config.json").write_text("{}")
    spec["model_dir"] = str(broken)
    with pytest.raises(RatchetError, match="cannot read a causal language model"):
        sample_here(write(spec, tmp_path), tmp_path / "shards")


def test_the_message_of_a_sampling_process_comes_through(spec, tmp_path):
    plan = load_plan(read_spec(write(spec, tmp_path)))
    with pytest.raises(RatchetError, match=r"cannot read the evaluation spec .*gone\.json"):
        list(sampling.sample_everything(tmp_path / "gone.json", plan, tmp_path / "shards"))


@pytest.mark.parametrize(
    "change, same",
    [
        ({"label": "other", "pass_at": [1], "processes": 2}, True),
        ({"seed": 8}, False),
        ({"rollout_batch": 4}, False),
        ({"prompt": {"math": "Q: {prompt}"}}, False),
        ({"sampling": {"temperature": 0.5, "top_p": 0.95, "max_tokens": 20}}, False),
    ],
)
def test_fingerprint_covers_what_decides_the_text(spec, tmp_path, change, same):
    (tmp_path / "a").mkdir()
    before = load_plan(read_spec(write(spec, tmp_path / "a")))
    after = load_plan(read_spec(write({**spec, **change}, tmp_path)))
    assert (before.fingerprint == after.fingerprint) is same


def test_adding_a_benchmark_changes_no_batch_of_the_others(spec, tmp_path):
    both = load_plan(read_spec(write(spec, tmp_path)))
    spec["benchmarks"] = spec["benchmarks"][:1]
    one = load_plan(read_spec(write(spec, tmp_path)))
    assert one.batches == both.batches[: len(one.batches)]


@pytest.mark.parametrize(
    "change, complaint",
    [
        ({"rollout_batch": 0}, "rollout_batch"),
        ({"temprature": 1}, "temprature"),
        ({"sampling": {"temperature": 1, "top_p": 2, "max_tokens": 5}}, "sampling.top_p"),
        ({"benchmarks": []}, "benchmarks"),
        ({"model_dir": "/nowhere"}, "no model in /nowhere"),
    ],
)
def test_a_wrong_spec_names_the_field(spec, tmp_path, change, complaint):
    with pytest.raises(RatchetError, match=complaint):
        load_plan(read_spec(write({**spec, **change}, tmp_path)))


def test_a_shard_of_other_requests_is_not_taken(spec, tmp_path):
    plan = load_plan(read_spec(write(spec, tmp_path)))
    batch = plan.batches[0]
    rows = [
        {"benchmark": batch.benchmark, "problem_id": problem.problem_id, "sample": sample + 1, "text": "",
         "finish_reason": "stop", "tokens": 1}
        for problem, sample, _ in batch.requests
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows, schema=sampling.GENERATION_SCHEMA), sampling.shard_path(tmp_path, batch))
    assert sampling.read_shard(tmp_path, batch) is None
