"""The tables of a report, row by row, from the dictionaries of `evaluation.scores`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from ratchet.evaluation import queries
from ratchet.evaluation.comparison import paired_difference, question_changes, zero_of_n_limit
from ratchet.evaluation.document import Section
from ratchet.evaluation.figures import Scores, Series
from ratchet.evaluation.regimes import regime

SIGNIFICANT = 0.05  # false discovery rate at which a single question counts as changed
MANY_CUT = 0.05  # share of truncated responses from which a score is one of the limit, too
Row = dict[str, Any]


def number(value: float | None, decimals: int = 3) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.{decimals}f}"


def signed(value: float | None) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:+.3f}".replace("-", "−")


def percent(value: float | None) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.1%}"


def with_error(point: Mapping[str, Any]) -> str:
    return f"{number(point['value'])} ± {number(point['standard_error'])}"


def interval(low: float | None, high: float | None) -> str:
    return f"{number(low)} … {number(high)}"


def comparable(before: Scores, after: Scores) -> bool:
    """A benchmark whose content differs is another benchmark: nothing pairs."""
    return before["content_hash"] == after["content_hash"]


# ------------------------------------------------------------------------------------------ one checkpoint


def score_row(name: str, label: str, scores: Scores) -> Row:
    row: Row = {"benchmark": name, "checkpoint": label}
    for k, point in scores["pass_at"].items():
        row[f"pass@{k}"] = with_error(point)
    row["at fixed questions"] = f"± {number(scores['average'].get('standard_error_at_fixed_questions'))}"
    if "majority_at" in scores and (k := _largest(scores["majority_at"])):
        row[f"maj@{k}"] = with_error(scores["majority_at"][k])
    return row | {
        "truncated": percent(scores["truncation_rate"]),
        "no answer": percent(scores["no_answer_rate"]),
        "right if finished": number(scores["accuracy_given_completion"]),
        "infra errors": scores["infra_errors"],
    }


def _largest(points: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The largest k that every response allows."""
    known = [k for k, point in points.items() if point["value"] is not None and not math.isnan(point["value"])]
    return max(known, key=int) if known else None


def error_row(name: str, label: str, scores: Scores) -> Row:
    average = scores["average"]
    first = scores["pass_at"]["1"]
    row: Row = {"benchmark": name, "checkpoint": label}
    row |= {
        "avg@n": number(average["value"]),
        "n": number(average.get("samples_per_question"), 1).removesuffix(".0"),
        "95 % interval": interval(first["low"], first["high"]),
        "across questions": f"± {number(average.get('standard_error_across_questions'))}",
        "at fixed questions": f"± {number(average.get('standard_error_at_fixed_questions'))}",
        "across runs": f"± {number(average.get('standard_error_across_runs'))}",
        "bootstrap over questions": f"± {number(average.get('bootstrap_standard_error'))} "
        f"({interval(average.get('bootstrap_low'), average.get('bootstrap_high'))})",
    }
    if "clusters" in average:
        row[f"across {average['clusters']} clusters"] = f"± {number(average['standard_error_across_clusters'])}"
    return row


def count_rows(name: str, label: str, scores: Scores) -> list[Row]:
    rows = []
    for k in scores["pass_at"]:
        drawn = scores["pass_at_by_subsampling"][k]
        row: Row = {
            "benchmark": name,
            "checkpoint": label,
            "k": int(k),
            "pass@k": with_error(scores["pass_at"][k]),
            "by subsampling": f"{number(drawn['value'])} ± {number(drawn['monte_carlo_error'])}",
            "at most": number(scores["pass_at_bound"][k]),
            "pass^k": with_error(scores["all_pass_at"][k]),
        }
        if "majority_at" in scores:
            row["maj@k"] = with_error(scores["majority_at"][k])
        rows.append(row)
    return rows


def length_row(name: str, label: str, scores: Scores) -> Row:
    row: Row = {"benchmark": name, "checkpoint": label}
    for group, statistics in scores["response_tokens"].items():
        for statistic, value in statistics.items():
            row[f"{group}: {statistic}"] = number(value, 1)
    return row


def asked_row(name: str, scores: Scores) -> Row:
    published = scores.get("published_questions")
    released = scores.get("released")
    checked = scores["contamination"]
    return {
        "benchmark": name,
        "questions": f"{scores['questions']}"
        + (f" of {published}" if published not in (None, scores["questions"]) else ""),
        "responses each": number(scores["samples"] / max(scores["questions"], 1), 1).removesuffix(".0"),
        "content": scores["content_hash"][:12],
        "released": " … ".join(dict.fromkeys(released)) if released else scores.get("public_since") or "–",
        "in the training set": "not checked" if checked is None else len(checked["flagged"]),
        "prompt": f"`{_prompt(scores)}`",
    }


def _prompt(scores: Scores) -> str:
    prompt = scores["prompt"]
    text = prompt[scores["domain"]]
    return " ".join(f"{text} {prompt['response_prefix']}".replace("`", "'").split())


def warnings(name: str, series: Series) -> list[str]:
    found = []
    for label, scores in series:
        where = f"{name}, {label}"
        if (rate := scores["truncation_rate"]) is not None and rate > MANY_CUT:
            found.append(
                f"**{where}**: {percent(rate)} of the responses were cut at the limit and count as wrong. Of those "
                f"that ended by themselves {number(scores['accuracy_given_completion'])} are right."
            )
        if scores["infra_errors"]:
            found.append(
                f"**{where}**: {scores['infra_errors']} responses could not be had or judged through no fault of the "
                "model. They are part of no score."
            )
        if missing := scores["questions"] - scores["questions_graded"]:
            found.append(
                f"**{where}**: {missing} of {scores['questions']} questions have no response; they are left out."
            )
        if undefined := [k for k, point in scores["pass_at"].items() if not point["questions"]]:
            found.append(f"**{where}**: pass@k is undefined for k = {', '.join(undefined)}: there are fewer responses.")
        if partial := [k for k, p in scores["pass_at"].items() if 0 < p["questions"] < scores["questions_graded"]]:
            found.append(
                f"**{where}**: pass@k for k = {', '.join(partial)} is of the questions with as many responses only."
            )
    scores = series[-1][1]
    published = scores.get("published_questions")
    if published and published != scores["questions"]:
        found.append(
            f"**{name}** is published with {published} questions; this file has {scores['questions']}. Its scores are "
            "not those of the published benchmark."
        )
    for reason, rows in (scores.get("set_aside") or {}).items():
        found.append(f"**{name}**: {rows} rows of its file were set aside and are part of no score: {reason}.")
    if (checked := scores["contamination"]) and checked["flagged"]:
        found.append(f"**{name}**: {len(checked['flagged'])} questions stand in the training set; see Contamination.")
    return found


# ------------------------------------------------------------------------------------- several checkpoints


def difference_rows(benchmarks: Mapping[str, Series]) -> list[Row]:
    rows = []
    for name, series in benchmarks.items():
        pairs = list(pairwise(series))
        if len(series) > 2:
            pairs.append((series[0], series[-1]))
        for (before_label, before), (after_label, after) in pairs:
            rows += _differences(name, f"{before_label} → {after_label}", before, after)
    return rows


def _differences(name: str, pair: str, before: Scores, after: Scores) -> list[Row]:
    if not comparable(before, after):
        return [{"benchmark": name, "from → to": pair, "difference": "not comparable: the benchmark's content differs"}]
    changes = question_changes(before["problems"], after["problems"])
    rows = []
    ks = ["1", *[k for k in (_largest(after["pass_at"]),) if k not in (None, "1")]]
    for k in ks:
        paired = paired_difference(before["problems"], after["problems"], int(k), after.get("clusters"))
        row: Row = {"benchmark": name, "from → to": pair, "of": f"pass@{k}"}
        row |= {
            "difference": f"{signed(paired.difference)} ± {number(paired.standard_error)}",
            "95 % interval": f"{signed(paired.low)} … {signed(paired.high)}",
            "p": "< 0.001" if paired.p_value < 0.001 else number(paired.p_value),
            "questions": paired.questions,
        }
        if k == "1":
            for title, some in (
                ("newly solved", [c for c in changes if c.newly_solved]),
                ("newly lost", [c for c in changes if c.newly_lost]),
            ):
                row[title] = f"{len(some)} ({sum(c.q_value < SIGNIFICANT for c in some)})"
        rows.append(row)
    return rows


def zero_of_n(benchmarks: Mapping[str, Series]) -> str:
    """The caveat that goes with "newly solved"."""
    tries = {
        min(n for _, n in series[0][1]["problems"].values())
        for series in benchmarks.values()
        if series[0][1]["problems"]
    }
    tries.discard(0)
    if not tries:
        return ""
    n = min(tries)
    return (
        f"None of {n} right still allows a solve rate of up to {zero_of_n_limit(n):.1%} (95 %): "
        "a question can become newly solved because it was asked again."
    )


def regime_section(benchmarks: Mapping[str, Series]) -> Section | None:
    """ProRL's regimes, from the first, the middle and the last checkpoint."""
    rows = []
    for name, series in benchmarks.items():
        three = [series[0], series[len(series) // 2], series[-1]] if len(series) >= 3 else []
        if not three or not all(comparable(three[0][1], scores) for _, scores in three[1:]):
            continue
        problems = [scores["problems"] for _, scores in three]
        common = [q for q in problems[0] if all(p[q][1] > 0 for p in problems)]
        counts = [([p[q][1] for q in common], [p[q][0] for q in common]) for p in problems]
        k = min((min(n) for n, _ in counts if n), default=0)
        if len(common) < 2 or k < 2:
            continue
        found = regime(*counts, k=k)
        rows.append(
            {"benchmark": name, "checkpoints": " → ".join(label for label, _ in three), "regime": found.regime,
             "confidence": percent(found.confidence), "gain at 1": signed(found.gain_at_1),
             f"gain at {k}": signed(found.gain_at_k), f"of it late, at {k}": signed(found.gain_at_k_late)}
        )  # fmt: skip
    note = (
        "Diminish: pass@1 rose, pass@k did not. Plateau: pass@k rose early only. Sustained: it still rose late. By "
        "Student's paired 95 % intervals over questions; confidence: the share of 1,000 bootstrapped sets of questions "
        "that are sorted the same. After ProRL (arXiv 2505.24864), which sorts by eye."
    )
    return Section("Sharper, or wider", table=rows, note=note, queries=queries.shown(queries.REGIMES)) if rows else None


# --------------------------------------------------------------------------------- what not every benchmark has


def topic_section(benchmarks: Mapping[str, Series]) -> Section | None:
    rows = []
    for name, series in benchmarks.items():
        label, scores = series[-1]
        for topic in scores["topics"]:
            row: Row = {"benchmark": f"{name}, {label}", "topic": topic["topic"], "questions": topic["questions"]}
            row |= {"accuracy": with_error(topic), "95 % interval": interval(topic["low"], topic["high"])}
            if topic["adjusted"] is not None:
                row["at equal difficulty"] = f"{number(topic['adjusted'])} ± {number(topic['adjusted_standard_error'])}"
            rows.append(row)
    note = (
        "At equal difficulty: what the accuracy would be if the topic's questions were as hard as the benchmark's. A "
        "topic can be low because its questions are hard."
    )
    return (
        Section("Topics", table=rows, group_by="benchmark", note=note, queries=queries.shown(queries.TOPICS))
        if rows
        else None
    )


def rating_section(benchmarks: Mapping[str, Series]) -> Section | None:
    rows = [
        {"benchmark": name, "checkpoint": label, "rating": f"{scores['rating']['value']:.0f} ± "
         f"{scores['rating']['standard_error']:.0f}", "problems": scores["rating"]["problems"]}
        for name, series in benchmarks.items() for label, scores in series if scores["rating"]
    ]  # fmt: skip
    note = (
        "Maximum a posteriori from the problems' ratings (LiveCodeBench Pro's method), prior 1500 ± 500. Not CodeElo's "
        "rating, which is from places in contests and is often hundreds of points higher."
    )
    return (
        Section("Rating", table=rows, group_by="benchmark", note=note, queries=queries.shown(queries.RATING))
        if rows
        else None
    )


def contamination_section(benchmarks: Mapping[str, Series]) -> Section | None:
    rows = [
        {"benchmark": name, "checkpoint": label, "flagged": len(scores["contamination"]["flagged"]),
         "pass@1, all": with_error(scores["pass_at"]["1"]),
         "pass@1, without the flagged": with_error(scores["contamination"]["pass_at_without"]["1"])}
        for name, series in benchmarks.items() for label, scores in series if scores["contamination"]
    ]  # fmt: skip
    note = (
        "Flagged: a row of the training set covers the question's statement (docs/curation.md, decontamination; the "
        "evidence is in the contamination artifact)."
    )
    return _optional("Contamination", rows, note, queries.CONTAMINATION)


def _optional(title: str, rows: list[Row], note: str, shown: Mapping[str, str]) -> Section | None:
    return Section(title, "", rows, group_by="benchmark", note=note, queries=queries.shown(shown)) if rows else None
