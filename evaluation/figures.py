"""Draw the report's figures, one panel per benchmark, as SVG (page) and PNG (files). None if nothing would be drawn."""

from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import FixedLocator, NullLocator

from ratchet.evaluation.tables import Benchmarks, Series
from ratchet.infra.pages import FIRST, LAST, Drawing
from ratchet.infra.pages.drawing import count_axis, draw

BENCHMARK_COLORS = ("#3056d3", "#d9730d", "#0f9d76", "#b5367a", "#6b5bd2", "#8a6d1f")


def checkpoint_colors(count: int) -> list[Any]:
    """Colors of the checkpoints, from gray (first) to dark blue (last)."""
    ramp = LinearSegmentedColormap.from_list("pipeline", [FIRST, "#7f9be6", LAST, "#16297a"])
    return [ramp(i / (count - 1)) for i in range(count)] if count > 1 else [LAST]


def pass_at_k_curves(benchmarks: Benchmarks) -> Drawing | None:
    """Draw pass@k against k, one line per checkpoint, with bands of 95 %."""

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
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 1]))
        axes.set_ylabel("pass@k")
        if len(series) > 1:
            # Below the axes: with low scores every place inside covers a curve.
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)

    several = {name: s for name, s in benchmarks.items() if any(len(scores["pass_curve"]["k"]) > 1 for _, scores in s)}
    return draw("pass-at-k", [(n, partial(paint, s)) for n, s in several.items()]) if several else None


def solve_rate_histograms(benchmarks: Benchmarks) -> Drawing | None:
    """Draw the number of questions by solve rate, first checkpoint against last."""

    def paint(series: Series, axes: Axes) -> None:
        ends = [series[0], series[-1]] if len(series) > 1 else [series[0]]
        width = 0.84 / len(ends)
        bins = ends[0][1]["solve_rates"]["bins"]
        for i, ((label, scores), color) in enumerate(zip(ends, (FIRST, LAST)[-len(ends) :], strict=True)):
            x = np.arange(len(bins)) + (i - (len(ends) - 1) / 2) * width
            axes.bar(x, scores["solve_rates"]["questions"], width * 0.95, color=color, label=label)
        inner = [name.split("–")[0] if i % 2 == 0 else "" for i, name in enumerate(bins[1:-1])]
        axes.set_xticks(range(len(bins)), [*bins[:1], *inner, *bins[-1:]])
        axes.grid(axis="x", visible=False)
        axes.set_xlabel("solve rate, %")
        count_axis(axes, "questions")
        axes.legend()

    graded = {name: s for name, s in benchmarks.items() if s[0][1]["solve_rates"] and s[-1][1]["solve_rates"]}
    return draw("solve-rates", [(n, partial(paint, s)) for n, s in graded.items()]) if graded else None


def floats(values: Any) -> np.ndarray:
    """The values as floats, with JSON's null as NaN."""
    return np.array([np.nan if value is None else value for value in values], dtype=float)
