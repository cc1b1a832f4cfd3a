"""The page on own domains in a directory of its own, with models that answer right and models that answer wrong."""

import json
import re
import shlex
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from ratchet.flows.curate import curated_problems
from ratchet.infra.recipe.load import load_recipe
from ratchet.infra.settings import load_settings
from ratchet.tasks.plan import Plan
from ratchet.verifiers.errors import RatchetError
from tests.docs.commands import fenced
from tests.flows.commands import in_process
from tests.infra.tiny_endpoint import SolvingEndpoint


def solved(prompt: str) -> str:
    """A right answer to any Countdown of the page."""
    target, *numbers = (int(number) for number in re.findall(r"-?\d+", prompt.partition(". Use")[0]))
    a, b, c = next((a, b, c) for a, b, c in permutations(numbers) if a + b - c == target)
    return f"First I add. <answer>{a} + {b} - {c}</answer>"


def missed(prompt: str) -> str:
    return solved(prompt).replace(" - ", " + 1 - ")


def is_hard(prompt: str) -> bool:
    """Half of the problems: those that the teacher and the policy below answer wrong."""
    return int(re.findall(r"-?\d+", prompt)[0]) % 2 == 1


@pytest.fixture
def endpoint():
    endpoint = SolvingEndpoint(lambda prompt: missed(prompt) if is_hard(prompt) else solved(prompt))
    yield endpoint.url
    endpoint.close()


@pytest.fixture
def lab(tmp_path):
    (tmp_path / "lab").mkdir()
    [source] = fenced("tutorials/own_domain.md", "python")
    assert len(source.splitlines()) <= 60
    (tmp_path / "lab" / "countdown.py").write_text(source)
    recipe = fenced("tutorials/own_domain.md", "yaml")[0].replace("train: 200, test: 20", "train: 24, test: 4")
    (tmp_path / "lab" / "countdown.yaml").write_text(recipe.replace("batch: 16", "batch: 8"))
    return tmp_path / "lab"


def test_an_own_domain_is_judged_planned_and_exported_like_a_shipped_one(lab, ready_home, served, endpoint, tmp_path):
    teacher = {"kind": "openai", "base_url": endpoint, "model": "solver", "attempts": 2, "max_tokens": 64}
    recipe, home = lab / "taught.yaml", ("--home", ready_home)
    curation = {"teacher": teacher, "max_difficulty": 0, "advanced": {"max_rejected": 1.0}}
    said = {"extends": "countdown.yaml", "name": "taught", "curation": {"countdown": curation}}
    recipe.write_text(yaml.safe_dump(said))

    def ran(*arguments, **environment):
        done = served(*arguments, *home, **environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return " ".join(done.stdout.split())

    ran("curate", "countdown", recipe)
    asked = pq.read_table(newest(ready_home, "countdown-decontaminate") / "kept.parquet").column("prompt").to_pylist()
    easy = [prompt for prompt in asked if not is_hard(prompt)]
    kept = pq.read_table(newest(ready_home, "countdown-difficulty") / "kept.parquet").column("prompt").to_pylist()
    assert sorted(kept) == sorted(easy) and 0 < len(easy) < len(asked) == 24, "the teacher's answers are judged"
    held_out = next((ready_home / "artifacts" / "raw").glob("made-*/test.jsonl")).read_text().splitlines()
    questions = [json.loads(line)["question"] for line in held_out]
    score = sum(not is_hard(question) for question in questions) / len(questions)
    evaluate = ("evaluate", recipe, "--model", f"{endpoint}#solver")
    no_job = {"RATCHET_SLURM": str(lab / "no head of scripts")}  # an endpoint's evaluation is none
    assert f"countdown-test pass@1 {score:.3f}" in ran(*evaluate, **no_job)
    assert "countdown-32" in in_process("plan", recipe, *home)
    assert "countdown-32" in in_process("train", recipe, "--dry-run", *home)
    exported = in_process("export", "runs", recipe, "--for", "verl", "--output", tmp_path / "runs", *home)
    assert " ".join(exported.split()) == f"01-countdown-32: {len(easy)} rows, 37 overrides"
    problems = f"problems/{newest(ready_home, 'countdown-curated').name}"
    export = ("export", "problems", problems, "--format", "verl", "--output", tmp_path / "out", *home)
    with pytest.raises(RatchetError, match="'countdown' is a domain of its own: name the recipe that declares it"):
        in_process(*export)
    with pytest.raises(RatchetError, match="There is no domain 'countdown' in tiny: give the recipe that declares it"):
        in_process(*export, "--recipe", "tiny")
    assert not (tmp_path / "out").exists()
    said = " ".join(in_process(*export, "--recipe", recipe).split())
    variables = said.partition("For the trainer: export ")[2]
    assert f"export {variables}" in (tmp_path / "out" / "README.md").read_text()
    assert f"export {variables}" in (tmp_path / "runs" / "run.sh").read_text()
    assert trained_elsewhere(tmp_path / "out" / "train.parquet", variables) == [[1.0, 0.0, 0.0, 0.0, 0.0]] * len(easy)
    loaded, settings = load_recipe(recipe), load_settings(ready_home)
    plan = Plan(loaded, settings, curated=curated_problems(loaded, settings))
    assert plan.prompts(plan.training.stages[0]) == len(easy), "those that this home has, once they are curated"


def newest(home, name):
    return max((home / "artifacts" / "problems").glob(f"{name}-*"), key=lambda path: path.stat().st_mtime_ns)


def trained_elsewhere(file, variables):
    """The rewards of verl's adapter in a process that has nothing but these variables: of a right answer to each row,
    a wrong one, a part of the right one, the target alone, and a program."""
    rows = []
    for row in pq.read_table(file).to_pylist():
        prompt = row["prompt"][0]["content"]
        target, right = re.findall(r"-?\d+", prompt)[0], solved(prompt)
        others = [re.sub(" - .*<", "<", right), f"<answer>{target}</answer>", "<answer>print()</answer>"]
        rows.append([row["extra_info"], right, missed(prompt), *others])
    code = """if True:
        import json, sys
        from ratchet.verifiers.adapters.verl import compute_scores
        rows = json.load(sys.stdin)
        facts = [extra for extra, *texts in rows for _ in texts]
        scores = compute_scores([""] * len(facts), [text for _, *texts in rows for text in texts], facts, facts)
        print(json.dumps([scores[n : n + 5] for n in range(0, len(scores), 5)]))
    """
    command = f"env {variables} {shlex.quote(sys.executable)} -P -c {shlex.quote(code)}"
    done = subprocess.run(["bash", "-c", command], input=json.dumps(rows, default=str), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_dry_run_tries_score_on_the_first_rows(tmp_path, monkeypatch, typed):
    monkeypatch.chdir(tmp_path)
    in_process("new", "domain", "flags")
    monkeypatch.chdir(tmp_path / "flags")
    source, recipe = Path("flags.py").read_text(), Path("flags.yaml").read_text()
    with Path("train.jsonl").open("a") as rows:
        rows.write('{"question": "Which?"\n')

    def planned(code, module):
        Path(f"{module}.py").write_text(code)
        Path(f"{module}.yaml").write_text(recipe.replace("flags:Flags", f"{module}:Flags"))
        done = typed("run", f"{module}.yaml", "--dry-run", "--home", tmp_path / "home")
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    code, said = planned(source, "flags")
    assert code == 0 and "The domain flags: 3 of the first 3 references pass" in said
    assert "! train: 1 of 5 rows: line: not valid JSON" in said
    line = next(number for number, line in enumerate(source.splitlines(), 1) if "problem.answer" in line)
    code, said = planned(source.replace("problem.answer", "problem.answr"), "misspelled")
    assert code == 2
    assert re.search(f"row 0: cannot be judged, flags.score raised AttributeError: .*misspelled.py, line {line}", said)
    own = "\n    def reference(self, problem):\n        return problem.nothing\n"
    code, said = planned(source + own, "unreferenced")
    assert code == 2 and "flags.reference raised AttributeError: 'Problem' object has no attribute 'nothing'" in said
    code, said = planned(source.replace("templates", "template"), "unasked")
    assert code == 2 and "The domain unasked:Flags has no templates" in said
    code, said = planned(re.sub(r"return .*", "return 1.0", source), "lenient")
    assert code == 0 and "! The domain flags: an empty answer passes" in said
