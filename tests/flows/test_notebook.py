"""The notebooks of the documentation, each run in order in one Python process: one on the home of a finished run, one
that draws the declared experiments again."""

import json
import os
import subprocess
import sys

import pytest

from tests.flows.commands import ROOT

CHECKS = {
    "finished_run": """
assert set(scores.name) >= {"start", "code-32"} and set(benchmarks) == {"mini-math", "mini-code"}
assert scores.pass_at_2.ge(scores.pass_at_1).all() and {1, 2} == set(curves.k)
assert list(curriculum.stage) == ["math-24", "math-24", "code-32", "code-32"] and list(starts) == [1, 3]
assert len(pairs) == 12 and len(responses) == 12 and metrics == ["reward", "response_tokens", "entropy"]
assert home.problems("math-curated").metadata.map(type).eq(dict).all()
assert {"rule", "evidence"} <= set(home.problems("math-curated", rejected=True))
assert home.runs().steps.iloc[0] > 20
assert len(plt.get_fignums()) == 3
""",
    "findings": """
kept = [one for facts in families.values() for one in facts["results"].values()]
assert len(effects) == len(kept) > 2 and len(seeds) == sum(len(one["seeds"]) for one in kept)
drawn = {family for family, facts in families.items() if any("difference" in one for one in facts["results"].values())}
assert len(plt.get_fignums()) >= 2 * len(drawn), plt.get_fignums()
lines = [axes.lines for number in plt.get_fignums() for axes in plt.figure(number).axes]
assert sum(map(len, lines)) >= len(seeds.dropna(subset="arm"))
""",
}


@pytest.mark.parametrize("name", CHECKS)
def test_a_notebook_runs_and_has_no_outputs(name, finished_home):
    cells = json.loads((ROOT / "docs" / "notebooks" / f"{name}.ipynb").read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    program = "\n".join("".join(cell["source"]) for cell in code) + CHECKS[name]
    environment = {**os.environ, "RATCHET_HOME": str(finished_home), "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error::FutureWarning", "-c", program],
        cwd=ROOT, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "--- " in done.stdout or name == "findings"
