"""What a recipe's scores cannot be trusted for: benchmarks that are not held out, and those that rules read."""

from itertools import chain

import pytest
from pydantic import ValidationError

from ratchet.infra.recipe import Recipe
from ratchet.infra.recipe.recipe_warnings import recipe_warnings
from ratchet.verifiers.problem import Problem

HELD_OUT = {"name": "held", "domain": "math", "path": "held.jsonl"}


def recipe(benchmarks=(HELD_OUT,), compared=("held.jsonl",), **stage) -> Recipe:
    settings = {"name": "one", "domain": "math", "steps": 9, "max_response_tokens": 8, **stage}
    curation = {"math": {"inputs": ["train.jsonl"], "benchmarks": list(compared)}}
    evaluation = {"benchmarks": list(benchmarks), "after": ["start", "one"]}
    return Recipe.model_validate(
        {"name": "r", "curation": curation, "training": {"stages": [settings]}, "evaluation": evaluation}
    )


def test_a_benchmark_that_curation_does_not_compare_with_is_named_unless_the_recipe_says_why():
    [words] = recipe_warnings(recipe(compared=()))
    assert words.startswith("held: scored, and curation.math is not decontaminated against it")
    assert not recipe_warnings(recipe([HELD_OUT | {"advanced": {"not_held_out": "measures memory"}}], compared=()))
    assert not recipe_warnings(recipe())


STOP = {"interventions": [{"when": {"plateau": 2}, "do": "stop"}]}


@pytest.mark.parametrize("stage", [STOP, {"advanced": {"result": "best"}, "validate_every": 3}])
def test_a_score_that_a_rule_reads_was_selected_on_unless_it_reads_a_part_of_its_own(stage):
    [words] = recipe_warnings(recipe(**stage))
    assert words.startswith("held: these benchmarks choose weights or stop stages (one)")
    first, second = (HELD_OUT | {"name": f"held-{n}", "advanced": {"part": [n, 2]}} for n in (1, 2))
    assert not recipe_warnings(recipe([first, second], validation={"held-1": 1}, **stage))
    [words] = recipe_warnings(recipe([first, second, HELD_OUT], validation={"held-1": 1}, **stage))
    assert words.startswith("held: these benchmarks")  # the whole file has the part's questions


@pytest.mark.parametrize(
    ("stage", "fixed", "words"),
    [
        ({"loss": "gspo", "updates_per_batch": 4}, {"clip_low": 3e-4, "clip_high": 4e-4}, "hardly ever differs"),
        ({"loss": "gspo", "updates_per_batch": 4}, {"updates_per_batch": 1}, "loss: gspo clips the ratio"),
        ({"lora": True}, {"learning_rate": 1e-5}, "learning_rate is 1e-06, for all weights: an adapter"),
        ({"loss": "dr_grpo"}, {"advantage": "dr_grpo"}, "loss: dr_grpo is half of Dr. GRPO"),
        ({"advantage": "reinforce_pp", "dynamic_sampling_rounds": 2}, {"dynamic_sampling_rounds": 0}, "all equal"),
    ],
)  # fmt: skip
def test_settings_that_cancel_each_other_are_named(stage, fixed, words):
    def warned(**settings) -> list[str]:
        lora = settings.pop("lora", False)
        data = recipe(**settings).model_dump()
        data["model"]["path"], data["training"]["advanced"]["lora"] = "a/model", {} if lora else None
        return recipe_warnings(Recipe.model_validate(data))

    [said] = warned(**stage)
    assert said.startswith("training.stages.one: ") and words in said
    assert not warned(**{**stage, **fixed})


def test_parts_have_each_question_once():
    ids = [f"{number:03}" for number in range(30)]
    problems = {i: Problem(i, "math", "?", metadata=f'{{"level": "Level {int(i) % 5}"}}') for i in reversed(ids)}
    parts = [HELD_OUT | {"name": f"held-{n}", "advanced": {"part": [n, 3]}} for n in (1, 2, 3)]
    chosen = [benchmark.select(problems) for benchmark in recipe(parts).evaluation.benchmarks]
    assert sorted(chain.from_iterable(chosen)) == ids and {len(part) for part in chosen} == {10}
    assert recipe([HELD_OUT | {"limit": 2}]).evaluation.benchmarks[0].select(problems) == ids[:2]
    easy = HELD_OUT | {"limit": 3, "advanced": {"max_difficulty": 1, "part": [2, 2]}}
    assert recipe([easy]).evaluation.benchmarks[0].select(problems) == ["001", "005", "011"]
    with pytest.raises(ValidationError, match="no part 3 of 2"):
        recipe([HELD_OUT | {"advanced": {"part": [3, 2]}}])
