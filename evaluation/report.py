"""The report of one evaluation or of several in order: what was asked, every score with its error, what changed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ratchet.evaluation import figures, queries, responses, tables
from ratchet.evaluation.comparison import paired_difference, question_changes, setting_differences
from ratchet.evaluation.creativity import LENGTHS, creativity_index
from ratchet.evaluation.rating import rating_in_contests
from ratchet.evaluation.scores import estimate
from ratchet.evaluation.tables import Benchmarks, Row, Series, number, signed, with_error
from ratchet.infra.artifacts import disk_errors, write_atomically
from ratchet.infra.errors import RatchetError
from ratchet.infra.pages import Document, Headline, Section, to_html, to_markdown


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
    contests: Sequence[dict[str, Any]] = (),
) -> list[Path]:
    """Write `report.html` (self-contained), `report.md`, `figures/*.png` and `responses/*.html` into `directory`;
    returns the files.

    `evaluations` are (label, directory of a finished evaluation) in order; `sections` come after the scores. `corpus`
    are texts that responses may quote: with them the report tells how little they do. `contests` are standings
    (`evaluation.rating`): with them it tells CodeElo's rating.
    """
    directory = Path(directory)
    evaluated = [read_scores(label, path) for label, path in evaluations]
    document, pages = compose(evaluated, title, sections, corpus, contests)
    files = {**document.images, **{name: text.encode() for name, text in pages.items()}}
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
    contests: Sequence[dict[str, Any]] = (),
) -> tuple[Document, dict[str, str]]:
    """The document, and the pages of single questions by file name. Sections with nothing to show are left out."""
    labels = [evaluation.label for evaluation in evaluations]
    if not labels or len(set(labels)) != len(labels):
        raise ValueError(f"a report needs evaluations with different labels, not {labels}")
    several = len(labels) > 1
    benchmarks = by_benchmark(evaluations)
    directories = {evaluation.label: evaluation.directory for evaluation in evaluations}
    picks = _picks(benchmarks, directories)
    sampling = evaluations[0].scores["settings"]["sampling"]
    parts = [
        Section("Warnings", "\n\n".join(warnings(evaluations, benchmarks)), warning=True),
        Section(
            "pass@1 over the pipeline" if several else "pass@1",
            drawing=figures.pass_at_1_over_the_pipeline(benchmarks, labels),
            queries=queries.shown({"pass@1": "score(q.c / q.n)"}),
        ),
        Section(
            "pass@k",
            drawing=figures.pass_at_k_curves(benchmarks),
            queries=queries.shown({"one point": queries.PASS_AT_K}),
        ),
        Section(
            "Scores",
            "Mean over questions ± standard error across questions.",
            tables.each(benchmarks, tables.score_rows),
            group_by="benchmark",
            note="At fixed questions: the standard error of pass@1 if the same questions were sampled again. "
            "Accuracy if completed: pass@1 among responses that were not truncated. Infra errors are failures of our "
            "own machinery: counted here, part of no score.",
            queries=queries.shown(queries.SCORES),
        ),
        Section(
            "Uncertainty of pass@1",
            "Each error answers for another repetition: other questions of the same kind, or the same ones again.",
            tables.each(benchmarks, tables.error_rows),
            group_by="benchmark",
            note="95 % interval: Wilson's at the effective sample size, across questions. Across clusters: where "
            "questions come from contests, if other contests had been taken.",
            queries=queries.shown(queries.ERRORS | queries.CLUSTERS),
        ),
        Section(
            "Other estimators",
            table=tables.each(benchmarks, tables.estimator_rows),
            group_by="benchmark",
            note="pass@k: unbiased (Chen et al. 2021). By subsampling: AceReason's estimator, 100 draws, ± its "
            "Monte-Carlo error; its expectation is pass@k. Upper bound: no pass@k with this mean and spread of solve "
            "rates can exceed it, but for sampling error (Dang et al. 2025). pass^k: all k right. maj@k: the vote of "
            "k. A dash: k is larger than n.",
            queries=queries.shown(queries.ESTIMATORS),
        ),
        *(_changed(benchmarks) if several else ()),
        Section(
            "Topics",
            table=tables.topic_rows(benchmarks),
            group_by="benchmark",
            note="At equal difficulty: what the accuracy would be if the topic's questions were as hard as the "
            "benchmark's. A topic can be low because its questions are hard.",
            queries=queries.shown(queries.TOPICS),
        ),
        Section(
            "Rating",
            table=tables.each(benchmarks, tables.rating_rows),
            group_by="benchmark",
            note="Maximum a posteriori from the problems' ratings (LiveCodeBench Pro's method), prior 1500 ± 500. Not "
            "CodeElo's rating, which is from places in contests and is often hundreds of points higher.",
            queries=queries.shown(queries.RATING),
        ),
        *([_contest_rating(benchmarks, directories, contests)] if contests else ()),
        Section(
            "Contamination",
            table=tables.each(benchmarks, tables.contamination_rows),
            group_by="benchmark",
            note="Flagged: a row of the training set covers the question's statement (docs/curation.md, "
            "decontamination; the evidence is in the contamination artifact).",
            queries=queries.shown(queries.CONTAMINATION),
        ),
        Section(
            "Solve rates, before and after" if several else "Solve rates",
            drawing=figures.solve_rate_histograms(benchmarks),
            queries=queries.shown(queries.SOLVE_RATES),
        ),
        Section(
            "Response length and truncation",
            drawing=figures.length_and_truncation(benchmarks, labels),
            table=tables.each(benchmarks, tables.length_rows),
            group_by="benchmark",
            note="Tokens per response.",
            queries=queries.shown(queries.LENGTHS),
        ),
        Section(
            "Length of right and wrong responses",
            drawing=figures.length_histograms(benchmarks, sampling and sampling["max_tokens"]),
            queries=queries.shown(queries.LENGTH_BARS),
        ),
        *([_creativity(benchmarks, directories, corpus)] if corpus else ()),
        Section(
            "Responses to review",
            table=[
                {"benchmark": p.benchmark, "question": f"[{p.question}]({p.file})", "reason": p.reason} for p in picks
            ],
            group_by="benchmark",
            note="Where the score is most likely to be wrong, and where it changed most: whole responses, right and "
            "wrong.",
        ),
        Section(
            "Settings",
            _settings(evaluations),
            [tables.setting_row(name, series[-1][1]) for name, series in benchmarks.items()],
        ),
        Section(
            "Data",
            "Every number above comes from these files. Run this first, then the query beside the number.",
            queries=queries.loading(directories, list(benchmarks)),
        ),
        *sections,
    ]
    document = Document(
        title=title,
        subtitle=_subtitle(evaluations),
        headlines=[headline(name, series) for name, series in benchmarks.items()],
        sections=[part for part in parts if part.text or part.table or part.drawing],
    )
    return document, responses.pages(directories, picks)


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


def _changed(benchmarks: Benchmarks) -> list[Section]:
    """What two or more evaluations say together."""
    return [
        Section(
            "Paired differences",
            "The same questions before and after, so that what makes a question hard cancels.",
            tables.difference_rows(benchmarks),
            group_by="benchmark",
            note="± standard error across questions, or across clusters where they have them; Student's 95 % "
            "interval; p: sign-flip test over the same, two-sided. Newly solved: no response was right before and at "
            "least one is after; newly lost: the reverse; in parentheses, those that are significant by themselves "
            "(Fisher's exact test, false discovery rate 5 %). " + tables.zero_of_n(benchmarks),
            queries=queries.shown(queries.DIFFERENCES),
        ),
        Section(
            "Solve rate of each question",
            drawing=figures.changes_by_question({
                name: question_changes(series[0][1]["problems"], series[-1][1]["problems"])
                for name, series in benchmarks.items() if _ends_compare(series)
            }),
            queries=queries.shown(queries.CHANGES),
        ),
        Section(
            "Regimes",
            table=tables.regime_rows(benchmarks),
            note="Whether training widened what the model solves, or only made it surer. Diminish: pass@1 rose, pass@k "
            "did not. Plateau: pass@k rose early only. Sustained: it still rose late. By Student's paired 95 % "
            "intervals over questions; confidence: the share of 1,000 bootstrapped sets of questions that are sorted "
            "the same. After ProRL (arXiv 2505.24864), which sorts by eye.",
            queries=queries.shown(queries.REGIMES),
        ),
    ]  # fmt: skip


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


def warnings(evaluations: Sequence[Evaluated], benchmarks: Benchmarks) -> list[str]:
    """In plain words, everything that a reader of the scores would otherwise have to find out."""
    first = evaluations[0]
    found = []
    for other in evaluations[1:]:
        if different := setting_differences(first.scores, other.scores):
            found.append(
                f"**{first.label} and {other.label} were not asked the same**, so a difference between them is not "
                f"only the models': {'; '.join(different)}."
            )
    return found + [text for name, series in benchmarks.items() for text in tables.warnings(name, series)]


def _creativity(benchmarks: Benchmarks, directories: Mapping[str, Path], corpus: Sequence[str]) -> Section:
    rows: list[Row] = []
    for name, label in _evaluated(benchmarks):
        texts = responses.table(directories[label] / "generations.parquet", name, ["problem_id", "text"])
        texts = texts.assign(index=creativity_index(texts.text.tolist(), corpus))
        means = np.asarray(texts.groupby("problem_id", sort=False)["index"].mean(), dtype=float)
        found = tables.estimate(estimate(means))
        rows.append({"benchmark": name, "checkpoint": label, "creativity index": found})
    return Section(
        "Creativity",
        f"How little of the responses stands in {len(corpus):,} given texts: the share of tokens in no quoted n-gram, "
        f"summed over n from {LENGTHS[0]} to {LENGTHS[-1]} (Lu et al. 2024); from 0, all quoted, to {len(LENGTHS)}.",
        rows,
        group_by="benchmark",
        note="Mean over questions ± standard error across questions. Comparable only against the same texts.",
        queries=queries.shown(queries.CREATIVITY),
    )


def _contest_rating(
    benchmarks: Benchmarks, directories: Mapping[str, Path], contests: Sequence[dict[str, Any]]
) -> Section:
    rows: list[Row] = []
    for name, label in _evaluated(benchmarks):
        if found := rating_in_contests(directories[label], name, list(contests)):
            rating = with_error(found.value, found.standard_error, 0)
            row = {"benchmark": name, "checkpoint": label, "rating": rating}
            rows.append(row | {"contests": found.observations})
    return Section(
        "Rating in contests",
        "" if rows else "The evaluations have no problem of the contests that were given.",
        rows,
        group_by="benchmark",
        note="CodeElo's method: the rating at which the place among the participants would be expected, mean over "
        "contests ± standard error across contests. Not comparable with a rating from the problems' ratings.",
        queries=queries.shown(queries.CONTESTS),
    )


def _subtitle(evaluations: Sequence[Evaluated]) -> str:
    sizes = ", ".join(
        f"{name}: {scores['questions']} questions × {scores['samples'] // max(scores['questions'], 1)} responses"
        for name, scores in evaluations[-1].scores["benchmarks"].items()
    )
    return f"{sizes}. {_sampled(evaluations[-1])}"


def _sampled(evaluation: Evaluated) -> str:
    sampling = evaluation.scores["settings"]["sampling"]
    if sampling is None:
        return "Sampled elsewhere; judged and scored here."
    return (
        f"Temperature {sampling['temperature']:g}, top-p {sampling['top_p']:g}, at most {sampling['max_tokens']:,} "
        f"tokens, seed {evaluation.scores['seed']}."
    )


def _settings(evaluations: Sequence[Evaluated]) -> str:
    lines = []
    for evaluation in evaluations:
        scores = evaluation.scores
        model = scores["model"]["endpoint"] or f"content {scores['model']['identity'][:16]}…"
        precision = scores["settings"]["dtype"]
        lines.append(
            f"**{evaluation.label}**: model {model}{f', {precision}' if precision else ''}. {_sampled(evaluation)} "
            f"Rows: `{evaluation.directory / 'generations.parquet'}`"
        )
    return "\n\n".join(lines)


def headline(name: str, series: Series) -> Headline:
    (_, first), (last_label, last) = series[0], series[-1]
    end = last["pass_at"]["1"]
    detail = f"± {number(end['standard_error'])}, {last['questions']} questions, at “{last_label}”"
    if not _ends_compare(series):
        return Headline(f"{name} · pass@1", number(end["value"]), detail=detail)
    paired = paired_difference(first["problems"], last["problems"], clusters=last.get("clusters"))
    sure = not paired.low <= 0 <= paired.high
    return Headline(
        title=f"{name} · pass@1",
        value=f"{number(first['pass_at']['1']['value'])} → {number(end['value'])}",
        change=f"{signed(paired.difference)}  [{signed(paired.low)}, {signed(paired.high)}]",
        detail=detail,
        good=paired.difference > 0 if sure else None,
    )
