"""Numbers of a recipe that make no sense are refused by every door, in one line that names the field."""

import json
import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import yaml
from prefect.utilities.schema_tools import is_valid_schema
from prefect.utilities.schema_tools import validate as server_faults
from pydantic import ValidationError

from ratchet.data_curation.base.section import Section
from ratchet.flows import triggered
from ratchet.flows.forms import Changes, CurationChanges, EvaluationChanges, TrainingChanges, recipe_fields
from ratchet.infra.inference.engine import ENGINES
from ratchet.infra.recipe import Recipe, load_recipe
from ratchet.infra.recipe.load import names_elsewhere, read_recipe
from ratchet.infra.recipe.schema import recipe_schema
from ratchet.tasks.inputs import GENERATORS, check_settings
from ratchet.verifiers.errors import RatchetError

FLOWS = (triggered.pipeline, triggered.curate, triggered.train, triggered.evaluate, triggered.compare, triggered.report)
FORMS = (CurationChanges, TrainingChanges, EvaluationChanges)


def sections() -> list[type[Section]]:
    """Every section that a recipe can hold, engines' own settings included, and the forms."""
    found: list[type[Section]] = []

    def visit(kind: Any) -> None:
        if isinstance(kind, type) and issubclass(kind, Section) and kind not in found:
            found.append(kind)
            for field in kind.model_fields.values():
                visit(field.annotation)
        for inner in get_args(kind):
            visit(inner)

    for start in (Recipe, *map(ENGINES.get, ENGINES.shipped), *FORMS):
        visit(start)
    return found


def nodes(schema: Any, at: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, dict):
        yield at, schema
    for name, inner in schema.items() if isinstance(schema, dict) else enumerate(schema):
        if isinstance(inner, dict | list):
            yield from nodes(inner, f"{at}/{name}")


SCHEMAS = {
    "recipe": recipe_schema(),
    **{f"engine {kind}": ENGINES.get(kind).model_json_schema() for kind in ENGINES.shipped},
    **{f"form of {flow.name}": flow.parameters.model_dump() for flow in FLOWS},
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_number_has_a_lower_and_an_upper_bound(name):
    numbers = [(at, node) for at, node in nodes(SCHEMAS[name]) if node.get("type") in ("integer", "number")]
    assert numbers or name in ("engine transformers", "form of compare", "form of report")
    for at, node in numbers:
        assert {"minimum", "exclusiveMinimum"} & node.keys(), f"{at} has no lower bound"
        assert {"maximum", "exclusiveMaximum"} & node.keys(), f"{at} has no upper bound"


NO_NUMBER = (True, False, "7", float("nan"), float("inf"), float("-inf"), 1e303, -1e303, 10**400, -(10**400), {})
NO_BOOLEAN = (0, 1, 2.0, float("nan"), 10**400)
READ_FIRST = {
    "Stage": {"mix": {"math": 1.0}},
    "Benchmark": {"name": "aime24"},
    "Transformers": {"kind": "transformers"},
}
"""What a section looks at before its other fields."""


@pytest.mark.parametrize("section", sections(), ids=lambda section: section.__name__)
def test_no_number_is_a_boolean_text_or_huge_and_no_boolean_a_number(section):
    properties = section.model_json_schema().get("properties", {})
    for name, schema in properties.items():
        kinds = {node["type"] for _, node in nodes(schema) if isinstance(node.get("type"), str)} - {"null", "array"}
        known = {"boolean": NO_BOOLEAN, "integer": NO_NUMBER, "number": NO_NUMBER}
        for value in known[kinds.pop()] if len(kinds) == 1 and kinds <= known.keys() else ():
            with pytest.raises(ValidationError) as raised:
                section.model_validate(READ_FIRST.get(section.__name__, {}) | {name: value})
            assert name in {fault["loc"][0] for fault in raised.value.errors() if fault["loc"]}, (name, value)


def test_defaults_are_within_their_bounds():
    for section in sections():
        for field in section.model_fields.values():
            if not field.is_required() and isinstance(default := field.get_default(call_default_factory=True), Section):
                assert type(default).model_validate(default.model_dump()) == default
    assert Recipe.model_validate(Recipe(name="x").model_dump()) == Recipe(name="x")


NAN, INF = float("nan"), float("inf")
STAGE, HARDWARE, MATH = "training.stages.math-36", "training.hardware", "curation.math"
NEW = "model.from_config"
NONSENSE = [
    ("seed", -1), ("seed", 2**63), ("seed", 1.5), ("workers", -2), ("workers", 10**9), (f"{STAGE}.learning_rate", 0),
    (f"{STAGE}.learning_rate", NAN), (f"{STAGE}.learning_rate", "0.5"), (f"{STAGE}.learning_rate", True),
    (f"{STAGE}.steps", 0), (f"{STAGE}.steps", 2.5), (f"{STAGE}.steps", 10**12), (f"{STAGE}.max_response_tokens", 0),
    (f"{STAGE}.prompts_per_batch", 0), (f"{STAGE}.prompts_per_batch", 10**9), (f"{STAGE}.rollouts", 1),
    (f"{STAGE}.rollouts", [16, 0]), (f"{STAGE}.rollouts", []), (f"{STAGE}.temperature", 0),
    (f"{STAGE}.temperature", 1e-300), (f"{STAGE}.temperature", [1.0, 0.0]), (f"{STAGE}.warmup_steps", -1),
    (f"{STAGE}.updates_per_batch", 0), (f"{STAGE}.clip_low", 0), (f"{STAGE}.clip_low", 1.5),
    (f"{STAGE}.clip_high", -0.2), (f"{STAGE}.kl_coefficient", -0.001), (f"{STAGE}.kl_coefficient", INF),
    (f"{STAGE}.importance_cap", 0.5), (f"{STAGE}.importance_cap", [2, 5]), (f"{STAGE}.importance_cap", [1, 2, 3]),
    (f"{STAGE}.importance_cap", {"sequence": [1.1, 2]}), (f"{STAGE}.importance_cap", {"sequence": 2.0}),
    (f"{STAGE}.importance_cap", {"sequence": [0.5, 2], "outside": "truncate", "tokens": 2.0}),
    (f"{STAGE}.importance_cap", {"tokens": 2.0}),
    (f"{STAGE}.dynamic_sampling_rounds", -1), (f"{STAGE}.unfinished_penalty", -1), (f"{STAGE}.max_difficulty", 9),
    (f"{STAGE}.max_difficulty", -1), (f"{STAGE}.max_pass_rate", 1.2), (f"{STAGE}.keep", {"math": 1.5}),
    (f"{STAGE}.validation", {"tiny-math": -1}), (f"{STAGE}.mix", {"math": -1}), (f"{STAGE}.mix", {"math": 1e303}),
    (f"{STAGE}.validate_every", 0), (f"{STAGE}.advanced.entropy_bonus", -1), (f"{STAGE}.advanced.mismatch_limit", 0),
    (f"{STAGE}.advanced.tail_batching", 2), (f"{STAGE}.advanced.max_staleness", -1),
    (f"{STAGE}.advanced.total_time_limit_s", 0), (f"{STAGE}.advanced.difficulty_filter", {"easy": 2}),
    (f"{STAGE}.advanced.difficulty_filter", {"hard": 1}), (f"{STAGE}.advanced.pass_rate_error", 1),
    ("training.checkpoint_every", 0), ("training.checkpoint_every", -20), ("training.warm_start.traces", 0),
    ("training.warm_start.batch_size", 0), ("training.warm_start.learning_rate", 3),
    ("training.warm_start.mix", {"math": 0}), ("training.advanced.optimizer.weight_decay", -0.1),
    ("training.advanced.optimizer.max_gradient_norm", 0), ("training.advanced.max_infra_errors", 1.5),
    (f"{HARDWARE}.machines", 0), (f"{HARDWARE}.processes", -1), (f"{HARDWARE}.zero_stage", 4),
    (f"{HARDWARE}.micro_batch_tokens", 0), (f"{HARDWARE}.rollout_batch", 0), (f"{HARDWARE}.packed", 1),
    (f"{HARDWARE}.advanced.timeout_minutes", -5), (f"{NEW}.layers", 0), (f"{NEW}.hidden_size", -64),
    (f"{NEW}.vocabulary", 100), ("evaluation.temperature", -1), ("evaluation.top_p", 0), ("evaluation.top_p", 1.1),
    ("evaluation.max_tokens", 0), ("evaluation.pass_at", [0]), ("evaluation.pass_at", []),
    ("evaluation.benchmarks.tiny-math.samples", 0), ("evaluation.benchmarks.tiny-math.limit", -1),
    (f"{MATH}.max_difficulty", 9), (f"{MATH}.deduplicate.ngram", 0), (f"{MATH}.deduplicate.jaccard", 0),
    (f"{MATH}.decontaminate.coverage", 1.5), (f"{MATH}.decontaminate.released_after", 20240801),
    (f"{MATH}.length.downsample_keep", -0.5), (f"{MATH}.length.drop_below_tokens", -1),
    (f"{MATH}.advanced.max_rejected", 0), (f"{MATH}.teacher.attempts", 0), (f"{MATH}.teacher.temperature", -1),
    (f"{MATH}.teacher.top_p", 7), (f"{MATH}.teacher.max_tokens", -1), (f"{MATH}.teacher.concurrency", 0),
    (f"{MATH}.teacher.advanced.prices", [-1, 1]), (f"{MATH}.teacher.advanced.max_cost", 0),
    (f"{MATH}.validation.min_tests", -1), (f"{MATH}.validation.min_mutants_killed", 2),
    ("training.engine", {"kind": "vllm", "memory_share": 1.0}), ("training.engine", {"kind": "vllm", "timeout_s": -1}),
    ("training.engine", {"kind": "vllm", "tensor_parallel": 0}),
    ("training.engine", {"kind": "vllm-server", "devices": [-1]}),
]  # fmt: skip


def named(path: str, value: Any) -> str:
    """The innermost field of a refused value."""
    inner = [name for name in value if name != "kind"] if path == "training.engine" else []
    return inner[0] if inner else path.rpartition(".")[2]


def refused_in_one_line(field: str, recipe: Any, *overrides: str) -> str:
    with pytest.raises(RatchetError) as raised:
        load_recipe(recipe, overrides)
    message = str(raised.value)
    assert field in message and "\n" not in message and len(message) < 400
    return message.partition("not a valid recipe: ")[2]


def nested(path: str, value: Any) -> dict[str, Any]:
    first, _, rest = path.partition(".")
    return {first: nested(rest, value) if rest else value}


@pytest.mark.parametrize(("path", "value"), NONSENSE)
def test_nonsense_is_refused_in_a_file_by_set_and_in_python(path, value, tmp_path):
    field, file = named(path, value), tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({"extends": "tiny", "name": "mine", **nested(path, value)}))
    in_file = refused_in_one_line(field, file)
    by_set = refused_in_one_line(field, "tiny", f"{path}={yaml.safe_dump(value, default_flow_style=True)}".rstrip())
    assert in_file == by_set
    data = whole = read_recipe("tiny")
    *parents, last = path.split(".")
    for name in parents:
        data = data.setdefault(name, {}) if isinstance(data, dict) else next(e for e in data if e["name"] == name)
    data[last] = value
    with pytest.raises(ValidationError) as raised:
        Recipe.model_validate(whole)
    assert any(field in map(str, fault["loc"]) for fault in raised.value.errors())


def test_what_is_unusual_and_possible_is_taken(tmp_path):
    taken = [
        "seed=9223372036854775807", f"{STAGE}.learning_rate=1e-6", f"{STAGE}.steps=2e3", f"{STAGE}.clip_low=1",
        f"{STAGE}.rollouts=[8, 16]", f"{STAGE}.temperature=[0.6, 1]", f"{STAGE}.importance_cap=[0.5, 5]",
        f"{STAGE}.steps=1_000", "evaluation.temperature=0", "curation.math.length.downsample_below_tokens=0",
        "training.advanced.optimizer.max_gradient_norm=1e9", "curation.math.deduplicate.reworded=off",
    ]  # fmt: skip
    stage = load_recipe("tiny", taken).training.stages[0]
    assert (stage.steps, stage.learning_rate, stage.rollouts, stage.importance_cap) == (1000, 1e-6, (8, 16), (0.5, 5.0))
    file = tmp_path / "mine.yaml"
    file.write_text(f"extends: tiny\nname: mine\nset: [{STAGE}.learning_rate=1e-6]\nseed: 7\n")
    assert load_recipe(file).training.stages[0].learning_rate == 1e-6
    for text in ("010", "1:30", "0o17"):  # 8, 90 and text in YAML 1.1
        assert "not text" in refused_in_one_line("seed", "tiny", f"seed={text}")


FORM_FIELDS = [
    (flow, form, name)
    for flow, form in (
        (triggered.curate, CurationChanges), (triggered.train, TrainingChanges), (triggered.pipeline, TrainingChanges),
        (triggered.evaluate, EvaluationChanges),
    )
    for name, schema in form.model_json_schema()["properties"].items()
    if {"integer", "number"} & {node.get("type") for _, node in nodes(schema) if isinstance(node.get("type"), str)}
]  # fmt: skip


@pytest.mark.parametrize(("flow", "form", "name"), FORM_FIELDS, ids=lambda it: getattr(it, "__name__", str(it)))
def test_prefects_server_and_its_flows_refuse_what_the_recipe_refuses(flow, form, name):
    """The server checks a form against the deployment's schema; the flow's process checks its parameters by type."""
    schema = json.loads(json.dumps(flow.parameters.model_dump()))  # as the server has it
    is_valid_schema(schema, preprocess=False)
    model = {"model": "m"} if flow is triggered.evaluate else {}
    asked = lambda value: {**model, "changes": {name: value}}  # noqa: E731
    for value in (True, "7", 1e303, -1e303, 10**400, -1 if name != "workers" else -2):
        assert server_faults(asked(value), schema, raise_on_error=False, preprocess=False), (name, value)
    for value in (True, "7", NAN, INF, 1e303, -1e303, 10**400, -2):
        with pytest.raises(Exception, match=name) as raised:
            flow.validate_parameters(asked(value))
        assert "ParameterTypeError" in type(raised.value).__name__


@pytest.mark.parametrize("form", FORMS)
def test_a_forms_numbers_have_the_bounds_of_the_fields_that_they_set(form: type[Changes]):
    def bounds(schema: dict[str, Any]) -> list[dict[str, Any]]:
        numbers = [node for _, node in nodes(schema) if node.get("type") in ("integer", "number")]
        return [{k: v for k, v in node.items() if "inimum" in k or "aximum" in k or k == "type"} for node in numbers]

    whole = Recipe.model_json_schema()

    def field(path: str) -> dict[str, Any]:
        node = whole
        for part in path.split("."):
            if refs := [n["$ref"] for _, n in nodes(node) if "$ref" in n and "properties" not in node]:
                node = whole["$defs"][refs[0].rpartition("/")[2]]
            node = node["properties"][part] if part in node.get("properties", {}) else node
        return node

    seen = 0
    for group, name, path in recipe_fields(form):
        if own := bounds(group.model_json_schema()["properties"][name]):
            seen += 1
            assert own[0] in bounds(field(path)), path
    assert seen > 3


def test_settings_of_other_trainers_are_answered_with_fields_that_there_are():
    def names(node: Any) -> Iterator[str]:
        for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
            yield from value if key == "properties" else ()
            yield from names(value)

    fields = {*names(recipe_schema()), "DOMAIN", "BENCHMARK", "test"}
    named = 0
    for here in names_elsewhere().values():
        if here.split(".")[0] in fields:
            said = re.findall(r"(\w+)(?=: )", here) + here.split(":")[0].split(",")[0].split(".")
            assert {*said} <= fields, here
            named += 1
    assert named > 100
    for key, said in (
        ("training.learning_rate", r"learning_rate: unknown key here\. Instead: training\.stages: \{learning_rate"),
        ("training.stages.*.num_generations", r"num_generations: unknown key here\. Instead: .*\{rollouts: 16\}"),
        ("training.lora", r"lora: unknown key\. It belongs in the section `advanced`"),
    ):
        with pytest.raises(RatchetError, match=said):
            load_recipe("tiny", [f"{key}=1"])


def test_a_generators_settings_are_checked_before_it_runs():
    def own(directory, seed, rows=20, share: float = 0.5, *, name: str = "x", needed: int):
        raise AssertionError("never called")

    check_settings("made", own, {"rows": 3, "share": 1, "name": "y", "needed": 0})
    for settings, message in (
        ({"rows": -3, "needed": 1}, r"generate\.made\.rows: Input should be at least 0 \(given -3\)"),
        ({"rows": True, "needed": 1}, r"made\.rows: Input should be an integer, not true"),
        ({"share": NAN, "needed": 1}, r"made\.share: Input should be a finite number"),
        ({"rows": 1e303, "needed": 1}, r"made\.rows: Input should be at most"),
        ({"rwos": 3, "needed": 1}, r"made\.rwos: unknown key\. Did you mean 'rows'"),
        ({}, r"made\.needed: required, but missing"),
    ):
        with pytest.raises(RatchetError, match=message) as raised:
            check_settings("made", own, settings)
        assert "\n" not in str(raised.value)
    for kind, settings in (("reasoning-gym", {"train": -1}), ("verifiers", {"environment": "x", "test": -1})):
        with pytest.raises(RatchetError, match="at least 0"):
            check_settings("made", GENERATORS.get(kind), settings)


TOGETHER = [
    (["evaluation.benchmarks.0.samples=2", "evaluation.benchmarks.0.pass_at=[1, 4]"], "tiny-math has 2 .* pass@4"),
    (["evaluation.benchmarks.tiny-math.pass_at=[1, 32]"], "tiny-math has 16 responses .* pass@32"),
    ([f"{HARDWARE}.micro_batch_tokens=30"], r"micro_batch_tokens \(30\) is below the longest .* of stages\.\S+, "),
    ([f"{STAGE}.interventions=[{{when: {{at_step: 3}}, do: {{max_response_tokens: 9000}}}}]"], "longest .* 9000"),
    ([f"{STAGE}.prompts_per_batch=1", f"{STAGE}.rollouts=2", f"{HARDWARE}.processes=3"], "2 responses .* has 3 ranks"),
    ([f"{STAGE}.interventions=[{{when: {{at_step: 25}}, do: reset}}]"], "at_step 25 cannot .* at most 24"),
    ([f"{STAGE}.interventions=[{{when: {{every_steps: 40}}, do: reset}}]"], "every_steps 40 cannot happen in 25 steps"),
    ([f"{STAGE}.validate_every=5", f"{STAGE}.interventions=[{{when: {{plateau: 30}}, do: reset}}]"],
     "plateau 30 cannot happen in 25 steps with a validation every 5: give at most 3"),
    ([f"{STAGE}.validate_every=5", f"{STAGE}.keep={{math: 0.1}}",
      f"{STAGE}.interventions=[{{when: {{below_floor: 9}}, do: {{learning_rate: 1e-5}}}}]"], "below_floor 9 cannot"),
    ([f"{STAGE}.advanced.result=best", f"{STAGE}.validate_every=26"], r"validate_every \(26\) is above steps \(25\)"),
    ([f"{STAGE}.interventions=[{{when: {{at_step: 3}}, do: {{reset: reference}}}}]"], "and kl_coefficient is 0"),
    ([f"{STAGE}.advanced.overlong_buffer_tokens=40", f"{STAGE}.truncation=soft_overlong"], "at most max_response"),
    ([f"{STAGE}.advanced.max_staleness=1"], "stale tokens need importance weights"),
    (["training.warm_start.traces=8"], r"traces \(8\) must be at least batch_size \(16\)"),
    ([f"{MATH}.length={{drop_below_tokens: 50, downsample_below_tokens: 20}}"], "is below drop_below_tokens"),
    (["curation.code.validation.max_mutants=0"], "max_mutants 0 tries no fault"),
    ([f"{MATH}.teacher.advanced.max_cost=5"], "max_cost needs advanced.prices"),
    ([f"{NEW}.attention_heads=3"], r"attention_heads \(3\) must divide hidden_size \(64\)"),
    ([f"{NEW}.attention_heads=4", f"{NEW}.key_value_heads=3"], r"key_value_heads \(3\) must divide"),
    ([f"{NEW}.hidden_size=70"], "rotary positions need an even width"),
    (["evaluation.benchmarks.tiny-math.advanced.part=[3, 2]"], "no part 3 of 2"),
    (["evaluation.benchmarks.tiny-math.advanced.window=[2024-08-01, 2024-01-01]"], "no day is in it"),
    (["training.engine={kind: vllm, tensor_parallel: 3}"], "must divide hardware.processes"),
    (["training.engine={kind: vllm-server, devices: [2, 2]}"], "names a GPU twice"),
    ([f"{STAGE}.truncation=mask", f"{STAGE}.unfinished_penalty=0.5"], "mask leaves truncated responses out"),
    (["training.engine={kind: vllm-server, devices: [2, 3, 4], tensor_parallel: 2}"], "has 3 GPUs, and each"),
    (["training.engine=vllm-server", f"{HARDWARE}.machines=2"], r"several machines need engine\.url"),
]  # fmt: skip
OF_A_STAGE = [
    ("advanced.overlong_buffer_tokens=4", "soft_overlong and overlong_buffer_tokens are given together"),
    ("advanced.entropy_bonus=0.1", "entropy_bonus .* and entropy_target .* exclude each other"),
    ("rollouts=[4, 0]", r"stages\.math-36\.rollouts\.1: Input should be at least 2 \(given 0\)"),
    ("prompts_per_batch=2", "at least updates_per_batch"),
    ("temperature=[0.6, 1.0]", "must have the same temperature"),
    ("mix={math: 0, code: 1}", r"stages\.math-36\.mix\.math: Input should be at least 1e-06 \(given 0\)"),
    ("mix={}", r"stages\.math-36\.mix: .* at least 1"),
    ("mix=null", "give either domain: math or mix"),
    ("domain=code", "give either domain: math or mix: "),
    ("mix={a: 1, b: 1, c: 1, d: 1, e: 1}", "prompts_per_batch must be at least 5, a prompt for each domain"),
    ("advanced.graded=[code]", "graded names code, but the stage's mix has only math"),
    ("interventions=[{when: {}, do: reset}]", "0.when: give exactly one of at_step, every_steps, plateau"),
    ("interventions=[{when: {at_stp: 2}, do: stop}]", r"0\.when\.at_stp: unknown key. Did you mean 'at_step'"),
    ("interventions=[{when: {plateau: 2}, do: restart}]", "0.do: give reset, stop, or changes"),
    ("interventions=[{when: {plateau: 2}, do: {}}]", "0.do: give something to do: reset, stop, mix, learning_rate"),
    ("interventions=[{when: {at_step: 2}, do: {mix: {a: 1, b: 1, c: 1, d: 1, e: 1}}}]",
     "stages.math-36: after interventions.0: prompts_per_batch must be at least 5"),
    ("validation={nowhere: 1}", "stage math-36: validation names 'nowhere'; known: tiny-math, tiny-code"),
]  # fmt: skip
GIVEN = ["updates_per_batch=4", "dynamic_sampling_rounds=1", "prompts_per_batch=4", "advanced.entropy_target=0.5"]
TOGETHER += [([f"{STAGE}.{setting}" for setting in (*GIVEN, last)], message) for last, message in OF_A_STAGE]


@pytest.mark.parametrize(("overrides", "message"), TOGETHER)
def test_numbers_that_cannot_work_together_are_refused(overrides, message):
    with pytest.raises(RatchetError, match=message) as raised:
        load_recipe("tiny", overrides)
    assert "\n" not in str(raised.value)
