"""The tables of a report, row by row, from the dictionaries of `evaluation.scores`."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ratchet.evaluation.boundaries import Task
from ratchet.evaluation.comparison import PairedDifference, paired_difference, question_changes
from ratchet.evaluation.regimes import MARGIN

SIGNIFICANT = 0.05  # false discovery rate at which a single question counts as changed
Row = dict[str, Any]
Scores = Mapping[str, Any]  # one benchmark's dictionary of `evaluation.scores`
Series = Sequence[tuple[str, Scores]]  # (label of the checkpoint, its scores), in pipeline order
Benchmarks = Mapping[str, Series]


def _shown(value: float | None, form: str) -> str:
    return "–" if value is None or math.isnan(value) else format(value, form)


def number(value: float | None, decimals: int = 3) -> str:
    return _shown(value, f".{decimals}f")


def signed(value: float | None) -> str:
    return _shown(value, "+.3f").replace("-", "−")


def percent(value: float | None) -> str:
    return _shown(value, ".1%")


def with_error(value: float | None, error: float | None, decimals: int = 3) -> str:
    return f"{number(value, decimals)} ± {number(error, decimals)}"


def estimate(point: Mapping[str, Any]) -> str:
    """With its standard error; with its interval where no question differs and the error says nothing."""
    if point["standard_error"] == 0:
        return f"{number(point['value'])} ({interval(point['low'], point['high'])})"
    return with_error(point["value"], point["standard_error"])


def interval(low: float | None, high: float | None) -> str:
    return f"{number(low)} … {number(high)}"


def gain_interval(gain: PairedDifference) -> str:
    return f"none: {gain.no_interval}" if gain.no_interval else f"{signed(gain.low)} … {signed(gain.high)}"


def comparable(before: Scores, after: Scores) -> bool:
    """A benchmark whose content differs is another benchmark: nothing pairs."""
    return before["content_hash"] == after["content_hash"]


def each(benchmarks: Benchmarks, rows: Callable[[Scores], list[Row]]) -> list[Row]:
    """The rows of every benchmark and checkpoint, which they begin with."""
    return [
        {"benchmark": name, "checkpoint": label, **row}
        for name, series in benchmarks.items()
        for label, scores in series
        for row in rows(scores)
    ]


# ------------------------------------------------------------------------------------------ one checkpoint


def score_rows(scores: Scores) -> list[Row]:
    row: Row = {f"pass@{k}": estimate(point) for k, point in scores["pass_at"].items()}
    row["at fixed questions"] = f"± {number(scores['average'].get('standard_error_at_fixed_questions'))}"
    if k := _largest(scores.get("majority_at", {})):
        row[f"maj@{k}"] = estimate(scores["majority_at"][k])
    return [row | {
        "truncated": percent(scores["truncation_rate"]),
        "no answer": percent(scores["no_answer_rate"]),
        "empty": percent(scores.get("empty_rate")),
        "accuracy if completed": number(scores["accuracy_given_completion"]),
        "infra errors": scores["infra_errors"],
    } | {name.replace("_", " "): number(value) for name, value in scores.get("metrics", {}).items()}]  # fmt: skip


def _largest(points: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The largest k that every response allows."""
    return max((k for k, point in points.items() if number(point["value"]) != "–"), key=int, default=None)


def error_rows(scores: Scores) -> list[Row]:
    average, first = scores["average"], scores["pass_at"]["1"]

    def error(name: str) -> str:
        return f"± {number(average.get(name))}"

    row: Row = {
        "avg@n": number(average["value"]),
        "n": number(average.get("samples_per_question"), 1).removesuffix(".0"),
        "95 % interval": interval(first["low"], first["high"]),
        "across questions": error("standard_error_across_questions"),
        "at fixed questions": error("standard_error_at_fixed_questions"),
        "across runs": error("standard_error_across_runs"),
    }
    if "clusters" in average:
        row[f"across {average['clusters']} clusters"] = error("standard_error_across_clusters")
    return [row]


def estimator_rows(scores: Scores) -> list[Row]:
    rows = []
    for k, point in scores["pass_at"].items():
        drawn = scores["pass_at_by_subsampling"][k]
        row: Row = {
            "k": int(k),
            "pass@k": estimate(point),
            "by subsampling": with_error(drawn["value"], drawn["monte_carlo_error"]),
            "upper bound": number(scores["pass_at_bound"][k]),
            "pass^k": estimate(scores["all_pass_at"][k]),
        }
        if "majority_at" in scores:
            row["maj@k"] = estimate(scores["majority_at"][k])
        rows.append(row)
    return rows


def length_rows(scores: Scores) -> list[Row]:
    tokens = scores["response_tokens"].items()
    return [{f"{group}: {name}": number(value, 1) for group, found in tokens for name, value in found.items()}]


def month_rows(scores: Scores) -> list[Row]:
    return [
        {"released": month["topic"], "questions": month["questions"], "pass@1": estimate(month),
         "95 % interval": interval(month["low"], month["high"])}
        for month in scores.get("months", ())
    ]  # fmt: skip


def budget_rows(scores: Scores) -> list[Row]:
    row = {f"{point['tokens']:,} tokens": estimate(point) for point in scores.get("budgets", ())}
    return [row] if row else []


def rating_rows(scores: Scores) -> list[Row]:
    rating = scores["rating"]
    if not rating:
        return []
    return [{"rating": with_error(rating["value"], rating["standard_error"], 0), "problems": rating["problems"]}]


def contamination_rows(scores: Scores) -> list[Row]:
    found = scores["contamination"]
    if not found:
        return []
    return [{
        "flagged": len(found["flagged"]),
        "pass@1, all": estimate(scores["pass_at"]["1"]),
        "pass@1, without the flagged": estimate(found["pass_at_without"]["1"]),
    }]  # fmt: skip


def topic_rows(benchmarks: Benchmarks) -> list[Row]:
    """Of the last checkpoint."""
    rows = []
    for name, series in benchmarks.items():
        label, scores = series[-1]
        for topic in scores["topics"]:
            row: Row = {"benchmark": f"{name}, {label}", "topic": topic["topic"], "questions": topic["questions"]}
            row |= {"accuracy": estimate(topic), "95 % interval": interval(topic["low"], topic["high"])}
            if topic["adjusted"] is not None:
                row["at equal difficulty"] = with_error(topic["adjusted"], topic["adjusted_standard_error"])
            rows.append(row)
    return rows


def setting_row(name: str, scores: Scores) -> Row:
    published, released, checked = scores["published_questions"], scores["released"], scores["contamination"]
    prompt = f"{next(iter(scores['prompt'].values()))} {scores['prompt']['response_prefix']}"
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


def difference_rows(benchmarks: Benchmarks) -> list[Row]:
    """Neighbors, and the first against the last."""
    rows = []
    for name, series in benchmarks.items():
        pairs = [*pairwise(series), *([(series[0], series[-1])] if len(series) > 2 else [])]
        for (before_label, before), (after_label, after) in pairs:
            pair = {"benchmark": name, "from → to": f"{before_label} → {after_label}"}
            if comparable(before, after):
                rows += [pair | row for row in _differences(before, after)]
            else:
                rows.append(pair | {"difference": "not comparable: the benchmark's content differs"})
    return rows


def _differences(before: Scores, after: Scores) -> list[Row]:
    changes = question_changes(before["problems"], after["problems"])
    rows = []
    for k in dict.fromkeys(["1", _largest(after["pass_at"]) or "1"]):
        paired = paired_difference(before["problems"], after["problems"], int(k), after.get("clusters"))
        row: Row = {
            "metric": f"pass@{k}",
            "difference": f"{signed(paired.difference)} ± {number(paired.standard_error)}",
            "95 % interval": gain_interval(paired),
            "p": "< 0.001" if paired.p_value < 0.001 else number(paired.p_value),
            "questions": paired.questions,
        }
        if k == "1":
            for kind in ("newly_solved", "newly_lost"):
                sure = changes.q_value[changes[kind]] < SIGNIFICANT
                row[kind.replace("_", " ")] = f"{len(sure)} ({sure.sum()})"
        rows.append(row)
    return rows


def boundary_rows(tasks: Sequence[Task]) -> list[Row]:
    """First against last, task by task."""
    rows = []
    for task in tasks:
        changes = task.changes
        row: Row = {"benchmark": task.benchmark}
        outside = ", out of distribution" if task.out_of_distribution else ""
        row |= {"domain": task.domain + outside} if task.whole else {"task": task.name + outside}
        row["questions"] = len(changes)
        for k, name in ((1, "1"), (task.k, "k"))[: 1 if task.k == 1 else 2]:
            gain, ends = task.gain(k), [number(task.score(when, k)["value"]) for when in (0, -1)]
            row |= {"k": k} if k > 1 else {}
            row[f"pass@{name}"] = " → ".join(ends)
            row[f"gain at {name}"] = signed(gain.difference)
            row[f"95 % at {name}"] = gain_interval(gain)
            row |= {"at most": signed(gain.at_most)} if k > 1 else {}
        row["regime"] = task.regime.regime if task.regime else "–"
        for kind in ("newly_solved", "newly_lost"):
            sure = changes.q_value[changes[kind]] < SIGNIFICANT
            row[kind.replace("_", " ")] = f"{len(sure)} ({sure.sum()})"
        rows.append(row)
    return rows


def verdicts(tasks: Sequence[Task]) -> dict[str, list[str]]:
    """What became of pass@k, in words, and of which tasks: each with its gain and 95 % interval."""
    found: dict[str, list[str]] = {
        "rose": [], "fell": [], f"did not rise by {number(MARGIN, 2)}": [], "is not settled": []
    }  # fmt: skip
    rose, fell, flat, open_ = found
    for task in tasks:
        if task.k > 1:
            gain = task.gain(task.k)
            kind = fell if gain.high < 0 else flat if gain.at_most < MARGIN else rose if gain.low > 0 else open_
            found[kind].append(f"{task.name} (pass@{task.k} {signed(gain.difference)}, {gain_interval(gain)})")
    return {kind: names for kind, names in found.items() if names}
