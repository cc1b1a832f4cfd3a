"""Every rollout is kept once: what a step's file says, and which files remain."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from ratchet.training.groups import group, group_from_json, group_to_json, rollout_from_json, rollout_to_json
from ratchet.training.rollout_log import FOLDER, SCHEMA, RolloutFilter, RolloutLog, read_rollouts, rollout_files
from tests.training.batch import FAILED, INFRA, PASSED, rollout, stage


class Letters:
    """A tokenizer of one letter for each token."""

    def decode(self, ids, skip_special_tokens: bool = False) -> str:
        return "".join(chr(97 + int(i) % 26) for i in ids)


def batch(*problems: int):
    made = [rollout(p, s, PASSED if s == p % 3 else FAILED, truncated=s == 3) for p in problems for s in range(4)]
    return group(made, stage())


def steps(work) -> list[int]:
    return [step for step, _ in rollout_files(work)]


def test_a_row_says_what_happened_to_its_response(tmp_path):
    learned, unlearned = batch(0, 1), batch(2)
    RolloutLog(tmp_path, "all", -1, 0, logprobs=True).write(3, "math-8k", learned, unlearned, Letters())
    [(_, file)] = rollout_files(tmp_path)
    table = pq.read_table(file)
    assert table.schema.names == SCHEMA.names
    rows = table.to_pylist()
    assert [(row["problem_id"], row["sample"]) for row in rows] == [(f"p{p}", s) for p in range(3) for s in range(4)]
    for row, (members, r, i) in zip(
        rows, ((g, r, i) for g in [*learned, *unlearned] for i, r in enumerate(g.rollouts)), strict=True
    ):
        assert row["response_ids"] == r.response.tolist() and row["prompt_ids"] == r.prompt.tolist()
        assert row["logprobs"] == pytest.approx(r.logprobs.tolist(), rel=0, abs=0)
        assert (row["reward"], row["advantage"]) == (members.rewards[i], members.advantages.values[i])
        assert row["learned"] == (members in learned) and (row["step"], row["stage"]) == (3, "math-8k")
        # The token that ended the response was not judged; a truncated response has none.
        assert row["response"] == Letters().decode(r.response if r.truncated else r.response[:-1])
    assert not list(tmp_path.glob(f"{FOLDER}/*.half*"))


def test_log_probabilities_are_kept_on_request_and_nothing_for_samples_or_other_ranks(tmp_path):
    (tmp_path / "plain").mkdir()
    RolloutLog(tmp_path / "plain", "all", -1, 0).write(1, "s", batch(0), [], Letters())
    assert {row["logprobs"] for row in read_rollouts(tmp_path / "plain", columns=SCHEMA.names)} == {None}
    for name, keep, rank in (("samples", "samples", 0), ("other", "all", 1)):
        (tmp_path / name).mkdir()
        RolloutLog(tmp_path / name, keep, -1, rank).write(1, "s", batch(0), [], Letters())
        assert not (tmp_path / name / FOLDER).exists()


@pytest.mark.parametrize(("keep", "kept"), [("all", range(1, 13)), (5, range(8, 13))])
@pytest.mark.parametrize("killed_at", [3, 7, 9])
def test_resuming_from_a_checkpoint_ends_with_the_files_of_an_undisturbed_stage(tmp_path, keep, kept, killed_at):
    def run(work, first, last, log):
        for step in range(first, last + 1):
            log.write(step, "s", batch(step), batch(step + 50), Letters())

    (tmp_path / "straight").mkdir()
    run(tmp_path / "straight", 1, 12, RolloutLog(tmp_path / "straight", keep, -1, 0))
    work = tmp_path / "work"
    work.mkdir()
    run(work, 1, killed_at, RolloutLog(work, keep, -1, 0))
    (work / FOLDER / "step-00000099.parquet.12.half").write_text("killed while writing")
    checkpoint = killed_at // 2 * 2
    run(work, checkpoint + 1, 12, RolloutLog(work, keep, checkpoint, 0))
    assert steps(work) == steps(tmp_path / "straight") == list(kept)
    for (_, one), (_, other) in zip(rollout_files(work), rollout_files(tmp_path / "straight"), strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_rollouts_are_filtered(tmp_path):
    log = RolloutLog(tmp_path, "all", -1, 0)
    for step in (1, 2, 3):
        log.write(step, "s", batch(step), [], Letters())

    def found(**wanted) -> list[tuple[int, int]]:
        return [(row["step"], row["sample"]) for row in read_rollouts(tmp_path, RolloutFilter(**wanted))]

    everything = [(step, sample) for step in (1, 2, 3) for sample in range(4)]
    assert found() == everything and found(steps=(2, 3)) == everything[4:]
    assert found(outcome="truncated") == [(step, 3) for step in (1, 2, 3)]
    assert found(outcome="passed") == found(rewards=(0.5, 1.0)) == [(1, 1), (2, 2), (3, 0)]
    assert found(problem="p2") == everything[4:8] and found(domain="code") == []
    lengths = {(row["step"], row["sample"]): row["tokens"] for row in read_rollouts(tmp_path)}
    assert found(lengths=(5, 8)) == [place for place, tokens in lengths.items() if 5 <= tokens <= 8]
    first = next(read_rollouts(tmp_path))
    assert (1, 0) in found(text=first["response"].upper()) and found(text="not a letter of these: 5") == []


def test_a_file_that_a_running_stage_deletes_ends_no_reading(tmp_path):
    log = RolloutLog(tmp_path, 2, -1, 0)
    for step in (1, 2):
        log.write(step, "s", batch(step), [], Letters())
    rows = read_rollouts(tmp_path)
    assert next(rows)["step"] == 1
    for step in (3, 4):
        log.write(step, "s", batch(step), [], Letters())
    assert {row["step"] for row in rows} == {1}


def test_a_rollout_and_its_group_come_back_from_a_checkpoint_as_they_were():
    plain = replace(rollout(1, 2, INFRA, truncated=True, fraction=0.25), spans=((3, 4), (5, 1)), decided_by="numeric")
    back = rollout_from_json(json.loads(json.dumps(rollout_to_json(plain))))
    for name in ("prompt", "response", "logprobs"):
        mine, its = getattr(plain, name), getattr(back, name)
        assert mine.dtype == its.dtype and np.array_equal(mine, its)
    arrays = {name: np.zeros(0) for name in ("prompt", "response", "logprobs")}
    assert str(replace(plain, **arrays)) == str(replace(back, **arrays))
    [members] = batch(4)
    for old in (None, tuple(r.logprobs for r in members.rollouts)):
        again = group_from_json(json.loads(json.dumps(group_to_json(replace(members, old_logprobs=old)))))
        assert (again.rewards, again.valid, again.advantages) == (members.rewards, members.valid, members.advantages)
        assert (again.old_logprobs is None) == (old is None)
        assert all(np.array_equal(a, b) for a, b in zip(again.old_logprobs or (), old or (), strict=True))
