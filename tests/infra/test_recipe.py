import json
import os
import re

import jsonschema
import pytest
import yaml
from pydantic import ValidationError

from ratchet.data_curation.decontamination.problems import with_ngram
from ratchet.infra.recipe import Recipe, load_recipe
from ratchet.infra.recipe.load import SHIPPED, _Loader, has_accelerator, shipped_recipes
from ratchet.infra.recipe.recipe_warnings import recipe_warnings
from ratchet.infra.recipe.schema import recipe_schema
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.registry import IMPORT_PATH

SCHEMA = jsonschema.Draft202012Validator(recipe_schema())
"""What an editor checks recipe files with."""


def faults(recipe: dict) -> list[str]:
    """Each fault with its place; of a section with a short form, the faults of both forms."""
    errors = list(SCHEMA.iter_errors(recipe))
    for error in errors:
        errors.extend(error.context)
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in errors]


@pytest.mark.parametrize("name", shipped_recipes())
def test_every_shipped_recipe_is_valid_survives_a_round_trip_and_scores_what_is_held_out(name):
    assert not faults(yaml.load((SHIPPED / f"{name}.yaml").read_text(encoding="utf-8"), _Loader))
    recipe = load_recipe(name)
    assert Recipe.model_validate(recipe.model_dump(mode="json")) == recipe
    assert not [words for words in recipe_warnings(recipe) if "decontaminated" in words]
    if recipe.training.hardware.dtype == "bfloat16":  # where rounding parts engine and trainer, tokens are weighed
        assert all(stage.importance_cap is not None for stage in recipe.training.stages)


def test_the_schema_finds_a_misspelled_field_and_a_wrong_type():
    stage = {"name": "math", "domain": "math", "max_response_tokens": 24, "steps": "many", "rolouts": 4}
    shown = " ".join(faults({"name": "x", "training": {"engine": "vllm", "stages": [stage]}}))
    assert "rolouts" in shown and "training.stages.0.steps" in shown
    by_name = {"stages": {"math-36": {"steps": 1}}}
    assert faults({"extends": "tiny", "set": ["seed=1"], "training": by_name, "on_cpu": {"training": by_name}}) == []
    fields = SCHEMA.schema["$defs"]["Stage"]["anyOf"][1]["properties"]
    assert "may not forget" in fields["keep"]["description"], "fields have their descriptions"


def test_a_user_sees_at_most_158_fields():
    """Of all sections that a recipe leads to, but not through `advanced`."""
    schema = Recipe.model_json_schema()
    sections, fields = {"Recipe": schema}, 0
    for section in (waiting := [schema]):  # grows
        seen = {name: field for name, field in section.get("properties", {}).items() if name != "advanced"}
        fields += len(seen)
        for name in re.findall(r"#/\$defs/(\w+)", json.dumps(seen)):
            if name not in sections:
                waiting.append(sections.setdefault(name, schema["$defs"][name]))
    assert {"Stage", "Teacher", "Gate"} < set(sections) and "StageDetails" not in sections
    assert fields <= 158


def test_recipes_are_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        load_recipe("tiny").seed = 3


MISTAKES = [  # beside those of tests/cli/test_mistakes.py
    ("curation.math.decontaminate.covrage=0.1", r"Did you mean 'coverage'"),
    ("model.from_config.layer=2", r"Did you mean 'layers'"),
    ("model.grow.layers=2", "model.grow is now model.from_config"),
    ("training.stages.9.steps=1", r"'9' must be \*, a number from 0 to 5 or a name: math-36"),
    ("training.stages.1.name=math-36", r"stage names must be unique"),
    ("seed.x=1", r"has no fields"),
    ("training.stages.0.top_p=0.95", r"stages\.math-36.*samples from the whole distribution; top_p"),
    # fields that are elsewhere
    ("training.stages.0.kl_estimator=k3", r"stages\.math-36\.kl_estimator: .* `advanced: \{kl_estimator: …\}`"),
    ("training.stages.0.kl_estimater=k3", "Did you mean 'kl_estimator'"),
    ("curation.math.teacher.max_cost=2", "It belongs in the section `advanced`"),
    # engines and teachers
    ("training.hardware.advanced.cpu_offload=true", "cpu_offload needs zero_stage 1"),
    ("training.engine={kind: vllm, devices: [1]}", r"vllm has no setting 'devices'\. It is one of vllm-server\."),
    ("training.engine={kind: vllm, memory_shar: 0.5}", r"Did you mean 'memory_share'\? Its settings: memory_share, "),
    (
        "training.engine={kind: transformers, memory_share: 0.5}",
        r"no setting 'memory_share'.*settings: beside",
    ),
    ("training.engine=my_lab.nothing:Engine", r"engine 'my_lab\.nothing:Engine' cannot be imported: ModuleNotFo"),
    ("training.engine=ratchet.infra.inference.with_vllm:VLLM", r"has no engine 'VLLM'; it has .*Vllm"),
    ("curation.math.teacher.kind=ratchet.data_curation.base.openai_engine:Nobody", r"has no teacher 'Nobody'"),
]


@pytest.mark.parametrize(("override", "message"), MISTAKES)
def test_a_mistake_is_named_with_its_field(override, message):
    with pytest.raises(RatchetError, match=message):
        load_recipe("tiny", [override])


def test_off_is_a_field_and_yes_is_true(tmp_path):
    recipe = tmp_path / "mine.yaml"
    fields = "rules: {off: [figure]}, deduplicate: {reworded: off, drop_disagreeing: yes}"
    recipe.write_text(f"extends: own-data\nname: mine\ncuration: {{math: {{{fields}}}}}\n")
    math = load_recipe(recipe).curation["math"]
    assert math.rules.off == ("figure",) and math.deduplicate.drop_disagreeing and not math.deduplicate.reworded


def test_a_domain_keeps_its_ngram_when_another_field_is_set():
    recipe = Recipe.model_validate({"name": "x", "curation": {"code": {"decontaminate": {"preset": "paper"}}}})
    ngrams = {domain: with_ngram(recipe.curation_of(domain).decontaminate, domain).ngram for domain in ("code", "math")}
    assert ngrams == {"code": 14, "math": 9}


def test_files_that_are_no_recipes(tmp_path):
    """Beside those of tests/cli/test_mistakes.py."""
    with pytest.raises(RatchetError, match="Did you mean 'tiny'"):
        load_recipe("elsewhere/recipes/tiny.yml")
    for content, message in (
        (b"name: \x00", "not valid YAML"),
        (b"extends: tiny\nset: seed=1", "`set` is a list"),
        (b"extends: [tiny, own-data]", "`extends` is the name or the file of one recipe"),
        (b"extends: tiny\non_cpu: bfloat16", "on_cpu is a section"),
        (b"extends: tiny\ntraining: {stages: {math-36: 5}}", r"stages\.math-36: a section with the fields to change"),
        (b"extends: tiny\ntraining: {stages: [{name: a, domain: [math, code], steps: 1}]}", "domain is one name"),
    ):
        (tmp_path / "broken.yaml").write_bytes(content)
        with pytest.raises(RatchetError, match=message) as raised:
            load_recipe(tmp_path / "broken.yaml")
        assert "\n" not in str(raised.value)


def test_paths_are_relative_to_the_recipe_and_names_on_the_hub_stay_names(tmp_path, monkeypatch):
    lab, elsewhere = tmp_path / "lab", tmp_path / "elsewhere"
    (lab / "data").mkdir(parents=True)
    (lab / "model").mkdir()
    elsewhere.mkdir()
    (lab / "base.yaml").write_text("name: base\nmodel: {path: model}\n")
    (lab / "mine.yaml").write_text(
        "extends: base.yaml\nname: mine\ncuration:\n  math:\n"
        "    inputs: [data, rows.jsonl, 'parts/*.parquet', org/name, hf://datasets/org/name, /abs.json]\n"
        "evaluation: {benchmarks: [{name: data, domain: math, path: ./held_out}]}\n"
        "set: ['curation.math.benchmarks=[held_out.json]']\n"
    )
    monkeypatch.chdir(elsewhere)
    recipe = load_recipe("../lab/mine.yaml", ["curation.code.inputs=[data, rows.jsonl]"])
    there = [str(lab / name) for name in ("data", "rows.jsonl", "parts/*.parquet")]
    assert recipe.curation["math"].inputs == (*there, "org/name", "hf://datasets/org/name", "/abs.json")
    assert recipe.curation["math"].benchmarks == (str(lab / "held_out.json"),)
    assert recipe.curation["code"].inputs == ("data", "rows.jsonl"), "given on the command line: from here"
    assert recipe.model.path == str(lab / "model")
    benchmark = recipe.evaluation.benchmarks[0]
    assert benchmark.path == str(lab / "held_out") and benchmark.name == "data", "a name, though a folder has it"
    assert {str(lab), str(elsewhere)} <= set(os.environ[IMPORT_PATH].split(os.pathsep))


def test_overrides_reach_lists_and_are_parsed_as_yaml():
    overrides = ["training.stages.*.steps=20", "training.stages.1.steps=2", "curation.math.inputs=[a.json, b.json]"]
    recipe = load_recipe("tiny", overrides)
    assert [stage.steps for stage in recipe.training.stages] == [20, 2, 20, 20, 20, 20]
    assert recipe.curation["math"].inputs == ("a.json", "b.json")


def test_a_stage_is_overridden_by_its_name(tmp_path):
    names = [stage.name for stage in load_recipe("tiny").training.stages]
    by_name = load_recipe("tiny", ["training.stages.code-48.steps=3", "evaluation.benchmarks.tiny-code.samples=32"])
    assert [stage.steps for stage in by_name.training.stages if stage.name == "code-48"] == [3]
    assert [(b.name, b.samples) for b in by_name.evaluation.benchmarks] == [("tiny-math", 16), ("tiny-code", 32)]
    assert by_name.training.stages == load_recipe("tiny", ["training.stages.3.steps=3"]).training.stages
    child = tmp_path / "child.yaml"
    child.write_text(
        "extends: tiny\nname: child\ntraining: {stages: {code-48: {steps: 3}, math-44: null}}\n"
        "evaluation: {benchmarks: {tiny-code: {samples: 32}}}\n"
    )
    recipe = load_recipe(child)
    assert [stage.name for stage in recipe.training.stages] == [name for name in names if name != "math-44"]
    assert recipe.training.stages[2] == by_name.training.stages[3]
    assert recipe.evaluation.benchmarks == by_name.evaluation.benchmarks
    with pytest.raises(RatchetError, match=r"'code-84' must be \*, a number from 0 to 5 or a name: .*mean 'code-48'"):
        load_recipe("tiny", ["training.stages.code-84.steps=3"])
    child.write_text("extends: tiny\nname: child\ntraining: {stages: {code-84: {steps: 3}}}\n")
    with pytest.raises(
        RatchetError, match=r"child.yaml: training.stages: .* none that is called 'code-84'. Did you mean 'code-48'"
    ):
        load_recipe(child)


@pytest.mark.parametrize(("gpu", "dtype"), [(False, "float32"), (False, "bfloat16"), (True, "float32")])
def test_own_data_fits_a_machine_without_a_gpu_and_says_what_it_sets(tmp_path, monkeypatch, gpu, dtype):
    monkeypatch.setattr("ratchet.infra.recipe.load.has_accelerator", lambda: gpu)
    monkeypatch.setattr("ratchet.infra.recipe.load.cpu_dtype", lambda: dtype)
    child = tmp_path / "child.yaml"
    child.write_text("extends: own-data\nname: child\ntraining: {stages: {math-1k: {steps: 7}}}\n")
    recipe = load_recipe(child, ["training.stages.math-1k.rollouts=3"])
    [stage], hardware = recipe.training.stages, recipe.training.hardware
    assert (stage.steps, stage.rollouts) == (7, 3), "what a person has written is left alone"
    if gpu:
        assert not recipe.cpu_overrides and (hardware.dtype, stage.max_response_tokens) == ("bfloat16", 1024)
        return
    assert (hardware.dtype, stage.max_response_tokens, recipe.evaluation.max_tokens) == (dtype, 256, 256)
    changed = dtype == "float32"  # on a CPU with instructions for bfloat16 the recipe's type stays
    assert ("training.hardware.dtype=float32" in recipe.cpu_overrides) == changed
    assert "training.stages.math-1k.max_response_tokens=256" in recipe.cpu_overrides
    assert not [line for line in recipe.cpu_overrides if "steps" in line or "rollouts" in line]
    said = [line.partition("=") for line in recipe.cpu_overrides]
    monkeypatch.setattr("ratchet.infra.recipe.load.has_accelerator", lambda: True)
    overrides = [f"{name}={value.lower() if value in ('True', 'False') else value}" for name, _, value in said]
    assert load_recipe(child, ["training.stages.math-1k.rollouts=3", *overrides]) == recipe


def test_the_machines_of_a_scheduler_have_their_own_gpus(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.delenv("RATCHET_SLURM", raising=False)
    monkeypatch.delenv("RATCHET_LAUNCHER", raising=False)
    assert not has_accelerator()
    monkeypatch.setenv("RATCHET_SLURM", "/shared/slurm.sh")
    assert has_accelerator()


def test_a_recipe_that_extends_another_is_that_one_with_its_own_laid_over(tmp_path):
    child = tmp_path / "child.yaml"
    child.write_text("extends: tiny\nname: child\ntraining: {checkpoint_every: 7}\nset: [training.stages.0.steps=9]\n")
    tiny, recipe = load_recipe("tiny"), load_recipe(child)
    assert (recipe.name, recipe.training.checkpoint_every, recipe.training.stages[0].steps) == ("child", 7, 9)
    assert recipe.training.stages[1:] == tiny.training.stages[1:] and recipe.curation == tiny.curation
    assert recipe.training.hardware == tiny.training.hardware
    child.write_text(
        "extends: acereason-7b\nname: child\ntraining: {stages: [math-16k, math-8k]}\nevaluation: {after: [start]}\n"
    )
    assert [stage.name for stage in load_recipe(child).training.stages] == ["math-16k", "math-8k"]
    child.write_text("extends: acereason-7b\nname: child\ntraining: {stages: [math-15k]}\n")
    with pytest.raises(RatchetError, match=r"child.yaml: training.stages.*'math-15k'. Did you mean 'math-16k'"):
        load_recipe(child)
    child.write_text("extends: acereason-7b\nname: child\ncuration: {code: null}\n")
    assert list(load_recipe(child).curation) == ["math"]  # a section that is null is taken away
    child.write_text(f"extends: {child}\n")
    with pytest.raises(RatchetError, match="extends itself"):
        load_recipe(child)


def test_a_mix_is_the_same_however_it_is_written():
    stages = load_recipe("tiny", ["training.stages.4.mix={math: 2, code: 2}"]).training.stages
    assert [list(stage.mix.items()) for stage in stages[2:]] == [
        [("math", 1.0)],
        [("code", 0.5), ("math", 0.5)],
        [("code", 2.0), ("math", 2.0)],
        [("math", 0.6), ("code", 0.4)],
    ]
    short = load_recipe("tiny", ["training.stages.0.mix=null", "training.stages.0.domain=math"])
    assert short == load_recipe("tiny")
    assert list(load_recipe("tiny", ["training.stages.0.mix={a: 1, b: 3}"]).training.stages[0].mix) == ["b", "a"]


def test_an_engine_may_be_named_alone_and_settings_of_another_are_refused():
    assert load_recipe("tiny", ["training.engine=vllm"]).training.engine.kind == "vllm"
    served = load_recipe("tiny", ["training.engine={kind: vllm-server, timeout_s: 60}"])
    assert load_recipe("tiny", [f"training.engine={served.training.engine.model_dump_json()}"]) == served
    short = served.model_dump(mode="json", exclude_defaults=True)["training"]["engine"]
    assert short == {"kind": "vllm-server", "timeout_s": 60.0}
    assert "engine" not in load_recipe("tiny").model_dump(exclude_defaults=True)["training"]
