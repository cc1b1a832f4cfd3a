import re

import pytest
from pydantic import ValidationError

from ratchet.data_curation.base.prompts import PromptFormat, user_message
from ratchet.data_curation.domains import plan_of
from ratchet.infra.recipe.evaluation import CATALOG, Benchmark, Evaluation, named_path
from ratchet.infra.recipe.load import SHIPPED, load_recipe, shipped_recipes
from ratchet.infra.recipe.recipe import Recipe
from ratchet.tasks.evaluation import require_defined, select_benchmarks
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import Problem


def known(name: str, **said) -> Benchmark:
    return Benchmark.model_validate({"name": name, **said})


def test_every_benchmark_can_be_asked_and_graded():
    for benchmark in map(known, CATALOG):
        assert plan_of(benchmark.domain).formats
        if "generate" in CATALOG[benchmark.name]:
            assert benchmark.path.startswith(f"generated://{benchmark.name}/")
        else:
            assert re.fullmatch(r"hf://datasets/[^/@]+/[^/@]+(@[^/]+)?/.+", benchmark.path)
        tests = [{"call": {"args": [2], "kwargs": {}}, "output": 4}]
        problem = Problem.of(benchmark.domain, "STATEMENT", tests, starter_code="def f(x):", entry_point="f")
        asked = user_message(problem, benchmark.prompt_format(PromptFormat()))
        assert benchmark.domain != "code" or "def f(x):" in asked or "assert f(2) == 4" in asked


def test_the_papers_windows_do_not_overlap_and_have_their_numbers():
    five, six = known("livecodebench-v5").advanced, known("livecodebench-v6").advanced
    assert five.window[1] == six.window[0] and (five.questions, six.questions) == (279, 175)
    samples = {"aime24": 64, "aime25": 64, "math500": 4, "livecodebench-v5": 8, "humaneval": 4}
    assert {name: known(name).samples for name in samples} == samples


def test_shipped_recipes_name_benchmarks_that_are_known():
    for file in SHIPPED.glob("acereason-[1-9]*b.yaml"):
        for benchmark in load_recipe(file).evaluation.benchmarks:
            assert known(benchmark.name) == benchmark.model_copy(update={"pass_at": None}), benchmark.name


@pytest.mark.parametrize(
    "written, name",
    [("AIME24", "aime24"), ("aime-24", "aime24"), ("HumanEval+", "humaneval-plus"), ("MBPP_Plus", "mbpp-plus"),
     ("LiveCodeBench-v5", "livecodebench-v5"), ("GSM8K", "gsm8k"), ("gpqa", "gpqa"),
     ("GPQA-Diamond", "gpqa-diamond"),
     ("IFEval", "ifeval"), ("IF-Bench", "ifbench"), ("reasoning_gym", "reasoning-gym"), ("HMMT25", "hmmt25"),
     ("BRUMO-25", "brumo25")],
)  # fmt: skip
def test_names_in_any_case_with_or_without_dashes(written, name):
    assert known(written) == known(name)


def test_what_the_recipe_says_goes_before_the_catalog():
    own = known("math500", path="mine.jsonl", samples=2, prompt={"math": "{prompt}!"})
    assert (own.path, own.samples, own.advanced.questions, own.domain) == ("mine.jsonl", 2, 500, "math")
    asked = own.prompt_format(PromptFormat(response_prefix="<think>"))
    assert (asked.templates["math"], asked.response_prefix) == ("{prompt}!", "<think>")
    assert Benchmark.model_validate_json(own.model_dump_json()) == own


@pytest.mark.parametrize(
    "benchmarks, complaint",
    [
        ([{"name": "mine"}], "mine is not in the catalog; give its domain and path. In the catalog: aime24"),
        ([{"name": "AIME24"}, {"name": "aime24"}], "named twice: aime24"),
    ],
)
def test_a_benchmark_that_cannot_be_is_refused(benchmarks, complaint):
    with pytest.raises(ValidationError, match=complaint):
        Evaluation.model_validate({"benchmarks": benchmarks})


def test_a_benchmark_is_where_its_name_says_unless_a_file_is_called_so(tmp_path, monkeypatch):
    assert named_path("MATH-500") == "hf://datasets/HuggingFaceH4/MATH-500/test.jsonl"
    assert named_path("mine.jsonl") == "mine.jsonl"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "math500").touch()
    assert named_path("math500") == "math500"


def test_an_undefined_pass_at_k_is_refused_and_clipped_where_benchmarks_are_chosen():
    recipe = load_recipe("tiny", ["evaluation.benchmarks.0.samples=4", "evaluation.pass_at=[1, 4, 16]"])
    with pytest.raises(RatchetError, match=r"tiny-math has 4 responses per question, for pass@16: undef"):
        require_defined(recipe.evaluation)
    require_defined(
        load_recipe("tiny", ["evaluation.benchmarks.0.samples=4", "evaluation.benchmarks.0.pass_at=[1, 4]"]).evaluation
    )
    for chosen in (select_benchmarks(recipe, ["math500"], None), select_benchmarks(recipe, [], 4)):
        require_defined(chosen.evaluation)
        assert all(benchmark.pass_at == (1, 4) for benchmark in chosen.evaluation.benchmarks)
    for name in shipped_recipes():
        require_defined(load_recipe(name).evaluation)
    own = Evaluation.model_validate({"benchmarks": [{"name": "math500", "samples": 4}]})
    require_defined(own)
    assert own.pass_at_of(own.benchmarks[0]) == (1, 2, 4), "by default those that are defined"


@pytest.mark.parametrize("name", shipped_recipes())
def test_naming_benchmarks_makes_a_valid_recipe_whatever_its_stages_validate_on(name):
    chosen = select_benchmarks(load_recipe(name), ["math500", "HumanEval"], 2)
    assert [benchmark.name for benchmark in chosen.evaluation.benchmarks] == ["math500", "humaneval"]
    Recipe.model_validate(chosen.model_dump())


def test_a_benchmarks_prompt_replaces_texts_only():
    values = 'evaluation.benchmarks.0.prompt={chat_template_kwargs: "{}"}'
    with pytest.raises(RatchetError, match=r"chat_template_kwargs are model\.prompt's, for all benchmarks"):
        load_recipe("tiny", [values])
