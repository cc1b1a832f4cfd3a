"""The report of one evaluation or of several in order: what was asked, every score with its error, what changed."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ratchet.evaluation import boundary_figures, figures, responses, tables
from ratchet.evaluation.boundaries import FEWEST_TASKS, Slope, Task, Trained, boundaries_of, gain_slope
from ratchet.evaluation.comparison import (
    PairedDifference,
    question_changes,
    setting_differences,
    zero_of_n_limit,
)
from ratchet.evaluation.creativity import LENGTHS, creativity_index
from ratchet.evaluation.question_list import question_files
from ratchet.evaluation.rating import Contest, rating_in_contests
from ratchet.evaluation.regimes import MARGIN
from ratchet.evaluation.statistics import standard_error_across_clusters, student_interval
from ratchet.evaluation.tables import Benchmarks, Row, Series, number, signed, with_error
from ratchet.infra import pages
from ratchet.infra.artifacts import disk_errors, write_atomically
from ratchet.infra.errors import RatchetError
from ratchet.infra.pages import Document, Headline, Section, to_html, to_markdown

WORDS = Path(__file__).with_name("report.yaml")


@dataclass(frozen=True)
class Evaluated:
    """One evaluation: how the report calls it, where it is, and its `scores.json`, read."""

    label: str
    directory: Path
    scores: Mapping[str, Any]


def read_scores(label: str, directory: str | Path) -> Evaluated:
    """Raises RatchetError when the directory holds no readable `scores.json`."""
    path = Path(directory) / "scores.json"
    try:
        scores = json.loads(path.read_text())
        if not isinstance(scores, dict) or "benchmarks" not in scores or "settings" not in scores:
            raise ValueError("no benchmarks and settings in it")
    except (OSError, ValueError) as error:
        raise RatchetError(
            f"{path} is not the scores of a finished evaluation ({error}); evaluate {label} again"
        ) from error
    return Evaluated(label, Path(directory), scores)


def write_report(
    evaluations: Sequence[tuple[str, str | Path]],
    directory: str | Path,
    *,
    title: str,
    sections: Sequence[Section] = (),
    corpus: Sequence[str] = (),
    contests: Sequence[Contest] = (),
    trained: Trained | None = None,
) -> list[Path]:
    """Write `report.html` (self-contained), `report.md`, `figures/*.png`, `responses/*.html`, and for several
    evaluations `questions.csv` and `questions/*.html`, into `directory`; returns the files.

    `evaluations` are (label, directory of a finished evaluation) in order; `sections` come after the scores. `corpus`
    are texts that responses may quote: with them the report tells how little they do. `contests` are standings
    (`evaluation.rating`): with them it tells CodeElo's rating. `trained` is what the training set holds, None where
    nobody knows: what is not of it is out of distribution.
    """
    directory = Path(directory)
    evaluated = [read_scores(label, path) for label, path in evaluations]
    document, linked = compose(evaluated, title, sections, corpus, contests, trained)
    files = {**document.images, **{name: text.encode() for name, text in linked.items()}}
    with disk_errors(directory):
        for name, content in files.items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_bytes(content)
        write_atomically(directory / "report.md", to_markdown(document))
        write_atomically(directory / "report.html", to_html(document))
    return [directory / name for name in ("report.html", "report.md", *files)]


def compose(
    evaluations: Sequence[Evaluated],
    title: str,
    sections: Sequence[Section] = (),
    corpus: Sequence[str] = (),
    contests: Sequence[Contest] = (),
    trained: Trained | None = None,
) -> tuple[Document, dict[str, str]]:
    """The document, and what it links to by file name. Sections with nothing to show are left out."""
    labels = [evaluation.label for evaluation in evaluations]
    if not labels or len(set(labels)) != len(labels):
        raise ValueError(f"a report needs evaluations with different labels, not {labels}")
    first, *others = evaluations
    benchmarks = by_benchmark(evaluations)
    directories = {evaluation.label: evaluation.directory for evaluation in evaluations}
    picks = _picks(benchmarks, directories)
    sampling = first.scores["settings"]["sampling"]
    found = boundaries_of(benchmarks, directories, trained)
    whole = {boundary.tasks[0].benchmark: boundary.tasks[0] for boundary in found}
    parts = [task for boundary in found for task in boundary.tasks[1:] or boundary.tasks]
    k, slopes = _slopes(parts)
    rows = {
        "boundaries": tables.boundary_rows([*whole.values()]),
        "tasks": tables.boundary_rows([task for boundary in found for task in boundary.tasks[1:]]),
        "scores": tables.each(benchmarks, tables.score_rows),
        "uncertainty": tables.each(benchmarks, tables.error_rows),
        "estimators": tables.each(benchmarks, tables.estimator_rows),
        "differences": tables.difference_rows(benchmarks),
        "topics": tables.topic_rows(benchmarks),
        "rating": tables.each(benchmarks, tables.rating_rows),
        "contests": _contest_rows(benchmarks, directories, contests),
        "months": tables.each(benchmarks, tables.month_rows),
        "budgets": tables.each(benchmarks, tables.budget_rows),
        "contamination": tables.each(benchmarks, tables.contamination_rows),
        "lengths": tables.each(benchmarks, tables.length_rows),
        "creativity": _creativity_rows(benchmarks, directories, corpus),
        "review": [
            {"benchmark": p.benchmark, "question": f"[{p.question}]({p.file})", "reason": p.reason} for p in picks
        ],
        "settings": [tables.setting_row(name, series[-1][1]) for name, series in benchmarks.items()],
    }
    changes = {
        name: question_changes(series[0][1]["problems"], series[-1][1]["problems"])
        for name, series in benchmarks.items()
        if _ends_compare(series)
    }
    drawings = {
        "over_training": boundary_figures.over_training(found),
        "pass_at_k": figures.pass_at_k_curves(benchmarks),
        "gain_by_base": boundary_figures.gain_by_base(parts, k, slopes),
        "by_level": boundary_figures.by_level(parts),
        "changes": figures.changes_by_question(changes),
        "solve_rates": figures.solve_rate_histograms(benchmarks),
        "lengths": figures.length_and_truncation(benchmarks, labels),
        "length_bars": figures.length_histograms(benchmarks, sampling and sampling["max_tokens"]),
    }
    tries = (n for series in benchmarks.values() for _, n in series[0][1]["problems"].values() if n)
    headlines = [headline(name, series, whole.get(name)) for name, series in benchmarks.items()]
    document = pages.compose(
        WORDS, headlines, rows, drawings, sections,
        title=title, evaluations=evaluations, benchmarks=benchmarks, corpus=len(corpus), contests=contests,
        differing=[(e.label, different) for e in others if (different := setting_differences(first.scores, e.scores))],
        fewest_tries=min(tries, default=0), zero_of_n_limit=zero_of_n_limit, lengths=LENGTHS,
        verdicts=tables.verdicts([*whole.values()]), found=whole, margin=MARGIN, slopes=slopes, k=k,
        fewest_tasks=FEWEST_TASKS, parts=parts, number=number, signed=signed, percent=tables.percent, repr=repr,
        comment=lambda label: re.sub(r"[^A-Za-z0-9 ._:/-]", "?", label),
    )  # fmt: skip
    return document, {**responses.pages(directories, picks), **question_files(found)}


def _slopes(tasks: Sequence[Task]) -> tuple[int, dict[int, Slope | None]]:
    """The k that all tasks have, and the lines of the gains of pass@1 and pass@k."""
    k = min((task.k for task in tasks), default=1)
    ends = [[task.counts[when] for task in tasks] for when in (0, -1)]
    return k, {of: gain_slope(*ends, k=k, of=of) if k > 1 else None for of in dict.fromkeys((1, k))}


def by_benchmark(evaluations: Sequence[Evaluated]) -> dict[str, list[tuple[str, Mapping[str, Any]]]]:
    """The scores of each benchmark in order; a checkpoint that was not evaluated on one is left out of it."""
    names = dict.fromkeys(name for evaluation in evaluations for name in evaluation.scores["benchmarks"])
    return {
        name: [(e.label, e.scores["benchmarks"][name]) for e in evaluations if name in e.scores["benchmarks"]]
        for name in names
    }


def _evaluated(benchmarks: Benchmarks) -> list[tuple[str, str]]:
    """Every benchmark with every checkpoint that was evaluated on it."""
    return [(name, label) for name, series in benchmarks.items() for label, _ in series]


def _ends_compare(series: Series) -> bool:
    return len(series) > 1 and tables.comparable(series[0][1], series[-1][1])


def _picks(benchmarks: Benchmarks, directories: Mapping[str, Path]) -> list[responses.Pick]:
    picks: dict[tuple[str, str], responses.Pick] = {}
    for name, series in benchmarks.items():
        found = responses.against_the_reference(directories[series[-1][0]], name)
        if _ends_compare(series):
            found += responses.most_changed(name, series[0][1]["problems"], series[-1][1]["problems"])
        for pick in found:
            picks.setdefault((pick.benchmark, pick.question), pick)
    return list(picks.values())


def _creativity_rows(benchmarks: Benchmarks, directories: Mapping[str, Path], corpus: Sequence[str]) -> list[Row]:
    """With the change of each checkpoint against the first, paired over questions."""
    rows: list[Row] = []
    first: dict[str, pd.Series] = {}
    for name, label in _evaluated(benchmarks) if corpus else ():
        texts = responses.table(directories[label] / "generations.parquet", name, ["problem_id", "text"])
        texts = texts.assign(index=creativity_index(texts.text.tolist(), corpus))
        means = pd.Series(texts.groupby("problem_id", sort=False)["index"].mean(), dtype=float)
        clusters = dict(benchmarks[name])[label]["clusters"]
        groups = [clusters.get(question, (question,)) for question in means.index]
        row = {"benchmark": name, "checkpoint": label}
        row["creativity index"] = with_error(means.mean(), standard_error_across_clusters(means, groups))
        change = (means - first.setdefault(name, means)).dropna()
        if change.any():
            mean, groups = float(change.mean()), [clusters.get(question, (question,)) for question in change.index]
            low, high = student_interval(mean, standard_error_across_clusters(change, groups), len(set(groups)))
            row |= {"change from the first": signed(mean), "95 % interval": f"{signed(low)} … {signed(high)}"}
        rows.append(row)
    return rows


def _contest_rows(benchmarks: Benchmarks, directories: Mapping[str, Path], contests: Sequence[Contest]) -> list[Row]:
    rows: list[Row] = []
    for name, label in _evaluated(benchmarks) if contests else ():
        if found := rating_in_contests(directories[label], name, contests):
            rating = with_error(found.value, found.standard_error, 0)
            row = {"benchmark": name, "checkpoint": label, "rating": rating}
            rows.append(row | {"contests": found.observations})
    return rows


def headline(name: str, series: Series, whole: Task | None = None) -> Headline:
    """`whole`: the benchmark's questions from the first checkpoint to the last, where they can be compared."""
    label, last = series[-1]
    end = last["pass_at"]["1"]
    value, detail = number(end["value"]), f"{last['questions']} questions, at “{label}”"
    if not whole:
        error = (
            f"± {number(end['standard_error'])}" if end["standard_error"] else tables.interval(end["low"], end["high"])
        )
        return Headline(f"{name} · pass@1", value, detail=f"{error}, {detail}")
    gain, at_k = whole.gain(1), whole.gain(whole.k)
    if whole.k > 1:
        detail = f"pass@{whole.k}: {signed(at_k.difference)}  {_bracketed(at_k)}"
    return Headline(
        title=f"{name} · pass@1",
        value=" → ".join(number(whole.score(when, 1)["value"]) for when in (0, -1)),
        change=f"{signed(gain.difference)}  {_bracketed(gain)}",
        detail=detail,
        good=True if gain.low > 0 and not at_k.high < 0 else False if gain.high < 0 or at_k.high < 0 else None,
    )


def _bracketed(gain: PairedDifference) -> str:
    return "no interval: too few changed" if gain.no_interval else f"[{signed(gain.low)}, {signed(gain.high)}]"
