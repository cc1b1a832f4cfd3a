import re

from ratchet.data_curation.readers.problems import FORMATS
from ratchet.evaluation.catalogue import CATALOGUE
from ratchet.infra.problems import Problem
from ratchet.infra.recipe.load import SHIPPED, load_recipe
from ratchet.infra.recipe.model import PromptFormat
from ratchet.verifiers.prompts import user_message


def test_every_benchmark_can_be_asked_and_graded():
    for declared in CATALOGUE.values():
        assert any(layout.domain in (None, declared.domain) for layout in FORMATS)
        assert re.fullmatch(r"hf://datasets/[^/@]+/[^/@]+(@[^/]+)?/.+", declared.hub)
        prompt = PromptFormat().model_copy(update=dict(declared.prompt))
        problem = Problem("p", declared.domain, "STATEMENT", starter_code="def f(x):")
        assert "def f(x):" in user_message(problem, prompt) or declared.domain == "math"


def test_the_papers_windows_do_not_overlap_and_have_their_numbers():
    five, six = CATALOGUE["livecodebench-v5"], CATALOGUE["livecodebench-v6"]
    assert five.window[1] == six.window[0] and (five.questions, six.questions) == (279, 175)
    samples = {"aime24": 64, "aime25": 64, "math500": 4, "livecodebench-v5": 8, "humaneval": 4}
    assert {name: CATALOGUE[name].samples for name in samples} == samples


def test_shipped_recipes_name_benchmarks_that_are_known():
    for file in SHIPPED.glob("acereason*.yaml"):
        for benchmark in load_recipe(file).evaluation.benchmarks:
            assert CATALOGUE[benchmark.name].domain == benchmark.domain
            assert CATALOGUE[benchmark.name].samples == benchmark.samples
