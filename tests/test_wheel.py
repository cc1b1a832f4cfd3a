"""What `pip install ratchet-rl` gives, in a directory of a user whose own files have our names."""

import os
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ONE_STAGE = "[{name: math-24, domain: math, max_response_tokens: 24, steps: 1, prompts_per_batch: 4, rollouts: 4}]"
SHORT = [
    "generate.tiny-world.math_rows=150", "generate.tiny-world.code_rows=60", "generate.tiny-world.benchmark_problems=6",
    "curation.code.validation.max_mutants=2", "curation.math.teacher.attempts=2", "curation.code.teacher.attempts=2",
    "training.warm_start.traces=160", f"training.stages={ONE_STAGE}", "training.hardware.processes=1",
    "evaluation.after=[math-24]", "evaluation.benchmarks.*.samples=2", "evaluation.pass_at=[1, 2]",
]  # fmt: skip


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    environment = {**os.environ, "DS_BUILD_OPS": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    build = ["-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(out), str(ROOT)]
    subprocess.run([sys.executable, *build], check=True, env=environment, capture_output=True)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """An interpreter with the wheel in its own site-packages, and the libraries of this one beside it."""
    home = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    python = home / "bin" / "python"
    where = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip())
    zipfile.ZipFile(wheel).extractall(site)
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"))  # whose own .pth files are not read: no checkout
    return python


@pytest.fixture
def trapped(tmp_path):
    """A directory in which every name of ours is somebody's own."""
    trap = 'raise RuntimeError("a file of the working directory was imported")\n'
    for name in ("cli", "flows", "tasks", "data_curation", "training", "evaluation", "verifiers", "infra", "ratchet"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(trap)
    for name in ("tasks", "recipes", "random", "tokenize", "datasets"):
        (tmp_path / f"{name}.py").write_text(trap)
    return tmp_path


def test_every_package_is_in_the_wheel(wheel):
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    tops = [*settings["package-dir"].values()]
    folders = {path.parent for top in tops for path in (ROOT / top).rglob("*.py")} | {ROOT / "recipes"}
    named = {"ratchet." + str(folder.relative_to(ROOT)).replace("/", ".") for folder in folders}
    assert set(settings["packages"]) == named
    inside = set(zipfile.ZipFile(wheel).namelist())
    kept = ("*.py", "*.yaml", "*.html", "*.css", "*.md", "py.typed")
    files = {path.relative_to(ROOT) for top in tops for kind in kept for path in (ROOT / top).rglob(kind)}
    assert {f"ratchet/{file}" for file in files} <= inside


def test_the_tiny_recipe_runs_from_a_wheel_among_files_of_our_names(installed, trapped):
    overrides = [argument for setting in SHORT for argument in ("--set", setting)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [installed, "-P", "-m", "ratchet.cli.main", "run", "tiny", *overrides],
        cwd=trapped, env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "artifact report/tiny-" in done.stdout and "was imported" not in done.stdout + done.stderr
    logs = "".join(path.read_text() for path in (trapped / ".ratchet" / "logs").glob("*.log"))
    assert "was imported" not in logs and str(ROOT) not in logs
