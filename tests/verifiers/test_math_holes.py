r"""Answers that no list of pairs showed to be paid: constants, other letters, lost names, what stays small."""

import itertools

import pytest

from ratchet.verifiers.math.equivalence import verify_answer
from tests.verifiers.programs import programs

GROUPS = programs("math_holes")


def passes(reference: str, answer: str) -> bool:
    return verify_answer(answer, reference).passed


CONDITIONS = [
    "x>3", "|x-1|<2", "n\\equiv2\\pmod 7", "x\\in[0,1]", "P(1,2)", "x\\ne4", "-2\\le x\\le 5", "k\\in\\mathbb{R}",
    "a\\ge-\\frac12", "x\\in\\{1,2\\}", "\\{x : x>2\\}", "2x+y<1",
]  # fmt: skip


@pytest.mark.parametrize(
    "word", ["otherwise", "else", "elsewhere", "otherwise, otherwise", "else or else", "if", "when"]
)
def test_no_word_answers_a_condition(word):
    for reference, text in itertools.product(CONDITIONS, (word, f"\\text{{{word}}}")):
        assert not passes(reference, text), reference


def test_otherwise_is_one_row_of_cases():
    reference = "\\begin{cases} x & x>0 \\\\ -x & x\\le 0 \\end{cases}"
    assert passes(reference, "\\begin{cases} x & x>0 \\\\ -x & \\text{otherwise} \\end{cases}")
    assert not passes(reference, "\\begin{cases} x & \\text{otherwise} \\\\ -x & \\text{otherwise} \\end{cases}")
    assert not passes(reference, "\\begin{cases} -x & \\text{otherwise} \\\\ x & x<0 \\end{cases}")


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kinds in GROUPS.items() for kind in kinds])
def test_answers_of_a_class_pass_for_one_another_or_only_for_themselves(name, kind):
    for group in GROUPS[name][kind]:
        for one, other in itertools.product(group, group):
            assert passes(one, other) is (kind == "same" or one == other), (one, other)


def test_letters_in_the_order_of_the_alphabet_have_no_order():
    assert passes("A, C, D", "D, A, C")


@pytest.mark.parametrize(
    "wrong", ["\\vec{42}", "\\overrightarrow{42}", "42'", "42''", "42:1", "42_2", "42!", "42^\\top"]
)
def test_what_surrounds_a_number_is_read(wrong):
    assert not passes("42", wrong)


@pytest.mark.parametrize(
    "zero",
    [
        "\\sqrt{(x-10^9)^2}-(10^9-x)", "|x-10^{12}|+x-10^{12}", "|x-5.001|-2|x-5.002|+|x-5.003|",
        "\\lfloor x/10^9\\rfloor+1",
        "|x-10^{-12}|+|x|-|2x-10^{-12}|", "|x^2-10^{14}|+x^2-10^{14}", "|x-10^{40}|+x-10^{40}", "e^{-1900\\sqrt1}",
        "\\frac{1}{\\cosh(1000)}", "1-\\tanh(1000)", "10^{-60}",
    ],
)  # fmt: skip
def test_what_is_almost_always_or_almost_zero_is_not_zero(zero):
    assert not passes("x+1", f"x+1+{zero}")
    assert not passes("x+\\sqrt2", f"{zero}+x+\\sqrt2")


@pytest.mark.parametrize(
    ("answer", "is_right"),
    [("zebra x = 42", False), ("\\text{lamp }t = 42", False), ("\\text{side }a = 42", True), ("length = 42", True)],
)
def test_a_letter_behind_an_unknown_word_names_no_value(answer, is_right):
    assert passes("42", answer) is is_right


@pytest.mark.parametrize(
    "answer", ["\\log\\vec{v}", "\\log_2\\mathbf{A}", "\\arctan\\mathbf{A}", "\\log_{\\mathbf{A}}2", "2^{\\mathbf{A}}"]
)
def test_a_function_of_a_matrix_is_not_computed(answer):
    assert not passes("x", answer) and not passes(answer, "x") and not passes(answer, answer.replace("2", "3") + "+1")


WRONG = [
    ("|x|", "x"), ("x^2", "x|x|"), ("\\frac{x}{|x|}", "1"), ("\\lfloor x\\rfloor", "x"), ("\\cos 2\\pi ft", "1"),
    ("\\sqrt{x^2}", "x"), ("\\sin\\pi x", "0"), ("\\ln x^2", "2\\ln(-x)"), ("x-|x|", "0"), ("\\lfloor x\\rfloor", "0"),
    ("\\binom{n}{k}p^k(1-p)^{n-k}", "\\binom{n}{k}p^{n-k}(1-p)^k"), ("|x|n!", "x\\,n!"), ("\\cos(2\\pi f)n!", "n!"),
    ("\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "\\begin{vmatrix}1&2\\\\3&4\\end{vmatrix}"),
]  # fmt: skip
NOTHING = [
    "", "+0!-1", "+x!-x!", "+\\binom{3}{3}-1", "+|z|-|z|", "+z\\bar z-|z|^2", "+0\\vec v", "+\\lfloor 0\\rfloor",
    "+\\lfloor n\\rfloor-\\lfloor n\\rfloor", "+\\ln x-\\ln x", "+\\sqrt{x}-\\sqrt{x}", "+\\frac{0}{x}", "+0i",
    "+f(x)-f(x)", "\\cdot\\frac{x}{x}", "\\cdot 1^{n}", "+\\arcsin x-\\arcsin x", "+e^{x^9}-e^{x^9}",
]  # fmt: skip


@pytest.mark.parametrize(("reference", "answer"), WRONG)
def test_no_term_that_adds_nothing_makes_a_wrong_answer_right(reference, answer):
    """Each keeps the variables whole, positive, small or complex, where the two sides may agree."""
    assert [term for term in NOTHING if passes(reference, answer + term)] == []


@pytest.mark.parametrize(
    ("reference", "answer"),
    [("(-1)^n+{0}", "1+{0}"), ("(-1)^{{n+m}}+{0}", "(-1)^n+{0}"), ("(-1)^{{nm}}+{0}", "1+{0}")],
)
def test_an_alternating_sign_is_seen(reference, answer):
    assert not [i for i in range(1, 60) if passes(reference.format(i), answer.format(i))]
