"""Figures of what training gained (`evaluation.boundaries`): over the checkpoints, by task, and by level."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes

from ratchet.evaluation.boundaries import Boundary, Slope, Task
from ratchet.evaluation.figures import checkpoint_axis, checkpoint_colors, floats, share_axis
from ratchet.infra.pages import FIRST, INK, LAST, MUTED, Drawing
from ratchet.infra.pages.drawing import draw

MOST_PANELS = 6
LEVELS = range(3, 13)  # how many make a curve
OUTSIDE = "#d9730d"  # not in the training set


def over_training(boundaries: Sequence[Boundary]) -> Drawing | None:
    """pass@1, pass@k and pass@n at each checkpoint with 95 % intervals across questions, one panel a benchmark."""

    def paint(task: Task, names: Sequence[str], axes: Axes) -> None:
        n = min(n for counts in task.counts for _, n in counts.values())
        ks = sorted({1, task.k, n if n <= 2 * task.k else 2 * task.k})
        for i, (k, color) in enumerate(zip(ks, checkpoint_colors(len(ks) + 1)[1:], strict=True)):
            points = [task.score(j, k) for j in range(len(task.counts))]
            y, low, high = (floats(point[field] for point in points) for field in ("value", "low", "high"))
            x = np.arange(len(names)) + (i - (len(ks) - 1) / 2) * 0.06  # bars beside, not over, one another
            error = np.nan_to_num(np.stack([y - low, high - y]).clip(min=0))
            axes.errorbar(x, y, yerr=error, color=color, marker="o", markersize=4, capsize=2, label=f"pass@{k}")
        checkpoint_axis(axes, names)
        share_axis(axes, "pass@k")
        axes.legend(loc="lower right")

    wholes = [(boundary.tasks[0], boundary.labels) for boundary in boundaries]
    panels = [(f"{task.domain}: {task.name}", partial(paint, task, labels)) for task, labels in wholes]
    return draw("over-training", panels) if panels else None


def gain_by_base(tasks: Sequence[Task], k: int, slopes: dict[int, Slope | None]) -> Drawing | None:
    """Each task's gain against the base model's pass@k, with its 95 % interval and name; one panel for each k of
    `slopes`, with its line where there is one. None for fewer than three tasks."""
    base = [task.score(0, k)["value"] for task in tasks]

    def paint(of: int, slope: Slope | None, axes: Axes) -> None:
        gains = [task.gain(of) for task in tasks]
        for outside, color, label in ((False, LAST, "in the training set"), (True, OUTSIDE, "out of distribution")):
            some = [i for i, task in enumerate(tasks) if task.out_of_distribution == outside]
            x, y = np.array(base)[some], np.array([gains[i].difference for i in some])
            ends = np.array([[gains[i].low, gains[i].high] for i in some]).reshape(-1, 2).T
            if some:
                axes.vlines(x, *np.where(np.isnan(ends), y, ends), color=color, linewidth=1, alpha=0.35)
                axes.plot(x, y, "o", color=color, markersize=5, label=label)
        axes.axhline(0, color=MUTED, linewidth=0.8)
        if slope and not np.isnan(slope.slope):
            x = np.array([min(base), max(base)])
            axes.plot(x, slope.intercept + slope.slope * x, "--", color=INK, linewidth=1.2, label="fitted line")
        axes.set_xlim(-0.04, 1.04)
        axes.set_xlabel(f"pass@{k} of the starting model")
        axes.set_ylabel(f"gain of pass@{of}")
        axes.yaxis.set_major_formatter(lambda gain, _: f"{gain:+.2f}".replace("-", "−"))
        name_points(axes, base, [gain.difference for gain in gains], [task.name for task in tasks])
        if any(task.out_of_distribution for task in tasks):
            axes.legend(loc="best")

    panels = [(f"Gain of pass@{of}", partial(paint, of, slope)) for of, slope in slopes.items()]
    return draw("gain-by-base", panels) if len(tasks) > 2 else None


def name_points(axes: Axes, x: Sequence[float], y: Sequence[float], names: Sequence[str]) -> None:
    """Names beside points where they hide neither another name nor a point; those farthest from the middle first.
    The others are in the table."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    width, height, line = 340.0, 190.0, 10.0  # points of the axes' inside and of a line, roughly
    at = np.column_stack([(np.array(x) + 0.04) / 1.08 * width, (np.array(y) - low) / (high - low) * height])
    taken = [(px - 3, py - 3, px + 3, py + 3) for px, py in at]
    for i in sorted(range(len(names)), key=lambda i: -abs(y[i] - np.median(y))):
        px, py = at[i]
        wide = 4.6 * len(names[i])
        for dx, dy in ((6, -line / 2), (-6 - wide, -line / 2), (-wide / 2, 5), (-wide / 2, -5 - line)):
            box = (px + dx, py + dy, px + dx + wide, py + dy + line)
            inside = box[0] >= 0 and box[2] <= width and box[1] >= 0 and box[3] <= height
            others = [other for j, other in enumerate(taken) if j != i]
            if inside and not any(_overlap(box, other) for other in others):
                axes.annotate(
                    names[i], (x[i], y[i]), xytext=(dx, dy + 2), textcoords="offset points", fontsize=8, color=INK,
                    bbox={"facecolor": "white", "alpha": 0.7, "pad": 0.5, "linewidth": 0},
                )  # fmt: skip
                taken.append(box)
                break


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def by_level(tasks: Sequence[Task]) -> Drawing | None:
    """pass@1, and dotted pass@k, by level before and after, with 95 % intervals of pass@1; levels that are in the
    training set are shaded where it says them. Of the tasks that have levels, those whose pass@1 changed most."""
    graded = [task for task in tasks if len(set(task.levels.values())) in LEVELS]
    graded = sorted(graded, key=lambda task: -abs(task.gain(1).difference))[:MOST_PANELS]

    def paint(task: Task, axes: Axes) -> None:
        levels = sorted(set(task.levels.values()))
        x = np.arange(len(levels))
        for when, color, name, aside in ((0, FIRST, "before", -0.04), (-1, LAST, "after", 0.04)):
            points = [task.score(when, 1, level) for level in levels]
            y, low, high = (floats(point[field] for point in points) for field in ("value", "low", "high"))
            error = np.nan_to_num(np.stack([y - low, high - y]).clip(min=0))
            axes.errorbar(
                x + aside, y, yerr=error, color=color, marker="o", markersize=4, capsize=2, elinewidth=1.2,
                label=f"pass@1, {name}",
            )  # fmt: skip
            if task.k > 1:
                y = floats(task.score(when, task.k, level)["value"] for level in levels)
                axes.plot(x, y, ":", color=color, label=f"pass@{task.k}, {name}")
        for i, level in enumerate(levels):
            if task.trained and level in task.trained:
                axes.axvspan(i - 0.5, i + 0.5, color=LAST, alpha=0.06, linewidth=0)
        axes.set_xticks(x, [f"{level:g}" for level in levels])
        axes.set_xlim(-0.5, len(levels) - 0.5)
        axes.set_xlabel("level")
        share_axis(axes, "share solved")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)

    def title(task: Task) -> str:
        return task.name + (" (out of distribution)" if task.out_of_distribution else "")

    return draw("by-level", [(title(task), partial(paint, task)) for task in graded]) if graded else None
