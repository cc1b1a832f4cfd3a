import json
from itertools import islice

import numpy as np
import pyarrow.parquet as pq
import torch
from hypothesis import given
from hypothesis import strategies as st

from ratchet.data_curation.base.problem_table import to_table
from ratchet.data_curation.base.prompts import PromptFormat
from ratchet.data_curation.base.protocol import Sampling
from ratchet.infra.inference.with_transformers import EmbeddedEngine
from ratchet.infra.recipe.recipe import Recipe
from ratchet.training import process, ranks
from ratchet.training.pass_rates import rounds
from ratchet.training.rollout import RolloutWorker, _decode_batches
from ratchet.training.sampler import Sampler
from ratchet.training.specification import TrainingSpec
from tests.training.conftest import sums


@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 300), st.integers(1, 8))
def test_decode_batches_hold_every_problem_once_and_are_even(count, samples, batch_size, ranks):
    batches = _decode_batches(sums(count), samples, batch_size, ranks)
    assert sorted(p.problem_id for batch in batches for p in batch) == [p.problem_id for p in sums(count)]
    sizes = list(map(len, batches))
    assert max(sizes) - min(sizes) <= 1 and len(batches) >= min(ranks, count)
    assert max(sizes) * samples <= batch_size or max(sizes) == 1


def test_who_has_finished_takes_from_who_has_most_left():
    store = torch.distributed.HashStore()
    deals = [ranks.assigned(14, store, 0, rank, 4) for rank in range(4)]  # 4, 4, 3 and 3
    assert [next(deals[0][0]), *deals[3][0]] == [0, 3, 7, 11]
    assert list(islice(deals[3][1], 4)) == [1, 4, 5, 2]  # 3 4 3 0, 3 3 3 0, 2 3 3 0, 2 2 3 0
    assert [list(own) for own, _ in deals[:3]] == [[8, 12], [9, 13], [6, 10]]
    assert not [turn for _, left in deals for turn in left]
    assert list(ranks.assigned(3, store, 1, 0, 1)[0]) == [0, 1, 2]  # a deal knows nothing of the one before


def test_what_is_sampled_does_not_depend_on_how_it_is_cut(policy, pool):
    """Up to rounding: the same responses from decode batches of four and of all."""
    sampling, problems = Sampling(max_tokens=6), sums(5)
    found = []
    for size in (4, 64):
        worker = RolloutWorker(
            policy, Sampler(policy, EmbeddedEngine(policy, size)), pool, PromptFormat(math="{prompt}"), size
        )
        found.append(worker.run(problems, 2, sampling, ("seed",)))
    assert [(r.problem_id, r.sample) for r in found[0]] == [(p.problem_id, s) for p in problems for s in range(2)]
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one.response, other.response) and one.version == policy.version == 0
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-5)


def test_a_killed_measurement_of_pass_rates_goes_on_after_the_last_problem(alone, micro_model, tmp_path):
    stage = {
        "name": "s", "domain": "math", "max_response_tokens": 8, "steps": 1, "prompts_per_batch": 4, "rollouts": 2,
        "max_pass_rate": 0.5, "max_difficulty": 6, "advanced": {"pass_rate_rollouts": 3},
    }  # fmt: skip
    training = {"stages": [stage], "hardware": {"rollout_batch": 12}}
    recipe = Recipe.model_validate({"name": "x", "model": {"prompt": {"math": "{prompt}"}}, "training": training})
    pq.write_table(to_table(sums(15)), tmp_path / "problems.parquet")
    problems = {"math": tmp_path / "problems.parquet"}
    spec = TrainingSpec.of(
        recipe, kind="pass_rates", stage="s", model_dir=str(micro_model), problems=problems, work_dir=tmp_path
    )
    file, kept = tmp_path / process.PASS_RATES, tmp_path / "checkpoints" / f"0-{process.PASS_RATES}"
    assert process._measure_pass_rates(spec) == 14  # one problem of the fifteen has difficulty 7
    whole = file.read_text()
    counts = {i: count for line in whole.splitlines() for i, count in json.loads(line)["counts"].items()}
    # Two equal responses of three settle the decision; a mixed prompt gets all.
    assert len(counts) == 14 and {*map(tuple, counts.values())} <= {(0, 2), (2, 2), (1, 3), (2, 3)}
    lines = kept.read_text().splitlines()
    done = [json.loads(line)["step"] for line in lines]  # rounds of prompts; a settled one has none left
    assert done == sorted({*done}) and done[-1] == json.loads(lines[0])["steps"] == 14 * len(rounds(3))
    file.unlink()
    for killed in (16, 20, len(lines) - 1):  # in the second round and the third
        kept.write_text("\n".join(lines[:killed]) + "\n")
        assert process._measure_pass_rates(spec) == 14 and file.read_text() == whole, killed
        file.unlink()
    torn = "\n".join(lines[:5]) + '\n{"step": 6, "cou'  # killed while the sixth was written
    kept.write_text(torn)
    other = kept.parent / f"7-{process.PASS_RATES}"
    other.write_text(lines[9] + "\n")  # of a run on more ranks
    assert process._measure_pass_rates(spec) == 14
    assert file.read_text() == whole
    again = kept.read_text().splitlines()
    assert again[:5] == lines[:5] and len(again) == len(lines) - 1  # nothing is sampled twice
    sampled = [(i, count[2]) for line in (*again, lines[9]) for i, count in json.loads(line)["counts"].items()]
    assert len(set(sampled)) == len(sampled)
