from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.verifiers.math.context import required
from ratchet.verifiers.math.equivalence import decide, equivalent, reference_text, verify_math
from ratchet.verifiers.math.question import read
from ratchet.verifiers.math.structure import parse_answer
from ratchet.verifiers.outcome import Outcome
from tests.verifiers.tricky_pairs import BARE, ROWS
from tests.work import within


def test_the_suite_is_large_balanced_and_without_repetition():
    assert len(ROWS) >= 400
    assert 0.4 <= sum(row["equivalent"] for row in ROWS) / len(ROWS) <= 0.55
    assert len({(row["gold"], row.get("pred", row.get("response"))) for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("kind", sorted({row["kind"] for row in ROWS}))
def test_labelled_pairs(kind):
    wrong = []
    for row in ROWS:
        if row["kind"] == kind:
            verdict = verify_math(row.get("response", f"\\boxed{{{row.get('pred')}}}"), row["gold"])
            if verdict.passed is not row["equivalent"] or verdict.outcome is Outcome.INFRA_ERROR:
                wrong.append((row, verdict))
    assert not wrong


@pytest.mark.parametrize("kind", sorted({kind for kind, *_ in BARE}))
def test_equivalence_is_reflexive_symmetric_and_true_where_verification_is(kind):
    for _, reference, answer, same in (pair for pair in BARE if pair[0] == kind):
        assert equivalent(reference, reference)
        forth = equivalent(reference, answer)
        assert forth == equivalent(answer, reference), (reference, answer)
        assert forth or not same, (reference, answer)


def test_responses_without_an_answer():
    assert verify_math("the answer is 4", "4").outcome is Outcome.UNPARSEABLE
    assert verify_math("<think>\\boxed{4}", "4").decided_by == "no_answer"
    cut = verify_math("\\boxed{4}", "4", finished=False)
    assert (cut.outcome, cut.decided_by) == (Outcome.FAILED, "truncated")


@pytest.mark.parametrize(
    ("reference", "answer", "tier"),
    [
        ("7", "7", "string"), ("3.5", "14/4", "exact"), ("(1,2)", "(1, 2.0)", "structure"), ("5", "9^{9^9}", "cost"),
        ("\\sqrt{8}", "2\\sqrt{2}", "numeric"), ("7", "14/2", "unevaluated"),
        ("\\frac{\\sqrt{3}}{2}", "\\cos\\frac{\\pi}{6}", "numeric"), ("73^\\circ", "(180-107)^\\circ", "unevaluated"),
        ("73^\\circ", "66^\\circ+7^\\circ", "unevaluated"), ("60^\\circ", "\\frac{\\pi}{3}", "numeric"),
    ],
)  # fmt: skip
def test_the_cheapest_tier_that_can_decides(reference, answer, tier):
    assert verify_math(f"\\boxed{{{answer}}}", reference).decided_by == tier


def test_published_references():
    assert reference_text("['2']") == "2"
    assert reference_text("['$\\\\frac{1}{2}$']") == "$\\frac{1}{2}$"
    assert reference_text("['$\\frac{1}{2}$']") == "$\\frac{1}{2}$"
    assert reference_text("['1', '2']") == "1, 2"
    assert reference_text("[1, 2]") == "[1, 2]"
    assert reference_text("['unclosed") == "['unclosed"


@pytest.mark.parametrize(
    ("question", "asks"),
    [
        ("What percent of the box is filled?", True),
        ("By what percent was the width decreased?", True),
        ("What is the largest possible percent error in the area?", True),
        ("Find the probability. Express your answer as a percent.", True),
        ("What is the probability, expressed as a percentage?", True),
        ("Eleven percent of what number is seventy-seven?", False),
        ("What is the price after a 20 percent discount?", False),
        ("After twenty percent off, what does it cost?", False),
        ("What is the volume of a forty percent solution?", False),
        ("How many students are there?", False),
    ],
)
def test_a_question_may_ask_for_a_percentage(question, asks):
    asked = ("25\\%", asks), ("25 \\text{ percent}", asks)
    for answer, same in (("25", True), *asked, ("2500\\%", False), ("4", False)):
        assert verify_math(f"\\boxed{{{answer}}}", "25", question=question).passed is same, answer
    for kept in ("0.5", "25\\%", "25 \\text{ cm}", "x", "(1,2)"):
        assert required(read(question), kept, str.__eq__).percent == kept.endswith("%")


@given(st.fractions(max_denominator=10**6))
def test_numbers_equal_themselves_in_other_notations(value):
    numerator, denominator = value.numerator, value.denominator
    forms = [
        f"{numerator}/{denominator}",
        f"\\frac{{{numerator}}}{{{denominator}}}",
        f"\\frac{{{-numerator}}}{{{-denominator}}}",
    ]
    whole, rest = divmod(abs(numerator), denominator)
    if whole and rest:
        forms.append(f"{'-' if value < 0 else ''}{whole}\\frac{{{rest}}}{{{denominator}}}")
    for form in forms:
        assert decide(forms[0], form)[0] is True
    assert decide(forms[0], f"{numerator + 1}/{denominator}")[0] is False


@given(st.integers(-(10**12), 10**12), st.integers(0, 6))
def test_decimals_and_thousands(units, places):
    value = Fraction(units, 10**places)
    assert parse_answer(str(units) if places == 0 else _decimal(units, places)).value == value
    assert parse_answer(f"{units:,}").value == units


def _decimal(units: int, places: int) -> str:
    digits = str(abs(units)).rjust(places + 1, "0")
    return f"{'-' if units < 0 else ''}{digits[:-places]}.{digits[-places:]}"


def test_numbers_are_decided_at_once():
    """Most answers are numbers: these are not read as expressions first."""
    for number in range(500):
        within(20, decide, str(number), str(number + number % 2))
