"""The report of one evaluation, or of several in order: scores with their errors, differences, figures, queries."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from ratchet.data_curation.base.files import disk_errors, write_atomically
from ratchet.evaluation import figures, responses, tables
from ratchet.evaluation.comparison import setting_differences, zero_of_n_limit
from ratchet.evaluation.gains import gains_of, question_table
from ratchet.evaluation.regimes import MARGIN
from ratchet.evaluation.tables import Benchmarks, Series, gain_between, interval, number, percent, signed
from ratchet.infra import pages
from ratchet.infra.pages import Document, Headline, Section, to_html, to_markdown
from ratchet.verifiers.errors import RatchetError

WORDS = Path(__file__).with_name("report.yaml")


@dataclass(frozen=True)
class Evaluated:
    """An evaluation in a report: its label, its directory, and the content of its `scores.json`."""

    label: str
    directory: Path
    scores: Mapping[str, Any]


def read_scores(label: str, directory: str | Path) -> Evaluated:
    """Read an evaluation's scores. Raises RatchetError if the directory holds no readable `scores.json`."""
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
    evaluations: Sequence[tuple[str, str | Path]], directory: str | Path, *, title: str,
    sections: Sequence[Section] = (), origin: Mapping[str, str] = {},
) -> list[Path]:  # fmt: skip
    """Write `report.html` (self-contained), `report.md`, `figures/*.png`, `responses/*.html`, and for several
    evaluations `questions.csv`, into `directory`; returns the files.

    `evaluations` are (label, directory of a finished evaluation) in order; `sections` follow the scores. `origin` is
    shown below the title: date, model, run, version.
    """
    directory = Path(directory)
    evaluated = [read_scores(label, path) for label, path in evaluations]
    document, linked = compose(evaluated, title, sections)
    document = replace(document, origin=origin)
    files = {**document.images, **{name: text.encode() for name, text in linked.items()}}
    with disk_errors(directory):
        for name, content in files.items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_bytes(content)
        write_atomically(directory / "report.md", to_markdown(document))
        write_atomically(directory / "report.html", to_html(document))
    return [directory / name for name in ("report.html", "report.md", *files)]


def compose(
    evaluations: Sequence[Evaluated], title: str, sections: Sequence[Section] = ()
) -> tuple[Document, dict[str, str]]:
    """Compose the document, folded sections last, and the files that it links to, by name. Empty sections are
    omitted."""
    labels = [evaluation.label for evaluation in evaluations]
    if not labels or len(set(labels)) != len(labels):
        raise ValueError(f"a report needs evaluations with different labels, not {labels}")
    first, *others = evaluations
    benchmarks = by_benchmark(evaluations)
    directories = {evaluation.label: evaluation.directory for evaluation in evaluations}
    picks = _picks(benchmarks, directories)
    all_gains = gains_of(benchmarks, directories)
    regimes = {b.tasks[0].benchmark: regime for b in all_gains if (regime := b.tasks[0].regime)}
    rows = {
        "scores": tables.by_checkpoint(benchmarks, tables.score_rows),
        "differences": tables.difference_rows(benchmarks, regimes),
        "tasks": tables.task_rows([task for gains in all_gains for task in gains.tasks[1:]]),
        "by_k": tables.by_checkpoint(benchmarks, tables.k_rows),
        "responses": tables.by_checkpoint(benchmarks, tables.response_rows),
        "lengths": tables.by_checkpoint(benchmarks, tables.length_rows),
        "budgets": tables.by_checkpoint(benchmarks, tables.budget_rows),
        "topics": tables.topic_rows(benchmarks, "topics"),
        "months": tables.topic_rows(benchmarks, "months"),
        "contamination": tables.by_checkpoint(benchmarks, tables.contamination_rows),
        "sample_responses": [{"benchmark": f"[{name}](responses/{name}.html)"} for name in benchmarks],
        "review": [
            {"benchmark": p.benchmark, "question": f"[{p.question}]({p.file})", "reason": p.reason} for p in picks
        ],
        "settings": [tables.setting_row(name, series[-1][1]) for name, series in benchmarks.items()],
    }
    drawings = {
        "pass_at_k": figures.pass_at_k_curves(benchmarks),
        "solve_rates": figures.solve_rate_histograms(benchmarks),
    }
    tries = (n for series in benchmarks.values() for _, n in series[0][1]["problems"].values() if n)
    headlines = [card for name, series in benchmarks.items() for card in headline(name, series)]
    document = pages.compose(
        WORDS, headlines, rows, drawings, sections,
        title=title, evaluations=evaluations, benchmarks=benchmarks,
        differing=[(e.label, different) for e in others if (different := setting_differences(first.scores, e.scores))],
        fewest_tries=min(tries, default=0), zero_of_n_limit=zero_of_n_limit, margin=MARGIN,
        regimes=regimes,
        number=number, signed=signed, percent=percent, interval=interval, repr=repr, warnings=tables.warnings,
        comment=lambda label: re.sub(r"[^A-Za-z0-9 ._:/-]", "?", label),
    )  # fmt: skip
    linked = responses.pages(directories, picks) | responses.sample_pages(directories, list(benchmarks))
    if all_gains:
        linked["questions.csv"] = pd.concat(map(question_table, all_gains)).to_csv(index=False)
    return replace(document, sections=sorted(document.sections, key=lambda section: section.folded)), linked


def by_benchmark(evaluations: Sequence[Evaluated]) -> dict[str, list[tuple[str, Mapping[str, Any]]]]:
    """The scores of each benchmark in order, by label; only for the checkpoints that were evaluated on it."""
    names = dict.fromkeys(name for evaluation in evaluations for name in evaluation.scores["benchmarks"])
    return {
        name: [(e.label, e.scores["benchmarks"][name]) for e in evaluations if name in e.scores["benchmarks"]]
        for name in names
    }


def _picks(benchmarks: Benchmarks, directories: Mapping[str, Path]) -> list[responses.Pick]:
    picks: dict[tuple[str, str], responses.Pick] = {}
    for name, series in benchmarks.items():
        picked = responses.against_the_reference(directories[series[-1][0]], name)
        if len(series) > 1 and tables.comparable(series[0][1], series[-1][1]):
            picked += responses.most_changed(name, series[0][1]["problems"], series[-1][1]["problems"])
        for pick in picked:
            picks.setdefault((pick.benchmark, pick.question), pick)
    return list(picks.values())


def headline(name: str, series: Series) -> list[Headline]:
    """The cards for pass@1 and for `shown_k`; between checkpoints, each with its paired difference."""
    scores = series[-1][1]
    largest = tables.shown_k(series)
    sampled = f"{scores['questions']} questions × {scores['samples'] // max(scores['questions'], 1)} responses"
    truncated = " → ".join(dict.fromkeys(percent(end["truncation_rate"]) for _, end in (series[0], series[-1])))
    details = {"1": f"{sampled}, truncated {truncated}"} | ({largest: sampled} if largest != "1" else {})
    cards = []
    for k, detail in details.items():
        end, gain = scores["pass_at"][k], gain_between(series, k)
        points = [series[0][1]["pass_at"][k], end] if gain else [end]
        value = " → ".join(number(point["value"]) for point in points)
        change = tables.change(gain) if gain else f"95 %: {interval(end['low'], end['high'])}"
        cards.append(Headline(f"{name}: pass@{k}", value, change, detail, gain.improved if gain else None))
    return cards
