"""The responses a reader wants to see for himself: where a score is most likely to be wrong, or changed most."""

from __future__ import annotations

import hashlib
import html
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ratchet.evaluation.comparison import Counts
from ratchet.evaluation.document import CSS, page
from ratchet.evaluation.votes import RIGHT

AT_MOST = 8  # questions of each kind and benchmark
NEARLY = 0.5  # share of tests passed, or of votes given, from which a wrong response is worth a look


@dataclass(frozen=True)
class Pick:
    """A question to look at, why, and how much: the larger the worse."""

    benchmark: str
    question: str
    reason: str
    weight: float

    @property
    def file(self) -> str:
        plain = re.fullmatch(r"[\w-]{1,64}", self.question, re.ASCII)  # an id may hold anything, such as ../
        name = self.question if plain else hashlib.sha256(self.question.encode()).hexdigest()[:16]
        return f"responses/{self.benchmark}-{name}.html"


def against_the_reference(directory: Path, benchmark: str) -> list[Pick]:
    """Where the model is sure and yet judged wrong: most of its votes went to one wrong answer (the reference may be
    wrong, or a spelling not understood), or its programs pass most tests and not all (a test may be wrong)."""
    columns = ["benchmark", "problem_id", "outcome", "fraction", "answer_class", "extracted"]
    votes: dict[str, Counter[int]] = {}
    answers: dict[tuple[str, int], str] = {}
    nearly: dict[str, list[float]] = {}
    for row in _rows(directory, benchmark, columns):
        votes.setdefault(row["problem_id"], Counter())
        if row["answer_class"] is not None:
            votes[row["problem_id"]][row["answer_class"]] += 1
            answers.setdefault((row["problem_id"], row["answer_class"]), row["extracted"] or "")
        elif row["outcome"] == "failed" and row["fraction"] >= NEARLY:
            nearly.setdefault(row["problem_id"], []).append(row["fraction"])
    picks = []
    for question, counts in votes.items():
        if not counts:
            continue
        (answer, most), total = counts.most_common(1)[0], counts.total()
        if answer != RIGHT and most >= 2 and most / total >= NEARLY:
            reason = f"{most} of {total} answers are “{answers[question, answer][:60]}”, which is judged wrong"
            picks.append(Pick(benchmark, question, reason, most / total))
    for question, fractions in nearly.items():
        programs = "one program fails" if len(fractions) == 1 else f"{len(fractions)} programs fail, the best of them"
        reason = f"{programs} on {1 - max(fractions):.0%} of the tests"
        picks.append(Pick(benchmark, question, reason, max(fractions)))
    return sorted(picks, key=lambda pick: -pick.weight)[:AT_MOST]


def most_changed(benchmark: str, before: Counts, after: Counts) -> list[Pick]:
    """The questions whose solve rate changed most, losses before gains of the same size."""
    changes = {
        question: after[question][0] / after[question][1] - c / n
        for question, (c, n) in before.items()
        if n and question in after and after[question][1]
    }
    ordered = sorted((q for q in changes if changes[q]), key=lambda q: (-abs(changes[q]), changes[q]))
    reason = "{} of {} right, then {} of {}"
    return [Pick(benchmark, q, reason.format(*before[q], *after[q]), abs(changes[q])) for q in ordered[:AT_MOST]]


def pages(evaluations: Sequence[tuple[str, Path]], picks: Sequence[Pick]) -> dict[str, str]:
    """One HTML page for each question picked, by file name: statement, reference, and of each evaluation a right and a
    wrong response, whole. All of it is text from data sets and models, and only ever text."""
    written: dict[str, str] = {}
    for benchmark in dict.fromkeys(pick.benchmark for pick in picks):
        chosen = {pick.question: pick for pick in picks if pick.benchmark == benchmark}
        questions = {
            row["problem_id"]: row for _, path in evaluations for row in _questions(path, benchmark, list(chosen))
        }
        responses = [(label, _by_question(path, benchmark, list(chosen))) for label, path in evaluations]
        for question, pick in chosen.items():
            if question in questions:
                written[pick.file] = _page(questions[question], responses)
    return written


def _page(question: Mapping[str, Any], responses: Sequence[tuple[str, Mapping[str, list[dict[str, Any]]]]]) -> str:
    name = f"{question['benchmark']} · {question['problem_id']}"
    source = f"row {question['source_id']} of {question['source']}" if question["source"] else ""
    body = [f"<header><h1>{html.escape(name)}</h1><p class=subtitle>{html.escape(source)}</p></header>"]
    body.append(_block("Question", question["prompt"]))
    if question["reference"]:
        body.append(_block("Reference", question["reference"]))
    for label, by_question in responses:
        rows = by_question.get(question["problem_id"], [])
        votes = Counter(row["answer_class"] for row in rows)
        for kind, outcomes in (("right", ("passed",)), ("wrong", ("failed", "unparseable", "timeout"))):
            some = [row for row in rows if row["outcome"] in outcomes]
            if some:  # of the wrong ones, what was nearly right, or most often said
                row = max(some, key=lambda row: (row["fraction"], votes[row["answer_class"]], -row["sample"]))
                title = f"{label}: one of {len(some)} {kind} responses of {len(rows)}, sample {row['sample']}"
                facts = f"{row['outcome']}, decided by {row['decided_by']}; ended by {row['finish_reason']}"
                facts += f"; {row['tokens']} tokens" if row["tokens"] is not None else ""
                facts += f"; judged answer: {row['extracted']}" if row["answer_class"] is not None else ""
                body.append(_block(title, row["text"], facts))
    return page(name, "".join(body), CSS + PAGE_CSS)


def _block(title: str, text: str, note: str = "") -> str:
    small = f"<p class=note>{html.escape(note)}</p>" if note else ""
    return f"<section><h2>{html.escape(title)}</h2>{small}<pre>{html.escape(text)}</pre></section>"


PAGE_CSS = """
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:8px 0 0;font:13px/1.5 ui-monospace,Menlo,Consolas,monospace}
"""


def texts(directory: Path, benchmark: str) -> dict[str, list[str]]:
    """Every response to each question."""
    found: dict[str, list[str]] = {}
    for row in _rows(directory, benchmark, ["benchmark", "problem_id", "text"]):
        found.setdefault(row["problem_id"], []).append(row["text"])
    return found


def _rows(directory: Path, benchmark: str, columns: list[str]) -> list[dict[str, Any]]:
    table = pq.read_table(directory / "generations.parquet", columns=columns, filters=[("benchmark", "=", benchmark)])
    return table.to_pylist()


def _by_question(directory: Path, benchmark: str, questions: list[str]) -> dict[str, list[dict[str, Any]]]:
    wanted = [("benchmark", "=", benchmark), ("problem_id", "in", questions)]
    found: dict[str, list[dict[str, Any]]] = {}
    for row in pq.read_table(directory / "generations.parquet", filters=wanted).to_pylist():
        found.setdefault(row["problem_id"], []).append(row)
    return found


def _questions(directory: Path, benchmark: str, questions: list[str]) -> list[dict[str, Any]]:
    wanted = [("benchmark", "=", benchmark), ("problem_id", "in", questions)]
    return pq.read_table(directory / "questions.parquet", filters=wanted).to_pylist()
