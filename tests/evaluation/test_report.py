import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from evaluation.document import Document, Section, inline, to_html, to_markdown
from evaluation.report import by_benchmark, compare, difference_rows, read_scores, write_report
from evaluation.scores import score, without_nan
from infra.errors import RatchetError
from infra.problems import Problem

NASTY = "<script>alert('x')</script>"


def evaluation(directory: Path, label: str, skill: float, content_hash: str = "h", outcome: str = "passed") -> Path:
    """Scores of two benchmarks as an evaluation writes them; `skill` is the chance of a right response."""
    generator = np.random.default_rng(3)
    rows = [
        {"problem_id": f"q{q}", "sample": s, "outcome": outcome if generator.random() < skill else "failed",
         "tokens": int(generator.integers(5, 40)), "finish_reason": "stop", "answer_class": None}
        for q in range(12) for s in range(4)
    ]  # fmt: skip
    ids = [Problem(f"q{q}", "math", "?") for q in range(12)]
    benchmarks = {
        "tiny-math": {"domain": "math", "content_hash": content_hash, **score(rows, ids, (1, 2, 4, 8), vote=True)},
        f"code {NASTY}": {"domain": "code", "content_hash": content_hash, **score(rows, ids, (1, 2), vote=False)},
    }
    sampling = {"temperature": 1.0, "top_p": 1.0, "max_tokens": 40}
    (directory / label).mkdir(parents=True)
    text = json.dumps(
        without_nan({"label": label, "seed": 0, "settings": {"sampling": sampling}, "benchmarks": benchmarks})
    )
    (directory / label / "scores.json").write_text(text)
    return directory / label


class Page(HTMLParser):
    """Collects what a browser would act on."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_report_is_self_contained_complete_and_escaped(tmp_path):
    directories = [("start", evaluation(tmp_path, "start", 0.3)), (NASTY, evaluation(tmp_path, "end", 0.8))]
    extra = Section(
        "Funnel " + NASTY, f"Text {NASTY} $x^2_$", [{"step": NASTY, "a|b": "x|y", "kept": 1200}], b"\x89PNG"
    )
    files = write_report(directories, tmp_path / "report", title="tiny " + NASTY, sections=[extra])

    page = Page((tmp_path / "report/report.html").read_text())
    assert page.open == []  # every tag is closed, in order
    assert not {"script", "iframe", "object", "link"} & {tag for tag, _ in page.tags}
    images = [attributes["src"] for tag, attributes in page.tags if tag == "img"]
    assert all(src.startswith("data:image/") for src in images)
    assert len([src for src in images if "svg" in src]) == 1 + 2 + 2 + 2  # pass@1; two benchmarks or two panels each
    words = " ".join(page.words)
    for expected in (f"tiny {NASTY}", f"code {NASTY}", "tiny-math", "start → " + NASTY, "1,200", "Solve rates", "–"):
        assert expected in words

    markdown = (tmp_path / "report/report.md").read_text()
    assert "<script" not in markdown and "x\\|y" in markdown
    for link in re.findall(r"\]\((figures/[^)]+)\)", markdown):
        assert (tmp_path / "report" / link).stat().st_size > 0
    assert set(files) == {p for p in (tmp_path / "report").rglob("*") if p.is_file()}


def test_the_difference_shown_is_the_paired_one(tmp_path):
    evaluations = [read_scores(label, evaluation(tmp_path, label, skill)) for label, skill in (("a", 0.3), ("b", 0.8))]
    scores = [e.scores["benchmarks"]["tiny-math"] for e in evaluations]
    paired = compare(*scores)
    solve = [np.array([passed / n for passed, n in s["problems"].values()]) for s in scores]
    assert paired.difference == pytest.approx((solve[1] - solve[0]).mean())
    row = difference_rows(by_benchmark(evaluations))[0]
    assert row["difference"] == f"+{paired.difference:.3f} ± {paired.standard_error:.3f}"


def test_neighbours_and_the_ends_are_compared(tmp_path):
    evaluations = [read_scores(label, evaluation(tmp_path, label, 0.5)) for label in "abc"]
    rows = difference_rows({"tiny-math": by_benchmark(evaluations)["tiny-math"]})
    assert [row["from → to"] for row in rows] == ["a → b", "b → c", "a → c"]


def test_a_changed_benchmark_is_not_compared(tmp_path):
    before, after = evaluation(tmp_path, "a", 0.3), evaluation(tmp_path, "b", 0.8, content_hash="other")
    rows = difference_rows(by_benchmark([read_scores("a", before), read_scores("b", after)]))
    assert "not comparable" in rows[0]["difference"] and "p" not in rows[0]


def test_one_evaluation_with_nothing_graded_still_makes_a_report(tmp_path):
    path = evaluation(tmp_path, "only", 1.1, outcome="infra_error")
    write_report([("only", path)], tmp_path / "report", title="t")
    assert "| 48 |" in (tmp_path / "report/report.md").read_text()  # the infra errors


def test_scores_that_are_not_there(tmp_path):
    (tmp_path / "scores.json").write_text("[1]")
    for directory in (tmp_path, tmp_path / "none"):
        with pytest.raises(RatchetError, match="evaluate end again"):
            read_scores("end", directory)


def test_inline_marks():
    assert inline("see [run](http://127.0.0.1:5000/#/a?b=1&c) and `x<y`") == (
        'see <a href="http://127.0.0.1:5000/#/a?b=1&amp;c">run</a> and <code>x&lt;y</code>'
    )
    assert "<a" not in inline("[x](javascript:alert(1)) [y](data:text/html,z)")
    assert inline('**a** "b"') == "<strong>a</strong> &quot;b&quot;"


def test_rows_with_different_columns_share_one_table():
    document = Document("t", sections=[Section("s", table=[{"a": 1}, {"a": 2, "b": float("nan")}])])
    assert "| 1 | – |" in to_markdown(document)[0]
    assert [tag for tag, _ in Page(to_html(document)).tags].count("th") == 2


def test_columns_of_numbers_line_up_on_the_right_and_a_long_key_costs_nothing():
    rows = [
        {"key": "1" * 5000 + "x", "score": "0.5 ± 0.1", "interval": "−0.1 … +0.2", "share": "3.2 %", "p": "< 0.001"}
    ]
    cells = [attributes for tag, attributes in Page(to_html(Document("t", sections=[Section("s", table=rows)]))).tags
             if tag == "td"]  # fmt: skip
    assert [attributes.get("class") for attributes in cells] == [None, "n", "n", "n", "n"]
