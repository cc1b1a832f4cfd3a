"""The notebook that draws the declared experiments again, run in order in one Python process."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "docs" / "notebooks" / "findings.ipynb"
CHECKS = """
kept = [one for facts in families.values() for one in facts["results"].values()]
assert len(effects) == len(kept) > 2 and len(seeds) == sum(len(one["seeds"]) for one in kept)
drawn = {family for family, facts in families.items() if any("difference" in one for one in facts["results"].values())}
assert len(plt.get_fignums()) >= 2 * len(drawn), plt.get_fignums()
lines = [axes.lines for number in plt.get_fignums() for axes in plt.figure(number).axes]
assert sum(map(len, lines)) >= len(seeds.dropna(subset="arm"))
"""


def test_the_notebook_draws_every_experiment_and_has_no_outputs():
    code = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    program = "\n".join("".join(cell["source"]) for cell in code) + CHECKS
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=ROOT, env=os.environ | {"MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
