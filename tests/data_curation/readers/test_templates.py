"""Templates of public data sets and trainers, around statements with and without a full stop; and near misses."""

import pytest
import yaml

from ratchet.data_curation.readers.templates import clean_statement, clean_text
from tests.data_curation.readers.files import HERE

STATEMENTS = ("Let x = 1. Find x + 1.", "Find the sum of the digits of $2^{20}$")
TEMPLATES = yaml.safe_load((HERE / "templates.yaml").read_text())


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("around", TEMPLATES["around"].values(), ids=TEMPLATES["around"])
def test_what_data_sets_put_around_a_statement_is_removed(around, statement):
    cleaned = clean_statement(statement.join(around))
    assert cleaned.text == statement and cleaned.removed


@pytest.mark.parametrize("text", TEMPLATES["kept"])
def test_statements_without_a_template_stay_as_they_are(text):
    assert clean_statement(text).removed == () and clean_statement(text).text == text


def test_what_stands_beside_a_template_is_never_removed():
    first, last = "It has $7$ rows. How many slabs?", "Nine are drains."
    instruction = "Return your final response within \\boxed{}."
    assert clean_statement(f"{instruction} {first}").text == first
    assert clean_statement(f"{first} {instruction} {last}").text == f"{first} {instruction} {last}"
    assert clean_statement(f"{first} {last} {instruction}").removed == ((f"… {instruction}",) * 2,)


def test_the_code_of_a_template_is_kept_apart():
    asked = "Please complete the following python code precisely:\n```python\nclass Solution:\n    def f(self):\n```"
    cleaned = clean_statement(f"Add them.\n\n{asked}")
    assert (cleaned.text, cleaned.starter_code) == ("Add them.", "class Solution:\n    def f(self):")


def test_accidents_of_typing_are_mended_and_nothing_else():
    assert clean_text("a\u00a0b\u200b\r\nc \n\ufeff") == "a b\nc"
    assert clean_text("e\u0301 ≤ 2² \\frac{1}{2}") == "é ≤ 2² \\frac{1}{2}"
