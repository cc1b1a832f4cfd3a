r"""What holds for every answer, not only for those we thought of."""

import re
from fractions import Fraction
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ratchet.verifiers.math import numeric
from ratchet.verifiers.math.equivalence import decide, reference_fault, verify_math
from ratchet.verifiers.math.structure import parse_answer
from ratchet.verifiers.outcome import Outcome
from tests.verifiers.tricky_pairs import BARE
from tests.work import within

integers = st.integers(-999, 999)
naturals = st.integers(1, 60)
numbers = st.one_of(
    integers.map(str),
    st.builds("\\frac{{{}}}{{{}}}".format, integers, naturals),
    st.builds("{}.{}".format, integers, naturals),
)
names = st.sampled_from(["x", "y", "n", "a_1", "\\theta", "R"])
atoms = st.one_of(numbers.map(lambda n: f"({n})"), names, st.just("\\pi"), naturals.map("\\sqrt{{{}}}".format))
expressions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds("({}+{})".format, inner, inner),
        st.builds("({}-{})".format, inner, inner),
        st.builds("{}\\cdot {}".format, inner, inner),
        st.builds("\\frac{{{}}}{{{}}}".format, inner, st.one_of(naturals.map(str), names)),
        st.builds("({})^{}".format, inner, st.integers(2, 4)),
    ),
    max_leaves=6,
)
tuples = st.lists(numbers, min_size=2, max_size=4).map(lambda parts: "(" + ", ".join(parts) + ")")
sets = st.lists(numbers, min_size=1, max_size=4).map(lambda parts: "\\{" + ", ".join(parts) + "\\}")
intervals = st.builds("{}{}, {}{}".format, st.sampled_from("(["), integers, integers, st.sampled_from(")]"))
LABELED = sorted({text for _, one, other, _ in BARE for text in (one, other)})
suite = st.sampled_from(LABELED)
answers = st.one_of(numbers, expressions, tuples, sets, intervals)
any_text = st.text(alphabet="0123456789\\{}()[]^_/.,+-*!%$&|<>=: abcefilnrstxπ\x00\ud800", max_size=60)

OPERANDS = re.split(
    r"\s+;\s+",
    r"""x ; 2 ; \infty ; i ; \pm 3 ; 50\% ; 5\text{ m} ; 1:2 ; 12:30 ; 1011_2 ; 1,2,3 ; (1,2) ; [0,1) ; \{1,2\} ;
\emptyset ; \mathbb{R} ; \vec{v} ; \mathbf{A} ; \begin{pmatrix}1&2\\3&4\end{pmatrix} ; \text{yes} ; x=2 ;
x>3 ; n\equiv 1\pmod 5 ; \begin{cases}x&x>0\\0&x\le0\end{cases} ; f(x) ; a_n ; n! ; \binom{n}{k} ;
\overline{AB} ; \angle A ; \hat{x} ; \nabla ; \ldots ; ()""",
)
FORMS = re.split(
    r"\s+;\s+",
    r"""\log @ ; \log_{#} @ ; \sqrt[#]{@} ; @^{#} ; @_{#} ; \frac{@}{#} ; @ # ; @-# ; @\cdot # ; \times @ ;
\arctan @ ; |@|^{#} ; \lfloor @\rfloor ; @! ; \binom{@}{#} ; \sum_{k=1}^{@} # ; \int_0^{@} #\,dx ;
\lim_{x\to @} # ; \max(@,#) ; @\pmod{#} ; @\in # ; @\cup # ; @ = # ; @ < # ; @:# ; \{@,#\} ; (@,#) ; [@,#] ;
\begin{pmatrix}@\\#\end{pmatrix} ; \det @ ; \operatorname{tr} @ ; @^{\top} ; @\text{ m} ;
\text{if } @ \text{ then } # ; @ \text{ or } # ; \frac{d}{d@} # ; @^\circ ; #@' ;
\begin{cases}@&#\\#&@\end{cases} ; @\to # ; \neg @ ; @\land #""",
)


def same_value(one, other):
    nodes = [parse_answer(text).node for text in (one, other)]
    return None if None in nodes else numeric.same_value(*nodes, [numeric.MOST_WORK])


REWRITINGS = [
    lambda text: f" {text} ",
    lambda text: f"${text}$",
    lambda text: f"{text}.",
    lambda text: f"\\displaystyle {text}",
    lambda text: f"{{{text}}}",
    lambda text: text.replace("\\frac", "\\dfrac"),
    lambda text: text.replace("(", "\\left(").replace(")", "\\right)"),
    lambda text: text.replace("+", " + ").replace("\\cdot", "\\times"),
    lambda text: text.replace("-", "−"),
]


@given(answers)
@settings(max_examples=300)
def test_every_answer_is_itself(text):
    is_itself(text)


def test_every_answer_of_the_suite_is_itself():
    for text in LABELED:
        is_itself(text)


def is_itself(text):
    assert decide(text, text).same is True
    if not reference_fault(text):
        assert verify_math(f"\\boxed{{{text}}}", text).passed


@given(answers, st.sampled_from(REWRITINGS), st.sampled_from(REWRITINGS))
@settings(max_examples=400)
@example("(1, 2)", REWRITINGS[6], REWRITINGS[2])
def test_harmless_rewriting_changes_nothing(text, first, second):
    assert decide(text, second(first(text))).same is True
    assert decide(first(text), text).same is True


@given(expressions, expressions)
@settings(max_examples=200)
@example("0.1", "x^4")  # what cancels is 2^128
def test_numeric_equality_is_symmetric_and_knows_its_own_rewritings(one, other):
    assert same_value(one, other) == same_value(other, one)
    assert same_value(one, f"({one})+({other})-({other})") in (True, None)
    assert same_value(one, f"{one}+1") in (False, None)
    assert same_value(f"2({one})", f"({one})+({one})") in (True, None)


@given(st.one_of(answers, suite), st.one_of(answers, suite))
@settings(max_examples=300)
def test_quick_tiers_never_disagree_with_their_mirror(one, other):
    forth, back = decide(one, other), decide(other, one)
    if forth.tier == back.tier == "numeric" and parse_answer(one).places is parse_answer(other).places is None:
        assert forth.same == back.same


@given(any_text, any_text)
@settings(max_examples=500)
def test_any_text_is_decided_after_little_work_and_without_raising(one, other):
    for reference, answer in ((one, other), (one, "3"), ("(1,2)", one), ("x+\\sqrt{2}", one), (one, one + "1")):
        within(1_000_000, decide, reference, answer)
        verdict = verify_math(f"\\boxed{{{answer}}}", reference)
        assert verdict.outcome in (Outcome.PASSED, Outcome.FAILED, Outcome.UNPARSEABLE)


def test_no_operand_is_one_too_strange():
    r"""\log \vec{v}, \det [0,1), \emptyset \land x > 3: none raises, in the answer or in the reference."""
    random = Random(0)
    texts = [form.replace("@", random.choice(OPERANDS)).replace("#", random.choice(OPERANDS)) for form in FORMS * 80]
    for one, other in zip(texts, random.sample(texts, len(texts)), strict=True):
        decide(one, one), decide(one, other)


@given(st.lists(numbers, min_size=2, max_size=5, unique=True), st.randoms())
@settings(max_examples=100)
def test_order_matters_in_tuples_only(parts, random):
    shuffled = parts[:]
    random.shuffle(shuffled)
    listed, mixed = ", ".join(parts), ", ".join(shuffled)
    assert decide(f"\\{{{listed}\\}}", f"\\{{{mixed}\\}}").same
    assert decide(listed, mixed).same
    same = [parse_answer(part).value for part in parts] == [parse_answer(part).value for part in shuffled]
    assert decide(f"({listed})", f"({mixed})").same is same


@given(st.fractions(max_denominator=10**9), st.fractions(max_denominator=10**9))
def test_numbers_are_compared_exactly(one, other):
    written = [f"\\frac{{{value.numerator}}}{{{value.denominator}}}" for value in (one, other)]
    assert decide(*written).same is (one == other)
    near = one + Fraction(1, 10**40)
    assert decide(written[0], f"\\frac{{{near.numerator}}}{{{near.denominator}}}").same is False


@given(naturals, naturals, naturals)
def test_radicals_are_proven_not_guessed(a, b, c):
    assert same_value(f"{a}\\sqrt{{{b}}}", f"\\sqrt{{{a * a * b}}}") is True
    assert same_value(f"\\sqrt{{{a}}}+\\sqrt{{{b}}}", f"\\sqrt{{{a}+{b}+2\\sqrt{{{a * b}}}}}") is True
    assert same_value(f"(\\sqrt{{{a}}}+{b})^2-{c}", f"{a}+{b * b}-{c}+{2 * b}\\sqrt{{{a}}}") is True
    assert same_value(f"{a}\\sqrt{{{b}}}", f"{a}\\sqrt{{{b}}}+10^{{-{c + 20}}}") is False
