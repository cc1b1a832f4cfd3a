"""What a refactoring must not change, compared with files in `golden/`:

- `tiny.json`: every step of a run of `tiny`, with its version, what its key is made of, and the key.
- `plans.txt`: the same, one line a step, of every shipped recipe, planned in an empty home without a network.
- `report.md` and `report.sha256`: a report of two evaluations.
- `mini.txt`: the rows of each data set that a run of the recipe `mini` makes, up to its first training.

A difference means that finished work of existing homes is not found again (`tiny.json`, `plans.txt`, `mini.txt`) or
that a report says something else. If that is meant, raise the step's version where its output changes, and write the
files again:

    python -m pytest tests/flows/test_golden.py --update-golden

Import paths of our own modules, titles of steps and what a plan prints are left out: they may be renamed.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ratchet.evaluation.report import write_report
from ratchet.flows.pipeline import pipeline
from ratchet.flows.runs import plan_run
from ratchet.infra.keys import in_key
from ratchet.infra.recipe.load import load_recipe, shipped_recipes
from ratchet.infra.settings import load_settings
from ratchet.infra.store.artifacts import ArtifactStore, artifact_key
from ratchet.tasks import step as steps
from ratchet.verifiers.errors import RatchetError
from tests.evaluation.test_report import evaluation

GOLDEN = Path(__file__).with_name("golden")
DATA_KINDS = ("raw", "problems", "attempts", "traces")


@pytest.fixture
def matches_golden(request: pytest.FixtureRequest):
    def compare(name: str, text: str) -> None:
        if request.config.getoption("--update-golden", default=False):
            (GOLDEN / name).write_text(text, encoding="utf-8")
        before = (GOLDEN / name).read_text(encoding="utf-8").splitlines()
        assert text.splitlines() == before, f"{name} differs: see the top of {Path(__file__).name}"

    return compare


@pytest.fixture(autouse=True)
def no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is on the Hub, in its cache or in the working directory; no GPU is seen."""
    for name in ("HF_HUB_CACHE", "HF_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.chdir(tmp_path)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def without_import_paths(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_import_paths(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [without_import_paths(inner) for inner in value]
    return "(of ratchet)" if isinstance(value, str) and value.startswith("ratchet.") else value


def planned_keys(recipe: str, home: Path) -> list[dict[str, Any]]:
    """What the keys of a plan are made of. The inputs are named: only a changed step changes its line."""
    planned: dict[str, dict[str, Any]] = {}

    def recorded(step: str, version: int, name: str, parameters: Any, inputs: Any, whole: Any, own: Any) -> str:
        key = artifact_key(step, version, name, parameters, inputs, whole, own)
        names = {facts["key"]: f"{facts['step']} {facts['name']}" for facts in planned.values()}
        planned[key] = {
            "step": step, "version": version, "name": name, "parameters": without_import_paths(in_key(parameters)),
            "inputs": [names.get(each.key, each.name) + " (whole)" * (each in whole) for each in inputs],
            "own_code": dict(own), "key": key,
        }  # fmt: skip
        return key

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "artifact_key", recorded)
        settings = load_recipe(recipe)
        with plan_run(settings, load_settings(str(home))) as run:
            pipeline(run)
    return list(planned.values())


def lines_of(recipe: str, home: Path) -> Iterator[str]:
    try:
        planned = planned_keys(recipe, home)
    except RatchetError:  # a file of the user's own
        yield "cannot be planned without files of one's own"
        return
    for facts in planned:
        made_of = digest(json.dumps([facts["parameters"], facts["inputs"], facts["own_code"]], sort_keys=True))
        yield f"{facts['step']} {facts['version']} {facts['name']} {made_of}"


def test_keys_of_tiny(tmp_path, matches_golden):
    planned = planned_keys("tiny", tmp_path / "home")
    assert {facts["step"] for facts in planned} >= {"generate", "normalize", "curated", "train", "evaluate", "report"}
    matches_golden("tiny.json", json.dumps(planned, indent=1, ensure_ascii=False) + "\n")


def test_plans_of_all_shipped_recipes(tmp_path, matches_golden):
    plans = {recipe: list(lines_of(recipe, tmp_path / "home")) for recipe in shipped_recipes()}
    text = sorted(f"{digest(line)[:6]} {line}" for line in {line for plan in plans.values() for line in plan})
    # Each step once: ablations share most of them.
    text += [f"{recipe}: {' '.join(digest(line)[:6] for line in plan)}" for recipe, plan in plans.items()]
    matches_golden("plans.txt", "\n".join(text) + "\n")


def test_a_report(tmp_path, matches_golden):
    chosen = [(label, evaluation(tmp_path, label, skill)) for label, skill in (("start", 0.3), ("math-8k", 0.7))]
    files = write_report(chosen, tmp_path / "report", title="golden", origin={"recipe": "golden"})
    written = {file.name: file.read_text(encoding="utf-8") for file in files if file.suffix in (".md", ".html", ".csv")}
    texts = {name: text.replace(str(tmp_path), "HOME") for name, text in written.items()}
    assert {"report.html", "report.md", "questions.csv"} <= texts.keys()
    matches_golden("report.md", texts["report.md"])
    drawn = re.compile(r"data:[a-z/+]+;base64,[A-Za-z0-9+/=]+")  # Matplotlib's, whose version may differ
    hashes = [f"{name} {digest(drawn.sub('(image)', text))}\n" for name, text in sorted(texts.items())]
    matches_golden("report.sha256", "".join(hashes))


def test_rows_of_a_run_of_mini(finished_home, matches_golden):
    lines = []
    for artifact in ArtifactStore(load_settings(str(finished_home)).artifacts).all("*/*"):
        if artifact.kind in DATA_KINDS:
            tables = {file.name: pq.read_table(file) for file in sorted(artifact.path.glob("*.parquet"))}
            for name, table in tables.items():
                rows = digest(json.dumps(table.to_pylist(), default=str))
                lines.append(f"{artifact.kind}/{artifact.name} {name} {len(table)} {rows}")
    matches_golden("mini.txt", "\n".join(sorted(set(lines))) + "\n")
