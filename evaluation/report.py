"""The report of a pipeline's evaluations: what changed between checkpoints, how sure that is, and what it cost."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from evaluation import figures
from evaluation.comparison import PairedDifference, paired_difference, question_changes
from evaluation.document import Document, Headline, Section, to_html, to_markdown
from evaluation.figures import Series
from infra.artifacts import disk_errors, write_atomically
from infra.errors import RatchetError

__all__ = ["Evaluated", "Section", "compare", "read_scores", "write_report"]


@dataclass(frozen=True)
class Evaluated:
    """One checkpoint: how the report calls it, and its `scores.json`, read."""

    label: str
    scores: Mapping[str, Any]


def read_scores(label: str, directory: str | Path) -> Evaluated:
    """Raises RatchetError when the directory holds no readable `scores.json`."""
    path = Path(directory) / "scores.json"
    try:
        scores = json.loads(path.read_text())
        if not isinstance(scores, dict) or "benchmarks" not in scores:
            raise ValueError("no benchmarks in it")
    except (OSError, ValueError) as error:
        raise RatchetError(
            f"{path} is not the scores of a finished evaluation ({error}); evaluate {label} again"
        ) from error
    return Evaluated(label, scores)


def write_report(
    evaluations: Sequence[tuple[str, str | Path]],
    directory: str | Path,
    *,
    title: str,
    sections: Sequence[Section] = (),
) -> list[Path]:
    """Write `report.html` (self-contained), `report.md` and `figures/*.png` into `directory`; returns the files.

    `evaluations` are (label, directory of a finished evaluation) in pipeline order; `sections` come after the scores.
    """
    directory = Path(directory)
    document = compose([read_scores(label, path) for label, path in evaluations], title, sections)
    markdown, images = to_markdown(document)
    with disk_errors(directory):
        (directory / "figures").mkdir(parents=True, exist_ok=True)
        for name, image in images.items():
            (directory / name).write_bytes(image)
        write_atomically(directory / "report.md", markdown)
        write_atomically(directory / "report.html", to_html(document))
    return [directory / "report.html", directory / "report.md", *(directory / name for name in images)]


def compose(evaluations: Sequence[Evaluated], title: str, sections: Sequence[Section]) -> Document:
    labels = [evaluation.label for evaluation in evaluations]
    if not labels or len(set(labels)) != len(labels):
        raise ValueError(f"a report needs evaluations with different labels, not {labels}")
    benchmarks = by_benchmark(evaluations)
    return Document(
        title=title,
        subtitle=_subtitle(evaluations),
        headlines=[_headline(name, series) for name, series in benchmarks.items()],
        sections=[
            Section(
                "pass@1 over the pipeline", drawing=figures.pass_at_1_over_the_pipeline(benchmarks, labels)
            ),
            Section("pass@k", drawing=figures.pass_at_k_curves(benchmarks)),
            Section(
                "Scores",
                "Mean over questions ± standard error across questions.",
                [_score_row(name, label, scores) for name, series in benchmarks.items() for label, scores in series],
                group_by="benchmark",
                note="At fixed questions: the standard error of pass@1 if the same questions were sampled again. "
                "Right if finished: pass@1 among responses that were not cut. Infra errors are failures of our own "
                "machinery: counted here, part of no score.",
            ),
            Section(
                "What changed, question by question",
                "Paired differences in pass@1: the same questions before and after, so that what makes a question "
                "hard cancels.",
                difference_rows(benchmarks),
                group_by="benchmark",
                note="± standard error across questions; Student's 95 % interval; p: sign-flip test over questions, "
                "two-sided. Newly solved: no response was right before and at least one is after; newly lost: the "
                "reverse.",
            ),
            Section("Solve rates, before and after", drawing=figures.solve_rate_histograms(benchmarks)),
            Section(
                "Response length and truncation",
                drawing=figures.length_and_truncation(benchmarks, labels),
                table=[_length_row(name, label, s) for name, series in benchmarks.items() for label, s in series],
                group_by="benchmark",
                note="Tokens per response.",
            ),
            *sections,
        ],
    )  # fmt: skip


def by_benchmark(evaluations: Sequence[Evaluated]) -> dict[str, list[tuple[str, Mapping[str, Any]]]]:
    """The scores of each benchmark in pipeline order; a checkpoint that was not evaluated on one is left out of it."""
    names = dict.fromkeys(name for evaluation in evaluations for name in evaluation.scores["benchmarks"])
    return {
        name: [(e.label, e.scores["benchmarks"][name]) for e in evaluations if name in e.scores["benchmarks"]]
        for name in names
    }


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> PairedDifference | None:
    """Two scores of one benchmark, paired; None when the benchmark's content differs, because then nothing pairs."""
    if before["content_hash"] != after["content_hash"]:
        return None
    return paired_difference(before["problems"], after["problems"])


def _subtitle(evaluations: Sequence[Evaluated]) -> str:
    sampling = evaluations[0].scores["settings"]["sampling"]
    sizes = ", ".join(
        f"{name}: {scores['questions']} questions × {scores['samples'] // max(scores['questions'], 1)} responses"
        for name, scores in evaluations[-1].scores["benchmarks"].items()
    )
    return (
        f"{sizes}. Temperature {sampling['temperature']:g}, top-p {sampling['top_p']:g}, at most "
        f"{sampling['max_tokens']:,} tokens, seed {evaluations[0].scores['seed']}."
    )


def _headline(name: str, series: Series) -> Headline:
    (_, first), (last_label, last) = series[0], series[-1]
    end = last["pass_at"]["1"]
    detail = f"± {_number(end['standard_error'])}, {last['questions']} questions, at “{last_label}”"
    paired = compare(first, last) if len(series) > 1 else None
    if paired is None:
        return Headline(f"{name} · pass@1", _number(end["value"]), detail=detail)
    sure = not paired.low <= 0 <= paired.high
    return Headline(
        title=f"{name} · pass@1",
        value=f"{_number(first['pass_at']['1']['value'])} → {_number(end['value'])}",
        change=f"{paired.difference:+.3f}  [{paired.low:+.3f}, {paired.high:+.3f}]".replace("-", "−"),
        detail=detail,
        good=paired.difference > 0 if sure else None,
    )


def _score_row(name: str, label: str, scores: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"benchmark": name, "checkpoint": label}
    for k, point in scores["pass_at"].items():
        row[f"pass@{k}"] = _with_error(point)
    row["at fixed questions"] = f"± {_number(scores['average'].get('standard_error_at_fixed_questions'))}"
    if "majority_at" in scores:
        k = max(scores["majority_at"], key=int)
        row[f"maj@{k}"] = _with_error(scores["majority_at"][k])
    row |= {
        "truncated": _percent(scores["truncation_rate"]),
        "no answer": _percent(scores["no_answer_rate"]),
        "right if finished": _number(scores["accuracy_given_completion"]),
        "infra errors": scores["infra_errors"],
    }
    return row


def difference_rows(benchmarks: Mapping[str, Series]) -> list[dict[str, Any]]:
    rows = []
    for name, series in benchmarks.items():
        pairs = list(pairwise(series))
        if len(series) > 2:
            pairs.append((series[0], series[-1]))
        for (before_label, before), (after_label, after) in pairs:
            row: dict[str, Any] = {"benchmark": name, "from → to": f"{before_label} → {after_label}"}
            paired = compare(before, after)
            if paired is None:
                row["difference"] = "not comparable: the benchmark's content differs"
            else:
                changes = question_changes(before["problems"], after["problems"])
                row |= {
                    "difference": f"{paired.difference:+.3f} ± {_number(paired.standard_error)}".replace("-", "−"),
                    "95 % interval": f"{paired.low:+.3f} … {paired.high:+.3f}".replace("-", "−"),
                    "p": "< 0.001" if paired.p_value < 0.001 else _number(paired.p_value),
                    "newly solved": sum(change.newly_solved for change in changes),
                    "newly lost": sum(change.newly_lost for change in changes),
                    "questions": paired.questions,
                }
            rows.append(row)
    return rows


def _length_row(name: str, label: str, scores: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"benchmark": name, "checkpoint": label}
    for group, statistics in scores["response_tokens"].items():
        for statistic, value in statistics.items():
            row[f"{group}: {statistic}"] = _number(value, 1)
    return row


def _number(value: float | None, decimals: int = 3) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.{decimals}f}"


def _percent(value: float | None) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.1%}"


def _with_error(point: Mapping[str, Any]) -> str:
    return f"{_number(point['value'])} ± {_number(point['standard_error'])}"
