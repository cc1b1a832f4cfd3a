"""The notebook of the documentation, run in order in one Python process on the home of a finished run."""

import json
import os
import subprocess
import sys

from tests.flows.commands import ROOT

NOTEBOOK = ROOT / "docs" / "notebooks" / "finished_run.ipynb"
CHECKS = """
assert set(scores.name) >= {"start", "code-32"} and set(benchmarks) == {"mini-math", "mini-code"}
assert scores.pass_at_2.ge(scores.pass_at_1).all() and {1, 2} == set(curves.k)
assert list(curriculum.stage) == ["math-24", "math-24", "code-32", "code-32"] and list(starts) == [1, 3]
assert len(pairs) == 12 and len(responses) == 12 and metrics == ["reward", "response_tokens", "entropy"]
assert home.problems("math-curated").metadata.map(type).eq(dict).all()
assert {"rule", "evidence"} <= set(home.problems("math-curated", rejected=True))
assert home.runs().steps.iloc[0] > 20
print(len(plt.get_fignums()), "figures")
"""


def test_the_notebook_runs_on_a_finished_home_and_has_no_outputs(finished_home):
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    program = "\n".join("".join(cell["source"]) for cell in code) + CHECKS
    environment = {**os.environ, "RATCHET_HOME": str(finished_home), "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error::FutureWarning", "-c", program],
        cwd=ROOT, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("3 figures\n") and "--- " in done.stdout
