"""`ratchet new`: what it writes passes its own tests and is what the product loads."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.cli.new import KINDS, new
from ratchet.data_curation.rules import OTHER_RULES
from ratchet.data_curation.steps import STEPS
from ratchet.infra.recipe.evaluation import Benchmark, Catalog
from ratchet.training.losses import LOSSES
from ratchet.verifiers.domains import DOMAINS
from ratchet.verifiers.errors import RatchetError
from tests.flows.commands import in_process

LOADED = {"rule": OTHER_RULES, "step": STEPS, "domain": DOMAINS, "loss": LOSSES}
MEMBER = {"rule": "fresh_rule", "step": "FreshStep", "domain": "FreshDomain", "loss": "fresh_loss"}


@pytest.fixture(scope="module")
def skeletons(tmp_path_factory):
    """A folder with a skeleton of each kind, and what their tests said, all in one process."""
    folder = tmp_path_factory.mktemp("skeletons")
    for kind in KINDS:
        new(kind, f"fresh_{kind}", folder)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-rp", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", folder],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder, ran.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_a_skeleton_passes_its_tests_and_is_loaded(skeletons, monkeypatch, kind):
    whole, said = skeletons
    folder = whole / f"fresh_{kind}"
    assert f"PASSED fresh_{kind}/" in said
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


def test_a_domain_is_tried_where_it_was_written(tmp_path, monkeypatch):
    """Without a network, an installation or a recipe of one's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    new("domain", "sea_tides")
    with pytest.raises(RatchetError, match=r"has no domain 'SeaTides'.* not installed: `pip install -e \S+sea_tides`"):
        in_process("verify", "sea_tides:SeaTides", "--gold", "2 3", "--response", "2")
    monkeypatch.chdir(tmp_path / "sea_tides")
    monkeypatch.setattr(sys, "path", [*sys.path])
    sys.modules.pop("sea_tides")  # the folder
    in_process("verify", "sea_tides:SeaTides", "--input", "train.jsonl", "--output", "judged.jsonl")
    judged = [json.loads(line) for line in Path("judged.jsonl").read_text().splitlines()]
    assert [row["outcome"] for row in judged] == ["passed"] * 4
    preview = in_process("curate", "sea_tides", "sea_tides.yaml", "--check", "train.jsonl")
    assert "nothing is read from (kept in the metadata): response" in preview
    assert "13 of 13 steps would run" in in_process("run", "sea_tides.yaml", "--dry-run", "--home", tmp_path / "home")
    with pytest.raises(RatchetError, match="There is no curation step 'sea_tides'"):  # a module without one
        STEPS.get("sea_tides")
