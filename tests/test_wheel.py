"""What `pip install ratchet-rl` gives, in a directory of a user whose own files have our names."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

from ratchet.verifiers.domains import DOMAINS

ROOT = Path(__file__).resolve().parents[1]
ONE_STAGE = "[{name: math-24, domain: math, max_response_tokens: 24, steps: 1, prompts_per_batch: 4, rollouts: 4}]"
SHORT = [
    "generate.tiny-world.math_rows=150", "generate.tiny-world.code_rows=60", "generate.tiny-world.benchmark_problems=6",
    "curation.code.validation.max_mutants=2", "curation.math.teacher.attempts=2", "curation.code.teacher.attempts=2",
    "training.warm_start.traces=160", f"training.stages={ONE_STAGE}", "training.hardware.processes=1",
    "evaluation.after=[math-24]", "evaluation.benchmarks.*.samples=2", "evaluation.pass_at=[1, 2]",
]  # fmt: skip


def built(source, out):
    environment = {**os.environ, "DS_BUILD_OPS": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    build = ["-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(out), str(source)]
    subprocess.run([sys.executable, *build], check=True, env=environment, capture_output=True)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out, source = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for folder in settings()["package-dir"].values():  # a copy, so that nothing of an earlier build is packed
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return built(source, out)


@pytest.fixture(scope="module")
def part_wheels(tmp_path_factory):
    """The wheels of the parts that can be installed alone."""
    wheels = {}
    for part in ("verifiers", "data_curation"):
        source = tmp_path_factory.mktemp("source") / part
        shutil.copytree(ROOT / part, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
        wheels[part] = built(source, tmp_path_factory.mktemp("wheel"))
    return wheels


def settings(project="."):
    return tomllib.loads((ROOT / project / "pyproject.toml").read_text())["tool"]["setuptools"]


def environment_with(wheels, home):
    """An interpreter with the wheels in its own site-packages, and the libraries of this one beside it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    python = home / "bin" / "python"
    where = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip())
    for wheel in wheels:
        zipfile.ZipFile(wheel).extractall(site)
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"))  # whose own .pth files are not read: no checkout
    return python


@pytest.fixture(scope="module")
def installed(wheel, part_wheels, tmp_path_factory):
    return environment_with([wheel, *part_wheels.values()], tmp_path_factory.mktemp("environment"))


def test_every_package_is_in_the_wheel(wheel):
    tops = [*settings()["package-dir"].values()]
    folders = {path.parent for top in tops for path in (ROOT / top).rglob("*.py")} | {ROOT / "recipes"}
    named = {"ratchet." + str(folder.relative_to(ROOT)).replace("/", ".") for folder in folders}
    assert set(settings()["packages"]) == named
    inside = set(zipfile.ZipFile(wheel).namelist())
    kept = ("*.py", "*.yaml", "*.html", "*.css", "*.md", "py.typed")
    files = {path.relative_to(ROOT) for top in tops for kind in kept for path in (ROOT / top).rglob(kind)}
    assert {f"ratchet/{file}" for file in files} <= inside
    assert not any(name.startswith(("ratchet/verifiers/", "ratchet/data_curation/")) for name in inside)


@pytest.mark.parametrize("part", ["verifiers", "data_curation"])
def test_every_package_is_in_the_wheel_of_its_part(part, part_wheels):
    top = ROOT / part
    folders = {path.parent.relative_to(top) for path in top.rglob("*.py") if "build" not in path.parts}
    assert set(settings(part)["packages"]) == {".".join(["ratchet", part, *folder.parts]) for folder in folders}
    inside = set(zipfile.ZipFile(part_wheels[part]).namelist())
    files = {path.relative_to(top) for kind in ("*.py", "*.yaml", "py.typed") for path in top.rglob(kind)}
    assert {f"ratchet/{part}/{file}" for file in files if "build" not in file.parts} <= inside


def test_curation_is_a_wheel_of_its_own(part_wheels, tmp_path):
    """The program of its README runs without the rest of Ratchet, and without torch, Prefect and MLflow."""
    python = environment_with(part_wheels.values(), tmp_path / "environment")
    asked = [
        "A farm has 3 cows and twice as many hens. How many animals are on the farm?",
        "What is the remainder when the sum of the first hundred positive integers is divided by 7?",
        "Mia reads 12 pages each evening of a book with 96 pages. After how many evenings has she read half of it?",
    ]
    rows = [{"question": text, "target": target} for text, target in zip(asked, ("9", "3", "4"), strict=True)]
    rows.append({"question": "Which is prime? (A) 4 (B) 6 (C) 7", "target": "C"})
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, rows[0]]))
    (tmp_path / "held_out.json").write_text(json.dumps([{"problem": asked[2], "answer": "4"}]))
    program = re.search(r"```python\n(.*?)```", (ROOT / "data_curation" / "README.md").read_text(), re.DOTALL)[1]
    heavy = "torch, prefect, mlflow, transformers, ratchet.infra"
    code = f"""{program}
import importlib.util, sys, pyarrow.parquet as pq
rules = [row["rule"] for table in (against_rules, contaminated, copies) for row in table.to_pylist()]
assert rules == ["multiple_choice", "ngram", "exact"], rules
columns = pq.read_table("train.parquet").to_pydict()
assert columns["prompt"][0][0]["content"].startswith("A farm has 3 cows") and len(columns["ratchet_problem"]) == 2
loaded = [name for name in {heavy!r}.split(", ") if name in sys.modules]
assert not loaded, loaded
assert importlib.util.find_spec("ratchet.infra") is None
"""
    done = subprocess.run([python, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_verifiers_are_a_wheel_of_their_own(part_wheels, tmp_path):
    """It verifies and judges without the rest of Ratchet, and without torch, Prefect, MLflow, pandas and pyarrow."""
    python = environment_with([part_wheels["verifiers"]], tmp_path / "environment")
    heavy = "torch, prefect, mlflow, pandas, pyarrow, transformers, ratchet.infra"
    program = "```python\nprint(int(input()) + 1)\n```"
    code = f"""
import importlib.util, sys
from ratchet.verifiers import Problem, VerifierPool, equivalent, verify
assert verify(Problem.of("math", answer="1/2"), r"so \\boxed{{0.5}}").passed
assert equivalent("17", "17.0") and not equivalent("17", "74-28-29")
adds = Problem.of("code", tests=[{{"input": "1\\n", "output": "2\\n"}}, {{"input": "5\\n", "output": "6\\n"}}])
with VerifierPool(workers=1) as pool:
    outcomes = [v.outcome.value for v in pool.verify([(adds, {program!r}), (adds, {program!r}.replace("1", "2"))])]
assert outcomes == ["passed", "failed"], outcomes
loaded = [name for name in {heavy!r}.split(", ") if name in sys.modules]
assert not loaded, loaded
assert importlib.util.find_spec("ratchet.infra") is None
"""
    done = subprocess.run([python, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_wheel_of_environments_has_a_module_for_each_domain(tmp_path):
    source = tmp_path / "environments"
    shutil.copytree(ROOT / "environments", source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    inside = zipfile.ZipFile(built(source, tmp_path)).namelist()
    modules = {name.removesuffix(".py") for name in inside if name.endswith(".py")}
    assert modules == {f"ratchet_{name}" for name in (*DOMAINS.shipped, "environments")}


@pytest.mark.slow
def test_the_tiny_recipe_runs_from_a_wheel_among_files_of_our_names(installed, trapped):
    overrides = [argument for setting in SHORT for argument in ("--set", setting)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [installed, "-P", "-m", "ratchet.cli.main", "run", "tiny", *overrides],
        cwd=trapped, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "artifact report/tiny-" in done.stdout and "was imported" not in done.stdout + done.stderr
    logs = "".join(path.read_text() for path in (trapped / ".ratchet" / "logs").glob("*.log"))
    assert "was imported" not in logs and str(ROOT) not in logs


def test_in_a_repository_of_others_the_code_is_that_of_the_wheel(installed):
    """As in `git init; python -m venv .venv; pip install`: the commit is the user's, and says nothing of our code."""
    home, tell = installed.parents[1], "from ratchet.infra.store.versions import code_version; print(code_version())"
    git = ["git", "-C", home, "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "pyvenv.cfg"], ["commit", "-qm", "mine"]):
        subprocess.run([*git, *command], check=True)

    def code_version():
        return subprocess.run(
            [installed, "-P", "-c", tell], cwd=home, capture_output=True, text=True, check=True
        ).stdout

    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    first = code_version()
    assert re.fullmatch(rf"{re.escape(version)}\+wheel\.[0-9a-f]{{12}}\n", first)
    (record,) = home.glob("lib/python*/site-packages/ratchet_rl-*/RECORD")
    before = record.read_text()
    record.write_text(before + "../../../bin/ratchet,sha256=abc,9\nratchet/cli/__pycache__/main.cpython-313.pyc,,\n")
    assert code_version() == first, "of what pip adds, nothing counts"
    record.write_text(before.replace("ratchet/cli/main.py,sha256=", "ratchet/cli/main.py,sha256=0"))
    assert code_version() != first
    record.write_text(before)
