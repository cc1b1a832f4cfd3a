from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.evaluation.generation_store import read_part
from ratchet.evaluation.sampling import TAKEN, SampledGenerations, missing_of, sample_share
from ratchet.evaluation.spec import load_plan, read_spec
from ratchet.verifiers.errors import RatchetError
from tests.evaluation.conftest import changed, first_benchmark, launch_directory, sampled, write


def parts(spec: dict) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in Path(spec["store_dir"]).glob("*/*.parquet")}


def test_every_sample_once_in_order(spec, tmp_path):
    table = sampled(write(spec, tmp_path))
    plan = load_plan(read_spec(tmp_path / "spec.json"))
    expected = [
        (benchmark, problem.problem_id, sample)
        for benchmark, samples in (("small-math", 6), ("small-code", 4))
        for problem in plan.problems[benchmark]
        for sample in range(samples)
    ]
    got = zip(*(table[name].to_pylist() for name in ("benchmark", "problem_id", "sample")), strict=True)
    assert list(got) == expected
    assert len(set(table["text"].to_pylist())) > len(expected) / 4  # seeds differ
    assert set(table["finish_reason"].to_pylist()) == {"stop", "length"}
    lengths = table.filter(pa.compute.equal(table["finish_reason"], "length"))["tokens"].to_pylist()
    assert set(lengths) == {20}


def test_a_process_takes_what_no_other_has_taken_whatever_its_number(spec, tmp_path):
    """A process that is behind keeps nothing from the others: one takes all that is left, in the plan's order."""
    spec_path = write(changed(spec, training={"hardware": {"processes": 2, "rollout_batch": 4}}), tmp_path)
    plan, directory = load_plan(read_spec(spec_path)), launch_directory(spec_path)
    theirs, ours = plan.batches[1], [batch for batch in plan.batches if batch.position != 1]
    with SampledGenerations(spec_path, plan) as generations:
        (directory / f"{TAKEN}1").touch()
        sample_share(spec_path, directory, 0)
        assert all(not missing_of(batch, generations._stored()) for batch in ours)
        assert missing_of(theirs, generations._stored()) == list(theirs.requests)
        finished = {file.name: file.stat().st_size for file in directory.iterdir()}
        assert finished == {f"{TAKEN}{b.position}": len(b.requests) for b in ours} | {f"{TAKEN}1": 0}
        before = len(parts(spec))
        sample_share(spec_path, directory, 1)  # nothing is left: it loads no model
        assert len(parts(spec)) == before


def test_progress_counts_responses_within_batches(spec, tmp_path):
    plan = load_plan(read_spec(write(spec, tmp_path)))
    generations, directory = SampledGenerations(tmp_path / "spec.json", plan), launch_directory(tmp_path / "spec.json")
    waiting = {b.position: (b, list(b.requests), tmp_path / "part") for b in plan.batches[:2]}
    missing = sum(len(requests) for _, requests, _ in waiting.values())
    assert generations._count(directory, waiting) and generations.done == generations.total - missing
    assert not generations._count(directory, waiting)
    (directory / f"{TAKEN}{plan.batches[1].position}").write_bytes(b"...")
    assert generations._count(directory, waiting) and generations.done == generations.total - missing + 3


def test_what_is_stored_is_not_sampled_again(spec, tmp_path):
    spec_path = write(spec, tmp_path)
    whole, before = sampled(spec_path), parts(spec)
    removed, damaged, *_ = sorted(before)
    removed.unlink()
    damaged.write_bytes(damaged.read_bytes()[:-20])
    assert sampled(spec_path).equals(whole)
    after = parts(spec)
    assert {path for path in after if after[path] != before[path]} == {removed, damaged}


def test_a_subset_is_found_and_more_samples_are_only_added(spec, tmp_path):
    """Fewer samples, fewer benchmarks, a corrected answer, other scores: the model is not asked. More samples: it is
    asked for what is missing. One harness gave one cached response to all samples of a question."""
    whole, before = sampled(write(spec, tmp_path)).to_pylist(), parts(spec)
    corrected = pq.read_table(spec["problems"]["small-math"])
    position = corrected.column_names.index("answer")
    answers = pa.array(["5"] * len(corrected), corrected.schema.field(position).type)
    pq.write_table(corrected.set_column(position, "answer", answers), tmp_path / "corrected.parquet")
    problems = {"small-math": str(tmp_path / "corrected.parquet")}
    subset = changed(first_benchmark(spec, samples=2), evaluation={"pass_at": [2]})
    subset |= {"problems": problems, "label": "other"}
    plan = load_plan(read_spec(write(subset, tmp_path / "subset")))
    with SampledGenerations(tmp_path / "subset" / "spec.json", plan) as generations:
        rows = pa.concat_tables(generations.stream()).to_pylist()  # starts no process: nothing is missing
    assert rows == [row for row in whole if row["benchmark"] == "small-math" and row["sample"] < 2]
    assert parts(spec) == before

    more = first_benchmark(spec, samples=9)
    table = sampled(write(more, tmp_path / "more"))
    assert [row for row in table.to_pylist() if row["sample"] < 6] == [
        r for r in whole if r["benchmark"] == "small-math"
    ]
    assert before.items() <= parts(spec).items()
    added = [set(pq.read_table(path)["sample"].to_pylist()) for path in parts(spec).keys() - before.keys()]
    assert set().union(*added) == {6, 7, 8}

    wide = write(changed(more, training={"hardware": {"rollout_batch": 64}}), tmp_path / "wide")
    with SampledGenerations(wide, plan := load_plan(read_spec(wide))) as generations:
        parts_of = generations._stored()["small-math"]
        read_part.cache_clear()
        assert pa.concat_tables(generations.in_order()).equals(table)
    once = sum(len({parts_of[asked.key] for asked in batch.requests}) for batch in plan.batches)
    assert read_part.cache_info().misses <= once, "a batch reads each of its parts once, though they alternate"


@pytest.mark.parametrize(
    "change, same",
    [
        ({"evaluation": {"pass_at": [1]}, "training": {"hardware": {"processes": 2, "rollout_batch": 4}}}, True),
        ({"training": {"hardware": {"dtype": "bfloat16"}}}, False),
        ({"model": {"identity": "other"}}, False),
        ({"evaluation": {"temperature": 0.5}}, False),
        ({"evaluation": {"top_p": 0.9}}, False),
        ({"evaluation": {"max_tokens": 21}}, False),
    ],
)
def test_what_decides_the_text_decides_where_it_is_kept(spec, tmp_path, change, same):
    """Harnesses have cached across sampling settings: a request key must hold them all."""
    before = load_plan(read_spec(write(spec, tmp_path / "a")))
    after = load_plan(read_spec(write(changed(spec, **change), tmp_path / "b")))
    assert (before.stores["small-math"].directory == after.stores["small-math"].directory) is same


def test_another_prompt_is_another_request(spec, tmp_path):
    before = load_plan(read_spec(write(spec, tmp_path / "a")))
    for change in ({"math": "Q: {prompt}"}, {"math": "{prompt}", "response_prefix": "<think>"}):
        after = load_plan(read_spec(write(first_benchmark(spec, prompt=change), tmp_path / "b")))
        assert {a.key for b in before.batches for a in b.requests}.isdisjoint(
            a.key for b in after.batches for a in b.requests
        )


def test_adding_a_benchmark_changes_no_batch_of_the_others(spec, tmp_path):
    both = load_plan(read_spec(write(spec, tmp_path)))
    one = load_plan(read_spec(write(first_benchmark(spec), tmp_path)))
    assert one.batches == both.batches[: len(one.batches)]


def test_the_message_of_a_sampling_process_comes_through(spec, tmp_path):
    plan = load_plan(read_spec(write(spec, tmp_path)))
    with pytest.raises(RatchetError, match=r"cannot read the evaluation spec .*gone\.json"):
        with SampledGenerations(tmp_path / "gone.json", plan) as generations:
            list(generations.stream())


def test_an_unreadable_model_is_the_users_to_mend(spec, tmp_path):
    broken = tmp_path / "model"
    broken.mkdir()
    (broken / "config.json").write_text("{}")
    spec["model"]["directory"] = str(broken)
    with pytest.raises(RatchetError, match="cannot read a causal language model"):
        sampled(write(spec, tmp_path))


def test_a_prompt_that_leaves_no_room_is_told_before_anything_is_sampled(spec, tmp_path):
    spec_path = write(changed(spec, evaluation={"max_tokens": 127}), tmp_path)  # of 128 positions
    with SampledGenerations(spec_path, load_plan(read_spec(spec_path))):
        with pytest.raises(RatchetError, match=r"small-math, row \w+: a prompt of \d+ tokens .* 128 positions"):
            sample_share(spec_path, launch_directory(spec_path), 0)
    assert parts(spec) == {}


@pytest.mark.parametrize(
    "change, complaint",
    [
        ({"training": {"hardware": {"rollout_batch": 0}}}, "training.hardware.rollout_batch"),
        ({"labels": "a"}, "labels"),
        ({"evaluation": {"temperature": 1, "top_p": 2}}, "evaluation.top_p"),
    ],
)
def test_a_wrong_spec_names_the_field(spec, tmp_path, change, complaint):
    with pytest.raises(RatchetError, match=complaint):
        load_plan(read_spec(write({**spec, **change}, tmp_path)))


@pytest.mark.parametrize(
    ("cores", "memory", "weights", "processes"),
    [(2, 24 * 2**30, 2**30, 2), (8, 24 * 2**30, 2**30, 4), (8, 24 * 2**30, 15 * 2**30, 1), (1, 2**30, 2**20, 1)],
)
def test_on_a_cpu_every_core_samples_that_memory_allows(spec, tmp_path, monkeypatch, cores, memory, weights, processes):
    """A trainer of one process with two threads is beside none of them."""
    from ratchet.evaluation import sampling

    monkeypatch.setattr(sampling, "core_count", lambda: cores)
    monkeypatch.setattr(sampling, "memory_bytes", lambda: memory)
    with open(tmp_path / "model.safetensors", "wb") as file:
        file.truncate(weights)
    path = write(changed(spec, training={"hardware": {"processes": 1, "rollout_batch": 4}}), tmp_path)
    assert sampling._processes(read_spec(path).training, tmp_path) == processes


def test_engines_of_several_gpus_have_fewer_processes(spec, tmp_path, monkeypatch):
    """With `tensor_parallel: 2` four processes are two engines, which share the batches and have GPUs of their own."""
    from ratchet.evaluation import sampling

    engine = {"kind": "vllm", "tensor_parallel": 2}
    path = write(changed(spec, training={"hardware": {"processes": 4, "rollout_batch": 4}, "engine": engine}), tmp_path)
    assert sampling._processes(read_spec(path).training, tmp_path) == 2
    opened: list[int] = []

    def opening(self, model_dir, dtype, batch_size, index):
        opened.append(index)
        raise RatchetError("opened")

    monkeypatch.setattr("ratchet.infra.inference.with_vllm.Vllm.open_for_evaluation", opening)
    for index in range(2):
        with pytest.raises(RatchetError, match="opened"):
            sample_share(path, launch_directory(path), index)
    assert opened == [0, 1]
