"""Pages of responses to read: random ones, and those to questions whose score is most likely wrong, or changed most."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from ratchet.evaluation.comparison import Counts
from ratchet.evaluation.grading import RIGHT
from ratchet.infra.pages import render, unmarked

AT_MOST = 8  # questions of each kind and benchmark
RANDOM = 10  # questions of a benchmark's sample
NEARLY = 0.5  # share of passed tests, or of votes, from which a wrong response is reviewed


@dataclass(frozen=True)
class Pick:
    """A question to review, and the reason."""

    benchmark: str
    question: str
    reason: str

    @property
    def file(self) -> str:
        plain = re.fullmatch(r"[\w-]{1,64}", self.question, re.ASCII)  # an id may contain ../
        name = self.question if plain else hashlib.sha256(self.question.encode()).hexdigest()[:16]
        return f"responses/{self.benchmark}-{name}.html"


def against_the_reference(directory: Path, benchmark: str) -> list[Pick]:
    """Questions with a majority for one wrong answer (the reference or the verifier may be wrong), or with programs
    that fail only a few tests (a test may be wrong)."""
    columns = ["problem_id", "outcome", "fraction", "answer_class", "extracted"]
    rows = table(directory / "generations.parquet", benchmark, columns)
    picks: list[tuple[float, Pick]] = []  # the nearest to right, or to unanimous, first
    for question, votes in rows[rows.answer_class.notna()].groupby("problem_id", sort=False):
        counts = votes.answer_class.value_counts()  # on a tie: the first answer
        answer, most, total = counts.index[0], int(counts.iloc[0]), len(votes)
        if answer != RIGHT and most >= 2 and most / total >= NEARLY:
            text = (votes.extracted[votes.answer_class == answer].iloc[0] or "")[:60]
            reason = f"{most} of {total} answers are “{unmarked(text)}”, judged wrong"
            picks.append((most / total, Pick(benchmark, str(question), reason)))
    nearly = rows[rows.answer_class.isna() & (rows.outcome == "failed") & (rows.fraction >= NEARLY)]
    for question, fractions in nearly.groupby("problem_id", sort=False).fraction:
        programs = "one program fails" if len(fractions) == 1 else f"{len(fractions)} programs fail, the best of them"
        reason = f"{programs} on {1 - fractions.max():.1%} of the tests"
        picks.append((fractions.max(), Pick(benchmark, str(question), reason)))
    return [pick for _, pick in sorted(picks, key=lambda pick: -pick[0])[:AT_MOST]]


def most_changed(benchmark: str, before: Counts, after: Counts) -> list[Pick]:
    """The questions whose solve rate changed most, losses before gains of the same size."""
    common = [q for q in before if before[q][1] and q in after and after[q][1]]
    changes = {q: after[q][0] / after[q][1] - before[q][0] / before[q][1] for q in common}
    ordered = sorted((q for q in common if changes[q]), key=lambda q: (-abs(changes[q]), changes[q]))
    reason = "{} of {} right, then {} of {}"
    return [Pick(benchmark, q, reason.format(*before[q], *after[q])) for q in ordered[:AT_MOST]]


def pages(directories: Mapping[str, Path], picks: Sequence[Pick]) -> dict[str, str]:
    """An HTML page for each question, by file name: statement, reference, and a correct and a wrong response of each
    evaluation; `directories` are those of the evaluations, by label."""
    written: dict[str, str] = {}
    for benchmark in dict.fromkeys(pick.benchmark for pick in picks):
        chosen = {pick.question: pick for pick in picks if pick.benchmark == benchmark}
        wanted = [("problem_id", "in", list(chosen))]
        asked = pd.concat([_whole(d / "questions.parquet", benchmark, wanted) for d in directories.values()])
        asked = asked.drop_duplicates("problem_id", keep="last").set_index("problem_id")
        generations = {label: _whole(d / "generations.parquet", benchmark, wanted) for label, d in directories.items()}
        for question, pick in chosen.items():
            if question in asked.index:
                own = {label: rows.loc[rows.problem_id == question] for label, rows in generations.items()}
                facts = {str(name): value for name, value in asked.loc[question].items()}
                written[pick.file] = _page(question, facts, benchmark, own)
    return written


def sample_pages(directories: Mapping[str, Path], benchmarks: Sequence[str]) -> dict[str, str]:
    """An HTML page for each benchmark, by file name: the first response of each evaluation to random questions, the
    same in each report: those whose ids have the smallest hashes."""
    written: dict[str, str] = {}
    for benchmark in benchmarks:
        asked: dict[str, dict[Any, Any]] = {}
        for directory in directories.values():
            for row in _whole(directory / "questions.parquet", benchmark, ()).to_dict("records"):
                asked.setdefault(row["problem_id"], row)
        chosen = sorted(asked, key=lambda question: hashlib.sha256(question.encode()).digest())[:RANDOM]
        responses: dict[str, list[dict[Any, Any]]] = {question: [] for question in chosen}
        for label, directory in directories.items():
            rows = _whole(directory / "generations.parquet", benchmark, [("problem_id", "in", chosen)])
            first = rows.sort_values("sample").drop_duplicates("problem_id").assign(label=label)
            for row in first.to_dict("records"):
                responses[row["problem_id"]].append(row)
        written[f"responses/{benchmark}.html"] = render(
            Path(__file__).parent / "sample_responses.html",
            title=f"{benchmark} · {len(chosen)} random questions",
            subtitle="The first response of each checkpoint, right or wrong.",
            questions=[(asked[question], responses[question]) for question in chosen],
        )
    return written


def _page(name: str, question: dict[str, Any], benchmark: str, generations: Mapping[str, pd.DataFrame]) -> str:
    shown = []
    for label, rows in generations.items():
        votes = rows.groupby("answer_class", dropna=False)["sample"].transform("size")
        rows = rows.assign(votes=votes, label=label, all=len(rows))
        for kind, outcomes in (("right", ("passed",)), ("wrong", ("failed", "unparseable", "timeout"))):
            some = rows[rows.outcome.isin(outcomes)].assign(kind=kind)
            # Of the wrong ones: nearly right, or most frequent.
            best = some.sort_values(["fraction", "votes", "sample"], ascending=[False, False, True]).head(1)
            shown += best.assign(like_it=len(some)).to_dict("records")
    return render(
        Path(__file__).parent / "question.html",
        title=f"{benchmark} · {name}",
        subtitle=unmarked(f"row {question['source_id']} of {question['source']}") if question["source"] else "",
        question=question,
        responses=shown,
    )


def table(path: Path, benchmark: str, columns: list[str] | None = None, wanted: Sequence[Any] = ()) -> pd.DataFrame:
    """The rows of one benchmark."""
    filters = [("benchmark", "=", benchmark), *wanted]
    return pq.read_table(path, columns=columns, filters=filters).to_pandas(integer_object_nulls=True)


def _whole(path: Path, benchmark: str, wanted: Sequence[Any]) -> pd.DataFrame:
    """All columns, with None for missing values."""
    rows = table(path, benchmark, wanted=wanted).astype(object)
    return pd.DataFrame(rows.where(rows.notna(), None))
