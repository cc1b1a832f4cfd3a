"""The tables of a report, row by row, from the dictionaries of `evaluation.scores`."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

from ratchet.data_curation.base.prompts import PromptFormat
from ratchet.evaluation.comparison import SIGNIFICANT, Counts, PairedDifference, paired_difference, question_changes
from ratchet.evaluation.gains import Task, supported_k
from ratchet.evaluation.scores import complete
from ratchet.infra.pages import unmarked

Row = dict[str, Any]
Scores = Mapping[str, Any]  # one benchmark's dictionary of `evaluation.scores`
Series = Sequence[tuple[str, Scores]]  # (label of the checkpoint, its scores), in pipeline order
Benchmarks = Mapping[str, Series]


def _shown(value: float | None, form: str) -> str:
    return "–" if value is None or math.isnan(value) else format(value, form)


def number(value: float | None, decimals: int = 3) -> str:
    """A number with these decimals, or a dash."""
    return _shown(value, f".{decimals}f")


def signed(value: float | None) -> str:
    """A number with its sign and three decimals, or a dash."""
    return _shown(value, "+.3f").replace("-", "−")


def percent(value: float | None) -> str:
    return _shown(value, ".1%")


def with_error(value: float | None, error: float | None) -> str:
    return f"{number(value)} ± {number(error)}"


def estimate(point: Mapping[str, Any]) -> str:
    """The score with its standard error, or with its interval if all questions have the same score and the error is
    0."""
    if point["standard_error"] == 0:
        return f"{number(point['value'])} ({interval(point['low'], point['high'])})"
    return with_error(point["value"], point["standard_error"])


def interval(low: float | None, high: float | None, form: Callable[[float | None], str] = number) -> str:
    return f"{form(low)} … {form(high)}"


def comparable(before: Scores, after: Scores) -> bool:
    """True if the benchmark has the same content in both, so that questions can be paired."""
    return before["content_hash"] == after["content_hash"]


def by_checkpoint(benchmarks: Benchmarks, rows: Callable[[Scores], list[Row]]) -> list[Row]:
    """The rows of every benchmark and checkpoint, with both in the first columns."""
    return [
        {"benchmark": name, "checkpoint": label, **row}
        for name, series in benchmarks.items()
        for label, scores in series
        for row in rows(scores)
    ]


# ------------------------------------------------------------------------------------------ one checkpoint

MANY_EMPTY, MANY_EXPRESSIONS = 0.02, 0.5
"""Shares of empty responses, and of answers that are expressions, above which the terminal and the report warn."""


def score_rows(scores: Scores) -> list[Row]:
    """The row of a benchmark's scores at one checkpoint."""
    row: Row = {f"pass@{k}": estimate(point) for k, point in scores["pass_at"].items()}
    majority = scores.get("majority_at", {})
    if k := largest_k(majority):
        row[f"maj@{k}"] = estimate(majority[k])
    row |= {name.replace("_", " "): number(value) for name, value in scores.get("metrics", {}).items()}
    tokens = number(scores["response_tokens"]["all"]["mean"], 0)
    return [row | {"truncated": percent(scores["truncation_rate"]), "mean tokens": tokens}]


def largest_k(*checkpoints: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The largest k for which every graded question has enough responses at each checkpoint."""
    return max(set.intersection(*(set(complete(points)) for points in checkpoints)), key=int, default=None)


def shown_k(series: Series) -> str:
    """The k of pass@k shown beside pass@1: the largest that every checkpoint has, at which they can be compared."""
    return largest_k(*(scores["pass_at"] for _, scores in series)) or "1"


def k_rows(scores: Scores) -> list[Row]:
    """The rows of pass@k, pass^k and maj@k, one for each k."""
    rows = []
    for k, point in scores["pass_at"].items():
        row: Row = {"k": int(k), "pass@k": number(point["value"])}
        row["95 % interval"] = interval(point["low"], point["high"])
        row["pass^k"] = estimate(scores["all_pass_at"][k])
        if "majority_at" in scores:
            row["maj@k"] = estimate(scores["majority_at"][k])
        if k == "1":
            row["at fixed questions"] = f"± {number(scores.get('standard_error_at_fixed_questions'))}"
        rows.append(row)
    return rows


def response_rows(scores: Scores) -> list[Row]:
    rates = {"no answer": "no_answer_rate", "empty": "empty_rate", "timeout": "timeout_rate"}
    rates |= {"not evaluated": "unevaluated_rate", "rewritten": "rewritten_rate"}
    return [
        {name: percent(scores.get(rate)) for name, rate in rates.items()}
        | {"accuracy if complete": number(scores["accuracy_given_completion"]), "infra errors": scores["infra_errors"]}
    ]


def warnings(scores: Scores) -> list[str]:
    """Reasons to doubt the score of one checkpoint, for the terminal, the report and MLflow."""
    sentences, empty, unread = [], scores.get("empty_rate") or 0, scores.get("without_answers")
    point = scores["pass_at"]["1"]
    if empty > MANY_EMPTY:
        sentences.append(
            f"{percent(empty)} of the responses have no text, or none after their thinking, and count as wrong: pass@1 "
            f"is {number(point['value'])}, {number(point['low'])} … {number(point['high'])} with 95 %. A model may end "
            "at once; an endpoint's reasoning parser, a filter or a token limit may have removed the answers: read "
            "some first."
        )
    if unread:
        pattern, preset = scores["answer_pattern"], unread["preset"]
        way = (
            f"`answer_pattern: {json.dumps(preset)}` of this benchmark would read {percent(unread['reads'])} of them"
            if preset
            else "none of the named answer patterns reads most of them"
        )
        ends = "; ".join(f"“… {unmarked(end)}”" for end in unread["examples"]) or "without any text"
        sentences.append(
            f"{percent(scores['no_answer_rate'])} of the responses have no answer that the pattern {pattern} reads "
            f"and count as wrong; {way}. They end: {ends}"
        )
    rewritten, unevaluated = (scores.get(name) or 0 for name in ("rewritten_rate", "unevaluated_rate"))
    if max(rewritten, unevaluated) > MANY_EXPRESSIONS:
        sentences.append(
            f"{percent(rewritten)} of the right answers are equal to their reference only when evaluated, and "
            f"{percent(unevaluated)} of all answers leave arithmetic to do: the model may answer with expressions."
        )
    if point["value"] == 0:
        sentences.append("no response passed: is the verifier right, and are the questions within the model's reach?")
    return sentences


def length_rows(scores: Scores) -> list[Row]:
    tokens = scores["response_tokens"]
    row = {f"{group}: {name}": number(value, 1) for group, lengths in tokens.items() for name, value in lengths.items()}
    return [row] if tokens["all"]["mean"] else []


def budget_rows(scores: Scores) -> list[Row]:
    """The row of scores at smaller limits on the response's tokens."""
    row = {f"{point['tokens']:,} tokens": estimate(point) for point in scores.get("budgets", ())}
    return [row] if row else []


def contamination_rows(scores: Scores) -> list[Row]:
    contamination = scores["contamination"]
    if not contamination or not contamination["flagged"]:
        return []
    whole, without = scores["pass_at"]["1"], contamination["pass_at_without"]["1"]
    names = ("flagged", "pass@1, all", "pass@1, without the flagged")
    return [dict(zip(names, (len(contamination["flagged"]), estimate(whole), estimate(without)), strict=True))]


def topic_rows(benchmarks: Benchmarks, name: Literal["topics", "months"]) -> list[Row]:
    """Scores of the last checkpoint by topic or month of release."""
    rows = []
    for benchmark, series in benchmarks.items():
        label, scores = series[-1]
        for topic in scores.get(name, ()):
            row: Row = {
                "benchmark": f"{benchmark}, {label}", name[:-1]: topic["topic"], "questions": topic["questions"],
                "accuracy": estimate(topic), "95 % interval": interval(topic["low"], topic["high"]),
            }  # fmt: skip
            if topic["adjusted"] is not None:
                row["at equal difficulty"] = with_error(topic["adjusted"], topic["adjusted_standard_error"])
            rows.append(row)
    return rows


def setting_row(name: str, scores: Scores) -> Row:
    published, released, checked = scores["published_questions"], scores["released"], scores["contamination"]
    templates = {name: text for name, text in scores["prompt"].items() if name not in PromptFormat.model_fields}
    values, system, prefix = (
        scores["prompt"].get(name, "") for name in ("chat_template_kwargs", "system_prompt", "response_prefix")
    )
    prompt = " or ".join(f"{values} {system} {text} {prefix}" for text in dict.fromkeys(templates.values()))
    return {
        "benchmark": name,
        "questions": f"{scores['questions']}"
        + (f" of {published}" if published not in (None, scores["questions"]) else ""),
        "responses each": number(scores["samples"] / max(scores["questions"], 1), 1).removesuffix(".0"),
        "content": scores["content_hash"][:12],
        "released": " … ".join(dict.fromkeys(released)) if released else scores["public_since"] or "–",
        "in the training set": "not checked" if checked is None else len(checked["flagged"]),
        "prompt": f"`{' '.join(prompt.replace('`', chr(39)).split())}`",
    }


# ------------------------------------------------------------------------------------- several checkpoints


def difference_rows(benchmarks: Benchmarks, regimes: Mapping[str, str] = {}) -> list[Row]:
    """Differences between successive checkpoints, and between first and last; `regimes` by benchmark."""
    rows = []
    for name, series in benchmarks.items():
        pairs = [*pairwise(series), *([(series[0], series[-1])] if len(series) > 2 else [])]
        for (before_label, before), (after_label, after) in pairs:
            if not comparable(before, after):
                continue
            counts = before["problems"], after["problems"]
            ks = {1, supported_k(*counts), int(largest_k(before["pass_at"], after["pass_at"]) or 1)}
            gains = gain_rows(*counts, sorted(ks), after.get("clusters"))
            if (before_label, after_label) == (series[0][0], series[-1][0]) and name in regimes:
                gains[0]["regime"] = regimes[name]
            rows += [{"benchmark": name, "from → to": f"{before_label} → {after_label}"} | row for row in gains]
    return rows


def task_rows(tasks: Sequence[Task]) -> list[Row]:
    """Gains of each task from the first checkpoint to the last."""
    rows = []
    for task in tasks:
        gains = gain_rows(task.counts[0], task.counts[-1], sorted({1, task.k}), task.clusters)
        rows += [{"benchmark": task.benchmark, "task": task.name} | row for row in gains]
    return rows


def gain_rows(before: Counts, after: Counts, ks: Sequence[int], clusters: Mapping[str, Any] | None) -> list[Row]:
    changes = question_changes(before, after)
    rows = []
    for k in ks:
        gain = paired_difference(before, after, k, clusters)
        row: Row = {
            "metric": f"pass@{k}",
            "difference": f"{signed(gain.difference)} ± {number(gain.standard_error)}",
            "95 % interval": interval(gain.low, gain.high, signed),
            "p": p_value(gain),
            "upper limit": signed(gain.upper_limit),
            "questions": gain.questions,
        }
        if k == 1:
            for kind in ("newly_solved", "newly_lost"):
                significant = changes.q_value[changes[kind]] < SIGNIFICANT
                row[kind.replace("_", " ")] = f"{len(significant)} ({significant.sum()})"
        rows.append(row)
    return rows


def p_value(gain: PairedDifference) -> str:
    """The p-value of a gain as text."""
    return "< 0.001" if gain.p_value < 0.001 else number(gain.p_value)


def change(gain: PairedDifference) -> str:
    """The difference in one line, with its 95 % interval and its p-value."""
    p = p_value(gain)
    return f"{signed(gain.difference)} [{signed(gain.low)}, {signed(gain.high)}], p {p if p[0] == '<' else f'= {p}'}"


def gain_between(series: Series, k: str | int, last: int = -1) -> PairedDifference | None:
    """The paired gain of pass@k from the first checkpoint; None if there is none, or if they are not comparable."""
    before, after = series[0][1], series[last][1]
    if before is after or not comparable(before, after):
        return None
    return paired_difference(before["problems"], after["problems"], int(k), after.get("clusters"))
