import json

from ratchet.data_curation.settings.curation import Decontamination
from ratchet.infra.recipe.load import load_recipe
from ratchet.tasks.contamination import flagged_items, same_items, settings_for_scores
from ratchet.verifiers.problem import problem_id
from tests.data_curation.conftest import problems

TRAINS = (
    "Two trains leave Oslo and Bergen at noon, at 60 and 90 kilometers an hour towards each other; when do they meet?"
)
SHEEP = "A farmer has 17 sheep and all but nine of them wander off in the stormy night, so how many are left at home?"
LAMPS = "In how many ways can five red and three blue lamps be hung in a row so that no two blue ones are neighbors?"


def test_items_in_the_training_set_are_flagged_with_the_text_they_share():
    items = problems("math", TRAINS, SHEEP, LAMPS)
    longer, other = f"Warm up. {SHEEP} Explain.", "What is 3 + 4, and what is 5 + 6, in that order?"
    training = problems("math", longer, other, LAMPS.upper())
    flagged, _ = flagged_items(items, [training], Decontamination(preset="coverage"))
    found = {row["problem_id"]: row for row in flagged}
    assert set(found) == {problem_id("math", SHEEP), problem_id("math", LAMPS)}
    sheep = found[problem_id("math", SHEEP)]
    assert sheep["training_row"] == problem_id("math", longer)
    assert "17 sheep" in json.loads(sheep["evidence"])["text"]
    assert flagged_items(items, [training.slice(0, 0)], Decontamination()) == ([], 0)


def test_where_statements_all_resemble_one_another_an_item_is_only_itself():
    items, training = problems("math", TRAINS, SHEEP), problems("math", SHEEP, f"{TRAINS} Explain.")
    (flagged,), _ = same_items(items, [training], Decontamination())
    assert flagged["problem_id"] == flagged["training_row"] == problem_id("math", SHEEP)


def test_boilerplate_is_no_contamination_of_a_score_whatever_the_recipe_says():
    overrides = ["curation.math.decontaminate.preset=paper", "curation.math.decontaminate.released_after=2024-01-01"]
    recipe = load_recipe("tiny", overrides)
    assert recipe.curation["math"].decontaminate.preset == "paper"
    settings = settings_for_scores(recipe.curation_of("math"), "math")
    assert (settings.preset, settings.released_after, bool(settings.ngram)) == ("coverage", None, True)
