"""Figures in one style, as SVG for pages and PNG for files."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ratchet.infra.pages import Drawing

STYLE = Path(__file__).with_name("figures.mplstyle")

Painter = Callable[[Axes], None]


def draw(name: str, panels: Sequence[tuple[str, Painter]], width: float = 5.4) -> Drawing:
    """Draw panels `width` inches wide and 3.4 high. The PNG has at most two panels in a row."""
    with matplotlib.rc_context(fname=STYLE):
        svgs = []
        for panel in panels:
            figure = _figure([panel], width, columns=1)
            svg = io.BytesIO()
            figure.savefig(svg, format="svg", metadata={"Date": None}, transparent=True)
            # Laid out with the widest of these faces, so any of the others fits.
            faces = b"Inter, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans'"
            svgs.append(svg.getvalue().replace(b"'DejaVu Sans'", faces))
        png = io.BytesIO()
        _figure(panels, width, columns=min(len(panels), 2)).savefig(
            png, format="png", dpi=144, metadata={"Software": None}
        )
    return Drawing(name, png.getvalue(), tuple(svgs))


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


def count_axis(axes: Axes, label: str) -> None:
    """Give the y axis whole numbers and this label."""
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
    axes.set_ylabel(label)
