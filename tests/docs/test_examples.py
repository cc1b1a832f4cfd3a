"""The code and the recipes of the how-to pages, as they stand there."""

import json
import os
import re
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from ratchet.data_curation.base.protocol import Request, Sampling
from ratchet.data_curation.base.teacher_engine import TEACHERS
from ratchet.data_curation.rules.patterns import PATTERNS, AnyOf, find
from ratchet.data_curation.settings.curation import Rules
from ratchet.data_curation.settings.teacher import Teacher
from ratchet.infra.inference.engine import chosen_engine
from ratchet.infra.recipe.evaluation import Evaluation
from ratchet.infra.recipe.interventions import Intervention
from ratchet.infra.recipe.training import Stage
from ratchet.verifiers.instructions.ifbench import IFBENCH
from ratchet.verifiers.instructions.ifeval import IFEVAL
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.registry import IMPORT_PATH
from tests.data_curation.conftest import problems
from tests.data_curation.rules import labeled as corpus
from tests.docs.commands import PAGES, ROOT, fenced
from tests.infra.tiny_endpoint import grow_model


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """Puts a module beside a recipe, where import paths are looked up."""
    monkeypatch.setenv(IMPORT_PATH, str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path])

    names = []

    def put(name: str, text: str) -> Path:
        names.append(name)
        (tmp_path / f"{name}.py").write_text(text)
        return tmp_path

    yield put
    for name in names:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_is_fenced_as_yaml_is_yaml(page):
    for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        assert yaml.safe_load(block)


def test_the_teacher_of_the_page_on_engines_answers(beside):
    model = grow_model(beside("local_teacher", fenced("howto/engine.md", "python")[0]))
    said = yaml.safe_load(fenced("howto/engine.md", "yaml")[0])["curation"]["math"]["teacher"]
    settings = Teacher(**said | {"model": str(model)})
    asked = [Request(n, n, messages=({"role": "user", "content": "1 + 1?"},)) for n in range(3)]
    answers = list(TEACHERS.get(settings.kind).for_teacher(settings).generate(asked, Sampling(max_tokens=8)))
    assert sorted(answer.key for answer in answers) == [0, 1, 2] and all(answer.tokens for answer in answers)


def test_the_policy_engine_of_the_page_has_its_own_setting(beside):
    model = grow_model(beside("gentle", fenced("howto/engine.md", "python")[1]))
    engine = chosen_engine(yaml.safe_load(fenced("howto/engine.md", "yaml")[1])["training"]["engine"])
    opened = engine.open_for_evaluation(str(model), "float32", 64, 0)
    assert opened.batch_size == 4


def test_the_rule_of_the_page_takes_what_its_corpus_says(monkeypatch):
    for sign, some in yaml.safe_load(fenced("../CONTRIBUTING.md", "yaml")[0]).items():
        monkeypatch.setitem(PATTERNS, sign, AnyOf(*(each["find"] for each in some.values())))
        assert all(find(sign, each["hits"]) and not find(sign, each["misses"]) for each in some.values())
    (own,), (shipped,) = fenced("howto/rule.md", "python"), fenced("../CONTRIBUTING.md", "python")
    rows = [yaml.safe_load(line) for line in fenced("../CONTRIBUTING.md", "json")[0].splitlines()]
    for source in (own, "from ratchet.data_curation.rules.math_rules import *\n" + shipped):  # at the end of that file
        names = {}
        exec(source, names)
        for row in rows:
            found = names[row["rule"]](Problem("id", row["domain"], row["text"]), Rules())
            assert bool(found) == row["takes"]
            assert not found or row["text"][slice(*found["span"])] == found["text"]
    assert set(rows[0]) <= {"domain", "rule", "takes", "half", "note", "text", *corpus.COLUMNS}


def test_the_steps_of_the_page_drop_what_is_short_and_what_is_frequent(beside, monkeypatch):
    from ratchet.data_curation.steps import StepContext, run_steps

    one, all_rows, program = fenced("howto/step.md", "python")
    beside("drop_frequent", all_rows)
    monkeypatch.chdir(beside("drop_short", one))
    listed = yaml.safe_load(fenced("howto/step.md", "yaml")[0])["curation"]["math"]["steps"]
    (short,) = (each for each in listed if isinstance(each, dict))
    rows = problems("short", "What is 2 + 2?", *(f"A farm has {n} cows and four hens. How many?" for n in "012"))
    context = StepContext(domain="math")
    splits = run_steps(rows, [short, {"drop_frequent:DropFrequent": {"most": 1}}], context)
    assert json.loads(splits[0].rejected["evidence"][0].as_py()) == {"words": 5, "limit": 8}
    assert splits[1].kept.num_rows == 1 and splits[1].rejected["rule"].to_pylist() == ["frequent_answer"] * 2
    rows = [{"problem": f"What is {n} times the sum of 3 and 4?", "answer": "7"} for n in range(2)]
    Path("train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    names = {}
    exec(program, names)
    assert [split.kept.num_rows for split in names["splits"]] == [2, 2]


def test_the_recipes_of_the_pages_are_valid_sections():
    evaluation = yaml.safe_load(fenced("howto/benchmark.md", "yaml")[0])["evaluation"]
    assert Evaluation.model_validate(evaluation).benchmarks[0].advanced.questions == 30
    said = yaml.safe_load(fenced("howto/not_learning.md", "yaml")[0])["interventions"]
    assert [Intervention.model_validate(each) for each in said]


def test_the_page_on_runs_that_do_not_learn_has_every_alarm():
    table = (ROOT / "docs/howto/not_learning.md").read_text().partition("## Where")[0]
    alarms = re.findall(
        r'^ +\w+\[f?"(?:\{prefix\})?(\w+)"\] = ', (ROOT / "training/alarms.py").read_text(), re.MULTILINE
    )
    assert sorted(set(alarms)) == sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) != []


def test_the_loss_and_the_advantage_of_the_page_prefer_what_was_rewarded(beside):
    """A step down the loss makes the tokens of the better response likelier and those of the worse one not."""
    import torch

    from ratchet.training.advantages import ADVANTAGES, GroupRewards
    from ratchet.training.losses import LOSSES
    from ratchet.training.losses.loss import LossInputs

    beside("my_losses", fenced("howto/loss.md", "python")[0])
    settings = Stage(name="s", mix={"math": 1.0}, max_response_tokens=8, steps=1)
    advantages = ADVANTAGES.get("my_losses:max_rl")([GroupRewards((1.0, 0.0), (2, 3))], settings).values
    assert advantages == [[1.0, -1.0]]
    logprobs = torch.full((5,), -1.0, requires_grad=True)
    old = logprobs.detach().clone()
    inputs = LossInputs(logprobs, old, old, None, torch.tensor([1.0, 1, -1, -1, -1]), torch.ones(5), (2, 3))
    LOSSES.get("my_losses:better_only")(inputs, settings).values.sum().backward()
    right, wrong = logprobs.grad.split((2, 3))
    assert (right < 0).all() and (wrong >= 0).all()


def test_the_decontamination_of_the_page_drops_what_is_held_out(tmp_path, monkeypatch):
    text = "In how many ways can seven distinct books be placed on two shelves of a library?"
    pq.write_table(pa.table({"problem": [text, "What is 3 times 4?"]}), tmp_path / "train.parquet")
    for name in ("math500", "aime24"):
        (tmp_path / f"{name}.json").write_text(json.dumps([{"problem": text, "answer": "1"}]))
    monkeypatch.chdir(tmp_path)
    names = {}
    (snippet,) = [
        block for block in fenced("explanation/decontamination.md", "python") if "decontaminate_files" in block
    ]
    exec(snippet, names)
    assert names["summary"]["dropped"]["ngram"] == 1 and (tmp_path / "clean" / "kept.parquet").is_file()


DOMAINS = ["reference/math_verifier.md", "reference/code_judge.md", "reference/science.md", "reference/instructions.md"]


@pytest.mark.parametrize("page", DOMAINS)
def test_the_snippet_of_a_domain_asserts_what_it_says(page):
    (snippet,) = fenced(page, "python")
    exec(snippet, {})


def test_every_block_of_python_is_run_by_a_test():
    """By its page's name in a test; blocks that no test can run are marked `no-run` on the page."""
    sources = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    pages = [page for page in PAGES if re.search(r"^```python\n", page.read_text(), re.MULTILINE)]
    assert [page.name for page in pages if f'{os.path.relpath(page, ROOT / "docs")}"' not in sources] == []


def test_the_messages_that_the_page_on_errors_lists_are_in_the_code():
    page = (ROOT / "docs/howto/troubleshooting.md").read_text()
    shown = re.findall(r"^\| (.*?) \|", page, re.MULTILINE)
    messages = [text for row in shown for text in re.findall(r"`([^`]+)`", row)]
    folders = ["cli", "data_curation", "evaluation", "flows", "infra", "rehearsal", "tasks", "training", "verifiers"]
    sources = [path.read_text() for folder in folders for path in (ROOT / folder).rglob("*.py")]
    whole = re.sub(r"\{[^{}]*\}", "…", re.sub(r'"\s+f?"', "", "\n".join(sources))) + (ROOT / "Makefile").read_text()
    missing = [text for text in messages if text not in whole]
    assert len(messages) > 30 and missing == []


def test_every_kind_of_instruction_has_its_sentence():
    words = yaml.safe_load((ROOT / "docs/tools/instruction_kinds.yaml").read_text())
    assert words["ifeval"].keys() == IFEVAL.keys() and words["ifbench"].keys() == IFBENCH.keys()
