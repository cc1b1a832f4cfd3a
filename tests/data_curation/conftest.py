import os
from pathlib import Path

import pyarrow as pa
import pytest

from ratchet.data_curation.base.problem_table import to_table
from ratchet.data_curation.tokens import tokenize_texts
from ratchet.verifiers.problem import problem_id


def problems(domain: str, *prompts: str, **columns: list) -> pa.Table:
    """A table of problems; `columns` give one value a row."""
    rows = []
    for number, prompt in enumerate(prompts):
        row = {name: values[number] for name, values in columns.items()}
        identity = problem_id(domain, prompt, row.get("entry_point"))
        rows.append({"problem_id": identity, "domain": domain, "source": "test", "source_id": str(number)} | row)
        rows[-1]["prompt"] = prompt
    return to_table(rows)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Published files to try curation on; not part of the repository."""
    root = os.environ.get("RATCHET_SHARED_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data"
    if not Path(root).is_dir():
        pytest.skip(f"no published data sets at {root} (RATCHET_SHARED_DATA)")
    return Path(root)


def token_texts(text: str) -> list[tuple[str, int, int]]:
    """The tokens of one text as (folded text, start, end), in bytes of its UTF-8: what `tokenize_texts` hashes."""
    tokens = tokenize_texts([text])
    spans = [tokens.span(0, place, place) for place in range(len(tokens.hashes))]
    words = tokens.words(0, len(tokens.hashes))
    return [(word.decode(errors="replace"), *span) for word, span in zip(words, spans, strict=True)]
