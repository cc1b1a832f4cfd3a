"""Some steps of a curation, from the command line and from Prefect's form."""

import json
import re
from pathlib import Path

import pytest

from ratchet.data_curation.settings.curation import CURATION_STEPS, Deduplication, Steps
from ratchet.flows import triggered
from ratchet.flows.curate import curate
from ratchet.flows.deployments import deployments
from ratchet.flows.forms import (
    CurationChanges,
    DecontaminationChanges,
    DeduplicationChanges,
    EvaluationChanges,
    LengthChanges,
    RulesChanges,
    TeacherChanges,
    TrainingChanges,
    ValidationChanges,
)
from ratchet.flows.runs import plan_run
from ratchet.infra.recipe import load_recipe
from ratchet.infra.settings import load_settings
from ratchet.verifiers.errors import RatchetError
from tests.flows.commands import MINI, copy_home


def plan(home, steps: Steps, *overrides: str) -> dict[str, bool]:
    """Which steps would be taken, and whether each would run."""
    with plan_run(load_recipe(MINI, overrides), load_settings(home), steps) as run:
        curate(run, "math")
    return {step.title: not step.cached for step in run.plan if not step.left_out}


def test_only_and_from_take_no_other_step(finished_home):
    shorter = "curation.math.length.downsample_keep=0.5"
    assert plan(finished_home, Steps(only="length"), shorter) == {"length math": True}
    assert plan(finished_home, Steps(start="length"), shorter) == {"length math": True, "curated math": True}
    assert list(plan(finished_home, Steps(start="deduplicate"))) == [
        "deduplicate math", "teacher attempts math", "majority vote math", "length math", "curated math",
    ]  # fmt: skip
    assert [step for step, runs in plan(finished_home, Steps(refresh=("rules",))).items() if runs] == ["rules math"]


def test_a_list_without_steps_that_read_attempts_asks_no_teacher(tmp_path):
    assert "teacher attempts math" in plan(tmp_path, Steps(), "curation.math.steps=[rules, majority_vote, length]")
    assert not [name for name in plan(tmp_path, Steps(), "curation.math.steps=[rules, length]") if "teacher" in name]
    nobody = ("curation.math.steps=[rules]", "curation.math.teacher.kind=none")
    assert not [name for name in plan(tmp_path, Steps(), *nobody) if "teacher" in name]


@pytest.mark.parametrize(
    ("overrides", "is_said"),
    [
        (["curation.math.steps=[rules]"], True),
        (["curation.math.steps=[rules, decontaminate]"], False),
        (["curation.math.steps=[rules]", "curation.math.benchmarks=[]"], False),
        (["curation.math.steps=[rules]", "training.warm_start.files=[t.jsonl]"], False),  # compared with them itself
        ([], False),
    ],
)
def test_benchmarks_that_no_step_compares_with_are_said(tmp_path, overrides, is_said):
    with plan_run(load_recipe(MINI, overrides), load_settings(tmp_path)) as run:
        curate(run, "math")
    [trial] = [step.trial for step in run.plan if step.name == "normalize" and step.trial]
    assert any("no step compares with them" in line for line in trial()) is is_said


def test_decontaminate_alone_reads_a_new_benchmark_in(finished_home, tmp_path):
    benchmark = tmp_path / "extra.jsonl"
    benchmark.write_text('{"problem": "How many triples of primes sum to 2024?", "answer": "12"}\n')
    more = f"curation.math.benchmarks=[generated://tiny-world/math_benchmark.parquet, {benchmark}]"
    new = {"held out extra": True, "decontaminate math": True}
    assert {s: runs for s, runs in plan(finished_home, Steps(only="decontaminate"), more).items() if runs} == new
    from_there = plan(finished_home, Steps(start="decontaminate"), more)
    assert from_there.items() >= new.items() and "rules math" not in from_there


@pytest.mark.parametrize(
    ("steps", "overrides", "message"),
    [
        (Steps(only="length"), ["seed=2"], "length math reads problems/math-majority_vote, which does not exist yet"),
        (Steps(start="validate_tests"), [], "There is no step validate_tests here"),
        (Steps(refresh=("length",)), ["curation.math.teacher.kind=none"], "length cannot run: no teacher"),
    ],
)
def test_a_step_that_cannot_be_taken_is_told_before_anything_runs(finished_home, steps, overrides, message):
    with pytest.raises(RatchetError, match=message):
        plan(finished_home, steps, *overrides)


PROXIES = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9") | {"no_proxy": "", "NO_PROXY": ""}
PROXIES |= dict.fromkeys(("ALL_PROXY", "all_proxy"), "socks5://127.0.0.1:9")
"""Which nobody serves. A command does not ask for its own servers through them: it would wait for minutes."""


def test_a_step_made_again_is_followed_by_what_it_changes_and_by_nothing_else(finished_home, ratchet, ready_home):
    for part in ("artifacts", "teacher"):
        copy_home(finished_home / part, ready_home / part)
    (journal,) = (ready_home / "teacher").iterdir()
    answers = [json.loads(line) for line in journal.read_text().splitlines()]
    journal.write_text("".join(json.dumps(answer | {"tokens": answer["tokens"] + 1}) + "\n" for answer in answers))
    again = ("--refresh", "teacher_attempts", "--refresh", "rules")
    done = ratchet("curate", "math", MINI, *again, "--home", ready_home, **PROXIES)
    assert done.returncode == 0, done.stderr
    made = re.findall(r"✓ (.*?) math \((?!cached)", done.stdout)
    (kept,) = re.findall(r"^  (/\S+/problems/math-curated-\w+/kept\.parquet)$", done.stdout, re.MULTILINE)
    assert Path(kept).is_file()
    assert made == ["rules", "teacher attempts", "majority vote", "length", "curated"]


def test_a_recipe_has_few_deployments_the_pipeline_first_and_a_step_is_chosen_in_a_form_with_its_settings():
    served = {deployment.name: deployment for deployment in deployments(str(MINI), "Waits for a worker of gpus.")}
    assert sorted(served) == ["mini", *(f"mini-{t}" for t in ("compare", "curate", "evaluate", "report", "train"))]
    assert served["mini"].flow_name == "pipeline"
    assert all(deployment.entrypoint.startswith("ratchet.flows.triggered.") for deployment in served.values())
    assert all(deployment.description.endswith("Waits for a worker of gpus.") for deployment in served.values())
    form = served["mini-curate"]._parameter_openapi_schema
    assert list(form.properties) == ["domain", "step", "following", "again", "changes", "recipe", "overrides"]
    assert form.properties["domain"]["enum"] == ["math", "code"]
    assert form.properties["step"]["enum"] == ["all", *CURATION_STEPS]
    settings = form.definitions["DeduplicationChanges"]["properties"]
    assert settings.keys() == Deduplication.model_fields.keys()
    assert {"exclusiveMinimum": 0, "maximum": 1, "type": "number"} in settings["jaccard"]["anyOf"]
    groups = {name for name in form.definitions if name != "CurationChanges"}
    assert groups == {f"{of}Changes" for of in ("Rules", "Decontamination", "Deduplication", "Validation", "Teacher",
                                               "Length")}  # fmt: skip
    assert settings["jaccard"]["description"].endswith("In the recipe: `0.8`.")
    attempts = form.definitions["TeacherChanges"]["properties"]["attempts"]["description"]
    assert attempts.endswith("In the recipe: math `4`, code `2`."), attempts
    assert "max_cost" in form.definitions["TeacherChanges"]["properties"], "rarely used settings are there too"


@pytest.mark.parametrize("choice", [{"following": True}, {"again": True}])
def test_following_and_again_are_about_one_step(choice):
    with pytest.raises(RatchetError, match="Choose a step"):
        triggered.curate.fn(recipe=str(MINI), **choice)


PRICES = "curation.math.teacher.advanced.prices=[1, 4]"


def test_what_is_filled_in_is_what_set_would_say():
    changes = CurationChanges(inputs=("a.json",), teacher_attempts=TeacherChanges(attempts=4))
    assert changes.overrides(domain="code") == ['curation.code.inputs=["a.json"]', "curation.code.teacher.attempts=4"]
    curation = CurationChanges(
        inputs=("a.json", "é 📚.json"), benchmarks=("b.json",), rules=RulesChanges(off=("proof",)), max_difficulty=6,
        decontaminate=DecontaminationChanges(preset="paper", ngram=8), deduplicate=DeduplicationChanges(jaccard=0.5),
        validate_tests=ValidationChanges(min_tests=2), length=LengthChanges(drop_below_tokens=9),
        teacher_attempts=TeacherChanges(kind="openai", model="m", base_url="http://t/v1", attempts=4, max_cost=1.5),
        max_rejected=0.5, workers=2,
    )  # fmt: skip
    training = TrainingChanges(
        seed=3, model="m", engine="transformers", machines=2, processes=2, micro_batch_tokens=999, prompts_per_batch=8,
        rollouts=4, learning_rate=1e-6, checkpoint_every=5,
    )  # fmt: skip
    evaluation = EvaluationChanges(temperature=0.6, top_p=0.9, max_tokens=99, engine="transformers", processes=2)
    for form in (curation, training, evaluation):
        assert set(type(form).model_fields) == form.model_fields_set
        recipe = load_recipe("own-data", [PRICES, *form.overrides(domain="math")]).model_dump(mode="json")
        for override in form.overrides(domain="math"):
            path, _, value = override.partition("=")
            found = recipe
            for part in path.replace("*", "0").split("."):
                found = found[int(part)] if isinstance(found, list) else found[part]
            assert found == json.loads(value) or found["kind"] == json.loads(value)


@pytest.mark.slow
def test_a_benchmark_that_cannot_be_graded_ends_the_run_before_any_curation(ratchet, ready_home, tmp_path):
    benchmark = tmp_path / "mine.jsonl"
    rows = ({"id": answer, "problem": "1 + 1?", "answer": answer} for answer in ("2", "3"))
    benchmark.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = ratchet("run", MINI, "--set", f"evaluation.benchmarks.0.path={benchmark}", "--home", ready_home)
    assert done.returncode != 0 and "with different references" in done.stderr
    assert "rules math" not in done.stdout + done.stderr
