import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ratchet.data_curation.tokens import cut, tokenize_texts
from tests.data_curation.conftest import token_texts

SPELLINGS = yaml.safe_load((Path(__file__).parent / "spellings.yaml").read_text(encoding="utf-8"))


def words(text: str) -> list[str]:
    return [token for token, _, _ in token_texts(text)]


@pytest.mark.parametrize(("one", "other"), SPELLINGS["alike"])
def test_the_same_statement_in_another_hand_has_the_same_tokens(one, other):
    assert words(one) == words(other)
    assert (tokenize_texts([one]).hashes == tokenize_texts([other]).hashes).all()


@pytest.mark.parametrize(("one", "other"), SPELLINGS["different"])
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
    tokens = tokenize_texts(texts)
    for text, start, end in zip(texts, tokens.bounds[:-1], tokens.bounds[1:], strict=True):
        expected = [found[0].lower() for found in SIMPLE.finditer(text)]
        spans = [(a, b) for _, a, b in token_texts(text)]
        assert [cut(text, span) for span in spans] == [found[0] for found in SIMPLE.finditer(text)]
        assert [word.decode() for word in tokens.words(start, end)] == expected
        alone = tokenize_texts([text])
        assert (tokens.hashes[start:end] == alone.hashes).all()


def test_a_broken_escape_is_a_text_like_any_other():
    assert words("aa \ud83d bb") == ["aa", "bb"]


def test_columns_of_any_layout_give_the_same_tokens():
    texts = ["a b", "", "c d e", "é ≤ f", None]
    column = pa.array(["unused", *texts, "unused"]).slice(1, 5)
    chunked = pa.chunked_array([column.slice(0, 2), column.slice(2)]).cast(pa.large_string())
    expected = tokenize_texts([text or "" for text in texts])
    for other in (column, chunked):
        found = tokenize_texts(other)
        assert (found.hashes == expected.hashes).all() and (found.bounds == expected.bounds).all()
    assert len(tokenize_texts(pa.chunked_array([], pa.string())).hashes) == 0


def test_ngrams_stay_inside_their_text_and_batches_do_not_matter():
    texts = ["aa bb cc dd", "x", "", "bb cc dd ee ff"] * 3
    grams, first = tokenize_texts(texts).ngrams(3)
    owners = tokenize_texts(texts).texts[first]
    assert np.bincount(owners, minlength=12).tolist() == [2, 0, 0, 3] * 3
    assert grams[1] == grams[2]  # "bb cc dd" here and there
    long = ["word " * 200_000, "aa bb cc dd", "tail end"]
    tokens = tokenize_texts(long)
    assert np.diff(tokens.bounds).tolist() == [200_000, 4, 2]
    assert (tokens.hashes[200_000:200_004] == tokenize_texts(["aa bb cc dd"]).hashes).all()
    assert tokens.words(200_004, 200_006) == [b"tail", b"end"] and tokens.span(2, 200_005, 200_005) == (5, 8)
