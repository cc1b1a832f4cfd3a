"""The kit for a GPU, on a CPU: every part runs, and its table has their rows."""

from benchmarks import gpu_proof


def test_every_part_runs_on_a_small_model(alone, tmp_path):
    gpu_proof.main(["--tiny", "--write", str(tmp_path / "table.md")])
    table = (tmp_path / "table.md").read_text()
    assert "failed" not in table and "no time was left" not in table and "NOT" not in table
    rows = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")][1:]
    assert len([row for row in rows if row.startswith("attention")]) == 8
    assert rows[-7:] == [
        "training step", "training step", "decoding against the trainer, float32 logits",
        "decoding against the trainer, rounded logits", "bfloat16 against float32", "checkpoint written",
        "checkpoint read",
    ]  # fmt: skip


def test_what_fails_is_a_row_and_the_rest_goes_on(alone, tmp_path, monkeypatch):
    def broken(*_):
        raise RuntimeError("no kernel")

    monkeypatch.setattr(gpu_proof.ChunkedLogProbabilities, "apply", broken)
    gpu_proof.main(["--tiny", "--write", str(tmp_path / "table.md")])
    table = (tmp_path / "table.md").read_text()
    assert "| log-probabilities |  |  |  |  | failed: RuntimeError: no kernel |" in table
    assert "| attention, packed, one sequence | 64 |" in table
