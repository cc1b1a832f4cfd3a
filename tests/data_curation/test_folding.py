import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.data_curation.folding import folded
from ratchet.data_curation.tokens import cut, tokenize_texts
from tests.data_curation.conftest import token_texts


@pytest.mark.parametrize(
    ("written", "meant"),
    [("x²³y", "x^23 y"), ("a₁b", "a_1 b"), ("⁽ⁿ⁺¹⁾", "^(n+1)"), ("m²", "m^2"), ("㎡", "m^2"), ("H₂O", "H_2 O"),
     ("¾", "3/4"), ("𝔄𝟛", "A3"), ("ﬃ", "ffi"), ("Ⅳ", "IV"), ("⒈", "1."), ("“—”", '"-"'), ("≰", "≰"), ("é", "e"),
     ("20 ℃", r"20 ^\circ C")],
)  # fmt: skip
def test_one_spelling(written, meant):
    assert folded(written).replace("\0", " ").strip() == meant
    assert folded(folded(written)) == folded(written)


def test_only_what_is_mathematics_differs_from_nfkc():
    """Without accents, every character of the basic plane becomes what NFKC says, but for these kinds."""
    different = set()
    for code in range(0x80, 0xFFFF):
        character = chr(code)
        if unicodedata.category(character) in ("Cs", "Cn", "Co"):
            continue
        normal = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", character))
        ours = folded(character).replace("\0", "")
        if [c for c in ours if not unicodedata.combining(c)] != [c for c in normal if not unicodedata.combining(c)]:
            parts = unicodedata.decomposition(character).split()
            different.add("struck" if parts[1:] == ["0338"] else (parts or [unicodedata.category(character)])[0])
    different -= {"<vertical>", "<small>", "<noBreak>", "00B7"}  # dashes, and a dot
    assert different == {"<super>", "<sub>", "<fraction>", "<square>", "<compat>", "struck", "Cf", "Nd", "Mn", "Me",
                         "Pd", "Pi", "Pf", "Po", "Sm", "So"}  # fmt: skip


MIXED = st.lists(st.text("ab12²³₁½ｘ𝑥é\u0301\u200b\u00ad漢 =\u0338\\frac{}^<sup>", max_size=12), max_size=6)


@given(MIXED)
def test_positions_are_those_of_the_text_whatever_is_folded_beside_it(texts):
    tokens = tokenize_texts(texts)
    for number, text in enumerate(texts):
        first, end = tokens.bounds[number : number + 2].tolist()
        alone = tokenize_texts([text])
        assert (tokens.hashes[first:end] == alone.hashes).all(), "another text changes nothing"
        spans = [tokens.span(number, place, place) for place in range(first, end)]
        assert spans == [span for _, *ends in token_texts(text) for span in [tuple(ends)]]
        size = len(text.encode())
        assert all(0 <= start < stop <= size for start, stop in spans) and spans == sorted(spans)
        for start, stop in spans:
            assert "\ufffd" not in cut(text, (start, stop)), "no part of a character"


def test_evidence_shows_the_text_as_it_was_written():
    text = "\u200bＡ　ｗｈｅｅｌ of radius 𝟕² ro\u00adlls ½ mile"
    assert [cut(text, span) for _, *span in token_texts(text)] == [
        "Ａ", "ｗｈｅｅｌ", "of", "radius", "𝟕", "²", "²", "ro\u00adlls", "½", "½", "½", "mile",
    ]  # fmt: skip
    assert np.diff(tokenize_texts([text, text]).bounds).tolist() == [12, 12]
