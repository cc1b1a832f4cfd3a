"""An edit of the user's own code runs the steps that run that code, and no other."""

import os
import sys
from weakref import WeakKeyDictionary

import pytest

from ratchet.flows.pipeline import pipeline
from ratchet.flows.runs import plan_run
from ratchet.infra.recipe.domains import use_domains
from ratchet.infra.recipe.load import load_recipe
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.settings import load_settings
from ratchet.infra.store import artifacts
from ratchet.tasks import step as steps
from ratchet.verifiers.domains import OWN_DOMAINS
from ratchet.verifiers.environments.domain import ENVIRONMENTS
from ratchet.verifiers.registry import IMPORT_PATH

LAB = {
    "k_domain.py": """
        from k_score import score_of
        from ratchet.verifiers.domain import Domain

        class Sums(Domain):
            name, curation, templates = "sums", "k_plan:PLAN", {"sums": "{prompt}"}

            def score(self, problem, answer):
                return score_of(problem, answer)
    """,
    "k_score.py": "def score_of(problem, answer):\n    return 0.5\n",
    "k_plan.py": """
        from dataclasses import replace
        from k_rule import too_long
        from ratchet.data_curation.domains.math import MATH
        STEPS = ("rules", "decontaminate", "deduplicate", "difficulty")
        PLAN = replace(MATH, rules=(*MATH.rules, too_long), steps=STEPS)
    """,
    "k_rule.py": "def too_long(problem, limits):\n    return {} if len(problem.prompt) > 4000 else None\n",
    "k_made.py": "def make(directory, seed):\n    return None\n",
    "k_loss.py": """
        from ratchet.training.losses.loss import LossOutputs
        def mine(inputs, settings):
            return LossOutputs(-0.5 * inputs.advantages * inputs.logprobs)
    """,
    "k_advantage.py": "def mine(groups, settings):\n    return 0.5\n",
    "k_engine.py": """
        from ratchet.infra.inference.with_transformers import Transformers
        class Gentle(Transformers):
            evaluation_batch: int = 8
    """,
    "k_teacher.py": """
        from ratchet.data_curation.base.teacher_engine import TeacherEngine
        class Local(TeacherEngine):
            @classmethod
            def for_teacher(cls, teacher):
                return cls()
            def generate(self, requests, sampling):
                return []
    """,
    "k_env.py": "def load_environment():\n    return 1\n",
    "k_unused.py": "x = 1\n",
}
RECIPE = """
name: lab
domains: [k_domain]
generate:
  tiny: {by: "ratchet.examples.tiny_world.world:generate_world"}
  made: {by: "k_made:make"}
  asked: {by: verifiers, environment: me/k-env}
model: {path: DIRECTORY}
curation:
  sums:
    inputs: ["generated://made/train.jsonl"]
    benchmarks: ["generated://made/test.jsonl"]
    teacher: {kind: "k_teacher:Local", model: t}
  math:
    inputs: ["generated://tiny/math_raw.parquet"]
    benchmarks: ["generated://tiny/math_benchmark.parquet"]
    teacher: {kind: openai, model: m, base_url: "http://127.0.0.1:9/v1"}
  asked:
    inputs: ["generated://asked/train.jsonl"]
training:
  engine: {kind: "k_engine:Gentle"}
  stages:
    - {name: own, domain: sums, max_response_tokens: 8, steps: 1, loss: "k_loss:mine", max_pass_rate: 0.9}
    - {name: theirs, domain: math, max_response_tokens: 8, steps: 1, advantage: "k_advantage:mine"}
    - {name: of-others, domain: asked, max_response_tokens: 8, steps: 1}
evaluation:
  benchmarks:
    - {name: held, domain: sums, path: "generated://made/test.jsonl"}
  after: [own]
"""
TRAINED = {"train own", "pass_rates own", "train theirs", "train of-others", "evaluate own"}
OF_PLAN = {"held_out test", "normalize sums", "rules sums", "contamination benchmarks"}
OF_DOMAIN = {
    "held_out test", "normalize sums", "rules sums", "deduplicate sums", "teacher_attempts sums", "difficulty sums",
    "train own", "pass_rates own", "evaluate own",
}  # fmt: skip
RUN_AGAIN = {
    "k_domain.py": OF_DOMAIN,
    "k_score.py": OF_DOMAIN,
    "k_plan.py": OF_PLAN,
    "k_rule.py": OF_PLAN,
    "k_made.py": {"generate made"},
    "k_loss.py": {"train own"},
    "k_advantage.py": {"train theirs"},
    "k_engine.py": TRAINED,
    "k_teacher.py": {"teacher_attempts sums"},
    "k_env.py": {"generate asked", "normalize asked", "rules asked", "train of-others"},
    "k_unused.py": set(),
}


@pytest.fixture
def lab(tmp_path, monkeypatch):
    for name in (OWN_DOMAINS, ENVIRONMENTS, IMPORT_PATH):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.3.1")
    (tmp_path / "model").mkdir()
    for name, text in LAB.items():
        lines = text.splitlines()
        (tmp_path / name).write_text("\n".join(line.removeprefix(" " * 8) for line in lines) + "\n")
    (tmp_path / "lab.yaml").write_text(RECIPE.replace("DIRECTORY", "model"))
    yield tmp_path
    use_domains(Recipe(name="none"))
    for name in LAB:
        sys.modules.pop(name.removesuffix(".py"), None)


def test_an_edit_runs_the_steps_that_run_the_edited_code(lab, monkeypatch):
    codes = {}

    def spy(step, version, name, parameters, inputs, whole, code):
        codes[f"{step} {name.removesuffix(f'-{step}')}"] = code
        return artifacts.artifact_key(step, version, name, parameters, inputs, whole, code)

    monkeypatch.setattr(steps, "artifact_key", spy)
    monkeypatch.setattr("ratchet.tasks.training.check_trainable_model", lambda path: None)

    def planned():
        codes.clear()
        monkeypatch.setattr("ratchet.infra.store.own_code._hashed_as", WeakKeyDictionary())  # as in another process
        recipe = load_recipe(lab / "lab.yaml")
        with plan_run(recipe, load_settings(lab / "home")) as run:
            pipeline(run)
        return dict(codes)

    before = planned()
    for name, expected in RUN_AGAIN.items():
        text = (lab / name).read_text()
        (lab / name).write_text(text.replace("1", "2", 1) if "1" in text else text + "#")
        after = planned()
        assert {step for step in before if before[step] != after[step]} == expected, name
        (lab / name).write_text(text)
