import json

from ratchet.training.step_logs import StepLog


def steps(path) -> list[int]:
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


def test_a_resumed_journal_goes_back_to_its_checkpoint(tmp_path):
    path = tmp_path / "metrics.jsonl"
    journal = StepLog(path, last_step=0, rank=0)
    for step in range(1, 6):
        journal.write({"step": step})
    with open(path, "a") as file:
        file.write('{"step": 6, "half')  # what a kill leaves
    resumed = StepLog(path, last_step=3, rank=0)
    assert steps(path) == [1, 2, 3]
    pending = [{"step": 4}, {"step": 4}]
    resumed.take(pending)
    assert steps(path) == [1, 2, 3, 4, 4] and pending == []


def test_a_line_cut_in_the_middle_is_not_a_record(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2, "half')
    StepLog(path, last_step=9, rank=0).write({"step": 2})
    assert steps(path) == [1, 2]


def test_only_rank_zero_writes(tmp_path):
    journal = StepLog(tmp_path / "metrics.jsonl", last_step=0, rank=1)
    journal.write({"step": 1})
    journal.sync()
    assert list(tmp_path.iterdir()) == []
