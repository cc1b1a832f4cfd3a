import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.data_curation.tokens import byte_span, cut, tokenise
from tests.data_curation.conftest import token_texts


def words(text: str) -> list[str]:
    return [token for token, _, _ in token_texts(text)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"Let $\dfrac{1}{2}$, and $p$,", r"let \(\frac 1 2\) and $p,$"),
        (r"\left( x \right) \text{apples}", "(X) apples"),
        (r"$x^{2}+1$", r"\[ x ^ 2 + 1 \]"),
        (r"$a \leq b$ and $c\neq d$", r"$a\le b$ and $c \ne d$"),
        (r"$2\pi r \leqslant \infty \times 3$", "2π r ⩽ ∞ · 3"),
        ("ÉCOLE Ωmega", "école ωmega"),
        ("“smart” − dash", '"smart" - dash'),
        ("AB, CD;\tand\nE.", "ab cd and e"),
        (r"$A x^2 + a b c$ and $x  y$", "$Ax^2 + abc$ and $xy$"),
        ("a\u00a0b c d e f g h i j", "abcdefgh ij"),
        ("x² + x¹⁰ − a₁₂", "$x^2 + x^{10} - a_{12}$"),
        ("10⁻³ and 2ⁿ⁺¹", "$10^{-3}$ and $2^{n+1}$"),
        ("x<sup>2</sup>&nbsp;&lt; 5", "$x^2 < 5$"),
        ("ｆｕｌｌ　ｗｉｄｔｈ：３＋４", "full width: 3+4"),
        ("𝑓(𝑥) = 𝐀𝟐 ∈ ℝ", r"$f(x) = A 2 \in \mathbb{R}$"),
        ("sol\u00adu\u200btion, na\u0308ive café, ﬁnd", "solution, naive cafe, find"),
        ("① and 2½ of ⅓", r"1 and 2 \frac12 of $\tfrac{1}{3}$"),
        (r"$\frac{3}{4}$ of \frac ab", "3/4 of a/b"),
        ("90° at 5㎡, 90º", r"$90^\circ$ at 5 m^2, $90^{\circ}$"),
        ("⌊x⌋ ≠ y, a ≢ b, 1, 2, …, n", "$\\lfloor x \\rfloor \\ne y$, a \u2261\u0338 b, 1, 2, ..., n"),
        ("٣٤ が 한국", "34 か\u3099 \u1112\u1161\u11ab\u1100\u116e\u11a8"),
    ],
)
def test_the_same_statement_in_another_hand_has_the_same_tokens(one, other):
    assert words(one) == words(other)
    assert (tokenise([one]).hashes == tokenise([other]).hashes).all()


@pytest.mark.parametrize(
    ("one", "other"), [("x = 12", "x = 13"), ("a + b", "a - b"), ("x_1", "x_2"), ("3.14", "314"), ("a, b", "ab"),
     ("x²", "x2"), ("x²", "x³"), ("x₂", "x²"), ("2²", "22"), ("½", "12"), ("a ≠ b", "a = b"), ("аx", "ax"),
     ("①②", "12"), ("x²3", "x²³")],
)  # fmt: skip
def test_what_makes_another_problem_makes_other_tokens(one, other):
    assert words(one) != words(other)


def test_tokens_are_letters_digits_operators_and_ideographs():
    assert words(r"Compute $3x+\sin 60^\circ \le 10$ 求和") == [
        "compute", "3", "x", "+", "sin", "60", "^", "circ", "≤", "10", "求", "和",
    ]  # fmt: skip


SIMPLE = re.compile("[a-zé😀]+|[0-9]+|[-+*/=<>^|%&~≤]", re.IGNORECASE)


@given(st.lists(st.text(alphabet="abXY01 29+-=<.,;$(){}\n\t\\", max_size=40), max_size=6))
def test_agrees_with_a_regular_expression_whatever_the_texts_beside_it(texts):
    texts = [re.sub(r"\\", " ", SIMPLE.sub(lambda found: found[0] + ".", text)) for text in texts]  # no lone letters
    tokens = tokenise(texts)
    for text, start, end in zip(texts, tokens.bounds[:-1], tokens.bounds[1:], strict=True):
        expected = [found[0].lower() for found in SIMPLE.finditer(text)]
        spans = [(a, b) for _, a, b in token_texts(text)]
        assert [cut(text, span) for span in spans] == [found[0] for found in SIMPLE.finditer(text)]
        assert [word.decode() for word in tokens.words(start, end)] == expected
        alone = tokenise([text])
        assert (tokens.hashes[start:end] == alone.hashes).all()


def test_positions_are_bytes_whatever_the_script():
    text = "😀 ∑ Ωmega 12é"
    spans = [(start, end) for _, start, end in token_texts(text)]
    assert [cut(text, span) for span in spans] == ["😀", "∑", "Ωmega", "12", "é"]
    assert byte_span(text, 4, 9) == list(spans[2]) and cut(text, byte_span(text, 4, 9)) == "Ωmega"


def test_a_broken_escape_is_a_text_like_any_other():
    assert words("aa \ud83d bb") == ["aa", "bb"]


def test_columns_of_any_layout_give_the_same_tokens():
    texts = ["a b", "", "c d e", "é ≤ f", None]
    column = pa.array(["unused", *texts, "unused"]).slice(1, 5)
    chunked = pa.chunked_array([column.slice(0, 2), column.slice(2)]).cast(pa.large_string())
    expected = tokenise([text or "" for text in texts])
    for other in (column, chunked):
        found = tokenise(other)
        assert (found.hashes == expected.hashes).all() and (found.bounds == expected.bounds).all()
    assert len(tokenise(pa.chunked_array([], pa.string())).hashes) == 0


def test_ngrams_stay_inside_their_text_and_batches_do_not_matter():
    texts = ["aa bb cc dd", "x", "", "bb cc dd ee ff"] * 3
    grams, first = tokenise(texts).ngrams(3)
    owners = tokenise(texts).texts[first]
    assert np.bincount(owners, minlength=12).tolist() == [2, 0, 0, 3] * 3
    assert grams[1] == grams[2]  # "bb cc dd" here and there
    long = ["word " * 200_000, "aa bb cc dd", "tail end"]
    tokens = tokenise(long)
    assert np.diff(tokens.bounds).tolist() == [200_000, 4, 2]
    assert (tokens.hashes[200_000:200_004] == tokenise(["aa bb cc dd"]).hashes).all()
    assert tokens.words(200_004, 200_006) == [b"tail", b"end"] and tokens.span(2, 200_005, 200_005) == (5, 8)
