"""The report's figures. Each takes scores in pipeline order and returns one drawing as SVG (page) and PNG (files)."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

Scores = Mapping[str, Any]  # one benchmark's dictionary of `evaluation.scores`
Series = Sequence[tuple[str, Scores]]  # (label of the checkpoint, its scores), in pipeline order

BENCHMARK_COLOURS = ("#3056d3", "#d9730d", "#0f9d76", "#b5367a", "#6b5bd2", "#8a6d1f")
FIRST, LAST, MUTED, GRID, INK = "#a3adbd", "#3056d3", "#6b7280", "#e7eaf0", "#1f2937"
STYLE = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib
    "font.size": 10,
    "text.color": INK,
    "text.parse_math": False,  # labels are data: a dollar sign in one is a dollar sign
    "axes.edgecolor": "#c4cad4",
    "axes.labelcolor": MUTED,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 2,
    "svg.fonttype": "none",
    "svg.hashsalt": "ratchet",  # the same scores give the same bytes
}


@dataclass(frozen=True)
class Drawing:
    """One figure: its panels as separate SVGs, which a page can stack on a narrow screen, and one PNG of all."""

    name: str
    caption: str
    panels: tuple[bytes, ...]
    png: bytes


Painter = Callable[[Axes], None]


def draw(name: str, caption: str, panels: Sequence[tuple[str, Painter]], width: float = 5.4) -> Drawing:
    """`width` of a panel in inches; its height is 3.4. The PNG has at most two panels in a row."""
    with matplotlib.rc_context(STYLE):
        svgs = []
        for panel in panels:
            figure = _figure([panel], width, columns=1)
            svg = io.BytesIO()
            figure.savefig(svg, format="svg", metadata={"Date": None}, transparent=True)
            # Laid out with the widest of these faces, so the reader's own narrower one fits.
            faces = b"Inter, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans'"
            svgs.append(svg.getvalue().replace(b"'DejaVu Sans'", faces))
        png = io.BytesIO()
        _figure(panels, width, columns=min(len(panels), 2)).savefig(
            png, format="png", dpi=144, metadata={"Software": None}
        )
    return Drawing(name, caption, tuple(svgs), png.getvalue())


def _figure(panels: Sequence[tuple[str, Painter]], width: float, columns: int) -> Figure:
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(width * columns, 3.4 * rows), layout="constrained")
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes, (title, paint) in zip(grid, panels, strict=False):
        axes.set_title(title)
        paint(axes)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    return figure


def checkpoint_colours(count: int) -> list[Any]:
    """From grey to the accent: the order of the checkpoints is read off the colour."""
    ramp = matplotlib.colors.LinearSegmentedColormap.from_list("pipeline", [FIRST, "#7f9be6", LAST, "#16297a"])
    return [ramp(i / max(count - 1, 1)) for i in range(count)] if count > 1 else [LAST]


def pass_at_k_curves(benchmarks: Mapping[str, Series]) -> Drawing:
    """pass@k against k, one line per checkpoint, bands of 95 % across questions."""

    def panel(series: Series) -> Painter:
        def paint(axes: Axes) -> None:
            ticks: set[int] = set()
            for (label, scores), colour in zip(series, checkpoint_colours(len(series)), strict=True):
                curve = {name: _floats(values) for name, values in scores["pass_curve"].items()}
                axes.plot(curve["k"], curve["value"], color=colour, marker="o", markersize=4, label=label)
                axes.fill_between(curve["k"], curve["low"], curve["high"], color=colour, alpha=0.13, linewidth=0)
                ticks |= set(scores["pass_curve"]["k"])
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_locator(FixedLocator(sorted(ticks)))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter(lambda k, _: f"{k:.0f}")
            axes.set_xlabel("k, responses per question")
            _share_axis(axes, "pass@k")
            axes.legend(loc="lower right")

        return paint

    return draw(
        "pass-at-k",
        "pass@k by checkpoint. Bands: 95 % intervals across questions.",
        [(name, panel(series)) for name, series in benchmarks.items()],
    )


def pass_at_1_over_the_pipeline(benchmarks: Mapping[str, Series], labels: Sequence[str]) -> Drawing:
    """pass@1 at each checkpoint, one line per benchmark, 95 % intervals across questions."""

    def paint(axes: Axes) -> None:
        last_points = []
        for (name, series), colour in zip(benchmarks.items(), _cycled(BENCHMARK_COLOURS), strict=False):
            x = [labels.index(label) for label, _ in series]
            average = [scores["pass_at"]["1"] for _, scores in series]
            y, low, high = (_floats(point[field] for point in average) for field in ("value", "low", "high"))
            error = np.nan_to_num(np.stack([y - low, high - y]).clip(min=0))
            axes.errorbar(x, y, yerr=error, color=colour, marker="o", markersize=6, capsize=3, label=name)
            last_points.append((x[-1], y[-1], colour))
        for x, y, colour in last_points:
            axes.annotate(
                f"{y:.2f}", (x, y), xytext=(9, 0), textcoords="offset points", color=colour, va="center", weight="bold"
            )
        axes.set_xticks(range(len(labels)), labels)
        axes.set_xlim(-0.25, len(labels) - 0.65)
        axes.grid(axis="x", visible=False)
        _share_axis(axes, "pass@1")
        axes.legend(loc="lower right")

    return draw(
        "pass-at-1",
        "pass@1 over the pipeline. Bars: 95 % interval across questions.",
        [("", paint)],
        width=7.2,
    )


def length_and_truncation(benchmarks: Mapping[str, Series], labels: Sequence[str]) -> Drawing:
    """Mean response length (right and wrong apart) and the share of truncated responses, over the pipeline."""

    def lengths(axes: Axes) -> None:
        for (name, series), colour in zip(benchmarks.items(), _cycled(BENCHMARK_COLOURS), strict=False):
            x = [labels.index(label) for label, _ in series]
            for group, dashes in (("correct", "-"), ("wrong", ":")):
                y = _floats(scores["response_tokens"][group]["mean"] for _, scores in series)
                axes.plot(x, y, dashes, color=colour, marker="o", markersize=4, label=f"{name}, {group}")
        axes.set_xticks(range(len(labels)), labels)
        axes.grid(axis="x", visible=False)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("tokens")
        axes.legend()

    def truncation(axes: Axes) -> None:
        width = 0.8 / max(len(benchmarks), 1)
        top = 0.02
        for i, (name, series) in enumerate(benchmarks.items()):
            x = np.array([labels.index(label) for label, _ in series])
            y = _floats(scores["truncation_rate"] for _, scores in series)
            top = max(top, np.nanmax(y, initial=0))
            colour = BENCHMARK_COLOURS[i % len(BENCHMARK_COLOURS)]
            bars = axes.bar(x + (i - (len(benchmarks) - 1) / 2) * width, y, width * 0.92, color=colour, label=name)
            axes.bar_label(bars, labels=[f"{v:.1%}" for v in y], fontsize=8, color=MUTED, padding=2)
        axes.set_xticks(range(len(labels)), labels)
        axes.grid(axis="x", visible=False)
        axes.set_ylim(0, top * 1.25)
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.3g} %")
        axes.legend()

    return draw(
        "length-and-truncation",
        "Left: mean response length, right and wrong responses apart. Right: share of responses cut at the limit.",
        [("Response length", lengths), ("Truncated responses", truncation)],
    )


def solve_rate_histograms(benchmarks: Mapping[str, Series]) -> Drawing:
    """How many questions are solved how often, first checkpoint against last."""

    def panel(series: Series) -> Painter:
        def paint(axes: Axes) -> None:
            ends = [series[0], series[-1]] if len(series) > 1 else [series[0]]
            width = 0.84 / len(ends)
            bins: list[str] = []
            for i, ((label, scores), colour) in enumerate(zip(ends, (FIRST, LAST)[-len(ends) :], strict=True)):
                if scores["solve_rates"] is None:
                    continue
                bins = scores["solve_rates"]["bins"]
                x = np.arange(len(bins)) + (i - (len(ends) - 1) / 2) * width
                axes.bar(x, scores["solve_rates"]["questions"], width * 0.95, color=colour, label=label)
            inner = [name.split("–")[0] if i % 2 == 0 else "" for i, name in enumerate(bins[1:-1])]
            axes.set_xticks(range(len(bins)), [*bins[:1], *inner, *bins[-1:]])
            axes.grid(axis="x", visible=False)
            axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
            axes.set_xlabel("share of responses that are right, %")
            axes.set_ylabel("questions")
            if bins:
                axes.legend()

        return paint

    return draw(
        "solve-rates",
        "Questions by the share of their responses that are right, before and after.",
        [(name, panel(series)) for name, series in benchmarks.items()],
    )


def length_histograms(benchmarks: Mapping[str, Series], limit: int | None) -> Drawing:
    """Responses of the last checkpoint by length, right ones and wrong ones; the limit where it is near."""

    def panel(series: Series) -> Painter:
        def paint(axes: Axes) -> None:
            histogram = series[-1][1]["length_histogram"]
            if histogram:
                edges = np.array(histogram["edges"])
                bottom = np.zeros(len(edges) - 1)
                for name, colour in (("correct", LAST), ("wrong", FIRST)):
                    counts = np.array(histogram[name])
                    axes.bar(edges[:-1], counts, np.diff(edges) * 0.95, bottom, align="edge", color=colour, label=name)
                    bottom += counts
                if limit and edges[-1] > limit / 2:
                    axes.axvline(limit, color=MUTED, linewidth=1, linestyle="--", label="limit")
                axes.legend()
            axes.grid(axis="x", visible=False)
            axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
            axes.set_xlabel("tokens")
            axes.set_ylabel("responses")

        return paint

    return draw(
        "length-histograms",
        "Responses of the last checkpoint by length, right ones at the bottom, wrong ones on top.",
        [(name, panel(series)) for name, series in benchmarks.items()],
    )


UP, DOWN, SAME = "#0b7a5b", "#b42318", "#c4cad4"


def changes_by_question(changes: Mapping[str, Sequence[tuple[float, float, bool]]]) -> Drawing:
    """Each question's solve rate before and after, as a line between the two; (before, after, significant), and
    coloured where it is."""

    def panel(questions: Sequence[tuple[float, float, bool]]) -> Painter:
        def paint(axes: Axes) -> None:
            ordered = sorted(questions, key=lambda q: (q[0], q[1]))
            x = np.arange(len(ordered))
            before, after = (np.array([q[i] for q in ordered], dtype=float) for i in (0, 1))
            sure = np.array([q[2] for q in ordered], dtype=bool)
            for colour, some, label in (
                (SAME, ~sure, "not significant"), (UP, sure & (after > before), "better"),
                (DOWN, sure & (after < before), "worse"),
            ):  # fmt: skip
                axes.vlines(x[some], before[some], after[some], color=colour, linewidth=max(0.6, 160 / max(len(x), 40)))
                axes.plot(x[some], after[some], "o", color=colour, markersize=3, label=label)
            axes.plot(x, before, "_", color=INK, markersize=4, label="before")
            axes.set_xticks([])
            axes.set_xlabel(f"{len(ordered)} questions, ordered by their solve rate before")
            _share_axis(axes, "solve rate")
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=4)  # below: the bars fill the panel

        return paint

    return draw(
        "changes",
        "Solve rate of each question, first checkpoint to last. Coloured: significant for the question (Fisher's exact "
        "test, false discovery rate 5 %).",
        [(name, panel(questions)) for name, questions in changes.items()],
    )


def _share_axis(axes: Axes, label: str) -> None:
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 1]))
    axes.set_ylabel(label)


def _floats(values: Any) -> np.ndarray:
    """JSON's null is NaN again."""
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def _cycled(colours: Sequence[str]) -> Any:
    while True:
        yield from colours
