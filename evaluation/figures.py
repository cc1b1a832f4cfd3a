"""The report's figures. Each takes scores in pipeline order and returns one drawing as SVG (page) and PNG (files)."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import FixedLocator, NullLocator

from ratchet.evaluation.tables import SIGNIFICANT, Benchmarks, Series
from ratchet.infra.pages import FIRST, INK, LAST, MUTED, Drawing
from ratchet.infra.pages.drawing import Painter, count_axis, draw

BENCHMARK_COLORS = ("#3056d3", "#d9730d", "#0f9d76", "#b5367a", "#6b5bd2", "#8a6d1f")
UP, DOWN, SAME = "#0b7a5b", "#b42318", "#c4cad4"


def checkpoint_colors(count: int) -> list[Any]:
    """From grey to the accent: the order of the checkpoints is read off the color."""
    ramp = LinearSegmentedColormap.from_list("pipeline", [FIRST, "#7f9be6", LAST, "#16297a"])
    return [ramp(i / (count - 1)) for i in range(count)] if count > 1 else [LAST]


def _each(benchmarks: Mapping[str, Any], paint: Callable[..., None]) -> list[tuple[str, Painter]]:
    """One panel a benchmark."""
    return [(name, partial(paint, series)) for name, series in benchmarks.items()]


def pass_at_k_curves(benchmarks: Benchmarks) -> Drawing:
    """pass@k against k, one line per checkpoint, bands of 95 % across questions."""

    def paint(series: Series, axes: Axes) -> None:
        for (label, scores), color in zip(series, checkpoint_colors(len(series)), strict=True):
            curve = {name: floats(values) for name, values in scores["pass_curve"].items()}
            axes.plot(curve["k"], curve["value"], color=color, marker="o", markersize=4, label=label)
            axes.fill_between(curve["k"], curve["low"], curve["high"], color=color, alpha=0.13, linewidth=0)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(sorted({k for _, s in series for k in s["pass_curve"]["k"]})))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda k, _: f"{k:.0f}")
        axes.set_xlabel("k, responses per question")
        share_axis(axes, "pass@k")
        axes.legend(loc="lower right")

    return draw("pass-at-k", _each(benchmarks, paint))


def length_and_truncation(benchmarks: Benchmarks, labels: Sequence[str]) -> Drawing:
    """Mean response length (right and wrong apart) and the share of truncated responses, over the pipeline."""

    def lengths(axes: Axes) -> None:
        for (name, series), color in zip(benchmarks.items(), cycle(BENCHMARK_COLORS), strict=False):
            x = [labels.index(label) for label, _ in series]
            for group, dashes in (("correct", "-"), ("wrong", ":")):
                y = floats(scores["response_tokens"][group]["mean"] for _, scores in series)
                axes.plot(x, y, dashes, color=color, marker="o", markersize=4, label=f"{name}, {group}")
        checkpoint_axis(axes, labels)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("tokens")
        axes.legend()

    def truncation(axes: Axes) -> None:
        width, top = 0.8 / max(len(benchmarks), 1), 0.02
        for i, ((name, series), color) in enumerate(zip(benchmarks.items(), cycle(BENCHMARK_COLORS), strict=False)):
            x = np.array([labels.index(label) for label, _ in series])
            y = floats(scores["truncation_rate"] for _, scores in series)
            top = max(top, np.nanmax(y, initial=0))
            bars = axes.bar(x + (i - (len(benchmarks) - 1) / 2) * width, y, width * 0.92, color=color, label=name)
            axes.bar_label(bars, labels=[f"{v:.1%}" for v in y], fontsize=8, color=MUTED, padding=2)
        checkpoint_axis(axes, labels)
        axes.set_ylim(0, top * 1.25)
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.3g} %")
        axes.legend()

    return draw("length-and-truncation", [("Response length", lengths), ("Truncated responses", truncation)])


def solve_rate_histograms(benchmarks: Benchmarks) -> Drawing:
    """How many questions are solved how often, first checkpoint against last."""

    def paint(series: Series, axes: Axes) -> None:
        ends = [series[0], series[-1]] if len(series) > 1 else [series[0]]
        width = 0.84 / len(ends)
        bins: list[str] = []
        for i, ((label, scores), color) in enumerate(zip(ends, (FIRST, LAST)[-len(ends) :], strict=True)):
            if scores["solve_rates"]:
                bins = scores["solve_rates"]["bins"]
                x = np.arange(len(bins)) + (i - (len(ends) - 1) / 2) * width
                axes.bar(x, scores["solve_rates"]["questions"], width * 0.95, color=color, label=label)
        inner = [name.split("–")[0] if i % 2 == 0 else "" for i, name in enumerate(bins[1:-1])]
        axes.set_xticks(range(len(bins)), [*bins[:1], *inner, *bins[-1:]])
        axes.grid(axis="x", visible=False)
        axes.set_xlabel("share of responses that are right, %")
        count_axis(axes, "questions")
        if bins:
            axes.legend()

    return draw("solve-rates", _each(benchmarks, paint))


def length_histograms(benchmarks: Benchmarks, limit: int | None) -> Drawing:
    """Responses of the last checkpoint by length, right ones and wrong ones; the limit where it is near."""

    def paint(series: Series, axes: Axes) -> None:
        if histogram := series[-1][1]["length_histogram"]:
            edges = np.array(histogram["edges"])
            bottom = np.zeros(len(edges) - 1)
            for name, color in (("correct", LAST), ("wrong", FIRST)):
                counts = np.array(histogram[name])
                axes.bar(edges[:-1], counts, np.diff(edges) * 0.95, bottom, align="edge", color=color, label=name)
                bottom += counts
            if limit and edges[-1] > limit / 2:
                axes.axvline(limit, color=MUTED, linewidth=1, linestyle="--", label="limit")
            axes.legend()
        axes.grid(axis="x", visible=False)
        axes.set_xlabel("tokens")
        count_axis(axes, "responses")

    return draw("length-histograms", _each(benchmarks, paint))


def changes_by_question(changes: Mapping[str, pd.DataFrame]) -> Drawing | None:
    """Each question's solve rate before and after (`comparison.question_changes`), as a line between the two, colored
    where the change is significant; None without a benchmark that compares."""

    def paint(questions: pd.DataFrame, axes: Axes) -> None:
        rates = questions.assign(
            before=questions.passed / questions.graded, after=questions.passed_after / questions.graded_after
        ).sort_values(["before", "after"])
        before, after = rates.before.to_numpy(), rates.after.to_numpy()
        sure, x = (rates.q_value < SIGNIFICANT).to_numpy(), np.arange(len(rates))
        for color, some, label in (
            (SAME, ~sure, "not significant"), (UP, sure & (after > before), "better"),
            (DOWN, sure & (after < before), "worse"),
        ):  # fmt: skip
            axes.vlines(x[some], before[some], after[some], color=color, linewidth=max(0.6, 160 / max(len(x), 40)))
            axes.plot(x[some], after[some], "o", color=color, markersize=3, label=label)
        axes.plot(x, before, "_", color=INK, markersize=4, label="before")
        axes.set_xticks([])
        axes.set_xlabel(f"{len(rates)} questions, ordered by their solve rate before")
        share_axis(axes, "solve rate")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=4)  # below: the bars fill the panel

    return draw("changes", _each(changes, paint)) if changes else None


def share_axis(axes: Axes, label: str) -> None:
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 1]))
    axes.set_ylabel(label)


def checkpoint_axis(axes: Axes, labels: Sequence[str]) -> None:
    axes.set_xticks(range(len(labels)), labels)
    axes.grid(axis="x", visible=False)


def floats(values: Any) -> np.ndarray:
    """JSON's null is NaN again."""
    return np.array([np.nan if value is None else value for value in values], dtype=float)
