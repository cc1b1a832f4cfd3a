"""`--dry-run` in every state of a home: it plans, says what a teacher would cost, and changes nothing."""

import json
import re
from pathlib import Path

import pytest

from tests.flows.commands import MINI, in_process
from tests.infra.tiny_endpoint import SolvingEndpoint


def solve(prompt: str) -> str:
    """Right for two problems of three."""
    numbers = [int(number) for number in re.findall(r"\d+", prompt)]
    return f"So \\boxed{{{numbers[0] * numbers[1] + (numbers[0] % 3 == 0)}}}"


@pytest.fixture(scope="module")
def teacher():
    endpoint = SolvingEndpoint(solve)
    yield endpoint
    endpoint.close()


@pytest.fixture
def recipe(tmp_path, teacher) -> Path:
    rows = [
        {"question": f"A crate has {n} boxes of {n + 7} pens each. How many pens is that?", "target": str(n * (n + 7))}
        for n in range(2, 26)
    ]
    for name, some in (("train", rows[:20]), ("test", rows[20:])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some))
    said = {
        "extends": "own-data", "name": "dry", "model": {"path": "./model"},
        "curation": {"math": {
            "inputs": ["train.jsonl"], "benchmarks": ["test.jsonl"],
            "columns": {"prompt": "question", "answer": "target"},
            "length": {"drop_below_tokens": 0, "downsample_below_tokens": 0},
        }},
    }  # fmt: skip
    (tmp_path / "dry.yaml").write_text(json.dumps(said))
    return tmp_path / "dry.yaml"


def asking(url: str, attempts: int = 2, model: str = "solver") -> list[str]:
    facts = f"{{kind: openai, base_url: '{url}', model: {model}, attempts: {attempts}, max_tokens: 64}}"
    return ["--set", f"curation.math.teacher={facts}"]


def everything(home: Path) -> dict[str, int]:
    kept = ("artifacts", "teacher")
    files = (path for name in kept for path in (home / name).rglob("*"))
    return {str(path): path.stat().st_mtime_ns for path in files if path.is_file()}


def test_a_dry_run_with_a_teacher_plans_in_every_state_of_a_home(recipe, teacher, ready_home, served):
    command = ("curate", "math", recipe, "--home", ready_home)

    def plan(*arguments: str) -> str:
        before, asked = everything(ready_home), len(teacher.asked)
        shown = " ".join(in_process(*command, *arguments, "--dry-run").split())
        assert everything(ready_home) == before and len(teacher.asked) == asked
        return shown

    def run(*arguments: str) -> None:
        done = served(*command, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr

    new = plan(*asking(teacher.url))
    assert "steps would run" in new and "to request" not in new, (
        "in a fresh home nobody knows how many problems are left"
    )
    run()  # a first curation, without a teacher
    assert "teacher attempts math: 40 of 40 answers to request;" in plan(*asking(teacher.url))
    run(*asking(teacher.url), "--only", "teacher_attempts")
    assert "to request" not in plan(*asking(teacher.url)), "half done: the attempts are there, the vote is not"
    run(*asking(teacher.url))
    assert "0 of " in plan(*asking(teacher.url))
    assert "math: 20 of 60 answers to request (the others are stored);" in plan(*asking(teacher.url, attempts=3))
    assert "math: 40 of 40 answers to request;" in plan(*asking(teacher.url, model="another"))
    journal = next((ready_home / "teacher").glob("*.jsonl"))
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:10]))  # as a killed run leaves it
    assert "math: 50 of 60 answers to request (" in plan(*asking(teacher.url, attempts=3))
    assert "teacher attempts math" in plan(*asking(teacher.url), "--refresh", "teacher_attempts")


def test_what_on_cpu_sets_is_named_with_training_and_not_with_curation(tmp_path, ready_home, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    recipe = tmp_path / "here.yaml"
    recipe.write_text(json.dumps({"extends": str(MINI), "on_cpu": {"training": {"checkpoint_every": 7}}}))
    curation, training = (
        " ".join(in_process(*command, recipe, "--dry-run", "--home", ready_home).split())
        for command in (("curate", "math"), ("train",))
    )
    named = "`on_cpu` section sets training.checkpoint_every"
    assert "normalize math" in curation and named not in curation
    assert named in training
