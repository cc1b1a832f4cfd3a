"""Faults are planted at night; here, that each can still be planted."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def check(directory: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *command, "--check"], cwd=directory, capture_output=True, text=True)


def test_every_fault_fits_the_code(tmp_path):
    done = check(ROOT, "benchmarks.planted_faults")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_fault_of_a_rehearsal_can_be_planted_and_names_a_mechanism_of_its_recipe(tmp_path):
    done = check(ROOT, "benchmarks.rehearsal_faults", str(tmp_path))
    assert done.returncode == 0, done.stderr


def test_a_fault_that_no_longer_fits_is_told(tmp_path):
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "code.py").write_text("a = a\nb = 2\n")
    script = tmp_path / "benchmarks" / "planted_faults.py"
    script.write_text((ROOT / "benchmarks" / "planted_faults.py").read_text())
    faults = {("absent", ""): "0 times", ("a", ""): "2 times", ("b = 2", "b = "): "not valid Python"}
    lines = [
        f"- {{name: fault {n}, file: code.py, old: '{old}', new: '{new}', tests: []}}\n"
        for n, (old, new) in enumerate(faults)
    ]
    script.with_suffix(".yaml").write_text("".join(lines))
    done = check(tmp_path, "benchmarks.planted_faults")
    assert done.returncode == 2 and "0 of 3 faults fit" in done.stdout
    assert all(says in done.stdout for says in faults.values())
