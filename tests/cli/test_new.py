"""`ratchet new`: what it writes passes its own tests and is what the product loads."""

import os
import subprocess
import sys

import pytest

from ratchet.cli.new import KINDS, new
from ratchet.data_curation.rules import OTHER_RULES
from ratchet.data_curation.steps import STEPS
from ratchet.infra.recipe.evaluation import Benchmark, Catalog
from ratchet.training.losses import LOSSES
from ratchet.verifiers.domains import DOMAINS
from ratchet.verifiers.errors import RatchetError

LOADED = {"rule": OTHER_RULES, "step": STEPS, "domain": DOMAINS, "loss": LOSSES}
MEMBER = {"rule": "fresh_rule", "step": "FreshStep", "domain": "FreshDomain", "loss": "fresh_loss"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_skeleton_passes_its_tests_and_is_loaded(tmp_path, monkeypatch, kind):
    new(kind, f"fresh_{kind}", tmp_path)
    folder = tmp_path / f"fresh_{kind}"
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", folder, folder],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0 and "passed" in ran.stdout, ran.stdout + ran.stderr
    monkeypatch.syspath_prepend(folder)
    path = f"fresh_{kind}:{MEMBER.get(kind, 'BENCHMARK')}"
    assert f'fresh_{kind} = "{path}"' in (folder / "pyproject.toml").read_text()
    if kind == "benchmark":
        facts = folder / "fresh-1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: fresh\nVersion: 1.0\n")
        (facts / "entry_points.txt").write_text(f"[ratchet.benchmarks]\nfresh_benchmark = {path}\n")
        catalog = Catalog()
        assert "fresh_benchmark" in [*catalog] and Benchmark(name="x", **catalog["fresh_benchmark"]).samples == 4
        assert "no_benchmark" not in catalog and catalog.get("no_benchmark") is None
    else:
        assert LOADED[kind].get(path).__name__ == MEMBER[kind]


@pytest.mark.parametrize(
    ("kind", "name", "named"), [("rul", "a_rule", "rule"), ("rule", "A-rule", "A-rule"), ("rule", "there", "there")]
)
def test_wrong_requests_are_named(tmp_path, kind, name, named):
    (tmp_path / "there").mkdir()
    with pytest.raises(RatchetError, match=named):
        new(kind, name, tmp_path)
