import ast
import json
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from ratchet.data_curation.base.metadata import cluster_of, difficulty_of, topics_of
from ratchet.evaluation import tables
from ratchet.evaluation.comparison import paired_difference
from ratchet.evaluation.grading import GRADED_SCHEMA
from ratchet.evaluation.home import Home
from ratchet.evaluation.main import QUESTIONS_SCHEMA
from ratchet.evaluation.report import WORDS, Evaluated, by_benchmark, compose, headline, read_scores, write_report
from ratchet.evaluation.responses import against_the_reference
from ratchet.evaluation.scores import score, without_nan
from ratchet.infra.pages import Document, Drawing, Section, anchor, inline, to_html, to_markdown
from ratchet.infra.store.artifacts import Artifact, ArtifactStore
from ratchet.tasks.report import summary_table
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import Problem

NASTY = "<script>alert('x')</script>"
COMPOSED: dict[int, tuple[list[Evaluated], Document]] = {}
QUERIES = {name: section.get("queries") for name, section in yaml.safe_load(WORDS.read_text())["sections"].items()}


def section(evaluations: list[Evaluated], title: str) -> Section:
    """One of the report's sections; drawing them takes seconds, so that each report is composed once."""
    if id(evaluations) not in COMPOSED:
        COMPOSED[id(evaluations)] = evaluations, compose(evaluations, "t")[0]
    return next(part for part in COMPOSED[id(evaluations)][1].sections if part.title == title)


def loading(evaluations: list[Evaluated], benchmark: str) -> str:
    """What a reader runs first to look at this benchmark."""
    lines = section(evaluations, "Data and queries").queries.splitlines()
    return "\n".join(line for line in lines if not line.startswith("rows, graded, q, asked = ") or benchmark in line)


def evaluation(
    directory: Path, label: str, skill: float, content_hash: str = "h", outcome: str = "passed",
    domains: tuple[str, ...] = ("math", "code"), **changes,
) -> Path:  # fmt: skip
    """Benchmarks as an evaluation leaves them; `skill` is the chance of a right response, and the last question's
    answers are all the same wrong one."""
    generator = np.random.default_rng(3)
    problems = [
        Problem(f"q{q}", "math", f"What is {q}? {NASTY}", answer=str(q), source="file", source_id=str(q),
                metadata=json.dumps({"subject": "even" if q % 2 else "odd", "difficulty": q % 3}
                                    | ({"contest_id": q // 2} if q < 6 else {})))
        for q in range(12)
    ]  # fmt: skip
    rows, benchmarks = [], {}
    for domain in domains:
        own = []
        for question in range(12):
            for sample in range(4):
                passed = generator.random() < skill and question != 11
                answer = 0 if passed else 1 if question == 11 else 1 + sample
                own.append({
                    "benchmark": f"tiny-{domain}", "problem_id": f"q{question}", "sample": sample,
                    "text": f"{NASTY} answer {sample}", "tokens": int(generator.integers(5, 40)),
                    "finish_reason": "stop" if generator.random() < 0.9 else "length",
                    "outcome": outcome if passed else "failed", "decided_by": "exact", "fraction": float(passed),
                    "extracted": "77", "empty": False, "answer_class": answer if domain == "math" else None,
                })  # fmt: skip
        rows += own
        benchmarks[f"tiny-{domain}"] = {
            "domain": domain, "content_hash": content_hash, "published_questions": 12, "set_aside": {},
            "released": None, "public_since": "2024-01-01",
            "prompt": {"math": "{prompt}", "code": "{prompt}", "response_prefix": ""},
            **score(pd.DataFrame(own), problems, (1, 2, 4, 8), vote=domain == "math", contaminated=["q3"]),
        }  # fmt: skip
    scores = {
        "label": label, "seed": 0, "model": {"identity": "f" * 64, "endpoint": None},
        "settings": {"sampling": {"temperature": 1.0, "top_p": 1.0, "max_tokens": 40}, "dtype": "float32",
                     "step_version": 1},
        "benchmarks": benchmarks, **changes,
    }  # fmt: skip
    path = directory / label
    path.mkdir(parents=True)
    (path / "scores.json").write_text(json.dumps(without_nan(scores)))
    pq.write_table(pa.Table.from_pylist(rows, schema=GRADED_SCHEMA), path / "generations.parquet")
    questions = [
        {"benchmark": name, "problem_id": p.problem_id, "source": p.source, "source_id": p.source_id,
         "prompt": p.prompt, "reference": p.answer, "contaminated": p.problem_id == "q3",
         "topics": topics_of(p), "difficulty": str(difficulty_of(p)), "cluster": cluster_of(p)}
        for name in benchmarks for p in problems
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(questions, schema=QUESTIONS_SCHEMA), path / "questions.parquet")
    return path


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
        "Funnel " + NASTY, f"Text {NASTY} $x^2_$", [{"step": NASTY, "a|b": "x|y", "kept": 1200}],
        drawing=Drawing("rows", b"\x89PNG"), caption="Rows " + NASTY,
    )  # fmt: skip
    origin = {"Date": "2026-11-26 15:20 UTC", "Model": f"`checkpoint/{NASTY}`"}
    files = write_report(directories, tmp_path / "report", title="tiny " + NASTY, sections=[extra], origin=origin)

    page = Page((tmp_path / "report/report.html").read_text())
    assert page.open == []  # every tag is closed, in order
    assert not {"script", "iframe", "object", "link"} & {tag for tag, _ in page.tags}
    images = [attributes["src"] for tag, attributes in page.tags if tag == "img"]
    assert all(src.startswith("data:image/") for src in images)
    assert len([src for src in images if "svg" in src]) == 2 * 2  # pass@k and solve rates of two benchmarks
    words = " ".join(page.words)
    for expected in (
        f"tiny {NASTY}", "tiny-math", "start → " + NASTY, "1,200", "Solve rates", "–", "Contamination", "Topics",
        "2026-11-26 15:20 UTC", f"checkpoint/{NASTY}", "Contents",
        "Recompute these numbers", "With 0 of 4 correct the solve rate may still be up to 52.7%",
    ):  # fmt: skip
        assert expected in words

    places = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    contents = [attributes["href"] for tag, attributes in page.tags if tag == "a" and attributes["href"][0] == "#"]
    headings = [attributes for tag, attributes in page.tags if tag == "h2"]
    assert set(contents) == {f"#{place}" for place in places} and len(contents) == len(headings) - 1

    markdown = (tmp_path / "report/report.md").read_text()
    assert "<script" not in markdown and "x\\|y" in markdown
    titles = {anchor(line[3:]) for line in markdown.splitlines() if line.startswith("## ")}
    listed = re.findall(r"^\d+\. \[.*\]\(#(\S+)\)$", markdown, re.MULTILINE)
    assert "- Date: 2026-11-26 15:20 UTC" in markdown and "passk" in listed and len(listed) == len(contents)
    assert {place for place in listed if "script" not in place} <= titles
    links = re.findall(r"\]\(((?:figures|responses)/[^)]+)\)", markdown)
    assert any(link.startswith("responses/tiny-math-q11") for link in links)
    for link in links:
        assert (tmp_path / "report" / link).stat().st_size > 0
    assert set(files) == {p for p in (tmp_path / "report").rglob("*") if p.is_file()}

    sample = Page((tmp_path / "report/responses/tiny-math.html").read_text())
    assert sample.open == [] and "script" not in {tag for tag, _ in sample.tags}
    headings = [words for words in sample.words if re.fullmatch(rf"(start|{re.escape(NASTY)}): (passed|failed)", words)]
    assert len(headings) == 2 * 10 and f"{NASTY} answer 0" in sample.words and f"{NASTY} answer 1" not in sample.words
    rows = pq.read_table(directories[1][1] / "generations.parquet").to_pylist()
    first = {r["problem_id"]: r["outcome"] for r in rows if r["benchmark"] == "tiny-math" and r["sample"] == 0}
    after = [words.rsplit(": ", 1)[1] for words in headings[1::2]]
    assert after == [first[words] for words in sample.words if words in first]

    whole = Page((tmp_path / "report/responses/tiny-math-q11.html").read_text())
    assert whole.open == [] and "script" not in {tag for tag, _ in whole.tags}
    words = " ".join(whole.words)
    assert f"What is 11? {NASTY}" in words and f"{NASTY} answer" in words
    assert "one of 4 wrong responses of 4" in words and "judged answer: 77" in words


def shown(text: str) -> list[float]:
    """The numbers of a table's cell."""
    return [
        float(n.replace("−", "-")) / (100 if p else 1)
        for n, p in re.findall(r"(?<!\w)([+−]?\d+(?:\.\d+)?)( ?%)?", text)
    ]


def run(code: str, names: dict) -> list[float]:
    """What a query says, as numbers: the value of its last expression."""
    *statements, last = ast.parse(code).body
    exec(compile(ast.Module(statements, []), "query", "exec"), names)
    value = eval(compile(ast.Expression(last.value), "query", "eval"), names)
    return [float(v) for v in (value if isinstance(value, tuple) else (value,)) if not isinstance(v, str)]


def agree(cell: str, found: list[float]) -> bool:
    if cell.startswith("none: "):
        return bool(np.isnan(found).all())
    numbers = shown(cell)
    found = [0.0 if np.isnan(v) else v for v in found] if cell.strip("– ±") else []
    return len(numbers) <= len(found) and all(abs(a - b) < 6e-4 for a, b in zip(numbers, found, strict=False))


def test_every_number_is_what_the_query_beside_it_says(tmp_path):
    path = evaluation(tmp_path, "start", 0.6)
    evaluations = [read_scores("start", path)]
    series = by_benchmark(evaluations)
    names: dict = {}
    checked = 0
    for name, [(_, scores)] in series.items():
        exec(loading(evaluations, name), names)
        row = tables.score_rows(scores)[0]
        for title, code in QUERIES["scores"].items():
            for k in (1, 2, 4) if title == "pass@k" else (4,):
                column = title.replace("k", str(k)) if "@" in title else title
                if column in row:
                    assert agree(str(row[column]), run(code, names | {"k": k})), column
                    checked += 1
        row = tables.response_rows(scores)[0]
        for title, code in QUERIES["responses"].items():
            assert agree(str(row[title]), run(code, names)), title
            checked += 1
        for row in tables.k_rows(scores):
            for title, code in QUERIES["by_k"].items():
                if title in row and row["k"] <= 4:
                    assert agree(row[title], run(code, names | {"k": row["k"]})), (title, row["k"])
                    checked += 1
        solved = run(f"tuple({QUERIES['solve_rates']['questions in each bar']})", names)
        assert solved == scores["solve_rates"]["questions"]
        for title, code in QUERIES["contamination"].items():
            (row,) = tables.contamination_rows(scores)
            assert agree(str(row[title]), run(code, names)), title
        for row in tables.topic_rows({name: series[name]}, "topics"):
            (found,) = [r for r in eval(*QUERIES["topics"].values(), names) if r["topic"] == row["topic"]]
            assert agree(row["accuracy"], [found["value"], found["standard_error"]])
            assert agree(row["at equal difficulty"], [found["adjusted"], found["adjusted_standard_error"]])
        lengths = eval(QUERIES["lengths"]["correct and wrong"], names)
        for right, group in ((True, "correct"), (False, "wrong")):
            found = lengths.loc[right][["mean", "50%", "90%", "99%"]].tolist()
            assert found == pytest.approx(list(scores["response_tokens"][group].values()))
    assert checked > 40


def test_the_difference_shown_is_what_its_query_says(tmp_path):
    evaluations = [read_scores(label, evaluation(tmp_path, label, skill)) for label, skill in (("a", 0.3), ("b", 0.8))]
    scores = [e.scores["benchmarks"]["tiny-math"] for e in evaluations]
    paired = paired_difference(scores[0]["problems"], scores[1]["problems"], clusters=scores[1]["clusters"])
    row = tables.difference_rows(by_benchmark(evaluations))[0]
    assert row["difference"] == f"+{paired.difference:.3f} ± {paired.standard_error:.3f}"
    before, after = (str(e.directory) for e in evaluations)
    names: dict = {"before": before, "after": after, "benchmark": "tiny-math"}
    exec(loading(evaluations, "none of them"), names)
    for row in tables.difference_rows({"tiny-math": by_benchmark(evaluations)["tiny-math"]}):
        names["k"] = int(row["metric"].removeprefix("pass@"))
        for title, code in QUERIES["differences"].items():
            if title in row:
                found = run(code, names)
                if row[title] == "< 0.001":
                    assert found[0] < 0.001, row["metric"]
                else:
                    assert agree(str(row[title]).split(" (")[0], found), (row["metric"], title)


def test_neighbours_and_the_ends_are_compared_and_regimes_found(tmp_path):
    evaluations = [read_scores(label, evaluation(tmp_path, label, 0.5)) for label in "abc"]
    rows = tables.difference_rows({"tiny-math": by_benchmark(evaluations)["tiny-math"]})
    assert [row["from → to"] for row in rows if row["metric"] == "pass@1"] == ["a → b", "b → c", "a → c"]
    assert {row["metric"] for row in rows} == {"pass@1", "pass@2", "pass@4"}
    whole, parts = (section(evaluations, f"Paired differences{of}").table for of in ("", " by task"))
    assert [(row["benchmark"], row["task"], row["questions"]) for row in parts if row["metric"] == "pass@1"] == [
        (name, task, 6) for name in ("tiny-math", "tiny-code") for task in ("even", "odd")
    ]
    assert [(row["from → to"], row["regime"]) for row in whole if "regime" in row] == [("a → c", "unclear")] * 2
    names: dict = {}
    exec(loading(evaluations, "tiny-math"), names)
    names |= {"benchmark": "tiny-math", "k": 2}
    names |= dict(zip(("before", "middle", "after"), (str(e.directory) for e in evaluations), strict=True))
    exec(QUERIES["differences"]["difference"], names)
    assert eval(QUERIES["differences"]["regime"], names) == "unclear"


def test_what_was_not_asked_the_same_is_said_and_not_averaged(tmp_path):
    before = evaluation(tmp_path, "a", 0.3)
    settings = {"sampling": {"temperature": 0.6, "top_p": 1.0, "max_tokens": 40}, "dtype": "float32"}
    after = evaluation(tmp_path, "b", 0.8, content_hash="other", settings=settings)
    evaluations = [read_scores("a", before), read_scores("b", after)]
    rows = tables.difference_rows(by_benchmark(evaluations))
    assert rows == []
    benchmarks = by_benchmark(evaluations)
    said = section(evaluations, "Warnings").text.split("\n\n")[0]
    for text in ("evaluated with different settings", "sampling.temperature: 1.0 and 0.6", "content"):
        assert text in said
    cards = [card for name, series in benchmarks.items() for card in headline(name, series)]
    assert len(cards) == 4 and all(card.good is None and "→" not in card.value for card in cards)


def test_what_a_reader_is_warned_of(tmp_path):
    found = read_scores("a", evaluation(tmp_path, "a", 0.5, domains=("math",)))
    scores = found.scores["benchmarks"]["tiny-math"]
    said = section([found], "Warnings").text
    for text in ("responses were truncated", "pass@k is undefined for k = 8", "1 questions are in the training set"):
        assert text in said
    fewer = scores | {
        "published_questions": 30, "set_aside": {"answer: missing": 2}, "infra_errors": 3, "questions_graded": 10,
        "empty_rate": 1.0,
        "pass_at": {"1": {"value": 0.0, "standard_error": 0.0, "low": 0.0, "high": 0.1142, "questions": 12}},
    }  # fmt: skip
    given = Evaluated("a", found.directory, {**found.scores, "benchmarks": {"tiny-math": fewer}})
    said = section([given], "Warnings").text
    for text in (
        "published with 30 questions; 12 were asked", "excluded rows of its file: 2 (answer: missing)",
        "3 responses could", "2 of 12 questions have no graded response", "100.0% of the responses have no text",
        "pass@1 is 0.000, 0.000 … 0.114 with 95 %",
    ):  # fmt: skip
        assert text in said
    (card,) = headline("tiny-math", [("a", fewer)])
    assert card.change == "95 %: 0.000 … 0.114" and card.detail.startswith("12 questions × 4 responses")
    assert tables.score_rows(fewer)[0]["pass@1"] == "0.000 (0.000 … 0.114)"


def test_a_pass_at_k_that_fell_is_no_good_news():
    """pass@1 rises and pass@k falls: what was half solved is solved, what was seldom solved is lost."""
    before = {f"q{i}": (16 if i < 60 else 4, 32) for i in range(120)}
    after = {f"q{i}": (32 if i < 60 else 0 if i % 2 else 4, 32) for i in range(120)}
    scores = {
        "pass_at": {k: {"value": 0.5, "low": 0.4, "high": 0.6, "questions": 120} for k in ("1", "16")},
        "questions": 120, "samples": 3840, "content_hash": "h", "truncation_rate": 0.1,
    }  # fmt: skip
    series = [("x", {**scores, "problems": before}), ("y", {**scores, "problems": after, "truncation_rate": 0.2})]
    at_1, at_16 = headline("b", series)
    assert at_1.good is True and at_1.change.startswith("+0.") and "truncated 10.0% → 20.0%" in at_1.detail
    assert at_16.good is False and at_16.title == "b: pass@16" and at_16.change.startswith("−0.")


def scored(*responses: tuple[int, int]) -> dict:
    """A benchmark's scores, from (right, judged) of 16 responses to each question, or of as many as were judged."""
    rows = [
        {"problem_id": f"q{q}", "sample": sample, "finish_reason": "stop", "tokens": 9, "decided_by": "exact",
         "outcome": "passed" if sample < right else "failed" if sample < judged else "infra_error",
         "answer_class": 0 if sample < right else 1, "empty": False}
        for q, (right, judged) in enumerate(responses) for sample in range(judged if judged in (4, 64) else 16)
    ]  # fmt: skip
    problems = [Problem(f"q{q}", "math", f"What is {q}?") for q in range(len(responses))]
    return without_nan(score(pd.DataFrame(rows), problems, (1, 4, 8, 16, 64), vote=True)) | {"content_hash": "h"}


@pytest.mark.parametrize(
    ("checkpoints", "k", "compared"),
    [
        ([[(9, 16), (0, 16)]], "16", []),
        ([[(9, 15), (0, 16)]], "8", []),  # a lost response: pass@16 would be that of the other question, 0
        ([[(0, 0), (9, 16)]], "16", []),  # a question with none is in no score
        ([[(0, 0), (0, 0)]], "1", []),
        ([[(1, 4), (0, 4)], [(9, 64), (0, 64)]], "4", ["pass@1", "pass@2", "pass@4"]),
        ([[(9, 64), (0, 64)], [(1, 4), (0, 4)]], "4", ["pass@1", "pass@2", "pass@4"]),
        ([[(9, 16), (0, 16)], [(9, 16), (0, 15)]], "8", ["pass@1", "pass@4", "pass@8"]),
        ([[(9, 16), (9, 16), (0, 0)], [(9, 16), (0, 16), (0, 4)]], "4", ["pass@1", "pass@8", "pass@4"]),
    ],
)
def test_pass_at_k_is_shown_where_every_question_has_k_responses_at_each_checkpoint(checkpoints, k, compared, tmp_path):
    series = [(str(number), scored(*responses)) for number, responses in enumerate(checkpoints)]
    cards = headline("b", series)
    assert [card.title for card in cards] == [f"b: pass@{k}" for k in dict.fromkeys(("1", k))]
    assert compared or [f"maj@{k}" in tables.score_rows(series[0][1])[0]] == [k != "1"]
    assert not compared or all("→" in card.value and "–" not in card.value + card.change for card in cards)
    assert {row["metric"] for row in tables.difference_rows({"b": series})} == set(compared)
    artifacts = []
    for label, scores in series:
        (tmp_path / label).mkdir()
        (tmp_path / label / "scores.json").write_text(json.dumps({"settings": {}, "benchmarks": {"b": scores}}))
        artifacts.append(Artifact("evaluation", label, label, tmp_path / label))
    rows = summary_table(artifacts)
    assert {column for row in rows for column in row if column.startswith("pass@")} == {"pass@1", f"pass@{k}"}
    assert not compared or "[" in rows[-1][f"change of pass@{k} [95 %]"]


def test_one_evaluation_with_nothing_graded_still_makes_a_report(tmp_path):
    path = evaluation(tmp_path, "only", 1.1, outcome="infra_error", domains=("math",))
    write_report([("only", path)], tmp_path / "report", title="t")
    assert "44 responses could not be sampled or judged" in (tmp_path / "report/report.md").read_text()


@pytest.mark.parametrize("answer", ["x**2+y**2", "[0,2](3)", "`a`", "a\nb"])
def test_a_reason_to_review_shows_the_answer_and_how_little_fails(tmp_path, answer):
    path = evaluation(tmp_path, "a", 0.5)
    rows = pq.read_table(path / "generations.parquet").to_pylist()
    rows = [row | {"extracted": answer, "fraction": row["fraction"] or 0.996} for row in rows]
    pq.write_table(pa.Table.from_pylist(rows, schema=GRADED_SCHEMA), path / "generations.parquet")
    reason, *_ = [pick.reason for pick in against_the_reference(path, "tiny-math")]
    assert "<" not in inline(reason) and "\n" not in reason and reason.endswith("”, judged wrong")
    assert against_the_reference(path, "tiny-code")[0].reason.endswith(" on 0.4% of the tests")


def test_a_home_gives_the_local_time(tmp_path, monkeypatch):
    path = evaluation(tmp_path, "a", 0.5, domains=("math",))
    made = SimpleNamespace(ref="a", name="a", path=path, manifest=SimpleNamespace(finished_at=1e9))
    home = Home(cast(ArtifactStore, SimpleNamespace(all=lambda kind: [made])), tmp_path)
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        (row,) = home.evaluations().to_dict("records")
        assert str(row["finished"]) == "2001-09-08 21:46:40"
    finally:
        monkeypatch.undo()
        time.tzset()


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
    assert inline('**a** "b"') == "<strong>a</strong> &#34;b&#34;"


def test_rows_with_different_columns_share_one_table():
    document = Document("t", sections=[Section("s", table=[{"a": 1}, {"a": 2, "b": float("nan")}])])
    assert "| 1 | – |" in to_markdown(document)
    assert [tag for tag, _ in Page(to_html(document)).tags].count("th") == 2


def test_columns_of_numbers_line_up_on_the_right_and_a_long_key_costs_nothing():
    rows = [
        {"key": "1" * 5000 + "x", "score": "0.5 ± 0.1", "interval": "−0.1 … +0.2", "share": "3.2 %", "p": "< 0.001"}
    ]
    cells = [attributes for tag, attributes in Page(to_html(Document("t", sections=[Section("s", table=rows)]))).tags
             if tag == "td"]  # fmt: skip
    assert [attributes.get("class") for attributes in cells] == [None, "n", "n", "n", "n"]
