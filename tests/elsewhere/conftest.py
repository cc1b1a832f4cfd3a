"""Other trainers, each in an environment of its own: RATCHET_TRL_PYTHON and so on name its interpreter, which has the
trainer and ratchet-verifiers. Where there is none, its tests are skipped."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.exports import EXPORTS, Source
from ratchet.verifiers.problem import Problem

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def peer():
    """Runs a program of this directory with a trainer's interpreter, and returns what it printed last, as JSON."""

    def run(library: str, program: str, *arguments: object, **environment: str):
        variable = f"RATCHET_{library.upper()}_PYTHON"
        python = os.environ.get(variable) or (sys.executable if importlib.util.find_spec(library) else None)
        if python is None:
            pytest.skip(f"{library} is not installed; {variable} can name an interpreter that has it")
        command = [python, str(HERE / program), *map(str, arguments)]
        own = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **os.environ, **environment}
        done = subprocess.run(command, capture_output=True, text=True, env=own)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
        return json.loads(done.stdout.strip().splitlines()[-1])

    return run


PROBLEMS = [
    *(Problem.of("math", f"What is {n} + {n}?", answer=str(2 * n)) for n in range(6)),
    *(
        Problem.of(
            "code", f"Add {n} to the number.", tests=[{"input": f"{k}\n", "output": f"{k + n}\n"} for k in range(3)],
            time_limit_s=2.0,
        )
        for n in range(6)
    ),
    Problem.of("instructions", "Write.", tests=[{"id": "punctuation:no_comma", "kwargs": {}}]),
    Problem("s", "science", "Which?", answer="B", tests='{"options": ["one", "two"]}'),
]  # fmt: skip


@pytest.fixture
def exported(tmp_path):
    """Writes problems in a format; returns the file."""

    def write(name: str, problems=PROBLEMS, **source) -> Path:
        rows = [EXPORTS[name].row(Source(problem, number, **source)) for number, problem in enumerate(problems)]
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=EXPORTS[name].schema), path)
        return path

    return write
