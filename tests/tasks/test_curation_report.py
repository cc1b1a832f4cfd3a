from ratchet.data_curation.funnel import funnel
from ratchet.infra.pages import to_html
from ratchet.infra.store.manifest import DatasetManifest
from ratchet.tasks.curation_report import card, document
from tests.data_curation.conftest import problems
from tests.data_curation.test_funnel import SUMMARIES, rejected


def manifest(step: str, inputs: list[str], parameters: dict, **summary) -> DatasetManifest:
    named = [{"name": name, "key": "0123456789abcdef" * 4} for name in inputs]
    return DatasetManifest(
        kind="problems", name=step, key="k", step=step, step_version=3, code="abc", parameters=parameters,
        inputs=named, counts={}, files={}, seconds=1.0, summary=summary,
    )  # fmt: skip


def test_the_card_says_where_the_rows_come_from_and_what_was_done():
    self_test = {
        "items": 5, "recall": 0.998, "recall_by_disguise": {"verbatim": 1.0}, "disguised": {"verbatim": 5},
        "unprotected": [], "missed": [],
    }  # fmt: skip
    steps = [
        manifest("normalize", ["raw|file.json"], {"domain": "math"}),
        manifest("decontaminate", ["x", "aime24"], {"ngram": 9, "coverage": 0.4, "variants": "drop"},
                 items=5, preset="coverage", paper_hits=30, coverage_hits=4, kept_sharing=26,
                 variants=3, passages=1, self_test=self_test),
    ]  # fmt: skip
    funnelled, dropped = funnel(SUMMARIES), rejected("proof")
    kept = problems("math", "a", "b")
    page = document("math", funnelled, kept, dropped, steps, {"length": "no teacher"})
    text = card(page, "math", len(kept))
    assert text.startswith("---\npretty_name: Curated math problems\n") and "size_categories: [n<1K]" in text
    assert "2.0% of 100 rows" in text and "**Not done:** `length` (no teacher)" in text
    assert f"| `raw\\|file.json` | {'0123456789abcdef' * 4} |" in text
    settings = "ngram 9, coverage 0.4, variants drop"
    assert f"| decontaminate | 3 | abc | {settings} | x 0123456789ab, aime24 0123456789ab | 1.000 |" in text
    assert "5 benchmark items, 9-grams" in text and "`paper` 30" in text and "99.8%" in text
    assert "26 kept rows share an n-gram" in text
    assert "| answer | large_string | 0% |" in text and "| rules | proof | 100 | 10 | 10.0% | 90 |" in text
    assert "Nothing was dropped by rules figure." in text and "| figure |" not in text
    assert "Samples" not in text and "Prove &#39;it&#39;. # now" in to_html(page)
