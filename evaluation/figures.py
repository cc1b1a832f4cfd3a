"""The report's figures, one panel per benchmark or task, as SVG (page) and PNG (files). None where nothing would be
drawn."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import FixedLocator, NullLocator

from ratchet.evaluation.gains import Task
from ratchet.evaluation.tables import Benchmarks, Series
from ratchet.infra.pages import FIRST, INK, LAST, MUTED, Drawing
from ratchet.infra.pages.drawing import count_axis, draw

BENCHMARK_COLORS = ("#3056d3", "#d9730d", "#0f9d76", "#b5367a", "#6b5bd2", "#8a6d1f")
OUTSIDE = "#d9730d"  # not in the training set
MOST_PANELS, MOST_NAMES = 6, 12
LEVELS = range(3, 13)  # numbers of levels that make a curve


def checkpoint_colors(count: int) -> list[Any]:
    """From gray (first checkpoint) to dark blue (last)."""
    ramp = LinearSegmentedColormap.from_list("pipeline", [FIRST, "#7f9be6", LAST, "#16297a"])
    return [ramp(i / (count - 1)) for i in range(count)] if count > 1 else [LAST]


def pass_at_k_curves(benchmarks: Benchmarks) -> Drawing | None:
    """pass@k against k, one line per checkpoint, with bands of 95 %."""

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
        if len(series) > 1:
            # Below the axes: with low scores every place inside covers a curve.
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)

    several = {name: s for name, s in benchmarks.items() if any(len(scores["pass_curve"]["k"]) > 1 for _, scores in s)}
    return draw("pass-at-k", [(n, partial(paint, s)) for n, s in several.items()]) if several else None


def solve_rate_histograms(benchmarks: Benchmarks) -> Drawing | None:
    """Questions by solve rate, first checkpoint against last."""

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


def gain_by_base(tasks: Sequence[Task], k: int, ks: Sequence[int]) -> Drawing | None:
    """Each task's gain against the starting model's pass@k, with its 95 % interval, one panel for each of `ks`; names
    of the tasks farthest from the median. None for fewer than three tasks."""
    base = [task.score(0, k)["value"] for task in tasks]

    def paint(of: int, axes: Axes) -> None:
        gains = [task.gain(of) for task in tasks]
        for outside, color, label in ((False, LAST, "in the training set"), (True, OUTSIDE, "out of distribution")):
            some = [i for i, task in enumerate(tasks) if task.out_of_distribution == outside]
            x, y = np.array(base)[some], np.array([gains[i].difference for i in some])
            ends = np.array([[gains[i].low, gains[i].high] for i in some]).reshape(-1, 2).T
            if some:
                axes.vlines(x, *np.where(np.isnan(ends), y, ends), color=color, linewidth=1, alpha=0.35)
                axes.plot(x, y, "o", color=color, markersize=5, label=label)
        axes.axhline(0, color=MUTED, linewidth=0.8)
        axes.set_xlim(-0.04, 1.04)
        axes.set_xlabel(f"pass@{k} of the starting model")
        axes.set_ylabel(f"gain of pass@{of}")
        axes.yaxis.set_major_formatter(lambda gain, _: f"{gain:+.2f}".replace("-", "−"))
        middle = np.median([gain.difference for gain in gains])
        for i in sorted(range(len(tasks)), key=lambda i: -abs(gains[i].difference - middle))[:MOST_NAMES]:
            at = (base[i], gains[i].difference)
            axes.annotate(tasks[i].name, at, xytext=(5, 3), textcoords="offset points", fontsize=8, color=INK)
        if any(task.out_of_distribution for task in tasks):
            axes.legend(loc="best")

    return draw("gain-by-base", [(f"Gain of pass@{of}", partial(paint, of)) for of in ks]) if len(tasks) > 2 else None


def by_level(tasks: Sequence[Task]) -> Drawing | None:
    """pass@1, and dotted pass@k, by level before and after, with 95 % intervals of pass@1; levels in the training set
    are shaded. Only tasks with levels; of these the ones whose pass@1 changed most."""
    graded = [task for task in tasks if len(set(task.levels.values())) in LEVELS]
    graded = sorted(graded, key=lambda task: -abs(task.gain(1).difference))[:MOST_PANELS]

    def paint(task: Task, axes: Axes) -> None:
        levels = sorted(set(task.levels.values()))
        x = np.arange(len(levels))
        for when, color, name, aside in ((0, FIRST, "before", -0.04), (-1, LAST, "after", 0.04)):
            points = [task.score(when, 1, level) for level in levels]
            y, low, high = (floats(point[field] for point in points) for field in ("value", "low", "high"))
            bars = {"yerr": np.nan_to_num(np.stack([y - low, high - y]).clip(min=0)), "capsize": 2, "elinewidth": 1.2}
            axes.errorbar(x + aside, y, color=color, marker="o", markersize=4, label=f"pass@1, {name}", **bars)
            if task.k > 1:
                y = floats(task.score(when, task.k, level)["value"] for level in levels)
                axes.plot(x, y, ":", color=color, label=f"pass@{task.k}, {name}")
        for i, level in enumerate(levels):
            if task.trained and level in task.trained:
                axes.axvspan(i - 0.5, i + 0.5, color=LAST, alpha=0.06, linewidth=0)
        axes.set_xticks(x, [f"{level:g}" for level in levels])
        axes.set_xlim(-0.5, len(levels) - 0.5)
        axes.set_xlabel("level")
        share_axis(axes, "pass@k")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)

    return draw("by-level", [(task.title, partial(paint, task)) for task in graded]) if graded else None


def share_axis(axes: Axes, label: str) -> None:
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 1]))
    axes.set_ylabel(label)


def floats(values: Any) -> np.ndarray:
    """JSON's null as NaN."""
    return np.array([np.nan if value is None else value for value in values], dtype=float)
