"""What the papers say, against the recipes, and the pages that say it."""

import json
import re

import pytest

from docs.tools import fidelity, rehearsals

FIELDS = {
    "claim", "value", "in", "recipe", "code", "state", "reason", "unverified", "mechanisms", "findings",
}  # fmt: skip
NAMES = [file.stem for file in fidelity.FACTS]


@pytest.mark.parametrize("file", fidelity.FACTS, ids=NAMES)
def test_every_recipe_has_what_the_paper_says(file):
    assert fidelity.differing(file) == []


@pytest.mark.parametrize("file", fidelity.FACTS, ids=NAMES)
def test_the_page_is_that_of_the_facts(file):
    page = fidelity.DOCS / "evidence" / f"{file.stem}.md"
    assert page.read_text() == fidelity.page(file), "python -m docs.tools.fidelity"


@pytest.mark.parametrize("file", fidelity.FACTS, ids=NAMES)
def test_every_fact_says_where_it_is_or_why_it_is_not(file):
    root = fidelity.DOCS.parent
    for fact in fidelity.facts_in(file):
        assert fact.keys() <= FIELDS, fact
        assert fact["state"] in fidelity.STATES
        assert (fact["state"] == "rehearsed") == bool(fact.get("mechanisms")), fact["claim"]
        assert fact["state"] not in ("rehearsed", "set") or "recipe" in fact or "code" in fact, fact["claim"]
        assert fact["state"] != "absent" or fact.get("reason"), fact["claim"]
        assert "code" not in fact or (root / fact["code"]).exists(), fact["code"]
        for document in re.findall(r"docs/[\w/]+\.md", fact.get("reason", "")):
            assert (root / document).is_file(), document


@pytest.mark.parametrize("file", fidelity.FACTS, ids=NAMES)
def test_every_mechanism_of_a_rehearsed_fact_was_seen(file):
    assert fidelity.not_seen(file) == []


def test_the_page_of_rehearsals_is_that_of_their_record():
    records = [json.loads(file.read_text()) for file in (rehearsals.RECORD, rehearsals.FAULTS)]
    assert rehearsals.PAGE.read_text() == rehearsals.page(*records)


def test_a_recipe_that_is_changed_is_noticed(monkeypatch):
    fields_of, name = fidelity.fields_of, "acereason-7b"
    changed = fields_of(name)
    changed = {**changed, "evaluation": {**changed["evaluation"], "temperature": 0.7}}
    monkeypatch.setattr(fidelity, "fields_of", lambda recipe: changed if recipe == name else fields_of(recipe))
    assert any(
        "evaluation.temperature [0.7], the facts say 0.6" in line for line in fidelity.differing(fidelity.FACTS[0])
    )
