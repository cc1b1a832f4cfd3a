r"""Answers that no list of pairs showed to be paid: constants, other letters, lost names, what stays small."""

import itertools

import pytest

from ratchet.verifiers.math.equivalence import verify_answer


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


def by_cases(*rows: str, name: str = "") -> str:
    return name + "\\begin{cases}" + " \\\\ ".join(rows) + "\\end{cases}"


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        (by_cases("x^2 & x\\ge 0", "-x & x<0"), by_cases("x^2 & x\\ge 0", "-x & x<1")),  # two values at 1/2
        (by_cases("x^2 & x\\ge 1", "-x & x<1"), by_cases("x^2 & x\\ge 1", "-x & x\\le 1")),  # and at 1
        (by_cases("2x & 0<x<1", "0 & \\text{otherwise}"), by_cases("2x & 0<g<1", "0 & \\text{otherwise}")),
        (by_cases("2x & 0<x<1", "0 & \\text{otherwise}"), by_cases("2x & 0<X<1", "0 & \\text{otherwise}")),
        (by_cases("1 & n=0", "0 & \\text{otherwise}"), by_cases("1 & w=0", "0 & \\text{otherwise}")),
        (by_cases("1 & n=0", "0 & n\\ne 0", name="f(n)="), by_cases("1 & w=0", "0 & w\\ne 0", name="f(n)=")),
    ],
)
def test_conditions_divide_the_line_and_name_the_variable(reference, answer):
    assert passes(reference, reference) and not passes(reference, answer)


def test_conditions_may_meet_where_the_values_do():
    assert passes(by_cases("x^2 & x\\ge 0", "-x & x<0"), by_cases("-x & x\\le 0", "x^2 & x\\ge 0"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("\\frac{mg}{M+m}", "\\frac{Mg}{M+m}"), ("\\sqrt{2gR}", "\\sqrt{2gr}"), ("2v_1", "2V_1"), ("kT", "kt"),
        ("IR", "ir"), ("nRT", "NRT"), ("3r_1", "3R_1"), ("mgh", "Mgh"), ("\\text{mgh}", "\\text{Mgh}"),
        ("7\\text{ MeV}", "7\\text{ meV}"), ("4\\text{ mbar}", "4\\text{ Mbar}"), ("5\\text{ mHz}", "5\\text{ MHz}"),
        ("\\frac12 kA^2", "\\frac12"), ("2 L W", "2"), ("3mg", "3"), ("A = 6 s^2", "6"), ("\\frac32kT", "1500T"),
        ("\\frac{\\sqrt3}2mg", "\\frac{\\sqrt3}2"), ("2\\mu g", "2"), ("R\\Omega", "R"),
    ],
)  # fmt: skip
def test_letters_keep_their_case_and_are_no_units(one, other):
    assert not passes(one, other) and not passes(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("\\text{Even}", "even"), ("Tuesday", "\\text{tuesday}"), ("\\text{YES}", "yes"), ("3mg", "3gm"),
        ("\\frac{2mg}{3}", "\\frac23mg"), ("5\\text{ m}", "5m"), ("5 cm", "50\\text{ mm}"), ("12\\text{ kg}", "12 kg"),
        ("\\frac{\\sqrt{3}}{2}mg", "\\frac{\\sqrt3}{2} m g"), ("5\\text{ mg}", "5 mg"),
    ],
)  # fmt: skip
def test_words_have_any_case_and_units_are_read(one, other):
    assert passes(one, other) and passes(other, one)


@pytest.mark.parametrize(
    ("reference", "wrong"),
    [
        ("x=2,y=3", "3,2"), ("x=2,y=3", "x=2\\text{ or }y=3"), ("n=15, r=7", "7, 15"), ("x=2,y=3", "y=2,x=3"),
        ("5\\text{ dimes},3\\text{ nickels}", "3,5"), ("D=(0,1), R=(2,3)", "(2,3), (0,1)"), ("x=2,y=3", "(3,2)"),
        ("C, A, D, B", "C, D, A, B"), ("3\\text{ cm}, 4\\text{ s}", "4, 3"), ("x>1, y<2", "y>1, x<2"),
    ],
)  # fmt: skip
def test_values_keep_their_names(reference, wrong):
    assert not passes(reference, wrong)


@pytest.mark.parametrize(
    ("reference", "right"),
    [
        ("x=2,y=3", "2,3"), ("x=2,y=3", "y=3,x=2"), ("x=2,y=3", "(2,3)"), ("x=1,2", "2,1"), ("x=1, x=2", "2, 1"),
        ("5\\text{ dimes},3\\text{ nickels}", "5,3"), ("A, C, D", "D, A, C"),
    ],
)  # fmt: skip
def test_and_are_read_without_them_in_order(reference, right):
    assert passes(reference, right)


@pytest.mark.parametrize(
    ("reference", "wrong"),
    [
        ("[2,5]", "|x|\\in[2,5]"), ("(0,1)", "\\frac1x\\in(0,1)"), ("(2,3)", "x-1\\in(2,3)"),
        ("(0,4)", "a\\not\\in(0,4)"), ("(0,1)", "\\text{not }x\\in(0,1)"), ("\\{-1,1\\}", "x^2\\in\\{-1,1\\}"), 
        ("\\mathbb{R}", "x\\not\\in\\mathbb{R}"), ("(0,4)", "a\\notin(0,4)"), ("x\\in\\{1,2\\}", "y\\in\\{1,2\\}"),
    ],
)  # fmt: skip
def test_the_left_of_a_membership_is_read(reference, wrong):
    assert not passes(reference, wrong)


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
    ("reference", "wrong"),
    [
        ("v0^2/(2μg)", "v0^2/(3μg)"),
        ("i f_0'' = 2 f_0' f_1'", "i f_0'' = 3 f_0' f_1'"),
        ("5 \\text{ m} = 500 \\text{ cm}", "3 \\text{ m} = 300 \\text{ cm}"),
        (r"\frac{N(J = 0)}{N(J = 1)} = 0.37", r"\frac{N(J = 1)}{N(J = 1)} = 0.37"),
        ("f(0) = 2f(1)", "f(0) = 3f(1)"),
    ],
)
def test_what_mutations_of_published_references_found(reference, wrong):
    assert verify_answer(reference, reference).passed and not verify_answer(wrong, reference).passed


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
    ("one", "other"),
    [
        ("\\binom n2", "\\frac{n(n-1)}{2}"), ("\\binom nk", "\\frac{n!}{k!(n-k)!}"), ("(n+1)!", "(n+1)n!"),
        ("\\frac{\\lambda^k e^{-\\lambda}}{k!}", "\\frac{e^{-\\lambda}\\lambda^k}{k!}"), ("|z|^2", "z\\bar z"),
        ("\\ln|x|", "\\ln x"), ("|x|", "\\sqrt{x^2}"), ("\\lfloor\\frac n2\\rfloor", "\\frac n2-\\frac{1-(-1)^n}4"),
        ("ad-bc+1", "\\begin{vmatrix}a&b\\\\c&d\\end{vmatrix}+1"), ("\\frac{(2n)!}{n!}", "\\frac{(2n)!(n+1)}{(n+1)!}"),
    ],
)  # fmt: skip
def test_whole_and_complex_variables_are_compared_as_such(one, other):
    assert passes(one, other) and passes(other, one)
