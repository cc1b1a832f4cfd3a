import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.evaluation.creativity import LENGTHS, creativity_index, read_texts, tokens
from ratchet.infra.errors import RatchetError

words = st.lists(st.sampled_from("abc"), max_size=25).map(" ".join)


def contains(document: list[str], gram: list[str]) -> bool:
    return any(document[i : i + len(gram)] == gram for i in range(len(document) - len(gram) + 1))


def dj_search(text: list[str], documents: list[list[str]], shortest: int) -> float:
    """The paper's search for quoted spans of at least `shortest` tokens: share of tokens outside all of them."""
    quoted, i, j = np.zeros(len(text), bool), 0, shortest
    while j <= len(text):
        if any(contains(document, text[i:j]) for document in documents):
            quoted[i:j] = True
            j += 1
        else:
            i += 1
            j = max(j, i + shortest)
    return float((~quoted).mean())


@given(words, st.lists(words, max_size=4))
@settings(deadline=None, max_examples=80)
def test_fixed_lengths_find_what_the_search_for_spans_finds(text, corpus):
    split, documents = text.split(), [document.split() for document in corpus if document != text]
    if not split:
        return
    for length in (2, 3, 5):
        found = creativity_index([text], corpus, [length])[0]
        assert found == pytest.approx(dj_search(split, documents, length))


def test_copied_and_new_and_half_copied():
    source = " ".join(f"word{i}" for i in range(60))
    copied, new = " ".join(source.split()[5:45]), " ".join(f"other{i}" for i in range(40))
    corpus = [source, "unrelated text"]
    index = creativity_index([copied, new, f"{copied} {new}", ""], corpus)
    assert index[0] == 0 and index[1] == len(LENGTHS)
    assert index[2] == pytest.approx(len(LENGTHS) / 2)
    assert np.isnan(index[3])
    assert creativity_index([source], corpus)[0] == len(LENGTHS), "a text is not quoted from itself"


def test_a_corpus_is_a_table_or_a_text(tmp_path):
    pq.write_table(pa.table({"prompt": ["p"], "response": ["one"]}), tmp_path / "traces.parquet")
    (tmp_path / "lines.jsonl").write_text('{"text": "two"}\n\n{"text": null}\n')
    (tmp_path / "plain.txt").write_text("three\nlines\n\nfour\n")
    found = [read_texts(tmp_path / name) for name in ("traces.parquet", "lines.jsonl", "plain.txt")]
    assert found == [["one"], ["two"], ["three\nlines", "four\n"]]
    pq.write_table(pa.table({"x": [1]}), tmp_path / "none.parquet")
    for name in ("none.parquet", "missing.txt"):
        with pytest.raises(RatchetError, match=name):
            read_texts(tmp_path / name)


def test_tokens_are_words_and_signs_without_case():
    assert tokens("The Sum, x_1+2!") == ["the", "sum", ",", "x_1", "+", "2", "!"]
